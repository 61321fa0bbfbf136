//go:build unix

package engine

import (
	"os"
	"slices"
	"syscall"
	"time"
)

// members are the processes that live: those in the cell, else those with the mark, those in the groups, and what
// descends from them. unsure is set while a process that this one has adopted shows no environment: it may be about to
// become another program, and belong to a session.
func (k *kin) members(groups []int) (found []int, unsure bool) {
	if k.cell.holds() {
		return k.cell.members(), false
	}
	all, me := processes(), os.Getpid()
	known := map[int]bool{}
	for pid, p := range all {
		if slices.Contains(groups, p.group) {
			known[pid] = true
			continue
		}
		has, bare := hasVariable(pid, k.variable())
		if has {
			known[pid] = true
		}
		unsure = unsure || bare && p.parent == me && !p.dead
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if known[p.parent] && !known[pid] {
				known[pid], grown = true, true
			}
		}
	}
	for pid := range known {
		if !all[pid].dead {
			found = append(found, pid)
		}
	}
	return found, unsure
}

// relation is what the table of processes says of one.
type relation struct {
	parent, group int
	dead          bool // a zombie
}

const (
	// killWithin bounds the end of processes that start others as fast as they are killed.
	killWithin = 2 * time.Second
	// sureWithin bounds the wait for processes that become another program. One without any environment stays unsure.
	sureWithin = 50 * time.Millisecond
)

// kill ends every member. Nothing is started in the meantime: the cell forbids it, and elsewhere they are stopped
// before they are killed.
func (k *kin) kill(groups []int) {
	if k.cell.holds() {
		k.cell.write("pids.max", "0")
		k.cell.write("cgroup.kill", "1")
	}
	k.strike(groups)
}

// strike kills the members, but for those spared, until there are none: what they were just starting is killed too.
func (k *kin) strike(groups []int, spared ...int) {
	for begun := time.Now(); time.Since(begun) < killWithin; {
		n, unsure := k.blow(groups, spared)
		if n == 0 && !(unsure && time.Since(begun) < sureWithin) {
			return
		}
		theReaper.sweep()
		time.Sleep(500 * time.Microsecond)
	}
}

// blow kills the members there are, but for those spared, and returns their number.
func (k *kin) blow(groups, spared []int) (n int, unsure bool) {
	others := func() []int {
		members, now := k.members(groups)
		unsure = now
		return slices.DeleteFunc(members, func(pid int) bool { return slices.Contains(spared, pid) })
	}
	members := others()
	if !k.cell.holds() {
		// A parent that is killed leaves children that nothing leads to: all are stopped first.
		stopped := map[int]bool{}
		for grown := true; grown; members = others() {
			grown = false
			for _, pid := range members {
				if !stopped[pid] {
					syscall.Kill(pid, syscall.SIGSTOP)
					stopped[pid], grown = true, true
				}
			}
		}
	}
	for _, pid := range members {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(members), unsure
}

// end kills every member and releases the cell.
func (k *kin) end(groups []int) {
	k.kill(groups)
	if k.cell != nil {
		k.cell.close()
		theGuardian.remove(k.cell.dir)
	}
}
