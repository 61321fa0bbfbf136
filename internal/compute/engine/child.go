package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Cause is why a call was stopped from outside.
type Cause string

// The causes of a stop. None means that the call ended by itself.
const (
	None      Cause = ""
	TimedOut  Cause = "timeout"
	Cancelled Cause = "cancel"
	Flooded   Cause = "processes" // the session had more processes than its limit
)

// The ladder of a stop: an interrupt at once; one for the whole group when that was swallowed, for instance by a
// program that the session waits for; another for the session after that program is gone; then the end of the group.
const (
	secondInterrupt = 250 * time.Millisecond
	thirdInterrupt  = 400 * time.Millisecond
	killAfter       = time.Second
)

// Death is the error of a call whose child ended before it answered.
type Death struct {
	Cause     Cause  // what had asked it to stop, if anything
	ExitCode  *int   // of a process that exited
	Signal    string // of a process that was killed, "segmentation fault"
	Recovered bool   // a keeper took over; the child is usable
	Seq       uint64 // the last evaluation whose effects the keeper holds
}

func (d *Death) Error() string { return "the " + d.Describe() }

// Describe says what happened to the process, as a phrase: "process exited with code 3".
func (d *Death) Describe() string {
	switch {
	case d.ExitCode != nil:
		return fmt.Sprintf("process exited with code %d", *d.ExitCode)
	case d.Signal != "":
		return "process was killed by a signal: " + d.Signal
	}
	return "process ended"
}

// ErrClosed is returned by calls on a child that was closed or that died without a successor.
var ErrClosed = errors.New("the engine's process is gone")

// Call is one request and how it ended.
type Call struct {
	Cause Cause
	// Forced is true when the first interrupt did not stop it.
	Forced bool
	// Watch, when set, is called from time to time while the call runs, never after it returned.
	Watch func()
}

// rung is one step of the ladder.
type rung int

const (
	interrupt rung = iota
	interruptGroup
	killGroup
)

// stopper climbs the ladder for one call. Its timers end with the call.
type stopper struct {
	mu     sync.Mutex
	cause  Cause
	forced bool
	timers []*time.Timer
	ended  bool
	signal func(rung)
}

// begin asks the running call to stop, once; the first cause is the one reported.
func (s *stopper) begin(cause Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.cause != None {
		return
	}
	s.cause = cause
	s.signal(interrupt)
	s.after(secondInterrupt, func() { s.forced = true; s.signal(interruptGroup) })
	s.after(thirdInterrupt, func() { s.signal(interrupt) })
	s.after(killAfter, func() { s.signal(killGroup) })
}

// after runs f unless the call has ended. The caller holds the lock; f runs with it held, so that no signal is
// sent for a call that is over.
func (s *stopper) after(d time.Duration, f func()) {
	s.timers = append(s.timers, time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.ended {
			f()
		}
	}))
}

func (s *stopper) end() (Cause, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, t := range s.timers {
		t.Stop()
	}
	return s.cause, s.forced
}

// Eval evaluates source under the number seq and the given file name ("" for <eval>). A nil Failure in the reply
// means success. The error is a *Death when the process ended first.
func (c *Child) Eval(ctx context.Context, seq uint64, source, name string, asFile bool, limit time.Duration, call *Call) (Reply, error) {
	request := Dict{{"op", "eval"}, {"seq", int64(seq)}, {"source", source}}
	if name != "" {
		request = append(request, Pair{"name", name})
	}
	if asFile {
		request = append(request, Pair{"as_file", int64(1)})
	}
	if backActive(ctx, c.back) {
		request = append(request, Pair{"back", int64(1)})
	}
	d, err := c.call(ctx, request, limit, call)
	if err != nil {
		return Reply{}, err
	}
	return parseReply(d), nil
}

// Load loads a compiled archive, or runs a source file where the language has no archives.
func (c *Child) Load(ctx context.Context, seq uint64, path string, call *Call) (Reply, error) {
	d, err := c.call(ctx, Dict{{"op", "load"}, {"seq", int64(seq)}, {"path", path}}, 0, call)
	if err != nil {
		return Reply{}, err
	}
	return parseReply(d), nil
}

// EnvQuery selects bindings: of the named files, or all; with Filter, those whose name contains it.
type EnvQuery struct {
	Files  []string
	All    bool
	Filter string
}

// Bindings lists values in no particular order.
func (c *Child) Bindings(ctx context.Context, q EnvQuery) ([]Binding, error) {
	files := List{}
	for _, f := range q.Files {
		files = append(files, f)
	}
	all := int64(0)
	if q.All {
		all = 1
	}
	d, err := c.call(ctx, Dict{{"op", "env"}, {"all", all}, {"files", files}, {"filter", q.Filter}}, 10*time.Second, &Call{})
	if err != nil {
		return nil, err
	}
	if f := parseFailure(d.Dict("error")); f != nil {
		return nil, errors.New(f.Message)
	}
	bindings := []Binding{}
	for _, v := range d.List("bindings") {
		if b, ok := parseBinding(v); ok {
			bindings = append(bindings, b)
		}
	}
	return bindings, nil
}

// Lookup finds one name, qualified or not; nil when there is none.
func (c *Child) Lookup(ctx context.Context, name string) (*Binding, error) {
	d, err := c.call(ctx, Dict{{"op", "lookup"}, {"name", name}}, 10*time.Second, &Call{})
	if err != nil {
		return nil, err
	}
	if f := parseFailure(d.Dict("error")); f != nil {
		return nil, errors.New(f.Message)
	}
	if b, ok := parseBinding(d.Get("binding")); ok {
		return &b, nil
	}
	return nil, nil
}
