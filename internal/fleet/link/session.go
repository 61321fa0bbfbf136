package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"topside/internal/fleet/daemon"
	"topside/internal/fleet/frame"
	"topside/internal/fleet/ssh"
)

const (
	// maxServed bounds the requests of the far side that are served at a time.
	maxServed = 16
	// maxUnasked bounds the messages that nobody asked for, between two that somebody
	// did: a far side that sends more is broken, or hostile.
	maxUnasked = 100_000

	// writeGrace is how long the reader has to find the reason for a failed write.
	writeGrace = 1500 * time.Millisecond

	codeBusy     = -32000
	codeNoMethod = -32601
	codeInternal = -32603
)

// session is one connection.
type session struct {
	l       *Link
	conn    *ssh.Conn
	out     *frame.Writer
	welcome frame.Welcome
	able    map[string]bool
	latency atomic.Int64
	asked   atomic.Int64  // when the ping was sent that has no answer yet; 0 if it has
	probes  chan struct{} // has room for one: the far side is to be asked now
	ending  atomic.Bool   // the daemon was told to end
	serving chan struct{} // a place for each request being served

	turn     *frame.Turn
	frames   *frame.Reader  // owned by who has the turn; nil where lines are spoken
	unasked  int            // likewise
	broke    error          // likewise: why nothing can be read any more
	patient  *frame.Patient // what frames reads, if a read of it can be interrupted
	awaiting atomic.Int64   // calls, questions and streams that something may come for

	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	done   chan struct{} // closed when it has failed
	gone   chan struct{} // closed when the connection is closed
	err    error         // read after done

	mu         sync.Mutex
	nextAsk    uint64
	nextStream uint32
	asks       map[uint64]chan frame.Note
	streams    map[uint32]*frame.Stream
}

// open makes a connection and all that goes before the first call.
func (l *Link) open(ctx context.Context) (*session, error) {
	conn, err := l.o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{
		l: l, conn: conn, out: frame.NewWriter(conn.Writer), serving: make(chan struct{}, maxServed),
		turn: frame.NewTurn(), done: make(chan struct{}), gone: make(chan struct{}),
		asks: map[uint64]chan frame.Note{}, streams: map[uint32]*frame.Stream{}, probes: make(chan struct{}, 1),
	}
	if conn.Framed {
		s.frames = frame.NewReader(conn.Reader, l.o.MaxMessage)
		if p, ok := conn.Reader.(*frame.Patient); ok && p.SetReadDeadline(time.Time{}) == nil {
			s.patient = p
		}
	}
	s.ctx, s.cancel = context.WithCancel(l.ctx)
	s.turn.Take()
	l.work.Go(s.keep)
	l.work.Go(s.watchWrites)
	fresh := true
	if conn.Framed {
		if fresh, err = s.hello(ctx); err != nil {
			s.fail(err)
			return nil, err
		}
		l.work.Go(s.keepAlive)
	}
	if l.o.Opened != nil {
		call := func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			return l.callOn(ctx, s, method, params)
		}
		if err := l.o.Opened(ctx, call, fresh); err != nil {
			s.fail(err)
			return nil, err
		}
	}
	return s, nil
}

// hello agrees with the daemon; fresh is set unless it goes on with our session.
func (s *session) hello(ctx context.Context) (fresh bool, err error) {
	awaiting := s.l.awaiting()
	h := frame.Hello{
		MinProtocol: frame.MinProtocol, MaxProtocol: frame.MaxProtocol, Version: s.l.o.Version,
		Capabilities: frame.Capabilities(), Front: s.l.front, Surface: s.l.o.Surface,
		Awaiting: awaiting, PingMillis: s.l.o.Ping.Milliseconds(),
	}
	var w frame.Welcome
	if err := s.Ask(ctx, frame.OpHello, h, &w); err != nil {
		if ctx.Err() != nil && s.Err() == nil {
			return false, fmt.Errorf("handshake timed out: %w", ctx.Err())
		}
		return false, err
	}
	if w.Protocol < frame.MinProtocol || w.Protocol > frame.MaxProtocol {
		return false, &frame.IncompatibleError{Near: s.l.o.Version, Far: w.Version, UpgradeNear: w.Protocol > frame.MaxProtocol}
	}
	able := map[string]bool{}
	for _, c := range w.Capabilities {
		able[c] = true
	}
	s.l.mu.Lock()
	s.welcome, s.able = w, able
	s.l.mu.Unlock()
	s.l.acked(w.Running)
	s.l.lost(w.Lost)
	if !w.Resumed {
		s.l.lost(awaiting)
	}
	return !w.Resumed, nil
}

// can reports whether the daemon has a capability. It needs l.mu, or the end of
// hello.
func (s *session) can(capability string) bool { return s.able[capability] }

