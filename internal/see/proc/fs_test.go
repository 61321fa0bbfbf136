package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNewFSTeaches(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	file := t.TempDir()
	if err := os.WriteFile(filepath.Join(file, "proc"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for root, expected := range map[string]string{
		"":                        "the root is empty",
		empty:                     "must hold a proc/ directory",
		file:                      "is a file",
		filepath.Join(empty, "x"): "must hold a proc/ directory",
	} {
		if unobservable != "" && root != "" && root != file {
			expected = unobservable
		}
		if _, err := NewFS(root); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%q: %v, expected %q in it", root, err, expected)
		}
	}
}

func TestReadStaysInsideATree(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{"proc/meminfo": "inside", "etc/passwd": "recorded"})
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"proc/absolute": outside,
		"proc/climbing": "../../../../../../../../../.." + outside,
		"proc/passwd":   "/etc/passwd",
		"proc/relative": "meminfo",
		"proc/dir":      filepath.Dir(outside),
	} {
		if err := os.Symlink(target, f.Path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"proc/absolute", "proc/climbing", "proc/dir/secret", "../../../../../../.." + outside} {
		if data, err := f.Read(name); err == nil {
			t.Errorf("%s reads %q", name, data)
		}
		if data, err := f.Keep(name).Read(); err == nil {
			t.Errorf("%s, kept, reads %q", name, data)
		}
	}
	if data, err := f.Read("proc/passwd"); err == nil && string(data) != "recorded" {
		t.Errorf("an absolute link reads %q from outside", data)
	}
	if data, err := f.Read("proc/relative"); err != nil || string(data) != "inside" {
		t.Errorf("a relative link reads %q, %v", data, err)
	}
	if data, err := f.Read("/proc/../../proc/meminfo"); err != nil || string(data) != "inside" {
		t.Errorf("a climbing name reads %q, %v", data, err)
	}
	if entries, err := f.ReadDir("proc/dir"); err == nil {
		t.Errorf("a directory outside lists %v", entries)
	}
	if target, err := f.Readlink("proc/absolute"); err != nil || target != outside {
		t.Errorf("the link's text is %q, %v", target, err)
	}
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxFile+1)
	f := written(t, map[string]string{"proc/long": long, "proc/most": long[1:], "proc/empty": ""})
	if _, err := f.Read("proc/long"); !errors.Is(err, ErrTooLong) || f.ReasonOf(err) != Unreadable {
		t.Errorf("%v", err)
	}
	if _, err := f.Keep("proc/long").Read(); !errors.Is(err, ErrTooLong) {
		t.Errorf("kept: %v", err)
	}
	if data, err := f.Read("proc/most"); err != nil || len(data) != maxFile {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if data, err := f.Read("proc/empty"); err != nil || len(data) != 0 {
		t.Errorf("%q, %v", data, err)
	}
}

func TestReasonOf(t *testing.T) {
	t.Parallel()
	recorded := tree(t, "prometheus-procfs")
	live := FS{root: "/", live: true}
	host := FS{root: "/host", live: true}
	at := func(path string, err error) error {
		return fmt.Errorf("while sampling: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	for _, c := range []struct {
		f        FS
		err      error
		expected Reason
	}{
		{live, nil, ""},
		{live, at("/proc/1/io", syscall.EACCES), NoPermission},
		{live, at("/proc/1/io", syscall.EPERM), NoPermission},
		{live, at("/proc/1/io", syscall.ESRCH), Vanished},
		{live, at("/proc/1/io", syscall.ENOENT), Vanished},
		{live, at("/proc/1", syscall.ENOENT), Vanished},
		{host, at("/host/proc/1/io", syscall.ENOENT), Vanished},
		{live, at("/proc/pressure/cpu", syscall.ENOENT), Unsupported},
		{host, at("/host/proc/meminfo", syscall.ENOENT), Unsupported},
		{live, at("/proc/self/io", syscall.ENOENT), Unsupported},
		{live, at("/proc/pressure/cpu", syscall.EOPNOTSUPP), Unsupported},
		{live, at("/proc/pressure/cpu", syscall.ENOTSUP), Unsupported},
		{live, at("/proc/x", syscall.EIO), Unreadable},
		{live, malformed("x", nil), Malformed},
		{live, context.DeadlineExceeded, TimedOut},
		{live, syscall.ESRCH, Vanished},
		{live, syscall.EACCES, NoPermission},
		{recorded, at(recorded.Path("proc/1/io"), syscall.ENOENT), NotRecorded},
		{recorded, at(recorded.Path("proc/x"), syscall.ENOTDIR), NotRecorded},
		{recorded, ErrNotRecorded, NotRecorded},
	} {
		if got := c.f.ReasonOf(c.err); got != c.expected {
			t.Errorf("%s: %v is %q, expected %q", c.f.root, c.err, got, c.expected)
		}
	}
	if _, err := recorded.Read("proc/nothing"); recorded.ReasonOf(err) != NotRecorded || !strings.Contains(err.Error(), recorded.Root()) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := recorded.ReadDir("proc/nothing"); recorded.ReasonOf(err) != NotRecorded {
		t.Errorf("a missing directory: %v", err)
	}
	if _, err := recorded.Readlink("proc/nothing"); recorded.ReasonOf(err) != NotRecorded {
		t.Errorf("a missing link: %v", err)
	}
}

func TestReadDirIsSorted(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{"proc/b": "", "proc/a": "", "proc/c/d": ""})
	entries, err := f.ReadDir("proc")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if strings.Join(names, " ") != "a b c" || !entries[2].IsDir() {
		t.Error(names)
	}
	if !f.Exists("proc/c/d") || f.Exists("proc/e") {
		t.Error("Exists")
	}
}

func TestFlattenedLinks(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{"proc/7/exe": "/usr/bin/vim", "proc/7/cwd": "two\nlines"})
	if path, deleted, err := f.Executable(7); err != nil || path != "/usr/bin/vim" || deleted {
		t.Errorf("%q %v %v", path, deleted, err)
	}
	if path, err := f.WorkingDirectory(7); !errors.Is(err, ErrMalformed) {
		t.Errorf("%q %v", path, err)
	}
}
