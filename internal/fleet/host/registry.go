package host

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

// maxFile bounds a registry on disk, in bytes: it is read whole.
const maxFile = 16 << 20

// Entry is one host. The first five members are the whole of the topup contract's
// hosts.json (section 7.2); the united surface keeps the rest as well.
type Entry struct {
	Name         string
	Description  string
	OS           string
	RemoteSocket string    // absolute, or "" for the default of the far side
	LastSeen     time.Time // of the last answered call; zero if never

	Tags     []string
	Version  string // of topside there when last seen
	ReadOnly bool
	Allow    []string // tools by name or pattern (path.Match); empty allows all
	Deny     []string // wins over Allow
	Source   string   // "" for the registry, "ssh config" for the OpenSSH configuration
}

// PolicyError is a tool that a host's entry forbids.
type PolicyError struct{ Host, Tool, Why string }

func (e *PolicyError) Error() string {
	return fmt.Sprintf("%s is not permitted on host %s: %s", e.Tool, e.Host, e.Why)
}

// Permit tells whether the entry lets a tool be called; readOnly is the tool's own
// annotation. The error is a *PolicyError.
func (e Entry) Permit(tool string, readOnly bool) error {
	switch {
	case e.ReadOnly && !readOnly:
		return &PolicyError{e.Name, tool, "the host is registered as read-only"}
	case matches(e.Deny, tool):
		return &PolicyError{e.Name, tool, "its entry denies this tool"}
	case len(e.Allow) > 0 && !matches(e.Allow, tool):
		return &PolicyError{e.Name, tool, "its entry allows only " + strings.Join(e.Allow, ", ")}
	}
	return nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := filepath.Match(p, name)
		return ok && err == nil
	})
}

// Format is the shape of a registry on disk.
type Format uint8

// The two formats.
const (
	Topup   Format = iota // the topup contract's five members, always all present
	Topside               // the same, and what only the united surface knows
)

// onDisk is an entry as JSON. Members that the contract does not have are left out
// when empty, so that the contract's file has exactly its five.
type onDisk struct {
	Name         string   `json:"name"`
	Description  *string  `json:"description"`
	OS           *string  `json:"os"`
	RemoteSocket string   `json:"remote_socket"`
	LastSeen     *string  `json:"last_seen"`
	Tags         []string `json:"tags,omitempty"`
	Version      string   `json:"version,omitempty"`
	ReadOnly     bool     `json:"read_only,omitempty"`
	Allow        []string `json:"allow,omitempty"`
	Deny         []string `json:"deny,omitempty"`
}

type fileOnDisk struct {
	Hosts []onDisk `json:"hosts"`
}

// Registry is a file of hosts. Every change is read, made and written under a lock
// beside the file, so that several servers may share one. The file is owner-only
// (0600), its folders 0700, and replaced as a whole.
type Registry struct {
	path   string
	format Format

	mu      sync.Mutex
	entries map[string]Entry
	note    string
	stamp   stamp // of the file that entries are from
	ahead   bool  // entries hold what could not be written
	blind   bool  // the file has not been understood yet
}

// UnreadableError is a registry that is there and cannot be understood: it may hold
// what keeps tools from hosts.
type UnreadableError struct {
	Path string
	Err  error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the registry of hosts %s cannot be read (%v): mend it, or move it away", e.Path, e.Err)
}

// Unwrap returns the reason.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Open reads the registry at path; "" keeps it in memory only. A missing file is an
// empty registry. So is a corrupt one of the topup contract: it is kept aside (path +
// ".corrupt"), and [Registry.Note] says so. Of this program's own, which restricts
// hosts, it is left where it is: nothing is known until it has been mended, which
// [Registry.Blind] and the note say, and what was known before stays.
func Open(path string, format Format) (*Registry, error) {
	r := &Registry{path: path, format: format, entries: map[string]Entry{}}
	if path == "" {
		return r, nil
	}
	entries, err := r.read()
	var unreadable *UnreadableError
	switch {
	case errors.As(err, &unreadable):
		r.blind = true
		return r, nil
	case err != nil:
		return nil, err
	}
	r.entries = entries
	return r, nil
}

