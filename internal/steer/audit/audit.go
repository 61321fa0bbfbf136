// Package audit writes down every action, whether it was allowed or not.
//
// The log is lines of JSON in a file that only its owner may read. Entries are
// only ever appended; a file that grew long is renamed and kept, up to a
// number of them. Package action writes to it before it acts, and does not act
// when it cannot.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// An Entry is one line of the log.
type Entry struct {
	Time time.Time `json:"time"`
	// Stage is "decided" before the action, with what was decided, and "done"
	// after it, with what happened.
	Stage      string `json:"stage"`
	Tool       string `json:"tool"`
	Host       string `json:"host,omitempty"`
	Client     string `json:"client,omitempty"`
	By         int    `json:"by"` // the user id that topside runs as; -1 where there are none
	PID        int32  `json:"pid"`
	StartTicks uint64 `json:"start_ticks,omitempty"`
	BootID     string `json:"boot_id,omitempty"`
	Name       string `json:"name,omitempty"`
	Executable string `json:"executable,omitempty"`
	User       string `json:"user,omitempty"`
	Unit       string `json:"unit,omitempty"`
	Container  string `json:"container,omitempty"`
	Signal     string `json:"signal,omitempty"`
	Verdict    string `json:"verdict,omitempty"`
	PolicyLine int    `json:"policy_line,omitempty"`
	Confirmed  bool   `json:"confirmed,omitempty"`
	DryRun     bool   `json:"dry_run,omitempty"`
	Local      string `json:"local,omitempty"`  // path on this machine, of a file that crosses
	Remote     string `json:"remote,omitempty"` // path on the host
	Outcome    string `json:"outcome,omitempty"`
	Reason     string `json:"reason,omitempty"`
	ExitedMS   *int64 `json:"exited_after_ms,omitempty"`
}

// The bounds of a log.
const (
	LongestFile = 4 << 20 // bytes; a longer one is renamed
	KeptFiles   = 8       // renamed ones: log.1 is the newest
)

// A Log is one audit log. It is safe for concurrent use, and for several
// processes, which take turns by a lock on a file beside the log.
type Log struct {
	path string
	size int64 // 0 means LongestFile

	mu sync.Mutex
}

// ErrAudit is wrapped by the errors of a log that cannot be written.
var ErrAudit = errors.New("the audit log cannot be written")

// New returns the log at path, which is made at the first entry.
func New(path string) *Log { return &Log{path: path} }

// Path is where the log is.
func (l *Log) Path() string { return l.path }

// Write appends an entry and sees to it that it reached the disk.
func (l *Log) Write(e Entry) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	e.By = os.Getuid()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAudit, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(append(line, '\n')); err != nil {
		return fmt.Errorf("%w: %w", ErrAudit, err)
	}
	return nil
}

func (l *Log) append(line []byte) error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	unlock, err := lock(l.path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.rotate(int64(len(line))); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	before, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err = f.Write(line); err != nil {
		// A full disk may have taken a part of the line, to which the next one
		// must not be added.
		err = errors.Join(err, f.Truncate(before.Size()))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// rotate makes room for another line. A file that others may read is not
// written to as it is.
func (l *Log) rotate(more int64) error {
	info, err := os.Lstat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", l.path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(l.path, 0o600); err != nil {
			return err
		}
	}
	limit := l.size
	if limit == 0 {
		limit = LongestFile
	}
	if info.Size() == 0 || info.Size()+more <= limit {
		return nil
	}
	for n := KeptFiles - 1; n >= 1; n-- {
		err := os.Rename(l.numbered(n), l.numbered(n+1))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(l.path, l.numbered(1))
}

func (l *Log) numbered(n int) string { return l.path + "." + strconv.Itoa(n) }
