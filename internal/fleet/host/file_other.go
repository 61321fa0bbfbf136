//go:build !unix

package host

import "os"

// lock does nothing where there is no flock: two servers that change a registry at
// the same moment may lose one of the changes, never the file.
func lock(string) (unlock func(), err error) { return func() {}, nil }

// replaceFile writes an owner-only file as a whole.
func replaceFile(path string, data []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
