// Package pool holds the sessions of a server: the default one, the named ones with their registry, and processes
// that are started ahead so that a new session need not wait for one.
//
// Files: pool.go the sessions, registry.go what is remembered on disk, start.go the starts under way, spare.go the processes started ahead.
package pool

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"topside/internal/compute/engine"
	"topside/internal/compute/session"
)

// Options of a pool. The surface reads the TOPUP_* variables and fills them in.
type Options struct {
	// Languages that sessions may use; the first is the default one.
	Languages []engine.Language
	// LogPath is the phrase log of the default session; named sessions have sessions/NAME.ml beside it. "" = off.
	LogPath       string
	CheckpointDir string
	SpillDir      string
	// RegistryPath is the file of named sessions (TOPUP_SESSIONS_FILE); "" keeps the registry in memory.
	RegistryPath string
	Engine       engine.Options
	Inline       int
	// Spares is how many started processes of the default language wait for a new session; 0 none.
	Spares int
	// Resume evaluates the default session's log of an earlier run at its start.
	Resume bool
}

// Pool is safe for concurrent use.
type Pool struct {
	o        Options
	spill    *session.Spill
	registry *registry
	spares   map[string]*spares

	mu       sync.Mutex
	local    *session.Session
	opening  map[string]chan struct{} // names whose session is being started
	sessions map[string]*session.Session
	counts   map[string]*atomic.Uint64 // processes of each name so far
	ended    map[string]bool           // sessions that ran and were stopped, and do not run again yet
	starts   starts
	closed   bool
}

// ConnectError is a session that could not be started: the contract's error with phase "connect".
type ConnectError struct {
	Session string
	Err     error
}

func (e *ConnectError) Error() string { return e.Err.Error() }
func (e *ConnectError) Unwrap() error { return e.Err }

// New makes a pool. No session runs yet; spares begin to start.
func New(o Options) *Pool {
	p := &Pool{
		o: o, spill: session.NewSpill(o.SpillDir), registry: newRegistry(o.RegistryPath),
		opening: map[string]chan struct{}{}, sessions: map[string]*session.Session{}, ended: map[string]bool{}, counts: map[string]*atomic.Uint64{}, spares: map[string]*spares{},
	}
	for i, l := range o.Languages {
		n := 0
		if i == 0 {
			n = o.Spares
		}
		p.spares[l.Name()] = newSpares(l, o.Engine, n)
	}
	return p
}

// Language returns the language of that name, the default one for "".
func (p *Pool) Language(name string) (engine.Language, error) {
	if name == "" && len(p.o.Languages) > 0 {
		return p.o.Languages[0], nil
	}
	var known []string
	for _, l := range p.o.Languages {
		if l.Name() == name {
			return l, nil
		}
		known = append(known, l.Name())
	}
	return nil, &session.UsageError{Text: fmt.Sprintf("no engine %q here; available: %s", name, strings.Join(known, ", "))}
}

// Local returns the default session, started at the first use.
func (p *Pool) Local(ctx context.Context) (*session.Session, error) {
	return p.openLocal(ctx, p.o.Resume)
}

func (p *Pool) openLocal(ctx context.Context, resume bool) (*session.Session, error) {
	return p.open(ctx, "", func() (session.Options, error) {
		lang, err := p.Language("")
		if err != nil {
			return session.Options{}, err
		}
		o := p.options("", lang)
		o.LogPath, o.Resume = withExtension(p.o.LogPath, lang), resume
		return o, nil
	})
}

func (p *Pool) options(name string, lang engine.Language) session.Options {
	return session.Options{
		Name: name, Language: lang, Engine: p.o.Engine, CheckpointDir: p.o.CheckpointDir, Spill: p.spill,
		Inline: p.o.Inline, LogPath: p.logOf(name, lang), Child: p.spares[lang.Name()].take,
		Processes: p.processes(name),
	}
}

// processes counts those of all sessions that had the name.
func (p *Pool) processes(name string) *atomic.Uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[name] == nil {
		p.counts[name] = new(atomic.Uint64)
	}
	return p.counts[name]
}

// logOf is the log of a named session, beside the default one's.
func (p *Pool) logOf(name string, lang engine.Language) string {
	if p.o.LogPath == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(p.o.LogPath), "sessions", fileName(name)+lang.Capabilities().Extension)
}

// withExtension gives a log of another language than OCaml its own file.
func withExtension(path string, lang engine.Language) string {
	ext := lang.Capabilities().Extension
	if path == "" || ext == "" || filepath.Ext(path) != ".ml" {
		return path
	}
	return strings.TrimSuffix(path, ".ml") + ext
}

// fileName writes a session's name as a file name: other bytes than letters, digits, '.', '_' and '-' become %XX, so
// that two names never share a file.
func fileName(name string) string {
	var b strings.Builder
	for i, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > 200 {
		return fmt.Sprintf("%s%%%x", b.String()[:160], sha256.Sum256([]byte(name)))[:200]
	}
	return b.String()
}

