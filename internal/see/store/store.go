// Package store keeps the last few snapshots of one machine and decides when a
// new one is collected.
//
// It sits between resource (what a snapshot holds) and the façade see. Its
// rules are those of contract wsltop, section 2: reads of a retained snapshot
// never wait for a collection, concurrent requests for the latest share one,
// forced ones collect one after another, and a collection that fails leaves
// what was there.
package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrUnavailable means that no retained snapshot has that id: it is unknown,
// expired, evicted or another server's. These are not told apart.
var ErrUnavailable = errors.New("snapshot is not available")

// A Snapshot is an immutable observation under an opaque id.
type Snapshot[T any] struct {
	ID    string
	Value T
	// Completed is when its collection ended, on the monotonic clock: its age
	// counts from here.
	Completed time.Time
}

// A Store keeps snapshots of T. The zero Store is not usable; see [New].
type Store[T any] struct {
	collect   func(context.Context) (T, error)
	capacity  int
	retention time.Duration

	// gate holds one token: whoever has it may collect.
	gate chan struct{}

	mu   sync.Mutex
	kept []*Snapshot[T] // oldest first
}

// New returns a store that collects with that function and keeps at most
// capacity snapshots for at most retention after their completion.
func New[T any](capacity int, retention time.Duration, collect func(context.Context) (T, error)) *Store[T] {
	s := &Store[T]{collect: collect, capacity: capacity, retention: retention, gate: make(chan struct{}, 1)}
	s.gate <- struct{}{}
	return s
}

// Pinned returns the retained snapshot with that id, or [ErrUnavailable]. It
// never waits for a collection.
func (s *Store[T]) Pinned(id string) (*Snapshot[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, snapshot := range s.kept {
		if snapshot.ID == id && s.retained(snapshot) {
			return snapshot, nil
		}
	}
	return nil, ErrUnavailable
}

// Latest returns the newest snapshot if it is at most maxAge old, else the
// result of a new collection. A maxAge of zero always collects. A caller whose
// context ends stops waiting at once; a collection that has begun for it is
// cancelled with it.
func (s *Store[T]) Latest(ctx context.Context, maxAge time.Duration) (*Snapshot[T], error) {
	asked := time.Now()
	if snapshot := s.fresh(maxAge, asked); snapshot != nil {
		return snapshot, nil
	}
	select {
	case <-s.gate:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { s.gate <- struct{}{} }()
	// Whoever held the gate before may have collected what this caller wants. What
	// was completed after the caller asked is fresh to it, however long it then
	// took to wake up.
	if snapshot := s.fresh(maxAge, asked); snapshot != nil {
		return snapshot, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	value, err := s.collect(ctx)
	if err != nil {
		return nil, err
	}
	return s.keep(value)
}

// fresh returns the newest snapshot if it is young enough, or younger than the
// question.
func (s *Store[T]) fresh(maxAge time.Duration, asked time.Time) *Snapshot[T] {
	if maxAge <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 0 {
		return nil
	}
	newest := s.kept[len(s.kept)-1]
	if !s.retained(newest) || newest.Completed.Before(asked) && time.Since(newest.Completed) > maxAge {
		return nil
	}
	return newest
}

func (s *Store[T]) retained(snapshot *Snapshot[T]) bool {
	return time.Since(snapshot.Completed) < s.retention
}

// keep adds a snapshot and drops what is expired or over capacity.
func (s *Store[T]) keep(value T) (*Snapshot[T], error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot := &Snapshot[T]{ID: id, Value: value, Completed: time.Now()}
	kept := s.kept[:0:0]
	for _, old := range s.kept {
		if s.retained(old) {
			kept = append(kept, old)
		}
	}
	if over := len(kept) + 1 - s.capacity; over > 0 {
		kept = kept[over:]
	}
	s.kept = append(kept, snapshot)
	return snapshot, nil
}

// newID draws 96 bits: sixteen characters that cannot be guessed and that no
// other server's snapshot has.
func newID() (string, error) {
	raw := make([]byte, 12)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("no randomness for snapshot ids: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}
