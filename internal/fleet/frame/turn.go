package frame

import (
	"sync/atomic"
	"time"
)

// lease is how long a stream may stay without a reader between two who read it for
// themselves.
const lease = 5 * time.Millisecond

// Turn says who reads a stream. Whoever waits for a message reads the stream itself,
// if nobody does: the message then reaches it without a switch of goroutines. One
// goroutine, the keeper of the stream, reads it where nobody does for longer than a
// moment, or where others wait who do not read.
type Turn struct {
	held  atomic.Bool
	count atomic.Uint64 // of the times it was given back
	seen  atomic.Uint64 // count when the timer went off
	armed atomic.Bool   // the timer will go off
	timer *time.Timer
	call  chan struct{} // a token: the keeper is to read
}

// NewTurn makes a turn that nobody has. Close ends it.
func NewTurn() *Turn {
	t := &Turn{call: make(chan struct{}, 1)}
	t.timer = time.AfterFunc(time.Hour, t.expire)
	t.timer.Stop()
	return t
}

// Take takes the turn, if nobody has it.
func (t *Turn) Take() bool { return t.held.CompareAndSwap(false, true) }

// Give gives the turn back. It passes to the keeper: at once if others wait, and in a
// moment if nobody has taken it by then.
func (t *Turn) Give(others bool) {
	t.count.Add(1)
	t.held.Store(false)
	if others {
		t.Keeper()
	} else if t.armed.CompareAndSwap(false, true) {
		t.timer.Reset(lease)
	}
}

// Keeper has the keeper read, if nobody else does.
func (t *Turn) Keeper() {
	select {
	case t.call <- struct{}{}:
	default:
	}
}

// Called yields when the keeper is to take the turn, if it is free.
func (t *Turn) Called() <-chan struct{} { return t.call }

// expire calls the keeper when the turn has not been taken for a lease.
func (t *Turn) expire() {
	t.armed.Store(false)
	if t.held.Load() {
		return // whoever holds it arms the timer again
	}
	now := t.count.Load()
	if t.seen.Swap(now) != now && t.armed.CompareAndSwap(false, true) {
		t.timer.Reset(lease)
		return
	}
	t.Keeper()
}

// Close stops the timer.
func (t *Turn) Close() { t.timer.Stop() }
