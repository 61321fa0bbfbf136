package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"topside/internal/see/proc"
)

// world unpacks a recorded machine from testdata and returns its root.
func world(t testing.TB, name string) proc.FS {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	return tree(t, files)
}

// tree makes a root of these files.
func tree(t testing.TB, files map[string]string) proc.FS {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := proc.NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func discover(t testing.TB, fs proc.FS) *Hierarchies {
	t.Helper()
	h, err := Discover(fs)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func lines(t testing.TB, text string) []proc.CgroupLine {
	t.Helper()
	l, err := proc.ParseCgroups([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func value[T comparable](t testing.TB, name string, got *T, want T) {
	t.Helper()
	switch {
	case got == nil:
		t.Errorf("%s is absent, want %v", name, want)
	case *got != want:
		t.Errorf("%s = %v, want %v", name, *got, want)
	}
}

func absent[T any](t testing.TB, name string, got *T) {
	t.Helper()
	if got != nil {
		t.Errorf("%s = %v, want it absent", name, *got)
	}
}
