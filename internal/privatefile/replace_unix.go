//go:build unix

package privatefile

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// around is what a pending file has beside the name it will get, in bytes.
const around = 20

// exchange leaves renameio.WriteFile aside: it would keep the mode of the file before.
func exchange(path string, data []byte, mode fs.FileMode) error {
	pending := path
	if dir, name := filepath.Split(path); len(name) > LongestName-around && len(name) <= LongestName {
		pending = filepath.Join(dir, name[:LongestName-around])
	}
	f, err := renameio.NewPendingFile(pending, renameio.WithStaticPermissions(mode), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if pending == path {
		return f.CloseAtomicallyReplace()
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
