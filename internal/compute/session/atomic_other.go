//go:build !unix

package session

import "os"

// WriteAtomic replaces a file as well as this system can.
func WriteAtomic(path string, data []byte, perm os.FileMode) error {
	if err := os.WriteFile(path+".tmp", data, perm); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
