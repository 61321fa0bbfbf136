// Package daemon is the far side of fleet: a process on a remote host that holds
// the tool servers, and with them the sessions, while connections come and go.
//
// A front end runs `ssh HOST topside fleet-relay`. The relay finds the daemon's
// socket, or starts the daemon, and hands it the two descriptors of the ssh
// channel: frames then travel between ssh and the daemon without a process between
// them, and the relay only waits for the end. Where a connection breaks, what the
// front end had asked for goes on, and its replies are kept for some time; a front
// end that comes back under the same name gets them.
//
// The daemon knows no tools: a tool server is given to it as a function that serves
// one stream of JSON-RPC lines. Files:
//
//	daemon.go      the configuration, the life of the daemon
//	front.go       one front end across its connections
//	stream.go      what a tool server serves: lines in and out of a front end
//	attach.go      one connection of a front end
//	place.go       where the socket is
//	socket_unix.go the socket, descriptors handed over, one daemon at a time
//	relay_unix.go  the relay, and how it starts the daemon
package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"topside/internal/fleet/transfer"
)

// Serve serves one client: JSON-RPC lines on conn, until its end or the context's.
// surface is the name that the front end asked for. It is called once for each
// front end, and once for each plain client of the socket.
type Serve func(ctx context.Context, surface string, conn net.Conn) error

// Config of a daemon.
type Config struct {
	// Socket is the path of its socket: absolute, or beginning with "~/";
	// DefaultSocket() if empty.
	Socket string
	// Version of the program, told to front ends.
	Version string
	// Serve is the tool servers.
	Serve Serve
	// Surfaces are the names that Serve knows; any if empty.
	Surfaces []string
	// Plain is the surface of clients that speak plain JSON lines on the socket; they
	// are refused if it is empty.
	Plain string
	// Sessions counts what must keep the daemon alive beside its clients; nil counts
	// none.
	Sessions func() int
	// Idle is how long the daemon stays without clients and sessions: 30 minutes if
	// zero.
	Idle time.Duration
	// Keep is how long the work and the replies of a front end without a connection
	// are kept: 10 minutes if zero.
	Keep time.Duration
	// State is a folder for what must outlive the daemon: beside the socket if empty.
	State string
	// MaxMessage bounds a message, in bytes: frame.DefaultMax if zero.
	MaxMessage int
	// Logger for diagnostics; discarded if nil.
	Logger *slog.Logger
}

const (
	defaultIdle = 30 * time.Minute
	defaultKeep = 10 * time.Minute

	// maxFronts bounds the front ends that are known at a time, connected or not.
	maxFronts = 256
	// endWait bounds the wait for tool servers when the daemon ends.
	endWait = 3 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Idle <= 0 {
		c.Idle = defaultIdle
	}
	if c.Keep <= 0 {
		c.Keep = defaultKeep
	}
	if c.Sessions == nil {
		c.Sessions = func() int { return 0 }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Daemon is a running one.
type Daemon struct {
	c        Config
	ctx      context.Context
	cancel   context.CancelFunc
	instance string
	work     sync.WaitGroup // every goroutine of the daemon

	mu      sync.Mutex
	fronts  map[string]*front
	clients int // connections of any kind
	active  time.Time
	ended   bool
}

func newDaemon(ctx context.Context, c Config) *Daemon {
	ctx, cancel := context.WithCancel(ctx)
	return &Daemon{
		c: c, ctx: ctx, cancel: cancel, instance: newID(),
		fronts: map[string]*front{}, active: time.Now(),
	}
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// enter counts a client; false if the daemon is ending.
func (d *Daemon) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	d.clients++
	return true
}

func (d *Daemon) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients--
	d.active = time.Now()
}

// watchIdle ends the daemon when it has been of no use for long enough.
func (d *Daemon) watchIdle() {
	tick := time.NewTicker(min(max(d.c.Idle/4, 10*time.Millisecond), time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
		}
		sessions := d.c.Sessions()
		d.mu.Lock()
		if d.clients > 0 || len(d.fronts) > 0 || sessions > 0 {
			d.active = time.Now()
		}
		idle := time.Since(d.active) >= d.c.Idle
		if idle {
			d.ended = true // no client may enter any more
		}
		d.mu.Unlock()
		if idle {
			d.c.Logger.Info("idle: the daemon ends", "after", d.c.Idle)
			d.cancel()
			return
		}
	}
}

// sweep removes partial files that nobody has resumed, those of earlier runs too.
func (d *Daemon) sweep() {
	tick := time.NewTicker(max(d.c.Keep, time.Second))
	defer tick.Stop()
	for {
		transfer.Sweep(d.c.State, d.c.Keep)
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// frontFor returns the front end of a name, and whether it was known.
func (d *Daemon) frontFor(id, surface string) (f *front, resumed bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.fronts[id]; f != nil && f.surface == surface {
		return f, true, nil
	}
	if len(d.fronts) >= maxFronts && !d.dropOldest() {
		return nil, false, errTooMany
	}
	f = newFront(d, id, surface)
	d.fronts[id] = f
	d.work.Go(f.serve)
	return f, false, nil
}

// dropOldest ends the front end that has been away the longest. It needs d.mu.
func (d *Daemon) dropOldest() bool {
	var oldest *front
	for _, f := range d.fronts {
		since, away := f.awaySince()
		if !away {
			continue
		}
		if oldest == nil {
			oldest = f
		} else if s, _ := oldest.awaySince(); since.Before(s) {
			oldest = f
		}
	}
	if oldest == nil {
		return false
	}
	delete(d.fronts, oldest.id)
	oldest.end()
	return true
}

// forget drops a front end that has ended.
func (d *Daemon) forget(f *front) {
	d.mu.Lock()
	if d.fronts[f.id] == f {
		delete(d.fronts, f.id)
		d.active = time.Now()
	}
	d.mu.Unlock()
}

// close ends every front end and waits for what belongs to the daemon.
func (d *Daemon) close() {
	d.mu.Lock()
	d.ended = true
	fronts := d.fronts
	d.fronts = map[string]*front{}
	d.mu.Unlock()
	d.cancel()
	for _, f := range fronts {
		f.end()
	}
	done := make(chan struct{})
	go func() {
		d.work.Wait()
		close(done)
	}()
	t := time.NewTimer(endWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		d.c.Logger.Warn("a tool server did not end in time", "waited", endWait)
	}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
