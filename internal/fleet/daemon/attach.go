package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/transfer"
)

const (
	// helloWait is how long a connection may take to say who it is.
	helloWait = 20 * time.Second
	// flushWait bounds the sending of last words.
	flushWait = time.Second
	// patience is how many pings may be missing before a front end counts as gone.
	patience = 4
)

// attachment is one connection of a front end.
type attachment struct {
	d      *Daemon
	conn   io.ReadWriteCloser
	turn   *frame.Turn
	in     *frame.Reader // owned by who has the turn
	broke  error         // likewise: why the connection is over
	out    *frame.Writer
	files  *transfer.Server
	ctx    context.Context
	cancel context.CancelFunc
	front  *front
	bye    bool
	heard  atomic.Int64 // when the last frame came, Unix nanoseconds
	once   sync.Once
}

// attach serves frames on conn until its end, and closes it.
func (d *Daemon) attach(conn io.ReadWriteCloser) {
	var from io.Reader = conn
	if c, ok := conn.(interface{ input() io.Reader }); ok {
		from = c.input()
	}
	a := &attachment{d: d, conn: conn, turn: frame.NewTurn(), in: frame.NewReader(frame.NewPatient(from), d.c.MaxMessage), out: frame.NewWriter(conn)}
	a.turn.Take()
	a.ctx, a.cancel = context.WithCancel(d.ctx)
	stop := context.AfterFunc(a.ctx, a.close)
	defer stop()
	a.files = transfer.NewServer(transfer.ServerOptions{Out: a.out, State: d.c.State, Keep: d.c.Keep, Logger: d.c.Logger})
	defer func() {
		if a.front != nil && a.bye {
			a.front.detach(a, true) // before the far end sees the connection end
		}
		a.close()
		a.files.Close()
		if a.front != nil && !a.bye {
			a.front.detach(a, false)
		}
	}()
	silent := time.AfterFunc(helloWait, a.close)
	defer silent.Stop()
	if err := a.hello(silent); err != nil {
		d.c.Logger.Warn("a front end was refused", "error", err)
		return
	}
	err := a.keep()
	if err != nil && !errors.Is(err, errOver) && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		d.c.Logger.Info("a connection broke", "front", a.front.id, "error", err)
	}
}

// close ends the connection at once.
func (a *attachment) close() {
	a.once.Do(func() {
		a.cancel()
		a.out.Close()
		a.conn.Close()
		a.turn.Close()
	})
}

// finish ends the connection when what waits to be sent is sent.
func (a *attachment) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), flushWait)
	defer cancel()
	_ = a.out.Flush(ctx)
	a.close()
}

// hello takes the first message, which says who connects.
func (a *attachment) hello(silent *time.Timer) error {
	kind, body, err := a.in.Next()
	if err != nil {
		return err
	}
	n, err := frame.DecodeNote(body)
	if kind != frame.Control || err != nil || n.Op != frame.OpHello {
		return fmt.Errorf("%w: no hello, but %q", frame.ErrGarbage, frame.Excerpt(body))
	}
	var h frame.Hello
	if err := json.Unmarshal(n.Args, &h); err != nil {
		return fmt.Errorf("%w: %v", frame.ErrGarbage, err)
	}
	w, err := a.welcome(h)
	answer, encodeErr := frame.Answer(n.ID, w, err).Encode()
	if encodeErr != nil {
		return encodeErr
	}
	if sendErr := a.out.Send(a.ctx, frame.Control, answer); sendErr != nil {
		return sendErr
	}
	if err != nil {
		a.finish()
		return err
	}
	a.front.resend(a)
	a.watch(silent, time.Duration(h.PingMillis)*time.Millisecond)
	return nil
}

// watch closes the connection of a front end that is no longer heard: its machine
// is gone, and sshd does not know it.
func (a *attachment) watch(silent *time.Timer, ping time.Duration) {
	silent.Stop()
	if ping <= 0 {
		return
	}
	limit := max(patience*ping, time.Second)
	a.heard.Store(time.Now().UnixNano())
	a.d.work.Go(func() {
		tick := time.NewTicker(limit / 2)
		defer tick.Stop()
		for {
			select {
			case <-a.ctx.Done():
				return
			case <-tick.C:
			}
			if time.Since(time.Unix(0, a.heard.Load())) > limit {
				a.d.c.Logger.Info("a front end is silent", "front", a.front.id, "for", limit)
				a.close()
				return
			}
		}
	})
}

