package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
)

// Results that are encoded already. The SDK encodes whatever a handler returns,
// and a result that encodes itself is checked and copied byte by byte, which for
// a list of some kilobytes costs more than all the rest of the call. So a
// surface may leave the bytes here and return a short stand-in, which the
// connection exchanges for them when the response is written.

// standInKey is the only member of a stand-in.
const standInKey = `{"topside/ready":"`

// readyResults are the results that wait for their response, of one connection:
// what is never written (a client that went away) goes with it.
type readyResults struct {
	secret string // so that no tool's own result can be taken for a stand-in

	mu    sync.Mutex
	count uint64
	held  map[string][]byte
}

func newReadyResults() *readyResults {
	return &readyResults{secret: rand.Text(), held: map[string][]byte{}}
}

type readyContext struct{}

// Hold leaves an encoded result with the connection that ctx, the context of a
// call, belongs to. It returns the stand-in to give to the SDK instead, or
// encoded itself where the connection is not of this package.
func Hold(ctx context.Context, encoded []byte) json.RawMessage {
	ready, ok := ctx.Value(readyContext{}).(*readyResults)
	if !ok {
		return encoded
	}
	ready.mu.Lock()
	defer ready.mu.Unlock()
	ready.count++
	name := ready.secret + strconv.FormatUint(ready.count, 36)
	ready.held[name] = encoded
	return json.RawMessage(standInKey + name + `"}`)
}

// exchange returns the result that raw stands in for, or raw itself.
func (r *readyResults) exchange(raw json.RawMessage) json.RawMessage {
	name, ok := bytes.CutPrefix(raw, []byte(standInKey))
	if !ok {
		return raw
	}
	name = bytes.TrimSuffix(name, []byte(`"}`))
	r.mu.Lock()
	defer r.mu.Unlock()
	encoded, ok := r.held[string(name)]
	if !ok {
		return raw
	}
	delete(r.held, string(name))
	return encoded
}
