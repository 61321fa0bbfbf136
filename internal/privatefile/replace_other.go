//go:build !unix

package privatefile

import "os"

// Replace writes beside the file and renames over it, which these systems do not
// promise to be atomic after a crash.
func Replace(path string, data []byte) error {
	beside := path + ".new"
	if err := os.WriteFile(beside, data, 0o600); err != nil {
		return err
	}
	return os.Rename(beside, path)
}
