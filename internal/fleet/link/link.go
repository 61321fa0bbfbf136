// Package link is the front end's side of one host: a connection that is made when
// it is needed, carries any number of calls at a time, notices when it breaks, says
// what became of the calls that were under way, and is made again by the next call.
//
// A link speaks frames to a daemon of topside, and lines to an original topup; see
// package frame. It bounds what a hostile far side can cost: every message, the
// messages that nobody asked for, and the requests that it serves at a time.
// Files:
//
//	link.go      options, calls, connecting and backing off, the state
//	session.go   one connection: its reader, its pings
//	control.go   the control operations, as package transfer uses them
//	errors.go    what callers get
package link

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/ssh"
)

// Defaults of Options.
const (
	DefaultConnectWait = 20 * time.Second
	DefaultPing        = 15 * time.Second
	DefaultPatience    = 45 * time.Second

	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// probeAfter is how long a call waits before the far side is asked whether it is
	// there, sooner than at the next ping; and how often while something is awaited.
	probeAfter = 4 * time.Second
	// silentAfter is how long a ping is without an answer before the far side counts
	// as silent.
	silentAfter = 2 * time.Second
	// waitOut is how much of a backoff a call waits for, rather than fail at once.
	waitOut = 2 * time.Second

	// maxLate bounds the calls that are awaited after a break.
	maxLate = 256
	// maxLateBytes bounds the replies of those, until they are collected.
	maxLateBytes = 64 << 20
	// lastWords bounds what a link still says to a far side that may not listen.
	lastWords = 50 * time.Millisecond
)

// Options of a link.
type Options struct {
	// Host is the name of the far side, for messages.
	Host string
	// Dial makes a connection.
	Dial func(ctx context.Context) (*ssh.Conn, error)
	// Surface is the tool server wanted there, Version that of this program.
	Surface, Version string
	// Opened, if set, is called on each new connection before anything else is sent:
	// a handshake with the tool server, say. fresh is set unless the far side goes on
	// with the session of an earlier connection. An error gives the connection up.
	Opened func(ctx context.Context, call Caller, fresh bool) error
	// Requests serves what the far side asks of this one, each in a goroutine of its
	// own, of which there are at most 16; nil refuses everything.
	Requests func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notifications, if set, sees what the far side tells. It must not block.
	Notifications func(method string, params json.RawMessage)
	// Admit, if set, waits until a connection may be made; done is called when it has
	// been made, or not. The wait is not part of ConnectWait.
	Admit func(ctx context.Context) (done func(), err error)
	// ConnectWait bounds the making of a connection: 20 s if zero.
	ConnectWait time.Duration
	// Ping is how often the far side is asked whether it is there, Patience how long
	// it may take to say so: 15 s and 45 s if zero. Only towards a daemon of topside,
	// which is asked more often while something is awaited of it.
	Ping, Patience time.Duration
	// MaxMessage bounds a message, in bytes: frame.DefaultMax if zero.
	MaxMessage int
}

// Caller makes one call: the method and its parameters, the result or an error.
type Caller func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

func (o Options) withDefaults() Options {
	if o.ConnectWait <= 0 {
		o.ConnectWait = DefaultConnectWait
	}
	if o.Ping <= 0 {
		o.Ping = DefaultPing
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	return o
}

// Phase is where a link is.
type Phase string

// The phases.
const (
	Disconnected Phase = "disconnected" // never connected, or closed
	Connecting   Phase = "connecting"
	Connected    Phase = "connected"
	Broken       Phase = "broken" // the next call connects again
)

// State is what is known about a link.
type State struct {
	Phase    Phase
	Since    time.Time
	Reason   error         // of Broken
	RetryIn  time.Duration // of Broken: calls before that fail at once; 0 if the next one tries
	Latency  time.Duration // of the last ping; 0 if unknown
	LastSeen time.Time     // when the last call was answered
	InFlight int
	// Framed is set for a daemon of topside, and Far then says what it told of itself.
	Framed bool
	Far    frame.Welcome
	// Greeting is what an original topup answered to "initialize".
	Greeting json.RawMessage
	Socket   string // on the far side
	PID      int    // of ssh here, 0 if none
}

// Link is one host as a front end sees it.
type Link struct {
	o      Options
	front  string
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu        sync.Mutex
	next      uint64
	calls     map[uint64]*call
	late      []*call // broken off, the oldest first
	lateBytes int
	current   *session
	attempt   *attempt
	failures  int
	retryAt   time.Time
	phase     Phase
	since     time.Time
	reason    error
	seen      time.Time
	closed    bool
}

// call is one call under way.
type call struct {
	id      uint64
	session *session
	done    chan outcome // has room for one
	acked   bool         // the far side said that it runs
	late    bool         // its caller has been told of the break
	bytes   int
}

type outcome struct {
	envelope frame.Envelope
	err      error
}

// attempt is a connection being made; all who need it wait for it.
type attempt struct {
	done chan struct{}
	err  error
}

// New makes a link. It connects when it is first used.
func New(o Options) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	return &Link{
		o: o.withDefaults(), front: newName(), ctx: ctx, cancel: cancel,
		calls: map[uint64]*call{}, phase: Disconnected, since: time.Now(),
	}
}