// open returns the live session of that name or starts it; callers that come meanwhile wait for the same start.
func (p *Pool) open(ctx context.Context, name string, options func() (session.Options, error)) (*session.Session, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, session.ErrClosed
		}
		if s := p.find(name); s != nil {
			p.mu.Unlock()
			return s, nil
		}
		if wait := p.opening[name]; wait != nil {
			p.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		done := make(chan struct{})
		p.opening[name] = done
		p.mu.Unlock()
		o, err := options()
		var s *session.Session
		if err == nil {
			s, err = session.Open(ctx, o)
		}
		p.mu.Lock()
		delete(p.opening, name)
		close(done)
		if err == nil && p.closed {
			p.mu.Unlock()
			s.Close()
			return nil, session.ErrClosed
		}
		if err == nil {
			p.put(name, s)
		}
		p.mu.Unlock()
		return s, err
	}
}

// Opened returns a session that is open, the default one for "", or nil. It opens none.
func (p *Pool) Opened(name string) *session.Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(name)
}

// find and put keep the default session under the name "". The caller holds the lock.
func (p *Pool) find(name string) *session.Session {
	if name == "" {
		return p.local
	}
	return p.sessions[name]
}

func (p *Pool) put(name string, s *session.Session) {
	if name == "" {
		p.local = s
		return
	}
	p.sessions[name] = s
	delete(p.ended, name)
}

// Session returns a started named session.
func (p *Pool) Session(name string) (*session.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[name]; s != nil {
		p.registry.touch(name)
		return s, nil
	}
	if p.ended[name] {
		return nil, &session.UsageError{Text: fmt.Sprintf("session not running: %s (call start_local_session { session: %s } first)", name, name)}
	}
	return nil, &session.UsageError{Text: fmt.Sprintf("session not registered: %s (call start_local_session { session: %s } first)", name, name)}
}

// StartRequest asks for a named session.
type StartRequest struct {
	Name    string
	Prewarm *string // a source file; nil keeps the registered one, "" means none
	Pool    int     // at least 1; siblings NAME.1 … NAME.(Pool-1) share the prewarm file
	Engine  string  // "" keeps the registered engine, or the default one
	Resume  bool    // evaluate the log that an earlier server left
}

// Start brings a named session up; a live one is left as it is, and missing siblings are started. The registry is
// written when the session runs: after a *RegistryError everything runs that was asked for. All of it together may
// take StartLimit, but for the evaluation of an earlier log.
func (p *Pool) Start(ctx context.Context, r StartRequest) error {
	switch r.Name {
	case "", "local":
		return &session.UsageError{Text: "session 'local' is the in-process session; start_local_session is for named subprocesses"}
	}
	r.Pool = Siblings(r.Pool)
	if !p.resumes(r) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, StartLimit, errStartLimit)
		defer cancel()
	}
	ctx, done := p.starts.begin(ctx, r.Name)
	defer done()
	live := p.live(r.Name)
	entry, known := p.registry.get(r.Name)
	if !known {
		entry = Entry{Name: r.Name}
	}
	var unwritten error
	if !live {
		if r.Prewarm != nil {
			entry.Prewarm = *r.Prewarm
		}
		if r.Engine != "" {
			entry.Engine = r.Engine
		}
		entry.Pool = r.Pool
		if err := p.launch(ctx, entry, r.Resume); err != nil {
			return err
		}
		unwritten = p.registry.put(entry)
	}
	prewarm := entry.Prewarm
	if r.Prewarm != nil {
		prewarm = *r.Prewarm
	}
	err := p.siblings(ctx, r, prewarm, entry.Engine)
	var registry *RegistryError
	if err == nil || errors.As(err, &registry) && unwritten != nil {
		return unwritten
	}
	return err
}

// MaxSiblings bounds the pool of one call, its first session included.
const MaxSiblings = 64

// Siblings is how many sessions a pool of that size has.
func Siblings(size int) int { return max(1, min(size, MaxSiblings)) }

func (p *Pool) siblings(ctx context.Context, r StartRequest, prewarm, engineName string) error {
	errs := make([]error, r.Pool)
	var wg sync.WaitGroup
	gate := make(chan struct{}, 4)
	for i := 1; i < r.Pool; i++ {
		name := fmt.Sprintf("%s.%d", r.Name, i)
		if p.live(name) {
			continue
		}
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			e := Entry{Name: name, Prewarm: prewarm, Pool: 1, Engine: engineName}
			if errs[i] = p.launch(ctx, e, r.Resume); errs[i] == nil {
				errs[i] = p.registry.put(e)
			}
		})
	}
	wg.Wait()
	// A sibling that does not run matters more than one that is not remembered.
	var unwritten error
	var failed []error
	for _, err := range errs {
		var registry *RegistryError
		if errors.As(err, &registry) {
			unwritten = err
		} else if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 {
		return unwritten
	}
	return errors.Join(failed...)
}

func (p *Pool) live(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[name] != nil
}

