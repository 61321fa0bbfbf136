package config

// This file holds the store: one configuration file, shared with the other
// running views and servers of its user.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"topside/internal/steer/keptfile"
)

// A FileError is a configuration file that could not be read or written. What
// was in the file is still there.
type FileError struct {
	Path string
	Op   string // "read" or "write"
	Err  error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("the configuration %s could not be %s: %v", e.Path, map[string]string{"read": "read", "write": "saved"}[e.Op], e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// ErrNewer says that a newer version wrote the file, which is not overwritten.
var ErrNewer = errors.New("written by a newer version of topside")

// longest bounds a configuration file, in bytes.
const longest = 1 << 20

// A Store is one configuration file. It is safe for concurrent use.
type Store struct {
	path string

	mu      sync.Mutex
	current Config
	stamp   keptfile.Stamp
	broken  error // why the file could not be read; nil when it could
	good    bool  // it could, now or before
}

// Open reads the configuration at path. A file that is not there is the
// default configuration. A file that cannot be used gives a *[FileError], and
// a store that works all the same: with the defaults, and without writing over
// what is there.
func Open(path string) (*Store, error) {
	s := &Store{path: path, current: Default()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read()
	return s, s.broken
}

// InMemory returns a store without a file, for hosts without a home.
func InMemory() *Store { return &Store{current: Default()} }

// Path is where the configuration is kept; "" when it is not.
func (s *Store) Path() string { return s.path }

// PolicyUnknown is why this configuration cannot tell where the policy is: its
// file was never good, or its policy key holds something else than a path. It is
// "" when it can.
func (s *Store) PolicyUnknown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	switch {
	case s.broken != nil && !s.good:
		return s.broken.Error()
	case s.current.policyOdd:
		return "the key policy of " + s.path + " must be a path, as text"
	}
	return ""
}

// PolicyPath is where the policy is: where the configuration says, relative to
// its own folder ("~/" is the user's home), else beside it. It is "" for a store in memory that names
// none.
func (s *Store) PolicyPath() string {
	policy := s.Get().Policy
	if rest, ok := strings.CutPrefix(policy, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	switch {
	case filepath.IsAbs(policy):
		return policy
	case s.path == "":
		return policy
	case policy == "":
		policy = "policy"
	}
	return filepath.Join(filepath.Dir(s.path), policy)
}

// Get returns the configuration, read again if the file was changed since.
// A file that became unusable leaves the last good one in force.
func (s *Store) Get() Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.current.Clone()
}

// Err is why the file cannot be used at present; nil when it can.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.broken
}

func (s *Store) refresh() {
	if s.path == "" || keptfile.StampOf(s.path).Same(s.stamp) {
		return
	}
	s.read()
}

// read reads the file. The caller holds the lock.
func (s *Store) read() {
	s.stamp = keptfile.StampOf(s.path)
	data, err := keptfile.Read(s.path, longest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.current, s.broken, s.good = Default(), nil, true
		return
	case err != nil:
		s.broken = &FileError{Path: s.path, Op: "read", Err: err}
		return
	}
	parsed, err := Parse(data)
	if err != nil {
		s.broken = &FileError{Path: s.path, Op: "read", Err: err}
		return
	}
	s.current, s.broken, s.good = parsed, nil, true
}

// Update changes the configuration. The change is made to what the file holds
// at that moment, so that two servers do not undo each other's, and is in
// force in this process from then on. When it could not be saved the error is
// a *[FileError] and the change holds in memory only; when change fails,
// nothing is changed and the error is its own.
func (s *Store) Update(change func(*Config) error) (Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == "" {
		return s.apply(change)
	}
	unlock, err := s.lock()
	if err != nil {
		applied, failed := s.apply(change)
		if failed != nil {
			return applied, failed
		}
		return applied, &FileError{Path: s.path, Op: "write", Err: err}
	}
	defer unlock()
	s.refresh()
	applied, err := s.apply(change)
	if err != nil {
		return applied, err
	}
	if err := s.write(); err != nil {
		return applied, &FileError{Path: s.path, Op: "write", Err: err}
	}
	return applied, nil
}

func (s *Store) apply(change func(*Config) error) (Config, error) {
	changed := s.current.Clone()
	if err := change(&changed); err != nil {
		return s.current.Clone(), err
	}
	s.current = changed
	return changed.Clone(), nil
}

func (s *Store) write() error {
	// Over an empty file only what is known from before it was emptied: else it may
	// have named a policy, and writing would end the denial of every action.
	if s.broken != nil && !(s.good && s.stamp.Empty()) {
		return fmt.Errorf("what is there is kept, since it could not be read (%w); mend or remove it", errors.Unwrap(s.broken))
	}
	if s.current.FileVersion > Version {
		return fmt.Errorf("%w (format %d, this one writes %d); it is kept as it is", ErrNewer, s.current.FileVersion, Version)
	}
	data, err := s.current.Format()
	if err != nil {
		return err
	}
	if err := keptfile.Replace(s.path, data); err != nil {
		return err
	}
	s.stamp, s.broken = keptfile.StampOf(s.path), nil
	return nil
}

// lock keeps other processes from changing the file at the same time.
func (s *Store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, err
	}
	return keptfile.Lock(s.path + ".lock")
}
