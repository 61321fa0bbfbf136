//go:build unix

package session

import (
	"os"

	"github.com/google/renameio/v2"
)

// WriteAtomic replaces a file: a reader finds the old content or the new, never a part.
func WriteAtomic(path string, data []byte, perm os.FileMode) error {
	return renameio.WriteFile(path, data, perm)
}