func (p *Pool) launch(ctx context.Context, e Entry, resume bool) error {
	ctx, done := p.starts.begin(ctx, e.Name)
	defer done()
	_, err := p.open(ctx, e.Name, func() (session.Options, error) {
		lang, err := p.Language(e.Engine)
		if err != nil {
			return session.Options{}, err
		}
		o := p.options(e.Name, lang)
		o.Prewarm, o.Resume = expand(e.Prewarm), resume
		return o, checkPrewarm(o.Prewarm)
	})
	var prewarm *session.PrewarmError
	var usage *session.UsageError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &usage):
		return err
	case ctx.Err() != nil:
		return &ConnectError{e.Name, endedStart(ctx, e)}
	case errors.As(err, &prewarm):
		return &ConnectError{e.Name, fmt.Errorf("prewarm %s: %w", e.Name, prewarm)}
	}
	return &ConnectError{e.Name, fmt.Errorf("local session %s: %w", e.Name, err)}
}

// expand replaces a leading ~ by the home folder.
func expand(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, path[1:])
		}
	}
	return path
}

// Restart ends a named session and starts it anew from its registered prewarm file; its bindings are gone, its old
// log is put aside.
func (p *Pool) Restart(ctx context.Context, name string) error {
	if name == "" || name == "local" {
		return &session.UsageError{Text: "session 'local' is the in-process session; restart_local_session is for named subprocesses"}
	}
	entry, known := p.registry.get(name)
	if !known {
		return &ConnectError{name, fmt.Errorf("session not registered: %s", name)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, StartLimit, errStartLimit)
	defer cancel()
	p.stop(name)
	return p.launch(ctx, entry, false)
}

// Anew opens a session that does not run, the default one for "", and evaluates no log of an earlier run: that is put
// aside. A session that runs is returned as it is.
func (p *Pool) Anew(ctx context.Context, name string) (*session.Session, error) {
	if name == "" {
		return p.openLocal(ctx, false)
	}
	if p.live(name) {
		return p.Session(name)
	}
	entry, known := p.registry.get(name)
	if !known {
		return p.Session(name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, StartLimit, errStartLimit)
	defer cancel()
	if err := p.launch(ctx, entry, false); err != nil {
		return nil, err
	}
	return p.Session(name)
}

func (p *Pool) stop(name string) {
	p.mu.Lock()
	s := p.sessions[name]
	delete(p.sessions, name)
	p.ended[name] = p.ended[name] || s != nil
	p.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// Stop ends a named session; it stays registered.
func (p *Pool) Stop(name string) bool {
	live := p.live(name)
	p.stop(name)
	return live
}

// Update changes what the next start of a session uses.
func (p *Pool) Update(name string, prewarm *string, size *int) error {
	if name == "" || name == "local" {
		return &session.UsageError{Text: "session 'local' has no mutable metadata"}
	}
	entry, known := p.registry.get(name)
	if !known {
		return &session.UsageError{Text: "session not registered: " + name}
	}
	if prewarm != nil {
		entry.Prewarm = *prewarm
	}
	if size != nil && *size > 0 {
		entry.Pool = *size
	}
	return p.registry.put(entry)
}

// Register remembers a session that runs elsewhere, behind a socket of its own.
func (p *Pool) Register(e Entry) error { return p.registry.put(e) }

// Registered tells whether a session of that name was ever started.
func (p *Pool) Registered(name string) bool {
	_, known := p.registry.get(name)
	return known
}

// Prewarm is the registered prewarm file of a session, "" for none.
func (p *Pool) Prewarm(name string) string {
	e, _ := p.registry.get(name)
	return e.Prewarm
}

// Listing is a registered session as the instructions list it.
type Listing struct {
	Entry
	Live   bool
	Status session.Status // when live
}

// List returns the registered sessions by name.
func (p *Pool) List() []Listing {
	var all []Listing
	for _, e := range p.registry.all() {
		l := Listing{Entry: e}
		p.mu.Lock()
		s := p.sessions[e.Name]
		p.mu.Unlock()
		if s != nil {
			l.Live, l.Status = true, s.Status()
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b Listing) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// InUse counts the sessions, the default one included, that evaluate now or did
// since a time; the zero time counts all that run.
func (p *Pool) InUse(since time.Time) int {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.sessions))
	if p.local != nil {
		all = append(all, p.local)
	}
	p.mu.Unlock()
	n := 0
	for _, s := range all {
		if st := s.Status(); st.State != session.Idle || st.Waiting > 0 || st.LastUsed.After(since) {
			n++
		}
	}
	return n
}

// Touch notes an answered call of a named session.
func (p *Pool) Touch(name string) { p.registry.touch(name) }

// Close ends every session at once.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	all := []*session.Session{}
	if p.local != nil {
		all = append(all, p.local)
	}
	for _, s := range p.sessions {
		all = append(all, s)
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { s.Close() })
	}
	for _, s := range p.spares {
		wg.Go(s.close)
	}
	wg.Wait()
	return errors.Join(p.registry.flush(), p.spill.Close())
}

// lastSeen is the time the contract shows: UTC, whole seconds.
func lastSeen(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05Z")
	return &s
}
