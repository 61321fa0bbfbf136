//go:build unix

package privatefile

import (
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Replace writes a file whole, with mode 0600 whatever the file before had:
// renameio.WriteFile would keep that. What a writer that dies leaves behind is in
// the same folder.
func Replace(path string, data []byte) error {
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(0o600), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
