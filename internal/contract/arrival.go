package contract

// This file keeps the order in which a client's calls on one session arrived,
// from the wire, which reads them one by one, to their handlers, which the SDK
// starts at once and side by side.

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/tool"
	"topside/internal/wire"
)

// Arrivals are the calls that are on their way and must begin in order. The zero
// value is ready to use; one is shared by the wire and the servers of a process.
type Arrivals struct {
	mu     sync.Mutex
	last   uint64
	open   map[uint64]*arrival
	latest map[string]*arrival // by session
}

// An arrival is one such call.
type arrival struct {
	number  uint64
	session string
	before  <-chan struct{} // closed when the one before it has begun
	begun   chan struct{}
	once    sync.Once
}

func (a *arrival) begin() { a.once.Do(func() { close(a.begun) }) }

// arrivalKey is the member of a call's metadata that holds its number on its way
// through the SDK.
const arrivalKey = "topside/arrival"

// Admit implements the wire's option of that name.
func (a *Arrivals) Admit(method string, params json.RawMessage) (wire.Admission, *jsonrpc.Error) {
	plain := wire.Admission{Params: params}
	if method != "tools/call" {
		return plain, nil
	}
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(params, &call) != nil || !tool.InOrder(call.Name) {
		return plain, nil
	}
	var place struct {
		Session string `json:"session"`
	}
	_ = json.Unmarshal(call.Arguments, &place) // what is no name stands for the default session
	arrived := a.enter(place.Session)
	numbered, err := withMeta(params, arrivalKey, arrived.number)
	if err != nil {
		a.leave(arrived)
		return plain, nil
	}
	return wire.Admission{Params: numbered, Done: func() { a.leave(arrived) }}, nil
}

func (a *Arrivals) enter(session string) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open, a.latest = map[uint64]*arrival{}, map[string]*arrival{}
	}
	a.last++
	arrived := &arrival{number: a.last, session: session, begun: make(chan struct{})}
	if before := a.latest[session]; before != nil {
		arrived.before = before.begun
	}
	a.open[arrived.number], a.latest[session] = arrived, arrived
	return arrived
}

func (a *Arrivals) leave(arrived *arrival) {
	arrived.begin()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, arrived.number)
	if a.latest[arrived.session] == arrived {
		delete(a.latest, arrived.session)
	}
}

// wait returns when the call may begin, and what to call when it has. Calls that
// came another way begin at once.
func (a *Arrivals) wait(ctx context.Context, request *mcp.CallToolRequest) (begun func()) {
	number, ok := request.Params.Meta[arrivalKey].(float64)
	if a == nil || !ok {
		return func() {}
	}
	a.mu.Lock()
	arrived := a.open[uint64(number)]
	a.mu.Unlock()
	if arrived == nil {
		return func() {}
	}
	if arrived.before != nil {
		select {
		case <-arrived.before:
		case <-ctx.Done(): // the handler will tell
		}
	}
	return arrived.begin
}

// withMeta adds a member to the metadata of parameters.
func withMeta(params json.RawMessage, key string, value any) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil {
		return nil, err
	}
	meta := map[string]json.RawMessage{}
	if raw := members["_meta"]; raw != nil {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, err
		}
		if meta == nil {
			meta = map[string]json.RawMessage{}
		}
	}
	encoded, err := encode(value)
	if err != nil {
		return nil, err
	}
	meta[key] = encoded
	if members["_meta"], err = encode(meta); err != nil {
		return nil, err
	}
	return encode(members)
}
