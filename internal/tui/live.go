package tui

// This file is the source of a live view: an observer of see, remade when the
// interval changes, since its windows are as long as the interval.

import (
	"context"
	"errors"
	"sync"
	"time"

	"topside/internal/see"
	"topside/internal/see/resource"
)

// Live observes one machine. It is safe for concurrent use. Close it when done.
type Live struct {
	ctx     context.Context
	options see.Options

	mu       sync.Mutex // held while the observer is used or replaced
	observer *see.Observer
	// first is the observer of the first interval, which others may use too.
	first *see.Observer
}

// NewLive returns a source that observes as o says; its observers end with ctx.
func NewLive(ctx context.Context, o see.Options) (*Live, error) {
	l := &Live{ctx: ctx, options: o}
	if err := l.open(); err != nil {
		return nil, err
	}
	l.first = l.observer
	return l, nil
}

// Observer is the first observer. It stays open until Close.
func (l *Live) Observer() *see.Observer { return l.first }

func (l *Live) open() error {
	observer, err := see.New(l.options)
	if err != nil {
		return err
	}
	observer.Start(l.ctx)
	l.observer = observer
	return nil
}

// Retune makes later observations span that interval.
func (l *Live) Retune(interval time.Duration) error {
	interval = min(max(interval, see.MinInterval), see.MaxInterval)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.options.Interval == interval {
		return nil
	}
	before := l.observer
	l.options.Interval = interval
	if err := l.open(); err != nil {
		return err
	}
	if before == l.first {
		return nil
	}
	return before.Close()
}

// Sample takes a new observation.
func (l *Live) Sample(ctx context.Context) (*Scene, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var fresh time.Duration
	snapshot, err := l.observer.Select(ctx, see.Selector{MaxAge: &fresh})
	if err != nil {
		return nil, err
	}
	return &Scene{
		Observation: snapshot.Observation(), Catalogue: snapshot.Catalogue(),
		ClockTicks: l.observer.FS().ClockTicks(), Snapshot: snapshot,
	}, nil
}

// Details reads what is known of one process beyond its row.
func (l *Live) Details(ctx context.Context, s *Scene, r *resource.Resource) *see.Details {
	if s.Snapshot == nil {
		return nil
	}
	return s.Snapshot.Details(ctx, r)
}

// Close ends the observation.
func (l *Live) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.observer.Close()
	if l.first != l.observer {
		err = errors.Join(err, l.first.Close())
	}
	return err
}
