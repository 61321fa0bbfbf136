package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"topside/internal/privatefile"
)

// Entry is a registered session.
type Entry struct {
	Name     string
	Prewarm  string // "" for none
	Pool     int
	Engine   string // "" for the default engine
	LastSeen time.Time
}

// registry is sessions.json. Two servers may share the file: each write reads it again and changes its own entries
// only. A file that is no registry counts as empty and is kept as FILE.corrupt before it is written.
type registry struct {
	mu      sync.Mutex
	path    string
	entries map[string]Entry
	touched map[string]bool
}

// fileEntry is the contract's schema (section 7.3) with one key more.
type fileEntry struct {
	Name     string  `json:"name"`
	Prewarm  *string `json:"prewarm"`
	Pool     int     `json:"pool"`
	LastSeen *string `json:"last_seen"`
	Engine   string  `json:"engine,omitempty"`
}

type file struct {
	Sessions []fileEntry `json:"sessions"`
}

// RegistryError is a registry that cannot be written: what it should hold is remembered by this server only.
type RegistryError struct{ Err error }

func (e *RegistryError) Error() string {
	return "the registry of sessions cannot be written: " + e.Err.Error()
}
func (e *RegistryError) Unwrap() error { return e.Err }

// corruptError is a registry that was read and is none.
type corruptError struct{ err error }

func (e *corruptError) Error() string { return e.err.Error() }
func (e *corruptError) Unwrap() error { return e.err }

func newRegistry(path string) *registry {
	r := &registry{path: path, entries: map[string]Entry{}, touched: map[string]bool{}}
	if loaded, err := r.load(); err == nil {
		r.entries = loaded
	}
	return r
}

func (r *registry) load() (map[string]Entry, error) {
	entries := map[string]Entry{}
	if r.path == "" {
		return entries, nil
	}
	b, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return entries, nil
	}
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, &corruptError{err}
	}
	for _, e := range f.Sessions {
		if e.Name == "" {
			continue
		}
		entry := Entry{Name: e.Name, Pool: max(e.Pool, 1), Engine: e.Engine}
		if e.Prewarm != nil {
			entry.Prewarm = *e.Prewarm
		}
		if e.LastSeen != nil {
			entry.LastSeen, _ = time.Parse(time.RFC3339, *e.LastSeen)
		}
		entries[e.Name] = entry
	}
	return entries, nil
}

func (r *registry) get(name string) (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[name]
	return e, ok
}

func (r *registry) all() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Entry
	for _, e := range r.entries {
		all = append(all, e)
	}
	return all
}

// touch notes the time of an answered call; it is written with the next change or at the end.
func (r *registry) touch(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[name]; ok {
		e.LastSeen = time.Now()
		r.entries[name] = e
		r.touched[name] = true
	}
}

func (r *registry) put(e Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.LastSeen = time.Now()
	r.entries[e.Name] = e
	r.touched[e.Name] = true
	return r.save()
}

func (r *registry) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.touched) == 0 {
		return nil
	}
	return r.save()
}

// save merges the entries of this server into the file. The caller holds the lock.
func (r *registry) save() error {
	if r.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o700); err != nil {
		return &RegistryError{err}
	}
	unlock, err := lock(r.path + ".lock")
	if err != nil {
		return &RegistryError{err}
	}
	defer unlock()
	merged, err := r.load()
	var corrupt *corruptError
	if errors.As(err, &corrupt) {
		os.Rename(r.path, r.path+".corrupt")
		merged = map[string]Entry{}
	} else if err != nil {
		return &RegistryError{err} // a folder, or what this user may not read, stays as it is
	}
	for name := range r.touched {
		merged[name] = r.entries[name]
	}
	f := file{Sessions: []fileEntry{}}
	for _, e := range merged {
		fe := fileEntry{Name: e.Name, Pool: max(e.Pool, 1), LastSeen: lastSeen(e.LastSeen), Engine: e.Engine}
		if e.Prewarm != "" {
			fe.Prewarm = &e.Prewarm
		}
		f.Sessions = append(f.Sessions, fe)
	}
	slices.SortFunc(f.Sessions, func(a, b fileEntry) int { return strings.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := privatefile.Replace(r.path, append(b, '\n')); err != nil {
		return &RegistryError{err}
	}
	r.entries = merged
	return nil
}

// ReadRegistry reads a registry's file, for whoever only looks at it: the named
// sessions in the order of their names. A file that is not there holds none.
func ReadRegistry(path string) ([]Entry, error) {
	entries, err := (&registry{path: path}).load()
	if err != nil {
		return nil, fmt.Errorf("the registry of sessions %s: %w", path, err)
	}
	all := make([]Entry, 0, len(entries))
	for _, e := range entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
