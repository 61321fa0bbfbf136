//go:build !windows

package config

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// replace writes a file so that a reader, or a crash, sees the old content or
// the new one whole. Only the owner may read it. A path that is a link is
// written where the link points.
func replace(path string, data []byte) error {
	if target, err := os.Readlink(path); err == nil && target != "" {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved
		}
	}
	return renameio.WriteFile(path, data, 0o600, renameio.WithStaticPermissions(0o600))
}

// patience bounds how long a lock of another process is waited for.
const patience = 2 * time.Second

var errLocked = errors.New("another process has been changing it for two seconds")

// lockFile takes the advisory lock of a file beside the configuration. The
// kernel releases it when its holder dies.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		if time.Now().After(deadline) {
			f.Close()
			return nil, errLocked
		}
	}
}
