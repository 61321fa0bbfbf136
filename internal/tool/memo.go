package tool

// This file keeps what was made of a snapshot: a snapshot never changes, so its
// summary is made once, however often it is asked for.

import (
	"sync"

	"topside/internal/see"
	"topside/internal/see/model"
)

// A memo holds one value for each of the last few snapshots. It holds no more
// of them than the store, so that it keeps few alive that the store let go.
type memo[T any] struct {
	mu      sync.Mutex
	entries [see.Capacity]struct {
		of    *model.Observation
		value T
	}
	next int
}

// of returns the value for a snapshot, made by make the first time.
func (m *memo[T]) of(s *see.Snapshot, make func(*see.Snapshot) (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.entries {
		if m.entries[i].of == s.Observation() {
			return m.entries[i].value, nil
		}
	}
	value, err := make(s)
	if err == nil {
		m.entries[m.next].of, m.entries[m.next].value = s.Observation(), value
		m.next = (m.next + 1) % len(m.entries)
	}
	return value, err
}
