package contract

// This file keeps the order of the calls of one client: those on the same place
// are served one after the other, those on different places side by side.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// turnKey is the member of a call's metadata that holds the number of its turn,
// on its way through the SDK.
const turnKey = "topside/turn"

// turnstile is ready to use as its zero value.
type turnstile struct {
	mu     sync.Mutex
	last   uint64
	turns  map[uint64]*turn
	queues map[string][]*turn // by place, the one that has its turn first
}

// turn is one call on its way.
type turn struct {
	number    uint64
	name      string
	arguments json.RawMessage
	places    []string
	come      chan struct{} // closed when it is first in every queue
	behind    int           // in how many queues it is not first
	answered  bool
	ctx       context.Context
	cancel    context.CancelFunc
}

// params are what the SDK is handed instead of the call's own parameters.
func (t *turn) params() json.RawMessage {
	return fmt.Appendf(nil, `{"name":"call","arguments":{},"_meta":{%q:%d}}`, turnKey, t.number)
}

// enter puts a call at the end of the queues of its places.
func (s *turnstile) enter(name string, arguments json.RawMessage, places []string) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns == nil {
		s.turns, s.queues = map[uint64]*turn{}, map[string][]*turn{}
	}
	s.last++
	t := &turn{number: s.last, name: name, arguments: arguments, places: places, come: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, p := range places {
		if len(s.queues[p]) > 0 {
			t.behind++
		}
		s.queues[p] = append(s.queues[p], t)
	}
	if t.behind == 0 {
		close(t.come)
	}
	s.turns[t.number] = t
	return t
}

// find returns the call with that number, or nil.
func (s *turnstile) find(number uint64) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turns[number]
}

// leave ends a call, and lets those behind it come forward.
func (s *turnstile) leave(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns[t.number] == nil {
		return
	}
	delete(s.turns, t.number)
	t.cancel()
	for _, p := range t.places {
		queue := s.queues[p]
		at := slices.Index(queue, t)
		queue = slices.Delete(queue, at, at+1)
		if len(queue) == 0 {
			delete(s.queues, p)
			continue
		}
		s.queues[p] = queue
		if at == 0 {
			if next := queue[0]; next.behind > 0 {
				if next.behind--; next.behind == 0 {
					close(next.come)
				}
			}
		}
	}
}

// answer notes that a call has its result, which is about to be written.
func (s *turnstile) answer(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.answered = true
}

// cancel stops the call that is first at a place, and reports whether there is one.
// A client that has its reply means the next call, though the last is not gone yet.
func (s *turnstile) cancel(place string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.queues[place] {
		if !t.answered {
			t.cancel()
			return true
		}
	}
	return false
}

// cancelAll stops every call at a place, those that wait for their turn too.
func (s *turnstile) cancelAll(place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.queues[place] {
		t.cancel()
	}
}
