//go:build !windows

package keptfile

// This file replaces and locks as Unix kernels allow it.

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"topside/internal/privatefile"
)

// Replace writes a file so that a reader, or a crash, sees the old content or
// the new one whole. Only the owner may read it. A path that is a link is
// written where the link points.
func Replace(path string, data []byte) error {
	if target, err := os.Readlink(path); err == nil && target != "" {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved
		}
	}
	if err := privatefile.Replace(path, data); err != nil {
		return err
	}
	sweep(path)
	return nil
}

// stale is the age at which the beginning of a write is known to be nobody's any
// more: its writer died.
const stale = time.Hour

// sweep removes what writers left behind that died in the middle.
func sweep(path string) {
	folder, base := filepath.Dir(path), "."+filepath.Base(path)
	left, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, entry := range left {
		number, ok := strings.CutPrefix(entry.Name(), base)
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > stale {
			_ = os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
}

// patience bounds how long a lock of another process is waited for.
const patience = 2 * time.Second

var errLocked = errors.New("another process has been changing it for two seconds")

// Lock takes the advisory lock of a file beside the one that is changed. The
// kernel releases it when its holder dies.
func Lock(path string) (unlock func(), err error) {
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