// Blind reports whether the registry has never been understood, so that what it may
// forbid is not known.
func (r *Registry) Blind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blind
}

// Note is what people should know about the file, or "".
func (r *Registry) Note() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.note
}

// Path is where the registry is kept, "" if in memory only.
func (r *Registry) Path() string { return r.path }

// stamp tells one state of a file from another.
type stamp struct {
	there    bool
	modified time.Time
	size     int64
	info     os.FileInfo
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{true, info.ModTime(), info.Size(), info}
}

func (s stamp) same(t stamp) bool {
	return s.there == t.there && s.size == t.size && s.modified.Equal(t.modified) && (!s.there || os.SameFile(s.info, t.info))
}

// Len is how many hosts there are.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries)
}

// Refresh reads the file again if another program has changed it. A file that cannot
// be read, or understood, leaves the registry as it is.
func (r *Registry) Refresh() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path == "" || stampOf(r.path).same(r.stamp) {
		return nil
	}
	entries, err := r.read()
	if err != nil {
		return err
	}
	r.adopt(entries)
	return nil
}

func (r *Registry) read() (map[string]Entry, error) {
	r.stamp = stampOf(r.path) // before: what is written meanwhile is read next time
	data, err := readBounded(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		r.understood()
		return map[string]Entry{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("registry of hosts %s: %w", r.path, err)
	}
	entries, err := Parse(data)
	if err != nil && r.format == Topside {
		err = &UnreadableError{r.path, err}
		r.note = err.Error()
		return nil, err
	}
	if err != nil {
		aside := r.path + ".corrupt"
		r.note = fmt.Sprintf("the registry of hosts %s was not readable (%v); it is kept as %s, and the registry starts empty", r.path, err, aside)
		if err := os.Rename(r.path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("keep the corrupt registry of hosts aside: %w", err)
		}
		return map[string]Entry{}, nil
	}
	r.understood()
	return entries, nil
}

// understood forgets what was said of a file that has been mended. It needs r.mu.
func (r *Registry) understood() {
	r.blind = false
	if r.format == Topside {
		r.note = ""
	}
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%d bytes, at most %d", info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// Parse reads the bytes of a registry. Entries whose names break the rules are left
// out: the file may have been written by another program, and a name goes to ssh.
func Parse(data []byte) (map[string]Entry, error) {
	var f fileOnDisk
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	entries := make(map[string]Entry, len(f.Hosts))
	for _, d := range f.Hosts {
		if CheckName(d.Name) != nil || d.Name == Local {
			continue
		}
		e := Entry{Name: d.Name, Tags: d.Tags, Version: d.Version, ReadOnly: d.ReadOnly, Allow: d.Allow, Deny: d.Deny}
		if d.Description != nil {
			e.Description = *d.Description
		}
		if d.OS != nil {
			e.OS = *d.OS
		}
		if CheckSocket(d.RemoteSocket) == nil {
			e.RemoteSocket = d.RemoteSocket
		}
		if d.LastSeen != nil {
			if t, err := time.Parse(time.RFC3339, *d.LastSeen); err == nil {
				e.LastSeen = t
			}
		}
		entries[e.Name] = e
	}
	return entries, nil
}

// Encode returns the bytes of a registry: sorted by name, pretty-printed.
func Encode(entries map[string]Entry, format Format) ([]byte, error) {
	f := fileOnDisk{Hosts: []onDisk{}}
	for _, e := range sorted(entries) {
		d := onDisk{
			Name: e.Name, Description: stringOrNil(e.Description), OS: stringOrNil(e.OS), RemoteSocket: e.RemoteSocket,
		}
		if !e.LastSeen.IsZero() {
			seen := e.LastSeen.UTC().Format(time.RFC3339)
			d.LastSeen = &seen
		}
		if format == Topside {
			d.Tags, d.Version, d.ReadOnly, d.Allow, d.Deny = e.Tags, e.Version, e.ReadOnly, e.Allow, e.Deny
		}
		f.Hosts = append(f.Hosts, d)
	}
	data, err := json.MarshalIndent(f, "", "  ")
	return append(data, '\n'), err
}

func stringOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func sorted(entries map[string]Entry) []Entry {
	out := make([]Entry, 0, len(entries))
	for _, e := range entries {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// List returns the entries, sorted bytewise by name.
func (r *Registry) List() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sorted(r.entries)
}

// Get returns the entry of a name.
func (r *Registry) Get(name string) (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[name]
	return e, ok
}

// Update changes the entry of a name, which is made if create is set; otherwise an
// unknown name gives an *UnknownError. The change is lost neither by other servers
// nor by a crash: what others wrote since is read first.
func (r *Registry) Update(name string, create bool, change func(*Entry)) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if name == Local {
		return &InvalidError{"host", "host 'local' is this machine"}
	}
	return r.modify(func(entries map[string]Entry) error {
		e, ok := entries[name]
		if !ok && !create {
			return &UnknownError{Name: name}
		}
		change(&e)
		e.Name = name
		entries[name] = e
		return nil
	})
}

// Remove forgets a host.
func (r *Registry) Remove(name string) error {
	return r.modify(func(entries map[string]Entry) error {
		if _, ok := entries[name]; !ok {
			return &UnknownError{Name: name}
		}
		delete(entries, name)
		return nil
	})
}

// Seen notes in memory that a host has just answered. It is written with the next
// change, as the contract does it.
func (r *Registry) Seen(name string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[name]; ok && at.After(e.LastSeen) {
		e.LastSeen = at
		r.entries[name] = e
	}
}

// Save writes what Seen has noted.
func (r *Registry) Save() error { return r.modify(func(map[string]Entry) error { return nil }) }

// Learned is what a host told of itself.
type Learned struct{ Version, OS string }

// Learn notes what hosts told of themselves, and writes it with what Seen has noted.
// A system that a person has named stays.
func (r *Registry) Learn(told map[string]Learned) error {
	return r.modify(func(entries map[string]Entry) error {
		if r.format != Topside {
			return nil // what is in that file is for its own calls to say
		}
		for name, l := range told {
			e, ok := entries[name]
			if !ok {
				continue
			}
			if e.Version = l.Version; e.OS == "" {
				e.OS = l.OS
			}
			entries[name] = e
		}
		return nil
	})
}

// UnwrittenError is a change that holds in this process only: the file could not be
// written.
type UnwrittenError struct{ Err error }

func (e *UnwrittenError) Error() string { return "registry of hosts: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UnwrittenError) Unwrap() error { return e.Err }

// adopt takes what the file has, and keeps what it lacks: the times that Seen noted,
// and changes that could not be written. It needs r.mu.
func (r *Registry) adopt(entries map[string]Entry) {
	for name, mine := range r.entries {
		e, ok := entries[name]
		switch {
		case r.ahead:
			entries[name] = mine
		case ok && mine.LastSeen.After(e.LastSeen):
			e.LastSeen = mine.LastSeen
			entries[name] = e
		}
	}
	r.entries = entries
}

func (r *Registry) modify(change func(map[string]Entry) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path == "" {
		return change(r.entries)
	}
	unlock, err := r.lock()
	if err != nil {
		if err := change(r.entries); err != nil {
			return err
		}
		r.ahead = true
		return &UnwrittenError{err}
	}
	defer unlock()
	entries, err := r.read()
	if err != nil {
		return err
	}
	r.adopt(entries)
	if err := change(entries); err != nil {
		return err
	}
	data, err := Encode(entries, r.format)
	if err != nil {
		return err
	}
	if err := privatefile.Replace(r.path, data); err != nil {
		r.ahead = true
		return &UnwrittenError{err}
	}
	r.ahead, r.stamp = false, stampOf(r.path) // nobody else writes under the lock
	return nil
}

// lock keeps other servers from the file, whose folder is made if it is missing.
func (r *Registry) lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(r.path), 0o700); err != nil {
		return nil, err
	}
	return lock(r.path + ".lock")
}
