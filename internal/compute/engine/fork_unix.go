//go:build unix

package engine

import (
	"slices"
	"syscall"

	"github.com/shirou/gopsutil/v4/process"
)

// countGroups counts the processes in the given process groups.
func countGroups(groups []int) int {
	pids, err := process.Pids()
	if err != nil {
		return 0
	}
	n := 0
	for _, pid := range pids {
		if g, err := syscall.Getpgid(int(pid)); err == nil && slices.Contains(groups, g) {
			n++
		}
	}
	return n
}
