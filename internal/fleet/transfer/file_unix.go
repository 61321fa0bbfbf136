//go:build unix

package transfer

import (
	"os"
	"syscall"
)

const (
	noFollow    = syscall.O_NOFOLLOW
	nonBlocking = syscall.O_NONBLOCK // an open of a FIFO must not wait
)

var errQuota error = syscall.EDQUOT

// lockFile takes the file for this process, or fails at once.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
