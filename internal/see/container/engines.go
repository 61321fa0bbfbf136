package container

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"topside/internal/see/proc"
)

// The names of the engines whose API is asked.
const (
	EngineDocker = "docker"
	EnginePodman = "podman"
)

// A Status is how an engine stands.
type Status string

// The states of an engine.
const (
	OK          Status = "ok"
	Absent      Status = "absent"      // no socket
	Unreachable Status = "unreachable" // a socket, and no proper answer in time
	Denied      Status = "denied"      // a socket that we may not use
	Disabled    Status = "disabled"    // by configuration
)

// A Listing is what one engine said of its running containers.
type Listing struct {
	Engine string // EngineDocker or EnginePodman
	Socket string // path; empty when absent
	Status Status
	Reason string // a sentence for people and agents; empty when ok
	// Containers is the last good answer. With another status than ok, or when
	// Stale, it is of the past, and a container in it may have ended.
	Containers []Info
	// Omitted is how many containers were left out beyond the bound.
	Omitted int
	// Taken is when Containers was answered; zero when never.
	Taken time.Time
	// Stale is true when the engine was healthy but did not answer soon enough
	// for this listing.
	Stale bool
}

// Current reports whether Containers is what the engine says now.
func (l *Listing) Current() bool { return l.Status == OK && !l.Stale }

// Runtime is the Runtime of the engine's containers.
func (l *Listing) Runtime() Runtime {
	if l.Engine == EnginePodman {
		return Podman
	}
	return Docker
}

// Warning is a sentence for the snapshot's warnings: an engine that is there
// and does not answer, or a list that was cut. It is empty otherwise.
func (l *Listing) Warning() string {
	switch {
	case l.Status == Unreachable:
		text := l.Engine + " at " + l.Socket + " is unreachable: " + l.Reason
		if l.Socket == "" {
			text = l.Engine + " is unreachable: " + l.Reason
		}
		if len(l.Containers) > 0 {
			return text + "; names and labels are of " + l.Taken.UTC().Format(time.RFC3339)
		}
		return text + "; its containers have no names, images and labels"
	case l.Omitted > 0:
		return l.Engine + " lists more containers than are taken in; some have no names"
	}
	return ""
}

// Info is what an engine knows of one container.
type Info struct {
	ID      string
	Names   []string // without the leading slash; the first is the container's own
	Image   string
	ImageID string
	Labels  map[string]string
	State   string // "running", "paused", …
	// Summary is the engine's own wording of the state, such as "Up 2 hours".
	Summary string
	Created time.Time // zero when not given
	PID     *int32    // of the first process, where the engine tells it
}

// EngineOptions tune Engines; the zero value is right for production.
type EngineOptions struct {
	Timeout       time.Duration // of one answer, from connecting to the last byte; 500 ms
	Grace         time.Duration // how long a healthy engine with an earlier answer is waited for; 150 ms
	MaxBody       int64         // bytes of an answer; 16 MiB
	MaxContainers int           // of one engine; 4096
	DisableDocker bool
	DisablePodman bool
	// Getenv reads DOCKER_HOST and CONTAINER_HOST; os.Getenv.
	Getenv func(string) string

	dial func(ctx context.Context, socket string) (net.Conn, error)
}

