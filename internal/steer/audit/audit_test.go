package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

func entries(t *testing.T, path string) []Entry {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []Entry
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Errorf("%s: %v", lines.Bytes(), err)
		}
		out = append(out, e)
	}
	return out
}

func TestAppendsForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "audit.log")
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if err := New(path).Write(Entry{Stage: "decided", PID: int32(i + 1), Name: "a\nb"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := entries(t, path)
	if len(got) != 10 || got[0].Time.IsZero() || got[0].Name != "a\nb" || got[0].By != os.Getuid() {
		t.Errorf("%d entries: %+v", len(got), got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log is %v, %v", info.Mode(), err)
	}
}

func TestRotates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	l := New(path)
	l.size = 400
	const written = 100
	for i := range written {
		if err := l.Write(Entry{PID: int32(i)}); err != nil {
			t.Fatal(err)
		}
	}
	last := entries(t, path)
	if last[len(last)-1].PID != written-1 {
		t.Errorf("the newest is %+v", last[len(last)-1])
	}
	previous := entries(t, path+".1")
	if previous[len(previous)-1].PID != last[0].PID-1 {
		t.Error("entries are missing between two files")
	}
	files, err := filepath.Glob(path + "*")
	files = slices.DeleteFunc(files, func(f string) bool { return f == path+".lock" })
	if err != nil || len(files) != KeptFiles+1 {
		t.Errorf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 400 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
}

func TestTightensAndRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "audit.log")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := New(path).Write(Entry{}); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("a readable log stays %v", info.Mode())
	}
	if err := New(folder).Write(Entry{}); !errors.Is(err, ErrAudit) {
		t.Errorf("a folder: %v", err)
	}
	if err := New(filepath.Join(path, "x")).Write(Entry{}); !errors.Is(err, ErrAudit) {
		t.Errorf("below a file: %v", err)
	}
}