func newName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Host is the name of the far side.
func (l *Link) Host() string { return l.o.Host }

// Call makes a call and waits for its result. It connects if there is no
// connection. Errors: *RemoteError is the far side's own; *ConnectError means that
// the call was never made; *BrokenError says whether the work goes on;
// *DeadlineError is the end of ctx, with which the call is cancelled over there, as
// far as the far side gives a sign of life: of one that is silent it cannot be known
// whether it hears that, and the call goes on as after a break.
func (l *Link) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	for tried := false; ; tried = true {
		s, err := l.session(ctx, false)
		if err != nil {
			return nil, err
		}
		result, err := l.callOn(ctx, s, method, params)
		var b *BrokenError
		if !tried && errors.As(err, &b) && b.Work == NotStarted && ctx.Err() == nil {
			continue // it had broken unnoticed; nothing was done there
		}
		return result, err
	}
}

func (l *Link) callOn(ctx context.Context, s *session, method string, params json.RawMessage) (json.RawMessage, error) {
	began := time.Now()
	c := &call{session: s, done: make(chan outcome, 1)}
	l.mu.Lock()
	if s.failed() {
		l.mu.Unlock()
		return nil, &BrokenError{Host: l.o.Host, Work: NotStarted, Cause: s.Err()}
	}
	l.next++
	c.id = l.next
	l.calls[c.id] = c
	s.awaiting.Add(1)
	l.mu.Unlock()

	message, err := encodeCall(c.id, method, params)
	if err == nil {
		err = s.because(s.send(ctx, message))
	}
	if err != nil {
		l.forget(c)
		switch {
		case ctx.Err() != nil:
			return nil, &DeadlineError{Host: l.o.Host, After: time.Since(began), Work: NotStarted, Err: ctx.Err()}
		case errors.Is(err, frame.ErrGarbage), errors.Is(err, frame.ErrTooLarge):
			return nil, err // our own message
		}
		return nil, &BrokenError{Host: l.o.Host, Work: NotStarted, Cause: err}
	}
	onItsWay(ctx)
	if s.conn.Framed {
		probe := time.AfterFunc(probeAfter, s.probe)
		defer probe.Stop()
	}
	s.readFor(ctx, c)
	select {
	case out := <-c.done:
		return out.result()
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if left := l.leave(s, c); left != nil {
			left.After, left.Err = time.Since(began), ctx.Err()
			return nil, left
		}
	}
	l.mu.Lock()
	acked := c.acked
	l.mu.Unlock()
	l.forget(c)
	select {
	case out := <-c.done:
		return out.result()
	default:
	}
	s.abandon(c.id)
	work := Unknown
	if acked {
		work = Cancelling
	}
	return nil, &DeadlineError{Host: l.o.Host, After: time.Since(began), Work: work, Err: ctx.Err()}
}

// leave gives up waiting for a call of a far side that is silent: its reply is kept
// as after a break. nil if the far side is not, or keeps nothing.
func (l *Link) leave(s *session, c *call) *DeadlineError {
	silent := s.silent()
	l.mu.Lock()
	defer l.mu.Unlock()
	if silent == 0 || l.calls[c.id] != c || l.closed || !s.can(frame.CanResume) {
		return nil
	}
	work := Unknown
	if c.acked {
		work = GoesOn
	}
	s.awaiting.Add(-1)
	l.keepLate(c)
	return &DeadlineError{Host: l.o.Host, Work: work, Silent: silent, Ticket: c.id, Kept: s.kept()}
}

func (o outcome) result() (json.RawMessage, error) {
	if o.err != nil {
		return nil, o.err
	}
	if o.envelope.Error != nil {
		return nil, remoteError(o.envelope.Error)
	}
	return o.envelope.Result, nil
}

func encodeCall(id uint64, method string, params json.RawMessage) ([]byte, error) {
	name, err := json.Marshal(method)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 64+len(name)+len(params))
	b = append(b, `{"jsonrpc":"2.0"`...)
	if id > 0 {
		b = append(b, `,"id":`...)
		b = strconv.AppendUint(b, id, 10)
	}
	b = append(append(b, `,"method":`...), name...)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return frame.OneLine(append(b, '}'))
}

