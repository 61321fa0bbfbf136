//go:build unix

package ssh

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// holdFolder marks the folder of a tunnel as in use until release, or the end of this
// process.
func holdFolder(dir string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, folderLock), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// sweepFolders removes the folders of tunnels whose front ends were killed: those of
// this user that nobody holds. One that was made just now may be about to be held.
func sweepFolders(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), folderPrefix) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		info, err := e.Info()
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		_, err = os.Lstat(filepath.Join(dir, folderLock))
		if errors.Is(err, fs.ErrNotExist) && time.Since(info.ModTime()) < time.Minute {
			continue
		}
		release, err := holdFolder(dir)
		if err != nil {
			continue // in use
		}
		// By name, and no more: whatever else is in it is not ours.
		_ = os.Remove(filepath.Join(dir, folderSocket))
		_ = os.Remove(filepath.Join(dir, folderLock))
		_ = os.Remove(dir)
		release()
	}
}
