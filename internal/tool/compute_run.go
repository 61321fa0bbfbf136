package tool

// This file keeps the work that outlives a call. Every evaluation is a run: the
// call waits for it as long as it was told to, answers with what there is, and
// the run goes on until it ends or is cancelled. A run is collected by its id,
// by any client of the server, as often as wanted.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"topside/internal/compute/session"
	"topside/internal/see/plaintext"
)

// A run is one piece of work in a session.
type run struct {
	id      string
	tool    string
	name    string // of the session, "" for the default one
	source  string // the beginning of it
	started time.Time
	cancel  context.CancelFunc
	begun   atomic.Bool // it is known to have the session's turn
	session atomic.Pointer[session.Session]

	done   chan struct{}
	answer answer
	err    error
	ended  time.Time
	given  atomic.Bool // its result was in a reply
}

// An answer is the result of a run, put into words when it is collected.
type answer interface {
	reply(c *Computer, r *run) Result
}

// keptRuns is how many ended runs are remembered.
const keptRuns = 64

// stamp makes the ids of one server's runs different from another's.
func stamp(now time.Time) string {
	return strconv.FormatInt(now.UnixNano()/1000%(36*36*36*36*36), 36)
}

// begin starts work in the background.
func (c *Computer) begin(toolName, name, source string, work func(context.Context, *run) (answer, error)) *run {
	ctx, cancel := context.WithCancel(c.ctx)
	beginning, _ := plaintext.Bounded(source, 80)
	r := &run{tool: toolName, name: name, source: beginning, started: time.Now(), cancel: cancel, done: make(chan struct{})}
	if s := c.live(name); s != nil {
		r.session.Store(s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastRun++
	r.id = fmt.Sprintf("%s-%d", c.runStamp, c.lastRun)
	before := c.lastOpen(name)
	c.remember(r)
	if c.closed {
		cancel()
		r.err = session.ErrClosed
		close(r.done)
		return r
	}
	c.work.Go(func() {
		defer cancel()
		if r.err = before.wait(ctx); r.err == nil {
			r.answer, r.err = work(ctx, r)
		}
		r.err = explained(r.err, name)
		r.ended = time.Now()
		close(r.done)
	})
	return r
}

// lastOpen is the run that a new one of the session comes after; nil when the
// session is free. A build goes on beside its session. The caller holds the lock.
func (c *Computer) lastOpen(name string) *run {
	for i := len(c.runs) - 1; i >= 0; i-- {
		if r := c.runs[i]; r.name == name && r.tool != buildTool && !r.over() {
			return r
		}
	}
	return nil
}

const buildTool = "compile_to_binary"

// wait waits for the end of a run, which may be nil.
func (r *run) wait(ctx context.Context) error {
	if r == nil {
		return ctx.Err()
	}
	select {
	case <-r.done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// remember adds a run and forgets the oldest ended ones. The caller holds the
// lock.
func (c *Computer) remember(r *run) {
	c.runs = append(c.runs, r)
	for i := 0; len(c.runs) > keptRuns && i < len(c.runs); {
		if c.runs[i].over() {
			c.runs = append(c.runs[:i:i], c.runs[i+1:]...)
		} else {
			i++
		}
	}
}

func (r *run) collected() bool { return r.given.Load() }

func (r *run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// find returns a run by its id, or the latest of a session; nil when there is
// none.
func (c *Computer) find(id, name string) *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.runs) - 1; i >= 0; i-- {
		r := c.runs[i]
		if id != "" && r.id == id || id == "" && r.name == name {
			return r
		}
	}
	return nil
}

// openRuns lists what has not ended, of one session or of all.
func (c *Computer) openRuns(name string, all bool) []*run {
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []*run
	for _, r := range c.runs {
		if !r.over() && (all || r.name == name) {
			open = append(open, r)
		}
	}
	return open
}

// in gives a run its session, which is opened where it does not run.
func (c *Computer) in(ctx context.Context, r *run, engineName string) (*session.Session, error) {
	s, err := c.session(ctx, r.name, engineName)
	if s != nil {
		r.session.Store(s)
	}
	return s, err
}

// progressEvery is how often a waiting client hears of a run.
const progressEvery = time.Second

// collect waits for a run as long as the call says and answers with what there
// is then. A call that its client cancelled takes the run with it; a client that
// is gone does not.
func (c *Computer) collect(ctx context.Context, call Call, r *run) (Result, error) {
	if call.Begun != nil {
		call.Begun()
	}
	seconds, given := call.Number("wait")
	switch {
	case !given:
		seconds = defaultWait
	case seconds < 0:
		seconds = 0
	}
	seconds = min(seconds, longestWait)
	wait := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer wait.Stop()
	c.await(ctx, call, r, wait.C)
	switch {
	case r.over():
		r.given.Store(true)
		if r.err != nil {
			return Result{}, r.err
		}
		return r.answer.reply(c, r), nil
	case ctx.Err() != nil:
		if !departed(ctx) {
			r.cancel()
		}
		return Result{}, ctx.Err()
	}
	return c.running(r), nil
}

// await returns when the run has ended, the wait is over or the call is; while
// it waits it tells the client how far the run is.
func (c *Computer) await(ctx context.Context, call Call, r *run, wait <-chan time.Time) {
	var tick <-chan time.Time
	if call.Progress != nil {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-r.done:
			return
		case <-wait:
			return
		case <-ctx.Done():
			return
		case <-tick:
			// The figure is the run's time, as in the text, and not that of a poll.
			seconds := time.Since(r.started).Seconds()
			if text := c.progressOf(r, seconds); call.Advance != nil {
				call.Advance(seconds, 0, text)
			} else {
				call.Progress(text)
			}
		}
	}
}

// state of a run that has not ended. A session works for one run at a time, in
// the order in which they came.
func (c *Computer) state(r *run) string {
	switch {
	case r.session.Load() == nil:
		return "opening"
	case r.begun.Load():
		return "running"
	}
	for _, other := range c.openRuns(r.name, false) {
		if other == r {
			break
		}
		if other.tool != buildTool {
			return "queued"
		}
	}
	return "running"
}

// progressOf says in one line how far a run is, in whole seconds that are over.
func (c *Computer) progressOf(r *run, seconds float64) string {
	seconds = math.Floor(seconds)
	state := c.state(r)
	if state != "running" {
		return fmt.Sprintf("%s for %.0f s", state, seconds)
	}
	p := r.session.Load().Progress()
	line := fmt.Sprintf("running for %.0f s, %d bytes printed", seconds, p.Stdout.Total+p.Stderr.Total)
	if last := lastLine(p.Stdout); last != "" {
		line += ": " + last
	}
	return line
}

func lastLine(t session.Text) string {
	text := t.Head
	if t.Cut > 0 {
		text = t.Tail
	}
	text = strings.TrimRight(text, "\n ")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	line, _ := plaintext.Bounded(text, 120)
	return line
}

// departed tells a client that is gone from one that cancelled its call: the
// SDK ends the context of the latter without a cause.
func departed(ctx context.Context) bool {
	return !errors.Is(context.Cause(ctx), context.Canceled)
}
