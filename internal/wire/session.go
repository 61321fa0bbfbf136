package wire

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK's end of a client. The SDK refuses calls before the handshake and a
// second handshake on a connection. Both are served by giving it a connection per
// handshake: a session that begins with an assumed handshake where a client made
// none, and a new one at each initialize, so that version, capabilities and client
// are always those of the latest handshake.

// origin says how a session came to know its protocol version.
type origin uint8

const (
	assumed        origin = iota // no handshake: as if
	afterHandshake               // initialize
	perRequest                   // each request names it (2026-07-28 and later)
)

// epochShift places the number of a session above the ids of the requests that
// the server makes, since each session of the SDK counts them from 1. Both fit
// the 53 bits of a JavaScript number.
const epochShift = 32

const barrierID = "\x00barrier"

// session is one handshake's [mcp.Transport] and [mcp.Connection].
type session struct {
	peer        *peer
	epoch       int64
	origin      origin
	initialized bool // notifications/initialized passed on; owned by the reader
	in          chan jsonrpc.Message
	done        chan struct{}
	doneOnce    sync.Once
	barrier     chan struct{}
	stuck       bool // the last barrier was not answered in time; owned by the reader

	// Guarded by peer.mu.
	calls     map[jsonrpc.ID]*call
	unwritten int  // calls taken out of the map whose response is being written
	retired   bool // a later handshake has taken over
}

var (
	_ mcp.Transport  = (*session)(nil)
	_ mcp.Connection = (*session)(nil)
)

// Connect implements [mcp.Transport].
func (s *session) Connect(context.Context) (mcp.Connection, error) { return s, nil }

// SessionID implements [mcp.Connection]: streams have none.
func (s *session) SessionID() string { return "" }

// Read implements [mcp.Connection]. It returns io.EOF only when the stream has
// ended and its calls have had their time: the SDK then cancels the others.
func (s *session) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.in:
		return m, nil
	case <-s.done:
	case <-s.peer.done:
	case <-ctx.Done():
	}
	return nil, io.EOF
}

// Close implements [mcp.Connection]. The stream belongs to the peer.
func (s *session) Close() error {
	s.end()
	return nil
}

func (s *session) end() { s.doneOnce.Do(func() { close(s.done) }) }

// deliver hands a message to the SDK's reader.
func (s *session) deliver(m jsonrpc.Message) {
	select {
	case s.in <- m:
	case <-s.done:
	case <-s.peer.done:
	}
}

// waitForBarrier returns when the SDK has handled the notifications so far: it
// handles them in order, and a ping behind them. One that takes too long, because
// a handler or the client's end of the stream is blocked, leaves s stuck; further
// notifications are then dropped until it is passed.
func (s *session) waitForBarrier() {
	select {
	case <-s.barrier:
	default:
	}
	id, err := jsonrpc.MakeID(barrierID)
	if err != nil {
		return
	}
	s.deliver(&jsonrpc.Request{ID: id, Method: methodPing})
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-s.barrier:
	case <-s.done:
	case <-s.peer.done:
	case <-t.C:
		s.stuck = true
	}
}

func (s *session) passedBarrier() bool {
	select {
	case <-s.barrier:
		s.stuck = false
	default:
	}
	return !s.stuck
}

// Write implements [mcp.Connection].
func (s *session) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		return s.writeResponse(ctx, m)
	case *jsonrpc.Request:
		return s.writeRequest(ctx, m)
	}
	return nil
}

func (s *session) writeResponse(ctx context.Context, r *jsonrpc.Response) error {
	if r.ID.Raw() == barrierID {
		select {
		case s.barrier <- struct{}{}:
		default:
		}
		return nil
	}
	p := s.peer
	r.Result = p.ready.exchange(r.Result)
	p.mu.Lock()
	c := s.calls[r.ID]
	if c == nil {
		p.mu.Unlock()
		return nil
	}
	// The client may use the id again as soon as it has the response.
	delete(s.calls, r.ID)
	s.unwritten++
	silent := c.cancelled && !p.o.AnswerCancelled
	b := c.batch
	p.mu.Unlock()
	defer p.finish(s, c)

	if silent {
		return nil
	}
	if b != nil {
		line := p.settle(b, appendResponse(nil, c.raw, r))
		if line == nil {
			return nil
		}
		return p.writeLine(ctx, line)
	}
	buf := takeBuffer()
	defer giveBuffer(buf)
	*buf = append(appendResponse(*buf, c.raw, r), '\n')
	return p.writeLine(ctx, *buf)
}

// writeRequest writes a request or a notification of the server's.
func (s *session) writeRequest(ctx context.Context, r *jsonrpc.Request) error {
	p := s.peer
	p.mu.Lock()
	retired := s.retired
	p.mu.Unlock()
	if retired && !r.IsCall() && r.Method != notifyProgress && r.Method != notifyMessage && r.Method != notifyCancelled {
		return nil // the later session tells it too
	}
	if s.epoch > 0 {
		r = s.renumber(r)
	}
	line, err := jsonrpc.EncodeMessage(r)
	if err != nil {
		return err
	}
	return p.writeLine(ctx, append(oneLine(line), '\n'))
}

// renumber gives a request of a later session an id of its own (see epochShift),
// and a cancellation of such a request the same.
func (s *session) renumber(r *jsonrpc.Request) *jsonrpc.Request {
	out := *r
	if n, ok := r.ID.Raw().(int64); ok {
		if id, err := jsonrpc.MakeID(float64(s.epoch<<epochShift | n)); err == nil {
			out.ID = id
		}
	}
	if r.Method == notifyCancelled {
		var params map[string]any
		if json.Unmarshal(r.Params, &params) == nil {
			if n, ok := params["requestId"].(float64); ok {
				params["requestId"] = s.epoch<<epochShift | int64(n)
				if raw, err := json.Marshal(params); err == nil {
					out.Params = raw
				}
			}
		}
	}
	return &out
}
