// Package route sends calls to hosts: to one, or to many at a time with a deadline
// for each, and puts the results of many together. It does not know what a call
// means.
package route

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/host"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

// Caller makes calls to one host; *link.Link is one, and what serves this machine's
// own calls is another.
type Caller interface {
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// ToolParams are the parameters of "tools/call".
func ToolParams(tool string, arguments json.RawMessage) (json.RawMessage, error) {
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	return json.Marshal(struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{tool, arguments})
}

// Tool calls a tool of a host and returns its result as it came.
func Tool(ctx context.Context, c Caller, tool string, arguments json.RawMessage) (json.RawMessage, error) {
	params, err := ToolParams(tool, arguments)
	if err != nil {
		return nil, err
	}
	return c.Call(ctx, "tools/call", params)
}

// WithoutRouting returns the arguments of a call without the members that chose the
// host; names are the members' names. Arguments that are not an object stay as they
// are.
func WithoutRouting(arguments json.RawMessage, names ...string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(arguments, &members) != nil || members == nil {
		return arguments
	}
	for _, n := range names {
		delete(members, n)
	}
	out, err := json.Marshal(members)
	if err != nil {
		return arguments
	}
	return out
}

// Status is how a call to one of many hosts ended.
type Status string

// The statuses.
const (
	OK           Status = "ok"
	Failed       Status = "error"        // the host answered with an error
	Unreachable  Status = "unreachable"  // no connection; nothing was started
	Broken       Status = "broken"       // the connection broke during the call
	TimedOut     Status = "timeout"      // no answer by the deadline
	Cancelled    Status = "cancelled"    // the caller gave up
	Denied       Status = "denied"       // the host's entry forbids it
	UnknownHost  Status = "unknown_host" // no such host
	Incompatible Status = "incompatible" // versions without a common protocol
)

// StatusOf tells the status of a call's error.
func StatusOf(err error) Status {
	var (
		denied    *host.PolicyError
		versions  *frame.IncompatibleError
		broken    *link.BrokenError
		connect   *link.ConnectError
		transport *ssh.Error
		refused   *frame.Failure
	)
	switch {
	case err == nil:
		return OK
	case errors.As(err, &denied):
		return Denied
	case errors.Is(err, host.ErrUnknown):
		return UnknownHost
	case errors.As(err, &versions), errors.As(err, &refused) && refused.Kind == "incompatible":
		return Incompatible
	case errors.As(err, &broken):
		return Broken
	case errors.As(err, &connect), errors.As(err, &transport):
		return Unreachable
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return Failed
}

// Outcome is the result of one of many hosts.
type Outcome struct {
	Host   string
	Status Status
	Result json.RawMessage // of OK
	Err    error           // of the others
	Took   time.Duration
}

// maxAtOnce bounds the hosts that are called at a time. Waiting costs nothing, so it
// is high; answers are not.
const maxAtOnce = 64

// Each calls do for every host at the same time, with a deadline of its own for each
// (none if zero), and returns an outcome for each, in the order of hosts. It returns
// when the last host has answered or is over its deadline, whatever do does: a do
// that ignores its context is left behind.
func Each(ctx context.Context, hosts []string, deadline time.Duration, do func(ctx context.Context, host string) (json.RawMessage, error)) []Outcome {
	out := make([]Outcome, len(hosts))
	places := make(chan struct{}, maxAtOnce)
	var group sync.WaitGroup
	for i, h := range hosts {
		group.Go(func() {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				out[i] = Outcome{Host: h, Status: StatusOf(ctx.Err()), Err: ctx.Err()}
				return
			}
			defer func() { <-places }()
			out[i] = one(ctx, h, deadline, do)
		})
	}
	group.Wait()
	return out
}

func one(ctx context.Context, h string, deadline time.Duration, do func(context.Context, string) (json.RawMessage, error)) Outcome {
	began := time.Now()
	if deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	type answer struct {
		result json.RawMessage
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := do(ctx, h)
		done <- answer{r, err}
	}()
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		// It may have an answer in the same moment, or a better error.
		grace := time.NewTimer(deadlineGrace)
		defer grace.Stop()
		select {
		case a = <-done:
		case <-grace.C:
			a.err = ctx.Err()
		}
	}
	o := Outcome{Host: h, Status: StatusOf(a.err), Err: a.err, Took: time.Since(began)}
	if a.err == nil {
		o.Result = a.result
	}
	return o
}

// deadlineGrace is how long a call may take to say why it ended.
const deadlineGrace = 100 * time.Millisecond

// From is an item and the host that it came from.
type From[T any] struct {
	Host string
	Item T
}

// Merge puts the items of many outcomes together: decode takes them out of a result,
// compare orders them (nil keeps them by host), and at most limit are kept (all if
// zero). total is how many there were. A result that cannot be decoded turns its
// outcome, in place, into a failed one.
func Merge[T any](outcomes []Outcome, decode func(json.RawMessage) ([]T, error), compare func(a, b T) int, limit int) (items []From[T], total int) {
	for i := range outcomes {
		o := &outcomes[i]
		if o.Status != OK {
			continue
		}
		list, err := decode(o.Result)
		if err != nil {
			o.Status, o.Err, o.Result = Failed, err, nil
			continue
		}
		for _, item := range list {
			items = append(items, From[T]{o.Host, item})
		}
	}
	total = len(items)
	if compare != nil {
		slices.SortStableFunc(items, func(a, b From[T]) int {
			return cmp.Or(compare(a.Item, b.Item), cmp.Compare(a.Host, b.Host))
		})
	}
	if limit > 0 && len(items) > limit {
		items = items[:limit:limit]
	}
	return items, total
}
