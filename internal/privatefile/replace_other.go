//go:build !unix

package privatefile

import (
	"io/fs"
	"os"
)

// exchange writes beside the file and renames over it, which these systems do not
// promise to be atomic after a crash.
func exchange(path string, data []byte, mode fs.FileMode) error {
	beside := path + ".new"
	if err := os.WriteFile(beside, data, mode); err != nil {
		return err
	}
	return os.Rename(beside, path)
}
