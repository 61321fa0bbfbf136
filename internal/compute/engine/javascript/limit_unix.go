//go:build unix

package javascript

import "syscall"

// memoryLimit is how large the heap may grow: a quarter of the address space the server allows, at most 2 GiB.
func memoryLimit() int64 {
	const most = 2 << 30
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &l) != nil || l.Cur > 4*most {
		return most
	}
	return int64(l.Cur / 4)
}
