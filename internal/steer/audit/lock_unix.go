//go:build !windows

package audit

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// patience bounds how long another process's lock is waited for: one that was
// stopped in the middle must not stop every action.
const patience = 2 * time.Second

// lock keeps other processes from writing or renaming meanwhile. The kernel
// releases it when its holder dies.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EINTR) && (!errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline)) {
			f.Close()
			return nil, err
		}
	}
}
