package tool

// This file holds the tools that manage named sessions (contract topup, section
// 7.3). A session is a child of this server; where a variable names a socket, it
// is the server behind that socket.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"topside/internal/compute/pool"
	"topside/internal/compute/session"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

// sessionOverride is the socket that a variable names for a session; "" for none.
func sessionOverride(name string) string {
	return os.Getenv("TOPUP_SESSION_SOCKET_" + upperASCII(name))
}

func upperASCII(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, name)
}

// poolSize is the number as the reply repeats it.
func poolSize(a topupArguments) int {
	n, given := a.number("pool")
	switch {
	case !given:
		return 1
	case n > 1<<31-1:
		return 1<<31 - 1
	case n < -1<<31:
		return -1 << 31
	}
	return int(n)
}

func startTopup(ctx context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, err := a.needed("session")
	if err != nil {
		return Result{}, err
	}
	size := poolSize(a)
	engine, _ := a.text("engine")
	request := pool.StartRequest{Name: name, Prewarm: a.maybe("prewarm"), Pool: size, Engine: engine}
	if override := sessionOverride(name); override != "" && name != "" && name != "local" {
		err = c.connectSession(ctx, name, override, request)
	} else {
		err = c.o.Pool.Start(ctx, request)
	}
	if err = c.registered(err); err != nil {
		return Result{}, connectFailure(err)
	}
	socket, err := c.socketOf(name)
	if err != nil {
		return Result{}, &ConnectFailure{Session: name, Message: fmt.Sprintf("local session %s: %v", name, err)}
	}
	started := 0
	if n := pool.Siblings(size); size > n {
		started = n
	}
	return Result{Structured: struct {
		OK      bool   `json:"ok"`
		Session string `json:"session"`
		Socket  string `json:"local_socket"`
		Pool    int    `json:"pool"`
		Started int    `json:"started,omitempty"` // where it is not the pool's number
	}{true, name, socket, size, started}}, nil
}

// registered takes the errors of the registry away: what was asked for is done, and
// that it will be forgotten is said once where a person sees it (section 10, 37).
func (t *Topup) registered(err error) error {
	var registry *pool.RegistryError
	if !errors.As(err, &registry) {
		return err
	}
	if t.o.Warn != nil {
		t.unwritten.Do(func() { t.o.Warn(registry) })
	}
	return nil
}

func restartTopup(ctx context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, err := a.needed("session")
	if err != nil {
		return Result{}, err
	}
	if override := sessionOverride(name); override != "" && c.o.Pool.Registered(name) {
		c.peers.drop(name)
		err = c.connectSession(ctx, name, override, pool.StartRequest{Name: name})
	} else {
		err = c.o.Pool.Restart(ctx, name)
	}
	if err = c.registered(err); err != nil {
		return Result{}, connectFailure(err)
	}
	socket, err := c.socketOf(name)
	if err != nil {
		return Result{}, &ConnectFailure{Session: name, Message: fmt.Sprintf("local session %s: %v", name, err)}
	}
	return Result{Structured: struct {
		OK      bool   `json:"ok"`
		Session string `json:"session"`
		Socket  string `json:"local_socket"`
	}{true, name, socket}}, nil
}

func updateTopup(_ context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, err := a.needed("session")
	if err != nil {
		return Result{}, err
	}
	var size *int
	if _, given := a.number("pool"); given {
		n := poolSize(a)
		size = &n
	}
	return ok, c.registered(c.o.Pool.Update(name, a.maybe("prewarm"), size))
}

// connectFailure gives the failures of a start their structure.
func connectFailure(err error) error {
	var connect *pool.ConnectError
	if errors.As(err, &connect) {
		return &ConnectFailure{Session: connect.Session, Message: connect.Error()}
	}
	return err
}

// socketOf is the socket that serves a session.
func (c *TopupClient) socketOf(name string) (string, error) {
	if override := sessionOverride(name); override != "" {
		return override, nil
	}
	if c.o.Sockets == nil {
		return "", errors.New("this server gives sessions no sockets")
	}
	return c.o.Sockets.Socket(name)
}

// sessionConnect bounds the wait for a session's own server to listen.
const sessionConnect = 10 * time.Second

// connectSession makes a session of the server behind a socket.
func (c *TopupClient) connectSession(ctx context.Context, name, socket string, r pool.StartRequest) error {
	if old := c.peers.get(name); old != nil && old.alive() {
		return nil
	}
	failed := func(format string, args ...any) error {
		return &ConnectFailure{Session: name, Message: fmt.Sprintf(format, args...)}
	}
	peer := &topupPeer{link.New(link.Options{
		Host: name, Dial: ssh.Dialer{Host: name, Override: socket}.Dial, Version: c.o.Version,
	}), sessionWords(name)}
	kept := false
	defer func() {
		if !kept {
			peer.link.Close()
		}
	}()
	err := untilListened(ctx, socket, sessionConnect, func() error { return peer.link.Connect(ctx) })
	switch cause := reason(err); {
	case errors.Is(err, ssh.ErrHandshakeEOF):
		return failed("local session: EOF during initialize")
	case errors.Is(err, ssh.ErrHandshakeTimeout):
		return failed("local session %s: %v", name, cause)
	case err != nil:
		return failed("local session %s: timed out waiting for daemon (last: %v)", name, cause)
	}
	prewarm := c.o.Pool.Prewarm(name)
	if r.Prewarm != nil {
		prewarm = *r.Prewarm
	}
	if prewarm != "" {
		if message := peer.use(ctx, prewarm); message != "" {
			return failed("prewarm %s: %s", name, message)
		}
	}
	kept = true
	c.peers.drop(name)
	c.peers.put(name, peer)
	return c.o.Pool.Register(pool.Entry{Name: name, Prewarm: prewarm, Pool: max(1, r.Pool)})
}

// use evaluates a file in the session of a peer and tells what went wrong.
func (p *topupPeer) use(ctx context.Context, path string) (message string) {
	var arguments object
	arguments.add("source", encode("#use "+strconv.Quote(path)+";;"))
	result, err := p.call(ctx, "eval", arguments.bytes())
	if err != nil {
		return "transport error: " + err.Error()
	}
	return evaluationError(result)
}

// TopupLocal returns the function that finds a named session, for the socket that
// serves it: its client calls it local.
func (t *Topup) TopupLocal(name string) func(context.Context) (*session.Session, error) {
	return func(context.Context) (*session.Session, error) { return t.o.Pool.Session(name) }
}