func (l *Link) forget(c *call) {
	l.mu.Lock()
	if l.calls[c.id] == c {
		delete(l.calls, c.id)
		c.session.awaiting.Add(-1)
	}
	l.mu.Unlock()
}

// Notify sends a notification over the connection that there is; without one it
// does nothing but say so.
func (l *Link) Notify(ctx context.Context, method string, params json.RawMessage) error {
	l.mu.Lock()
	s := l.current
	l.mu.Unlock()
	if s == nil {
		return &ConnectError{Host: l.o.Host, Cause: errNotConnected}
	}
	message, err := encodeCall(0, method, params)
	if err != nil {
		return err
	}
	return s.send(ctx, message)
}

// Collect waits for the reply of a call that a *BrokenError left behind, by its
// ticket, and connects for that if need be.
func (l *Link) Collect(ctx context.Context, ticket uint64) (json.RawMessage, error) {
	l.mu.Lock()
	i := slices.IndexFunc(l.late, func(c *call) bool { return c.id == ticket })
	var c *call
	if i >= 0 {
		c = l.late[i]
	}
	l.mu.Unlock()
	if c == nil {
		return nil, &BrokenError{Host: l.o.Host, Work: Lost, Cause: errNoTicket}
	}
	for began := time.Now(); ; {
		select {
		case out := <-c.done:
			l.dropLate(c)
			return out.result()
		default:
		}
		s, err := l.session(ctx, false)
		if err != nil {
			return nil, err
		}
		s.probe()
		select {
		case out := <-c.done:
			l.dropLate(c)
			return out.result()
		case <-s.Done(): // the next connection may bring it
		case <-ctx.Done():
			return nil, &DeadlineError{Host: l.o.Host, After: time.Since(began), Work: GoesOn, Silent: s.silent(), Err: ctx.Err()}
		}
	}
}

func (l *Link) dropLate(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.late, c); i >= 0 {
		l.late = slices.Delete(l.late, i, i+1)
		l.lateBytes -= c.bytes
		delete(l.calls, c.id)
	}
}

// Connect makes the connection if there is none, whatever the backoff.
func (l *Link) Connect(ctx context.Context) error {
	_, err := l.session(ctx, true)
	return err
}

// Retry ends the pause after failures: the next call connects at once. The pauses
// grow from the first one again.
func (l *Link) Retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures, l.retryAt = 0, time.Time{}
}

