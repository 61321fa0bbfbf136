// Package wire carries the Model Context Protocol between a client and an
// [mcp.Server]: over standard input and output, a Unix socket, and
// HTTP on a loopback port.
//
// The protocol itself is the official SDK's. This package owns what lies around
// it and what users meet first when it goes wrong: framing and malformed lines,
// request ids, calls before a handshake, repeated handshakes, batches,
// cancellation, the end of input, a client that no longer reads, signals and the
// death of the parent process. It sits below the command line (package cli) and
// above the SDK; it knows nothing of tools.
//
// One [Stream] is one client. [Serve] reads its lines, and gives the SDK an
// [mcp.Connection] per handshake: the SDK allows one handshake in the life of a
// connection, clients make none, one, or several. Files:
//
//	wire.go       options, errors, Serve: the life of one client
//	stream.go     the byte streams; standard input and output claimed for the protocol
//	frame.go      lines out of bytes, bounded
//	message.go    one line to one message: shapes, ids, faults
//	peer.go       the reading side: which session gets a message, bounds, batches
//	serve.go      calls that are answered beside the SDK
//	session.go    the SDK's end: mcp.Transport and mcp.Connection of one handshake
//	reply.go      the writing side
//	handshake.go  what is mended in incoming parameters
//	ask.go        requests of the server's own
//	recover.go    a handler's panic
//	socket_*.go   the Unix socket
//	http.go       Streamable HTTP on a loopback port
//	parent.go     the death of the parent process
//	signals.go    signals
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// DefaultMaxFrame is the longest line accepted, in bytes, without its line end.
const DefaultMaxFrame = 64 << 20

const (
	defaultDrain       = 700 * time.Millisecond
	defaultMaxInFlight = 1024

	// linger bounds the wait for cancelled handlers and for the reader when a
	// stream has ended. A handler that ignores its context is left behind: the
	// process is about to exit, or on a socket the handler ends on its own.
	linger = 100 * time.Millisecond

	// lastWords bounds the writing of the error answers to calls that were not done
	// when the time after the end of input was over.
	lastWords = 100 * time.Millisecond

	// discardFor bounds how long the rest of an over-long line is read and thrown
	// away, so that a client which writes it all before it reads anything gets the
	// error rather than a broken pipe.
	discardFor = 500 * time.Millisecond
)

var (
	// ErrTooMuchHeld ends a stream whose client began a long line while the
	// unfinished ones of all clients hold as much memory as they may.
	ErrTooMuchHeld = errors.New("too many unfinished long lines")

	// ErrFrameTooLarge ends a stream whose client sent a line longer than
	// [Options.MaxFrame]. The client has been told (-32600 with a null id).
	ErrFrameTooLarge = errors.New("line exceeds the frame limit")

	// ErrMalformed ends a stream under [Options.EndOnMalformed] whose client sent
	// a line that is not JSON. The error wraps it and says what was wrong.
	ErrMalformed = errors.New("invalid JSON-RPC")
)

// Options of one stream. The zero value serves the united surface.
type Options struct {
	// MaxFrame is the longest line accepted, in bytes; DefaultMaxFrame if zero.
	MaxFrame int

	// EndOnMalformed ends the stream with ErrMalformed, without a reply, at a line
	// that is not JSON (the xtop contract). Otherwise it is answered -32700.
	EndOnMalformed bool

	// VersionOptional accepts messages without a "jsonrpc" member (the topup
	// contract does not look at it).
	VersionOptional bool

	// AnyID accepts and echoes every JSON value as the id of a request, null
	// included, and the id of a request in flight again (the topup contract).
	AnyID bool

	// SkipLong answers a line over MaxFrame with an error and goes on with the
	// next one; otherwise such a line ends the stream with ErrFrameTooLarge.
	SkipLong bool

	// Admit, if set, sees every call in the order of arrival, before the SDK does,
	// on the reading goroutine: it must not block. It returns the error to answer
	// at once, if any.
	Admit func(method string, params json.RawMessage) (Admission, *jsonrpc.Error)

	// StrayCalls takes what is JSON but no message with a method (an array, a
	// number, an object without one) for a call of the method "" with the id that
	// it has, or null (the xtop contract). It needs Admit and AnyID.
	StrayCalls bool

	// Screen, if set, sees every call as it was sent, before anything is mended in
	// its parameters, and may refuse it. They are an object or nil.
	Screen func(method string, params json.RawMessage) *jsonrpc.Error

	// AnyParams hands parameters that are not an object to Admit, instead of
	// refusing them.
	AnyParams bool

	// Asker, if set, makes requests of the server's own to this client. It belongs
	// to one stream at a time.
	Asker *Asker

	// AnswerCancelled also sends the response of a call that its client has
	// cancelled (the older contracts). The protocol asks for silence.
	AnswerCancelled bool

	// Drain is how long calls may still run after the end of input before they
	// are cancelled: 700 ms if zero, without a limit if negative.
	Drain time.Duration

	// MaxInFlight bounds the calls being served at once for one client; more are
	// answered -32000. 1024 if zero.
	MaxInFlight int

	// OnNotification, if set, sees every notification as it is read, before the
	// SDK does, on the reading goroutine: it must not block. The topup contract
	// takes its own fields out of notifications/cancelled there.
	OnNotification func(method string, params []byte)

	// Name of the stream in log lines; "mcp" if empty.
	Name string

	// Logger for diagnostics; slog.Default() if nil. It must not write to the
	// protocol's stream.
	Logger *slog.Logger
}

