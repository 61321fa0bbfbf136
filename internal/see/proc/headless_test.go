package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// headlessStat is a stat line with that state and that many threads.
func headlessStat(pid int, state string, threads int) string {
	return fmt.Sprintf("%d (x) %s 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 %d 0 500 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", pid, state, threads)
}

// treeOf writes a recorded tree: files by their name, and links whose content
// begins with "->".
func treeOf(t *testing.T, files map[string]string) FS {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if len(content) > 2 && content[:2] == "->" {
			err = os.Symlink(content[2:], path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A process whose first thread ended is shown as a zombie without executable,
// arguments and descriptors; its other threads have them still.
func TestHeadlessProcess(t *testing.T) {
	t.Parallel()
	f := treeOf(t, map[string]string{
		"proc/10/stat": headlessStat(10, "Z", 3), "proc/10/cmdline": "", "proc/10/fd/.keep": "",
		"proc/10/task/10/stat": headlessStat(10, "Z", 3),
		"proc/10/task/11/stat": headlessStat(11, "X", 3),
		"proc/10/task/12/stat": headlessStat(12, "S", 3), "proc/10/task/12/cmdline": "/tmp/.x\x00-v\x00",
		"proc/10/task/12/exe": "->/tmp/.x (deleted)", "proc/10/task/12/cwd": "->/tmp",
		"proc/20/stat": headlessStat(20, "Z", 1), "proc/20/cmdline": "", "proc/20/task/20/stat": headlessStat(20, "Z", 1),
		"proc/30/stat": headlessStat(30, "S", 1), "proc/30/cmdline": "", "proc/30/task/30/stat": headlessStat(30, "S", 1),
	})
	if path, deleted, err := f.Executable(10); path != "/tmp/.x" || !deleted || err != nil {
		t.Errorf("executable %q %v %v", path, deleted, err)
	}
	if args, err := f.Cmdline(10); len(args) != 2 || args[0] != "/tmp/.x" || err != nil {
		t.Errorf("arguments %q %v", args, err)
	}
	if folder, err := f.WorkingDirectory(10); folder != "/tmp" || err != nil {
		t.Errorf("directory %q %v", folder, err)
	}
	for pid, want := range map[int32]string{10: "proc/10/task/12", 20: "proc/20", 30: "proc/30", 40: "proc/40"} {
		if got := f.Folder(pid); got != want {
			t.Errorf("the files of %d are in %s, want %s", pid, got, want)
		}
	}
	for pid, want := range map[int32]bool{10: false, 20: true, 30: false} {
		if stat, err := f.Stat(pid); err != nil || stat.Ended() != want {
			t.Errorf("%d ended: %v, want %v (%v)", pid, stat.Ended(), want, err)
		}
	}
	if _, _, err := f.Executable(20); err == nil {
		t.Error("a zombie has no executable")
	}
}
