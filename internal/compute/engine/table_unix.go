//go:build unix && !linux

package engine

import (
	"slices"
	"syscall"

	"github.com/shirou/gopsutil/v4/process"
)

// processes is the table of all processes.
func processes() map[int]relation {
	pids, err := process.Pids()
	if err != nil {
		return nil
	}
	table := map[int]relation{}
	for _, pid := range pids {
		p := process.Process{Pid: pid}
		parent, err := p.Ppid()
		group, groupErr := syscall.Getpgid(int(pid))
		if err != nil || groupErr != nil {
			continue
		}
		status, _ := p.Status()
		table[int(pid)] = relation{int(parent), group, slices.Contains(status, process.Zombie)}
	}
	return table
}

// hasVariable tells whether the process was started with NAME=VALUE in its environment, and whether it shows none.
func hasVariable(pid int, variable string) (has, bare bool) {
	environ, err := (&process.Process{Pid: int32(pid)}).Environ()
	return err == nil && slices.Contains(environ, variable), err == nil && len(environ) == 0
}

// nextZombie is 0: the children of a dead child are not this process's here.
func nextZombie() int { return 0 }