// Admission is what [Options.Admit] makes of a call.
type Admission struct {
	// Method to hand on to the SDK instead of the call's own, if set.
	Method string
	// Params to hand on to the SDK: an object or nil.
	Params json.RawMessage
	// Done, if set, is called once when the call is over: its response written, or
	// dropped.
	Done func()
	// Cancel, if set, is called when the client cancels the call, instead of the
	// SDK's own cancellation, which answers calls that have not begun with an error.
	Cancel func()
	// Serve, if set, answers the call beside the SDK, with the JSON of its result. A
	// contract may do so with calls that need nothing of the protocol but their
	// answer: the SDK's way through decoding, sessions and goroutines costs as much as
	// a small evaluation. Its context ends with the stream; a cancellation reaches it
	// through Cancel, which must be set.
	Serve func(ctx context.Context) json.RawMessage
}

func (o Options) withDefaults() Options {
	if o.MaxFrame <= 0 {
		o.MaxFrame = DefaultMaxFrame
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = defaultMaxInFlight
	}
	if o.Name == "" {
		o.Name = "mcp"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// Serve serves one client on s until its input ends, ctx is done, or the stream
// fails, and closes s.
//
// It returns nil at the end of input, when the client is gone, and when ctx is
// done; ErrFrameTooLarge, ErrTooMuchHeld or ErrMalformed (wrapped) when such a
// line ended it; and
// the error of a write that failed for another reason than a departed client.
//
// At the end of input, calls already read may complete within o.Drain and their
// replies are written; then the contexts of the rest are cancelled. Serve does
// not wait for handlers that ignore their context.
func Serve(ctx context.Context, server *mcp.Server, s *Stream, o Options) error {
	p := newPeer(ctx, server, s, o.withDefaults())
	o.Asker.attach(p)
	defer o.Asker.detach(p)

	ended := make(chan error, 1)
	readerDone := make(chan struct{})
	go func() {
		defer close(readerDone)
		err := p.read()
		ended <- err
		held := p.frames.held
		if refused(err) {
			p.frames.discardLine()
		}
		p.frames.unhold()
		p.frames.buf = nil
		returnMemory(held)
	}()

	var end error
	select {
	case <-ctx.Done():
	case <-p.failed:
		end = p.failure()
	case end = <-ended:
		p.drain(ctx)
		if refused(end) {
			waitFor(ctx, readerDone, discardFor)
		}
	}

	if ctx.Err() == nil {
		waitFor(ctx, p.refuseOpen(), lastWords)
	}
	p.close()
	_ = s.Close()
	waitFor(context.Background(), p.sessionsDone(), linger)
	p.abandon()
	waitFor(context.Background(), readerDone, linger)
	return end
}

// refused reports whether a line was too long to be taken, so that the rest of
// it is still to come.
func refused(err error) bool {
	return errors.Is(err, ErrFrameTooLarge) || errors.Is(err, ErrTooMuchHeld)
}

// waitFor waits for done, the end of ctx, or d, whichever comes first.
func waitFor(ctx context.Context, done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-t.C:
	}
}
