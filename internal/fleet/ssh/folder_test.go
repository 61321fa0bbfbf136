//go:build unix

package ssh

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSweepFolders: the folders of tunnels that nobody holds go, and nothing else.
func TestSweepFolders(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	folder := func(name string, files ...string) string {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	left := folder(folderPrefix+"1", folderSocket, folderLock)
	held := folder(folderPrefix+"2", folderSocket)
	release, err := holdFolder(held)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	fresh := folder(folderPrefix + "3")
	old := folder(folderPrefix + "4")
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, hour, hour); err != nil {
		t.Fatal(err)
	}
	other := folder("somebody-5", folderSocket, folderLock)
	full := folder(folderPrefix+"6", folderLock, "precious")
	sweepFolders(parent)
	for dir, want := range map[string]bool{left: false, held: true, fresh: true, old: false, other: true, full + "/precious": true} {
		if _, err := os.Lstat(dir); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", dir, err == nil, want)
		}
	}
}
