//go:build unix

package privatefile

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// longestName is what file systems allow a name, in bytes; around is what a pending
// file has beside the name it will get.
const (
	longestName = 255
	around      = 20
)

// Replace writes a file whole, with mode 0600 whatever the file before had:
// renameio.WriteFile would keep that. What a writer that dies leaves behind is in
// the same folder.
func Replace(path string, data []byte) error {
	pending := path
	if dir, name := filepath.Split(path); len(name) > longestName-around && len(name) <= longestName {
		pending = filepath.Join(dir, name[:longestName-around])
	}
	f, err := renameio.NewPendingFile(pending, renameio.WithStaticPermissions(0o600), renameio.WithTempDir(filepath.Dir(path)))
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
