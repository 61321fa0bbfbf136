package tool

// This file finds the session of a call and opens it where it does not run: a
// session of an earlier server comes back by evaluating its log again. That is
// work of its own, which no caller's patience cuts short.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"topside/internal/compute/pool"
	"topside/internal/compute/session"
)

// An opening is a session that is being started.
type opening struct {
	done    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	session *session.Session
	err     error
}

// nameOf is the session that a call is about; "" is the default one.
func nameOf(call Call) string {
	if name := call.Text("session"); name != localName {
		return name
	}
	return ""
}

// live returns the session if it runs.
func (c *Computer) live(name string) *session.Session {
	if name == "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.local
	}
	s, _ := c.pool.Session(name)
	return s
}

func (c *Computer) registered(name string) (pool.Entry, bool) {
	for _, l := range c.pool.List() {
		if l.Name == name {
			return l.Entry, true
		}
	}
	return pool.Entry{}, false
}

// session returns a running session, opening it if it is known or if an engine
// is named for it. It waits until ctx ends; the opening goes on.
func (c *Computer) session(ctx context.Context, name, engineName string) (*session.Session, error) {
	if s := c.live(name); s != nil {
		return s, matches(s, name, engineName)
	}
	request := pool.StartRequest{Name: name, Engine: engineName, Resume: true}
	if name == "" && engineName != "" && engineName != c.engines[0].Name {
		return nil, mismatch(name, c.engines[0].Name)
	}
	if name != "" {
		entry, known := c.registered(name)
		if !known && engineName == "" {
			return nil, c.unknown(name)
		}
		if known && engineName != "" && c.engineOf(entry) != engineName {
			return nil, mismatch(name, c.engineOf(entry))
		}
		request.Pool = entry.Pool
	}
	return c.opened(ctx, request)
}

func (c *Computer) opened(ctx context.Context, request pool.StartRequest) (*session.Session, error) {
	o := c.open(request)
	select {
	case <-o.done:
		return o.session, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// known is session for a call that names no engine.
func (c *Computer) known(ctx context.Context, name string) (*session.Session, error) {
	return c.session(ctx, name, "")
}

// emptied returns a running session whose state is of no interest. One that does
// not run begins without its log, also when that is being evaluated and no run
// waits for it any more: the log may have no end.
func (c *Computer) emptied(ctx context.Context, name string) (*session.Session, error) {
	if s := c.live(name); s != nil {
		return s, nil
	}
	if _, known := c.registered(name); !known && name != "" {
		return nil, c.unknown(name)
	}
	c.mu.Lock()
	if o := c.opening[name]; o != nil {
		o.cancel()
	}
	c.mu.Unlock()
	return c.opened(ctx, pool.StartRequest{Name: name})
}

// sessionOf names the session of an engine that is not the default one: the engine's
// name, or with a number where somebody gave that name to a session of another.
func (c *Computer) sessionOf(engineName string) string {
	name := engineName
	for n := 2; ; n++ {
		entry, known := c.registered(name)
		if s := c.live(name); s != nil {
			if s.Language().Name() == engineName {
				return name
			}
		} else if !known || c.engineOf(entry) == engineName {
			return name
		}
		name = fmt.Sprintf("%s-%d", engineName, n)
	}
}

func matches(s *session.Session, name, engineName string) error {
	if is := s.Language().Name(); engineName != "" && engineName != is {
		return mismatch(name, is)
	}
	return nil
}

func mismatch(name, is string) error {
	return &ComputeError{"invalid_call", fmt.Sprintf("session %s evaluates %s", shown(name), is), "leave engine out, or name another session"}
}

func (c *Computer) unknown(name string) error {
	known := []string{localName}
	for _, l := range c.pool.List() {
		if len(known) > 10 {
			known = append(known, "…")
			break
		}
		known = append(known, shown(l.Name))
	}
	return &ComputeError{"unknown_session", "session not registered: " + shown(name),
		fmt.Sprintf("start_local_session starts it; the sessions are %s", strings.Join(known, ", "))}
}

// open starts a session in the background; callers share one opening.
func (c *Computer) open(r pool.StartRequest) *opening {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.opening[r.Name]; o != nil && o.ctx.Err() == nil {
		return o // one that was cancelled is followed by another
	}
	o := &opening{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(c.ctx)
	o.ctx, o.cancel = ctx, cancel
	if c.closed {
		cancel()
		o.err = session.ErrClosed
		close(o.done)
		return o
	}
	c.opening[r.Name] = o
	c.work.Go(func() {
		defer cancel()
		o.session, _, o.err = c.started(ctx, r)
		c.mu.Lock()
		if c.opening[r.Name] == o {
			delete(c.opening, r.Name)
		}
		c.mu.Unlock()
		close(o.done)
	})
	return o
}

// started starts a session and notes what of an earlier server came back. A
// session that runs but could not be registered is a started one, with a note.
func (c *Computer) started(ctx context.Context, r pool.StartRequest) (s *session.Session, note string, err error) {
	if r.Name == "" || !r.Resume {
		open := c.pool.Local
		if !r.Resume {
			open = func(ctx context.Context) (*session.Session, error) { return c.pool.Anew(ctx, r.Name) }
		}
		if s, err = open(ctx); err == nil && r.Name == "" {
			c.mu.Lock()
			c.local = s
			c.mu.Unlock()
		}
	} else if err = c.pool.Start(ctx, r); err == nil || isRegistry(err) {
		if err != nil {
			note = err.Error()
		}
		s, err = c.pool.Session(r.Name)
	}
	if err != nil {
		return nil, "", err
	}
	return s, note, nil
}

// isRegistry tells an error of the registry's file from one of the session.
func isRegistry(err error) bool {
	var registry *pool.RegistryError
	return errors.As(err, &registry)
}

// takeDisplaced says once that another server has the session's log.
func (c *Computer) takeDisplaced(s *session.Session) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.Log().Displaced() || c.displaced[s] {
		return ""
	}
	c.displaced[s] = true
	return "another server is using a session of this name: this one is separate, with its log in " + s.Log().Path()
}

// patient bounds a short call on a session that may be at work. find opens the session where it does not run.
func (c *Computer) patient(ctx context.Context, name string, find func(context.Context, string) (*session.Session, error), ask func(context.Context, *session.Session) error) (*session.Session, error) {
	bounded, cancel := context.WithTimeout(ctx, defaultWait*time.Second)
	defer cancel()
	c.mu.Lock()
	before := c.lastOpen(name)
	c.mu.Unlock()
	s := c.live(name)
	err := before.wait(bounded)
	if err == nil {
		s, err = find(bounded, name)
	}
	if err == nil {
		err = ask(bounded, s)
	}
	if err != nil && ctx.Err() != nil {
		return s, ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return s, c.busy(name, s)
	}
	return s, explained(err, name)
}

func (c *Computer) busy(name string, s *session.Session) error {
	if s == nil {
		return &ComputeError{"busy", fmt.Sprintf("session %s is still being started: its log is evaluated again", shown(name)), "call again; or cancel it: reset begins without the log then, which restore previous evaluates"}
	}
	st := s.Status()
	return &ComputeError{"busy", fmt.Sprintf("session %s has been evaluating for %.0f s", shown(name), time.Since(st.Since).Seconds()), "poll waits for it, cancel stops it; other sessions are free"}
}
