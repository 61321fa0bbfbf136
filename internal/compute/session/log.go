package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// entry is one phrase that took effect, or an archive that was loaded.
type entry struct {
	seq  uint64        // of the evaluation it belongs to
	text string        // with terminator and newline; "" for an archive
	load string        // path of an archive; such entries are replayed and not written
	took time.Duration // at most; 0 when it is not known
}

// Log is the history of a session as source that a person can read and run. What is in memory is the truth; the
// file mirrors it.
//
// The file belongs to one server at a time: it is locked while it is in use, and a second server that is given the
// same path writes path~2 instead. A log of an earlier run is put aside as path.1, path.2 … unless it is resumed.
type Log struct {
	mu      sync.Mutex
	wanted  string // the configured path, "" for no file
	path    string // the path in use, "" before the first write
	file    *os.File
	entries []entry
	written int  // how many of the entries the file has
	stale   bool // the file has something else and must be written anew
}

// keptLogs is how many logs of earlier runs are kept.
const keptLogs = 5

func newLog(path string) *Log { return &Log{wanted: path} }

// Enabled tells whether there is a log file.
func (l *Log) Enabled() bool { return l.wanted != "" }

// Path is the file in use, or the one that would be.
func (l *Log) Path() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path != "" {
		return l.path
	}
	return l.wanted
}

// Displaced tells whether another server uses the configured file, so that this log is in one of its own.
func (l *Log) Displaced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.path != "" && l.path != l.wanted
}

// Text is the whole log.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text()
}

func (l *Log) text() string {
	var b strings.Builder
	for _, e := range l.entries {
		b.WriteString(e.text)
	}
	return b.String()
}

// Len is the number of phrases.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// after returns the entries of evaluations later than seq.
func (l *Log) after(seq uint64) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.entries {
		if e.seq > seq {
			return append([]entry(nil), l.entries[i:]...)
		}
	}
	return nil
}

// add appends entries in memory and to the file. An error means that the file could not be written.
func (l *Log) add(entries []entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entries...)
	return l.write()
}

// write appends what the file lacks: the latest entries, and those before them that could not be written. A write that
// fails leaves no part of an entry behind. The caller holds the lock.
func (l *Log) write() error {
	if l.wanted == "" {
		return nil
	}
	if l.stale {
		return l.rewrite(l.text(), true)
	}
	var b strings.Builder
	for _, e := range l.entries[l.written:] {
		b.WriteString(e.text)
	}
	if b.Len() == 0 {
		return nil
	}
	if l.file == nil {
		if err := l.claim(false); err != nil {
			return err
		}
	}
	before, err := l.file.Stat()
	if err != nil {
		return err
	}
	if _, err := l.file.WriteString(b.String()); err != nil {
		return errors.Join(err, l.file.Truncate(before.Size()))
	}
	l.written = len(l.entries)
	return nil
}

// take makes the entries those that the file has already.
func (l *Log) take(entries []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.written = entries, len(entries)
}

// claim opens and locks the file. A file with content is put aside first unless it is to be resumed. The caller
// holds the lock.
func (l *Log) claim(resume bool) error {
	if err := os.MkdirAll(filepath.Dir(l.wanted), 0o700); err != nil {
		return err
	}
	for n := 1; n <= 100; n++ {
		path := numbered(l.wanted, n)
		f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if tryLock(f) != nil {
			f.Close()
			continue
		}
		if !sameFile(f, path) {
			f.Close()
			n--
			continue
		}
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			f.Close()
			return errors.Join(err, fmt.Errorf("%s is not a regular file", path))
		}
		if info.Size() > 0 && !resume {
			// The lock of the old file goes with it; the new one is taken in the next round.
			err := putAside(path)
			f.Close()
			if err != nil {
				return err
			}
			n--
			continue
		}
		l.path, l.file = path, f
		return nil
	}
	return fmt.Errorf("%s and a hundred like it are in use", l.wanted)
}

// numbered returns path for 1, and path~2.ml, path~3.ml … for others: no session's own file is called so.
func numbered(path string, n int) string {
	if n == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s~%d%s", strings.TrimSuffix(path, ext), n, ext)
}

