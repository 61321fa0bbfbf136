package wire

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// ErrNoAnswer is the error of a request whose client went away before it answered.
var ErrNoAnswer = errors.New("channel: closed before response")

// Asker makes requests to the client of one stream, with ids that it counts from 1
// (the back-channel of the topup contract). The SDK's own requests, which some
// surfaces make, have their ids from the SDK: such a surface has no Asker.
//
// A nil Asker is valid and asks nobody.
type Asker struct {
	mu      sync.Mutex
	peer    *peer
	next    int64
	pending map[int64]chan message
}

func (a *Asker) attach(p *peer) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peer, a.pending = p, map[int64]chan message{}
}

func (a *Asker) detach(p *peer) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.peer != p {
		return
	}
	for _, answer := range a.pending {
		close(answer)
	}
	a.peer, a.pending = nil, nil
}

// answered takes a response that this Asker waits for.
func (a *Asker) answered(id int64, m message) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := a.pending[id]
	if answer == nil {
		return false
	}
	delete(a.pending, id)
	answer <- m
	return true
}

// Ask sends a request and returns the result of its response. The error is a
// *jsonrpc.Error when the client answered with one, and ErrNoAnswer when it went
// away, at the end of its input too.
func (a *Asker) Ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	p := a.peer
	if p == nil {
		a.mu.Unlock()
		return nil, ErrNoAnswer
	}
	a.next++
	n := a.next
	answer := make(chan message, 1)
	a.pending[n] = answer
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.pending, n)
		a.mu.Unlock()
	}()
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		return nil, err
	}
	line, err := jsonrpc.EncodeMessage(&jsonrpc.Request{ID: id, Method: method, Params: encoded})
	if err != nil {
		return nil, err
	}
	if err := p.writeLine(ctx, append(oneLine(line), '\n')); err != nil {
		return nil, ErrNoAnswer
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, ErrNoAnswer
		case m.err != nil:
			return nil, m.err
		}
		return m.result, nil
	case <-p.inputEnded:
		return nil, ErrNoAnswer
	case <-p.done:
		return nil, ErrNoAnswer
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