func (o *EngineOptions) setDefaults() {
	if o.Timeout <= 0 {
		o.Timeout = 500 * time.Millisecond
	}
	if o.Grace <= 0 {
		o.Grace = 150 * time.Millisecond
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 16 << 20
	}
	if o.MaxContainers <= 0 {
		o.MaxContainers = 4096
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.dial == nil {
		o.dial = func(ctx context.Context, socket string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
}

// Engines asks the container engines of one root for their containers. It is
// safe for concurrent use. It looks for sockets anew at each listing, so that
// an engine may come and go.
type Engines struct {
	fs      proc.FS
	options EngineOptions
	life    context.Context
	end     context.CancelFunc
	fetches sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	engines map[string]*engine // by socket path
}

// NewEngines returns the engines of fs's root. Nothing is asked yet.
func NewEngines(fs proc.FS, o EngineOptions) *Engines {
	o.setDefaults()
	e := &Engines{fs: fs, options: o, engines: map[string]*engine{}}
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// Close ends what is still being asked. Engines lists nothing new afterwards.
func (e *Engines) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.end()
	e.fetches.Wait()
	return nil
}

// List asks every engine at once and returns one Listing for each socket, the
// system's before users', and one with status absent or disabled for a kind
// without any. It waits no longer than Timeout altogether, and not at all for
// an engine that lately failed: such an engine is asked again in the
// background, at growing intervals.
func (e *Engines) List(ctx context.Context) []Listing {
	found := e.sockets()
	answers := make([]func(context.Context) Listing, 0, len(found))
	for _, s := range found {
		if s.denied {
			answers = append(answers, deniedListing(s))
			continue
		}
		answers = append(answers, e.engineAt(s).ask(ctx))
	}
	e.forget(found)
	list := make([]Listing, 0, len(answers)+2)
	for _, answer := range answers {
		list = append(list, answer(ctx))
	}
	for _, l := range e.misled() {
		// With another engine of that kind that answers, nothing is missing.
		if !slices.ContainsFunc(list, func(other Listing) bool { return other.Engine == l.Engine && other.Status == OK }) {
			list = append(list, l)
		}
	}
	return e.complete(list)
}

func deniedListing(s socket) func(context.Context) Listing {
	return func(context.Context) Listing {
		return Listing{Engine: s.kind, Socket: s.path, Status: Denied, Reason: deniedReason(s.path)}
	}
}

// complete drops the kinds that are disabled and adds those without a socket.
func (e *Engines) complete(list []Listing) []Listing {
	for _, kind := range []struct {
		name     string
		disabled bool
	}{{EngineDocker, e.options.DisableDocker}, {EnginePodman, e.options.DisablePodman}} {
		if kind.disabled {
			list = slices.DeleteFunc(list, func(l Listing) bool { return l.Engine == kind.name })
			list = append(list, Listing{Engine: kind.name, Status: Disabled, Reason: "disabled by configuration"})
			continue
		}
		if !slices.ContainsFunc(list, func(l Listing) bool { return l.Engine == kind.name }) {
			list = append(list, Listing{Engine: kind.name, Status: Absent, Reason: e.absence(kind.name)})
		}
	}
	return list
}

func (e *Engines) engineAt(s socket) *engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.engines[s.path]
	if known == nil {
		known = &engine{owner: e, socket: s}
		e.engines[s.path] = known
	}
	return known
}

// forget drops the engines whose sockets are gone.
func (e *Engines) forget(found []socket) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for path := range e.engines {
		if !slices.ContainsFunc(found, func(s socket) bool { return s.path == path }) {
			delete(e.engines, path)
		}
	}
}

// An engine is one socket and what it last said.
type engine struct {
	owner  *Engines
	socket socket

	mu       sync.Mutex
	last     Listing // the latest outcome, with the last good containers
	asked    bool    // last is set
	failures int     // slow or senseless answers in a row
	retryAt  time.Time
	running  chan struct{} // closed when the fetch under way ends; nil without
}

// The pauses after an engine was slow or answered nonsense. One that refuses at
// once costs nothing and is asked each time.
const (
	firstPause = 2 * time.Second
	longPause  = 30 * time.Second
)

// settling is how much longer than the fetch its caller waits, so as to hear
// why it failed.
const settling = 20 * time.Millisecond

// ask starts what has to be asked and returns the function that waits for it.
func (g *engine) ask(ctx context.Context) func(context.Context) Listing {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil && !time.Now().Before(g.retryAt) {
		g.start()
	}
	wait := g.owner.options.Timeout + settling
	switch {
	case g.running == nil || g.failures > 0:
		wait = 0 // it lately failed: what is known of it has to do
	case g.asked && g.last.Status == OK:
		wait = g.owner.options.Grace
	}
	running, begun := g.running, time.Now()
	return func(context.Context) Listing { return g.await(ctx, running, wait-time.Since(begun)) }
}

// await returns the outcome of the fetch under way, or after wait what was
// known before it.
func (g *engine) await(ctx context.Context, running chan struct{}, wait time.Duration) Listing {
	late := false
	if running != nil {
		late = true
		if wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-running:
				late = false
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked {
		return Listing{Engine: g.socket.kind, Socket: g.socket.path, Status: Unreachable, Reason: "no answer yet"}
	}
	l := g.last
	l.Stale = late && l.Status == OK
	return l
}

// start begins a fetch that g.running tells the end of. g.mu is held.
func (g *engine) start() {
	g.owner.mu.Lock()
	defer g.owner.mu.Unlock()
	if g.owner.closed {
		return
	}
	done := make(chan struct{})
	g.running = done
	g.owner.fetches.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(g.owner.life, g.owner.options.Timeout)
		defer cancel()
		a, err := fetch(ctx, g.socket.path, &g.owner.options)
		if over := ctx.Err(); err != nil && over != nil && !errors.Is(err, errTooLarge) {
			err = over // whatever broke when the connection was closed for that
		}
		g.settle(a, err)
	})
}

// settle books the outcome of a fetch.
func (g *engine) settle(a answer, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = nil
	g.asked = true
	if a.kind != "" {
		g.socket.kind = a.kind
	}
	g.last.Engine, g.last.Socket = g.socket.kind, g.socket.path
	if err == nil {
		g.failures, g.retryAt = 0, time.Time{}
		g.last.Status, g.last.Reason = OK, ""
		g.last.Containers, g.last.Omitted, g.last.Taken = a.containers, a.omitted, time.Now()
		return
	}
	var costly bool
	g.last.Status, g.last.Reason, costly = explain(err, g.socket.path, g.owner.options.Timeout)
	if !costly {
		g.failures, g.retryAt = 0, time.Time{}
		return
	}
	pause := min(firstPause<<min(g.failures, 8), longPause)
	g.failures++
	g.retryAt = time.Now().Add(pause)
}