// keptOthers bounds the search for logs of other servers.
const keptOthers = 9

// others are the logs path~2 … path~9 that hold something and that no server uses now.
func (l *Log) others() []string {
	own := l.Path()
	var left []string
	for n := 2; n <= keptOthers; n++ {
		if path := numbered(l.wanted, n); path != own && abandoned(path) {
			left = append(left, path)
		}
	}
	return left
}

// abandoned tells whether a file holds something and no server uses it.
func abandoned(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return tryLock(f) == nil
}

// left tells whether an earlier run has left a log at the configured path.
func (l *Log) left() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file == nil && abandoned(l.wanted)
}

// previous is the file of the history before this one: what an earlier run left, or what was put aside last.
func (l *Log) previous() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.file != nil:
		return l.path + ".1"
	case abandoned(l.wanted):
		return l.wanted
	}
	return l.wanted + ".1"
}

// putAside renames the file to path.1 and moves the older ones up; what was path.5 is gone.
func putAside(path string) error {
	for n := keptLogs; n > 1; n-- {
		err := os.Rename(fmt.Sprintf("%s.%d", path, n-1), fmt.Sprintf("%s.%d", path, n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(path, path+".1")
}

// whereabouts is the path of a file that may have been put aside since it was at the given one.
func (l *Log) whereabouts(path string, file os.FileInfo) string {
	current := l.Path()
	for n := 1; n <= keptLogs && file != nil; n++ {
		aside := fmt.Sprintf("%s.%d", current, n)
		if info, err := os.Stat(aside); err == nil && os.SameFile(info, file) {
			return aside
		}
	}
	return path
}

// resume claims the file and returns what an earlier run left in it; "" when there is none.
func (l *Log) resume() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted == "" {
		return "", nil
	}
	if _, err := os.Stat(l.wanted); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if l.file == nil {
		if err := l.claim(true); err != nil {
			return "", err
		}
	}
	b, err := os.ReadFile(l.path)
	return string(b), err
}

// replace makes the entries the whole log. The previous file is kept as path.1. text is written to the file instead
// of the entries when it is not empty: what a person wrote keeps its comments.
func (l *Log) replace(entries []entry, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.written = entries, 0
	if text == "" {
		text = l.text()
	}
	return l.rewrite(text, true)
}

// correct makes the entries the whole log and overwrites the file.
func (l *Log) correct(entries []entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.written = entries, 0
	return l.rewrite(l.text(), false)
}

// rewrite gives the file another text, at once. When that fails the file is as it was, and the next write tries again.
// The caller holds the lock.
func (l *Log) rewrite(text string, aside bool) error {
	if l.wanted == "" {
		return nil
	}
	if l.file == nil {
		if _, err := os.Stat(l.wanted); errors.Is(err, fs.ErrNotExist) && text == "" {
			l.stale, l.written = false, len(l.entries)
			return nil
		}
		if err := l.claim(false); err != nil {
			return err
		}
	}
	l.stale = true
	if info, err := l.file.Stat(); err == nil && info.Size() == 0 && text == "" && sameFile(l.file, l.path) {
		l.stale, l.written = false, len(l.entries)
		return nil
	}
	tmp, err := os.OpenFile(l.path+".tmp", os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		tmp.Close()
		os.Remove(l.path + ".tmp")
		return err
	}
	if _, err := tmp.WriteString(text); err != nil {
		return fail(err)
	}
	if err := tryLock(tmp); err != nil {
		return fail(err)
	}
	if info, err := l.file.Stat(); aside && err == nil && info.Size() > 0 {
		if err := putAside(l.path); err != nil {
			return fail(err)
		}
	}
	if err := os.Rename(l.path+".tmp", l.path); err != nil {
		return fail(err)
	}
	l.file.Close()
	l.file = tmp
	l.stale, l.written = false, len(l.entries)
	return nil
}

// close gives the file up.
func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.write() // what a full disk had no room for; there is nobody to be told
		l.file.Close()
		l.file = nil
	}
}