func (a *attachment) welcome(h frame.Hello) (*frame.Welcome, error) {
	protocol, capabilities, err := frame.Agree(a.d.c.Version, h)
	if err != nil {
		var i *frame.IncompatibleError
		if errors.As(err, &i) {
			// Seen from the other side.
			err = &frame.Failure{Kind: "incompatible", Text: (&frame.IncompatibleError{Near: i.Far, Far: i.Near, UpgradeNear: !i.UpgradeNear}).Error()}
		}
		return nil, err
	}
	if s := a.d.c.Surfaces; len(s) > 0 && !slices.Contains(s, h.Surface) {
		return nil, &frame.Failure{Kind: "surface", Text: fmt.Sprintf("topside %s on the host has no tools by the name %q; upgrade it there", a.d.c.Version, h.Surface)}
	}
	if h.Front == "" || len(h.Front) > 64 {
		return nil, &frame.Failure{Kind: "garbage", Text: "a front end needs a name of at most 64 bytes"}
	}
	w := &frame.Welcome{
		Protocol: protocol, Version: a.d.c.Version, Capabilities: capabilities,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Hostname: hostname(), PID: os.Getpid(), Instance: a.d.instance,
		Socket: a.d.c.Socket, KeepSeconds: int(a.d.c.Keep / time.Second), Sessions: a.d.c.Sessions(),
	}
	f, resumed, err := a.d.frontFor(h.Front, h.Surface)
	if err != nil {
		return nil, err
	}
	if err := f.attach(a, h.Awaiting, w); err != nil {
		return nil, err
	}
	a.front, w.Resumed = f, resumed
	return w, nil
}

// errOver is a connection that its front end has ended in order.
var errOver = errors.New("the front end has ended the connection")

// keep reads the connection while the tool server does not, until its end.
func (a *attachment) keep() error {
	for {
		for {
			message, err := a.step()
			if err != nil {
				return err
			}
			if message && a.front.stream.reads() {
				break // the tool server reads the next one for itself
			}
		}
		a.turn.Give(false)
		for free := false; !free; free = a.turn.Take() {
			select {
			case <-a.turn.Called():
			case <-a.ctx.Done():
				return os.ErrClosed
			}
		}
	}
}

// readMessage reads the connection for the tool server, if nobody else does, until a
// message has come; false if it has not.
func (a *attachment) readMessage() bool {
	if !a.turn.Take() {
		return false
	}
	message := false
	for !message && a.broke == nil {
		message, a.broke = a.step()
	}
	a.turn.Give(a.broke != nil)
	return message
}

// step takes one frame, and tells whether it was a message.
func (a *attachment) step() (message bool, err error) {
	if a.broke != nil {
		return false, a.broke
	}
	kind, body, err := a.in.Next()
	if err != nil {
		return false, err
	}
	a.heard.Store(time.Now().UnixNano())
	switch kind {
	case frame.Message:
		return true, a.front.fromFront(a, body)
	case frame.Control:
		end, err := a.control(body)
		if end && err == nil {
			err = errOver
		}
		return false, err
	default:
		stream, _ := frame.SplitData(body)
		return false, a.files.Data(stream, a.in)
	}
}

// control serves a control message; end is set when the connection is over.
func (a *attachment) control(body []byte) (end bool, err error) {
	n, err := frame.DecodeNote(body)
	if err != nil {
		return false, err
	}
	switch n.Op {
	case frame.OpPing:
		a.answer(n.ID, frame.Pong{Sessions: new(a.d.c.Sessions())}, nil)
	case frame.OpBye:
		a.bye = true
		return true, nil
	case frame.OpGot, frame.OpDrop:
		var c frame.Calls
		if err := json.Unmarshal(n.Args, &c); err != nil {
			return false, fmt.Errorf("%w: %v", frame.ErrGarbage, err)
		}
		if n.Op == frame.OpGot {
			a.front.got(c.IDs)
		} else {
			a.front.drop(c.IDs)
		}
	case frame.OpEnd:
		a.d.c.Logger.Info("a front end ends the daemon", "front", a.front.id)
		a.answer(n.ID, struct{}{}, nil)
		ctx, cancel := context.WithTimeout(context.Background(), flushWait)
		_ = a.out.Flush(ctx)
		cancel()
		a.d.cancel()
		return true, nil
	default:
		if a.files.Control(n) {
			return false, nil
		}
		a.answer(n.ID, nil, &frame.Failure{Kind: "unknown", Text: fmt.Sprintf("topside %s on the host does not know the operation %q; upgrade it there", a.d.c.Version, n.Op)})
	}
	return false, nil
}

// answer answers an operation, if it wants an answer.
func (a *attachment) answer(id uint64, ok any, err error) {
	if id == 0 {
		return
	}
	if b, err := frame.Answer(id, ok, err).Encode(); err == nil {
		_ = a.out.Send(a.ctx, frame.Control, b) // a failure ends the connection by itself
	}
}

// note sends a note of the daemon's own.
func (a *attachment) note(op string, args any) {
	n, err := frame.Request(0, op, args)
	if err != nil {
		return
	}
	if b, err := n.Encode(); err == nil {
		_ = a.out.Send(a.ctx, frame.Control, b)
	}
}