// Done is closed when the connection has ended.
func (s *session) Done() <-chan struct{} { return s.done }

// Err says why it has ended; nil before.
func (s *session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

func (s *session) failed() bool { return s.Err() != nil }

// fail ends the connection. Those who wait are told at once; ssh may take a moment
// to go.
func (s *session) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
		s.cancel()
		s.out.Close()
		s.turn.Close()
		s.l.broken(s, err)
		s.l.work.Go(func() {
			s.conn.Close()
			close(s.gone)
		})
	})
}

// wait waits until nothing of the connection is left.
func (s *session) wait() { <-s.gone }

// farewell tells the daemon that this front end ends.
func (s *session) farewell() {
	if !s.conn.Framed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if s.Tell(ctx, frame.OpBye, nil) == nil {
		_ = s.out.Flush(ctx)
	}
}

// fate is what became of a call when the connection broke. It needs l.mu.
func (s *session) fate(c *call, err error) Work {
	var e *ssh.Error
	switch {
	case s.ending.Load(), errors.As(err, &e) && e.Status == daemon.ExitDaemonGone:
		return Ended
	case !s.conn.Framed:
		return Ended // an original topup ends with its tunnel
	case c.acked:
		return GoesOn
	}
	return Unknown
}

// send sends a message in the dialect of the connection.
func (s *session) send(ctx context.Context, message []byte) error {
	if !s.conn.Framed {
		return s.out.SendLine(ctx, message)
	}
	if limit := s.l.o.MaxMessage; len(message) > frame.DefaultMax || limit > 0 && len(message) > limit {
		return fmt.Errorf("%w: a call of %d bytes", frame.ErrTooLarge, len(message))
	}
	return s.out.Send(ctx, frame.Message, message)
}

// abandon cancels a call whose caller has gone.
func (s *session) abandon(id uint64) {
	ctx, cancel := context.WithTimeout(s.ctx, lastWords)
	defer cancel()
	params := append(strconv.AppendUint([]byte(`{"requestId":`), id, 10), '}')
	message, err := encodeCall(0, "notifications/cancelled", params)
	if err != nil {
		return
	}
	_ = s.send(ctx, message)
	if s.conn.Framed {
		_ = s.Tell(ctx, frame.OpDrop, frame.Calls{IDs: []uint64{id}})
	}
}

// watchWrites ends the connection when a write has failed. The reader mostly notices
// too, and knows better why.
func (s *session) watchWrites() {
	select {
	case <-s.done:
		return
	case <-s.out.Failed():
	}
	t := time.NewTimer(writeGrace)
	defer t.Stop()
	select {
	case <-s.done:
	case <-t.C:
		s.fail(s.out.Err())
	}
}

// keep reads the connection while nobody who waits for an answer does, until it ends.
func (s *session) keep() {
	if !s.conn.Framed {
		s.ended(s.readLines())
		return
	}
	for {
		err := s.readWhileAwaited()
		if err != nil {
			s.ended(err)
			return
		}
		for free := false; !free; free = s.turn.Take() {
			select {
			case <-s.turn.Called():
			case <-s.done:
				return
			}
		}
	}
}

// readWhileAwaited reads, with the turn, until an answer has come and no other is
// awaited: the next call may then read for itself.
func (s *session) readWhileAwaited() error {
	for {
		answer, err := s.step()
		if err != nil {
			return err
		}
		if answer && s.patient != nil && s.awaiting.Load() == 0 {
			s.turn.Give(false)
			return nil
		}
	}
}

// ended finds the reason why nothing can be read any more.
func (s *session) ended(err error) {
	if s.failed() {
		return
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isClosed(err) {
		// ssh knows better why.
		if why := s.conn.Why(); why != nil {
			err = why
		} else {
			err = errEnded
		}
	}
	s.fail(err)
}

// readFor reads the connection for a call, if nobody else does, until it is answered or
// its context is done.
func (s *session) readFor(ctx context.Context, c *call) {
	if s.patient == nil || !s.turn.Take() {
		return
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.patient.SetReadDeadline(time.Unix(1, 0)) // fails on a closed stream only
		close(interrupted)
	})
	var err error
	for len(c.done) == 0 && err == nil {
		_, err = s.step()
	}
	if !stop() {
		<-interrupted
		_ = s.patient.SetReadDeadline(time.Time{})
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.broke = err // the keeper has the time to ask for its reason
	}
	s.turn.Give(s.broke != nil || s.awaiting.Load() > 0)
}

func isClosed(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, errClosedFile)
}

func (s *session) readLines() error {
	lines := frame.NewLines(s.conn.Reader, s.l.o.MaxMessage)
	for {
		line, err := lines.Next()
		if err != nil {
			return err
		}
		if _, err := s.message(line); err != nil {
			return err
		}
	}
}