// session returns the connection, which it makes if there is none. force ignores
// the backoff.
func (l *Link) session(ctx context.Context, force bool) (*session, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, &ConnectError{Host: l.o.Host, Cause: errClosed}
		}
		if s := l.current; s != nil {
			l.mu.Unlock()
			return s, nil
		}
		a := l.attempt
		if a == nil {
			if wait := time.Until(l.retryAt); wait > 0 && !force {
				reason := l.reason
				l.mu.Unlock()
				if wait > waitOut {
					return nil, &ConnectError{Host: l.o.Host, Cause: reason, RetryIn: wait}
				}
				if err := sleep(ctx, wait); err != nil {
					return nil, &ConnectError{Host: l.o.Host, Cause: reason, RetryIn: wait}
				}
				continue
			}
			a = &attempt{done: make(chan struct{})}
			l.attempt = a
			l.enter(Connecting, nil)
			l.work.Go(func() { l.connect(a) })
		}
		l.mu.Unlock()
		select {
		case <-a.done:
			if a.err != nil {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, &DeadlineError{Host: l.o.Host, Work: NotStarted, Err: ctx.Err()}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter sets the phase. It needs l.mu.
func (l *Link) enter(p Phase, reason error) {
	l.phase, l.reason, l.since = p, reason, time.Now()
}

// connect makes a connection for all who wait for a.
func (l *Link) connect(a *attempt) {
	s, err := l.openInTurn()
	l.mu.Lock()
	l.attempt = nil
	if err == nil && (l.closed || s.failed()) {
		err = s.Err()
		if err == nil {
			err = errClosed
		}
	}
	if err != nil {
		l.failures++
		wait := backoff(l.failures)
		l.retryAt = time.Now().Add(wait)
		l.enter(Broken, err)
		a.err = &ConnectError{Host: l.o.Host, Cause: err, RetryIn: wait}
		if l.closed {
			l.enter(Disconnected, nil)
		}
	} else {
		l.current = s
		l.failures, l.retryAt = 0, time.Time{}
		l.enter(Connected, nil)
	}
	l.mu.Unlock()
	if err != nil && s != nil {
		s.fail(err)
	}
	close(a.done)
}

// openInTurn makes a connection when it may be made.
func (l *Link) openInTurn() (*session, error) {
	if l.o.Admit != nil {
		done, err := l.o.Admit(l.ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.o.ConnectWait)
	defer cancel()
	return l.open(ctx)
}

func backoff(failures int) time.Duration {
	d := firstBackoff
	for range min(failures-1, 10) {
		d *= 2
	}
	return min(d, maxBackoff)
}

// broken is the end of a connection: those who wait on it are told.
func (l *Link) broken(s *session, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == s {
		l.current = nil
		if l.closed {
			l.enter(Disconnected, nil)
		} else {
			l.enter(Broken, err)
		}
	}
	for _, c := range l.calls {
		if c.session != s || c.late {
			continue
		}
		b := &BrokenError{Host: l.o.Host, Work: s.fate(c, err), Cause: err}
		if (b.Work == GoesOn || b.Work == Unknown) && s.can(frame.CanResume) && !l.closed {
			b.Ticket, b.Kept = c.id, s.kept()
			l.keepLate(c)
		} else {
			delete(l.calls, c.id)
		}
		// The caller takes this; what comes later goes into a new channel.
		done := c.done
		if c.late {
			c.done = make(chan outcome, 1)
		}
		select {
		case done <- outcome{err: b}:
		default: // it has been answered in this very moment
		}
	}
}

// keepLate makes c a call that is awaited after the break. It needs l.mu.
func (l *Link) keepLate(c *call) {
	late := &call{id: c.id, done: make(chan outcome, 1), late: true}
	l.calls[c.id] = late
	l.late = append(l.late, late)
	if len(l.late) > maxLate {
		old := l.late[0]
		l.late = l.late[1:]
		l.lateBytes -= old.bytes
		delete(l.calls, old.id)
	}
}

// awaiting are the calls whose replies are still wanted.
func (l *Link) awaiting() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []uint64
	for _, c := range l.late {
		if len(c.done) == 0 {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// lost is what the far side knows nothing of any more.
func (l *Link) lost(ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.late {
		if slices.Contains(ids, c.id) && len(c.done) == 0 {
			c.done <- outcome{err: &BrokenError{Host: l.o.Host, Work: Lost, Cause: errForgotten}}
		}
	}
}

// answered hands a reply to its caller; false if nobody waits for it.
func (l *Link) answered(id uint64, e frame.Envelope, size int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = time.Now()
	c := l.calls[id]
	if c == nil {
		return false
	}
	out := outcome{envelope: e}
	if c.late {
		if len(c.done) > 0 {
			return false
		}
		if l.lateBytes+size > maxLateBytes {
			out = outcome{err: &BrokenError{Host: l.o.Host, Work: Lost, Cause: errTooMuchLate}}
		} else {
			c.bytes = size
			l.lateBytes += size
		}
	} else {
		delete(l.calls, id)
		c.session.awaiting.Add(-1)
	}
	c.done <- out
	return true
}

// acked notes which calls run.
func (l *Link) acked(ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if c := l.calls[id]; c != nil {
			c.acked = true
		}
	}
}

// State returns what is known about the link now.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := State{Phase: l.phase, Since: l.since, Reason: l.reason, LastSeen: l.seen, InFlight: len(l.calls) - len(l.late)}
	if l.phase == Broken {
		st.RetryIn = max(time.Until(l.retryAt), 0)
	}
	if s := l.current; s != nil {
		st.Framed, st.Far, st.Greeting = s.conn.Framed, s.welcome, s.conn.Greeting
		st.Latency, st.PID, st.Socket = time.Duration(s.latency.Load()), s.conn.Pid(), s.conn.Socket
		if s.welcome.Socket != "" {
			st.Socket = s.welcome.Socket
		}
	}
	return st
}

// Drop ends the connection that there is; the next call makes another. endDaemon
// asks the daemon to end first, with its sessions, as far as it listens.
func (l *Link) Drop(ctx context.Context, endDaemon bool) {
	l.mu.Lock()
	s := l.current
	l.mu.Unlock()
	if s == nil {
		return
	}
	if endDaemon && s.can(frame.CanEnd) {
		s.ending.Store(true)
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_ = s.Ask(ctx, frame.OpEnd, nil, nil) // one that does not listen is left behind
		cancel()
	}
	s.fail(errDropped)
	s.wait()
}

// Close ends the connection and the link, and what runs for it. Calls that are under
// way over there are cancelled.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	s := l.current
	if s == nil {
		l.enter(Disconnected, nil)
	}
	l.mu.Unlock()
	if s != nil {
		s.farewell()
		s.fail(errClosed)
	}
	l.cancel()
	l.work.Wait()
}
