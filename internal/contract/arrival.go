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
	latest map[string]*place // by host and session
	expand func([]string) []string
}

// An arrival is one such call. One on many hosts has a place on each, and waits on
// none for the others.
type arrival struct {
	number uint64
	many   bool
	places map[string]*place // by host; "" is this machine
}

// A place is a call's in the order of one session.
type place struct {
	key    string
	before <-chan struct{} // closed when the one before it has begun
	begun  chan struct{}
	once   sync.Once
}

func (p *place) begin() { p.once.Do(func() { close(p.begun) }) }

// arrivalKey is the member of a call's metadata that holds its number on its way
// through the SDK.
const arrivalKey = "topside/arrival"

// Expand sets what tells the hosts that a selection of many stands for.
func (a *Arrivals) Expand(expand func([]string) []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expand = expand
}

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
	arrived := a.enter(tool.Places(call.Arguments))
	numbered, err := withMeta(params, arrivalKey, arrived.number)
	if err != nil {
		a.leave(arrived)
		return plain, nil
	}
	return wire.Admission{Params: numbered, Done: func() { a.leave(arrived) }}, nil
}

func (a *Arrivals) enter(session string, hosts []string, many bool) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open, a.latest = map[uint64]*arrival{}, map[string]*place{}
	}
	if many && a.expand != nil {
		hosts = a.expand(hosts)
	}
	a.last++
	arrived := &arrival{number: a.last, many: many, places: map[string]*place{}}
	for _, host := range hosts {
		host = tool.Place(host)
		if arrived.places[host] != nil {
			continue
		}
		p := &place{key: host + "\x00" + session, begun: make(chan struct{})}
		if before := a.latest[p.key]; before != nil {
			p.before = before.begun
		}
		arrived.places[host], a.latest[p.key] = p, p
	}
	a.open[arrived.number] = arrived
	return arrived
}

func (a *Arrivals) leave(arrived *arrival) {
	for _, p := range arrived.places {
		p.begin()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, arrived.number)
	for _, p := range arrived.places {
		if a.latest[p.key] == p {
			delete(a.latest, p.key)
		}
	}
}

// wait returns when the call may begin, and what to call when it has. A call on many
// hosts may begin at once, and waits with turn for its place on each. Calls that
// came another way begin at once.
func (a *Arrivals) wait(ctx context.Context, request *mcp.CallToolRequest) (begun func(), turn func(context.Context, string) func()) {
	number, ok := request.Params.Meta[arrivalKey].(float64)
	if a == nil || !ok {
		return func() {}, nil
	}
	a.mu.Lock()
	arrived := a.open[uint64(number)]
	a.mu.Unlock()
	if arrived == nil {
		return func() {}, nil
	}
	if arrived.many {
		return func() {}, arrived.turn
	}
	for host := range arrived.places { // one
		begun = arrived.turn(ctx, host)
	}
	return begun, nil
}

// turn waits for the call's place on a host, and returns what to call when it has
// begun there.
func (arrived *arrival) turn(ctx context.Context, host string) (begun func()) {
	p := arrived.places[host]
	if p == nil {
		return func() {} // it came to be known in this moment
	}
	if p.before != nil {
		select {
		case <-p.before:
		case <-ctx.Done(): // the handler will tell
		}
	}
	return p.begin
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
