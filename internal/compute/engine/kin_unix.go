//go:build unix

package engine

import (
	"slices"
	"syscall"
	"time"
)

// members are the processes that live: those in the cell, else those with the mark, those in the groups, and what
// descends from them.
func (k *kin) members(groups []int) []int {
	if k.cell.holds() {
		return k.cell.members()
	}
	all := processes()
	known := map[int]bool{}
	for pid, p := range all {
		if slices.Contains(groups, p.group) || hasVariable(pid, k.variable()) {
			known[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if known[p.parent] && !known[pid] {
				known[pid], grown = true, true
			}
		}
	}
	var found []int
	for pid := range known {
		if !all[pid].dead {
			found = append(found, pid)
		}
	}
	return found
}

// relation is what the table of processes says of one.
type relation struct {
	parent, group int
	dead          bool // a zombie
}

// killWithin bounds the end of processes that start others as fast as they are killed.
const killWithin = 2 * time.Second

// kill ends every member. Nothing is started in the meantime: the cell forbids it, and elsewhere they are stopped
// before they are killed.
func (k *kin) kill(groups []int) {
	if k.cell.holds() {
		k.cell.write("pids.max", "0")
		k.cell.write("cgroup.kill", "1")
	}
	for end := time.Now().Add(killWithin); time.Now().Before(end); {
		if k.strike(groups) == 0 {
			break
		}
		theReaper.sweep()
		time.Sleep(500 * time.Microsecond)
	}
}

// strike kills the members there are, but for one, and returns their number.
func (k *kin) strike(groups []int, spared ...int) int {
	members := slices.DeleteFunc(k.members(groups), func(pid int) bool { return slices.Contains(spared, pid) })
	if !k.cell.holds() {
		for _, pid := range members {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
	}
	for _, pid := range members {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(members)
}

// end kills every member and releases the cell.
func (k *kin) end(groups []int) {
	k.kill(groups)
	if k.cell != nil {
		k.cell.close()
		theGuardian.remove(k.cell.dir)
	}
}
