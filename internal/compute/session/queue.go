package session

import (
	"context"
	"slices"
	"sync"
)

// queue lets one caller in at a time, in the order of arrival. A waiting caller whose context ends leaves the queue.
type queue struct {
	mu      sync.Mutex
	busy    bool
	waiting []chan struct{}
}

func (q *queue) enter(ctx context.Context) error {
	q.mu.Lock()
	if err := ctx.Err(); err != nil {
		q.mu.Unlock()
		return err
	}
	if !q.busy {
		q.busy = true
		q.mu.Unlock()
		return nil
	}
	turn := make(chan struct{}, 1)
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(q.waiting, turn)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 {
		// The turn came at the same moment; hand it on.
		q.leave()
	}
	return ctx.Err()
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.busy = false
		return
	}
	turn := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	turn <- struct{}{}
}

func (q *queue) length() (busy bool, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy, len(q.waiting)
}
