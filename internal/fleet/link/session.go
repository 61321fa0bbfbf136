package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	ending  atomic.Bool   // the daemon was told to end
	serving chan struct{} // a place for each request being served
	unasked int           // owned by the reader

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
		done: make(chan struct{}), gone: make(chan struct{}),
		asks: map[uint64]chan frame.Note{}, streams: map[uint32]*frame.Stream{},
	}
	s.ctx, s.cancel = context.WithCancel(l.ctx)
	l.work.Go(s.read)
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

// read takes what comes until the connection ends.
func (s *session) read() {
	err := s.readAll()
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

func isClosed(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, errClosedFile)
}

func (s *session) readAll() error {
	if !s.conn.Framed {
		lines := frame.NewLines(s.conn.Reader, s.l.o.MaxMessage)
		for {
			line, err := lines.Next()
			if err != nil {
				return err
			}
			if err := s.message(line); err != nil {
				return err
			}
		}
	}
	frames := frame.NewReader(s.conn.Reader, s.l.o.MaxMessage)
	for {
		kind, body, err := frames.Next()
		if err != nil {
			return err
		}
		switch kind {
		case frame.Message:
			err = s.message(body)
		case frame.Control:
			err = s.note(body)
		case frame.Data:
			err = s.data(body)
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) message(body []byte) error {
	e, err := frame.Scan(body)
	if err != nil {
		return err
	}
	switch {
	case e.IsResponse():
		if e.Result == nil && e.Error == nil {
			return fmt.Errorf("%w: an answer without a result: %q", frame.ErrGarbage, frame.Excerpt(body))
		}
		id, err := strconv.ParseUint(string(e.ID), 10, 64)
		if err == nil && s.l.answered(id, e, len(body)) {
			s.unasked = 0
			if s.conn.Framed && len(body) >= daemon.Large {
				return s.Tell(s.ctx, frame.OpGot, frame.Calls{IDs: []uint64{id}})
			}
			return nil
		}
	case e.IsRequest():
		s.serve(e)
	case e.IsNotification():
		if s.l.o.Notifications != nil {
			s.l.o.Notifications(e.Method, e.Params)
		}
	}
	return s.countUnasked()
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
		_ = s.send(s.ctx, frame.ErrorReply(e.ID, codeBusy, "too many requests at a time"))
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

// keepAlive asks the daemon now and then whether it is there.
func (s *session) keepAlive() {
	for {
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, s.l.o.Patience)
		err := s.Ask(ctx, frame.OpPing, nil, nil)
		late := ctx.Err() != nil
		cancel()
		if s.failed() {
			return
		}
		if err != nil && late {
			s.fail(fmt.Errorf("%w: nothing came for %v", errSilent, s.l.o.Patience))
			return
		}
		s.latency.Store(int64(time.Since(began)))
		if sleep(s.ctx, s.l.o.Ping) != nil {
			return
		}
	}
}
