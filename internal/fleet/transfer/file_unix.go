//go:build unix

package transfer

import (
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// NonBlocking is for opening files that may be a FIFO: the open must not wait.
const NonBlocking = syscall.O_NONBLOCK

var errQuota error = syscall.EDQUOT

// lockFile takes the file for this process, or fails at once.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
