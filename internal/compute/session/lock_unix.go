//go:build unix

package session

import (
	"os"
	"syscall"
)

// tryLock takes an exclusive lock that ends with the process, or fails at once.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// sameFile tells whether the path still names the open file.
func sameFile(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
