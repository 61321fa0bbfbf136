package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// journal remembers the partial files of a machine, so that those which nobody
// resumes are removed, even after the process that wrote them was killed. It is a
// folder with one small file for each.
type journal struct {
	dir string // "" keeps none
}

func newJournal(state string) *journal {
	if state == "" {
		return &journal{}
	}
	return &journal{dir: filepath.Join(state, "partial")}
}

func (j *journal) entry(part string) string {
	sum := sha256.Sum256([]byte(part))
	return filepath.Join(j.dir, hex.EncodeToString(sum[:16]))
}

// add remembers the path of a partial file. A journal that cannot be written costs
// the clean-up after a kill, nothing else.
func (j *journal) add(part string) {
	if j.dir == "" {
		return
	}
	if os.MkdirAll(j.dir, 0o700) == nil {
		_ = os.WriteFile(j.entry(part), []byte(part), 0o600)
	}
}

func (j *journal) remove(part string) {
	if j.dir != "" {
		_ = os.Remove(j.entry(part))
	}
}

// Sweep removes the partial files and stages below state that have not been written
// to for longer than keep. Open ones stay.
func Sweep(state string, keep time.Duration) {
	j := newJournal(state)
	if j.dir == "" {
		return
	}
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := filepath.Join(j.dir, e.Name())
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		part := string(data)
		if !isPart(filepath.Base(part)) || !filepath.IsAbs(part) {
			_ = os.Remove(name)
			continue
		}
		info, err := os.Lstat(part)
		if err == nil && (isOpen(part) || time.Since(newest(info, e)) < keep) {
			continue
		}
		if err == nil && info.IsDir() && recent(part, keep) {
			continue
		}
		if err == nil {
			_ = os.RemoveAll(part)
		}
		_ = os.Remove(name)
	}
}

// newest is when the partial file, or its entry, was last written.
func newest(part os.FileInfo, e os.DirEntry) time.Time {
	t := part.ModTime()
	if info, err := e.Info(); err == nil && info.ModTime().After(t) {
		t = info.ModTime()
	}
	return t
}

// recent reports whether something below a stage was written within keep: the stage
// itself shows only what happens right below it.
func recent(stage string, keep time.Duration) bool {
	found := false
	_ = filepath.WalkDir(stage, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is gone, or cannot be looked into: so much less to go by
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) < keep {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// isOpen reports whether a transfer writes into a partial file, or below a stage.
func isOpen(part string) bool {
	sinks.Lock()
	defer sinks.Unlock()
	for p := range sinks.open {
		if p == part || strings.HasPrefix(p, part+string(filepath.Separator)) {
			return true
		}
	}
	return false
}