// step takes one frame; answer is set if it was one. It does not block but for the
// frame.
func (s *session) step() (answer bool, err error) {
	if s.broke != nil {
		return false, s.broke
	}
	kind, body, err := s.frames.Next()
	if err != nil {
		return false, err
	}
	switch kind {
	case frame.Message:
		return s.message(body)
	case frame.Control:
		return s.note(body)
	default:
		return false, s.data(body)
	}
}

// message takes a message; answer is set if it was the answer to a call.
func (s *session) message(body []byte) (answer bool, err error) {
	e, err := frame.Scan(body)
	if err != nil {
		return false, err
	}
	switch {
	case e.IsResponse():
		if e.Result == nil && e.Error == nil {
			return false, fmt.Errorf("%w: an answer without a result: %q", frame.ErrGarbage, frame.Excerpt(body))
		}
		id, err := strconv.ParseUint(string(e.ID), 10, 64)
		if err == nil && s.l.answered(id, e, len(body)) {
			s.unasked = 0
			if s.conn.Framed && len(body) >= daemon.Large {
				s.tellSoon(frame.OpGot, frame.Calls{IDs: []uint64{id}})
			}
			return true, nil
		}
	case e.IsRequest():
		s.serve(e)
	case e.IsNotification():
		if s.l.o.Notifications != nil {
			s.l.o.Notifications(e.Method, e.Params)
		}
	}
	return false, s.countUnasked()
}

func (s *session) countUnasked() error {
	if s.unasked++; s.unasked > maxUnasked {
		return fmt.Errorf("%w: it floods this side with messages that nobody asked for", frame.ErrGarbage)
	}
	return nil
}

// serve answers a request of the far side.
func (s *session) serve(e frame.Envelope) {
	select {
	case s.serving <- struct{}{}:
	default:
		refusal := frame.ErrorReply(e.ID, codeBusy, "too many requests at a time")
		if s.conn.Framed {
			_ = s.out.TrySend(frame.Message, refusal) // a far side that does not read gets none
		} else {
			_ = s.send(s.ctx, refusal)
		}
		return
	}
	s.l.work.Go(func() {
		defer func() { <-s.serving }()
		_ = s.send(s.ctx, s.answerTo(e)) // a failure ends the connection by itself
	})
}

func (s *session) answerTo(e frame.Envelope) []byte {
	if s.l.o.Requests == nil {
		return frame.ErrorReply(e.ID, codeNoMethod, "method not found: "+e.Method)
	}
	result, err := s.l.o.Requests(s.ctx, e.Method, e.Params)
	if err != nil {
		var r *RemoteError
		if errors.As(err, &r) {
			return frame.ErrorReply(e.ID, int(r.Code), r.Message)
		}
		var coded interface{ RPCCode() int }
		if errors.As(err, &coded) {
			return frame.ErrorReply(e.ID, coded.RPCCode(), err.Error())
		}
		return frame.ErrorReply(e.ID, codeInternal, err.Error())
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), e.ID...)
	b = append(append(b, `,"result":`...), result...)
	line, err := frame.OneLine(append(b, '}'))
	if err != nil {
		return frame.ErrorReply(e.ID, codeInternal, err.Error())
	}
	return line
}

// probe has the far side asked soon whether it is there.
func (s *session) probe() {
	select {
	case s.probes <- struct{}{}:
	default:
	}
}

// silent is for how long the far side owes the answer to a ping; 0 if it does not, or
// not for long.
func (s *session) silent() time.Duration {
	asked := s.asked.Load()
	if asked == 0 {
		return 0
	}
	if d := time.Since(time.Unix(0, asked)); d >= silentAfter {
		return d
	}
	return 0
}

// kept is how long the far side keeps replies.
func (s *session) kept() time.Duration { return time.Duration(s.welcome.KeepSeconds) * time.Second }

// keepAlive asks the daemon now and then whether it is there: more often while
// something is awaited of it.
func (s *session) keepAlive() {
	for {
		ctx, cancel := context.WithTimeout(s.ctx, s.l.o.Patience)
		s.asked.Store(time.Now().UnixNano())
		err := s.ping(ctx)
		late := ctx.Err() != nil
		cancel()
		if s.failed() {
			return
		}
		if err != nil && late {
			s.fail(fmt.Errorf("%w: nothing came for %v", errSilent, s.l.o.Patience))
			return
		}
		s.asked.Store(0)
		pause := s.l.o.Ping
		if s.awaiting.Load() > 0 {
			pause = min(pause, probeAfter)
		}
		if !s.pause(pause) {
			return
		}
	}
}

// pause waits until the far side is to be asked again; false if there is nobody to ask.
func (s *session) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.probes:
		return true
	case <-s.ctx.Done():
		return false
	}
}
