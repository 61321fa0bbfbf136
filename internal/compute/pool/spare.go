package pool

import (
	"context"
	"sync"

	"topside/internal/compute/engine"
)

// spares are started processes of one language that no session uses yet.
type spares struct {
	lang    engine.Language
	options engine.Options
	want    int

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu       sync.Mutex
	ready    []*engine.Child
	starting int
	failed   bool // a spare did not start: nothing is tried ahead until a session starts one itself
	closed   bool
}

func newSpares(lang engine.Language, o engine.Options, want int) *spares {
	s := &spares{lang: lang, options: o, want: want}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	s.refill()
	s.mu.Unlock()
	return s
}

// take gives a started process, the caller's from now on.
func (s *spares) take(ctx context.Context) (*engine.Child, error) {
	s.mu.Lock()
	for len(s.ready) > 0 {
		c := s.ready[0]
		s.ready = s.ready[1:]
		if c.Alive() {
			s.refill()
			s.mu.Unlock()
			return c, nil
		}
		c.Close()
	}
	s.mu.Unlock()
	c, err := engine.Start(ctx, s.lang, s.options)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err != nil
	s.refill()
	return c, err
}

// refill starts what is missing. The caller holds the lock.
func (s *spares) refill() {
	for !s.closed && !s.failed && len(s.ready)+s.starting < s.want {
		s.starting++
		s.wait.Go(func() {
			c, err := engine.Start(s.ctx, s.lang, s.options)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.starting--
			switch {
			case err != nil:
				s.failed = true
			case s.closed:
				c.Close()
			default:
				s.ready = append(s.ready, c)
			}
		})
	}
}

func (s *spares) close() {
	s.mu.Lock()
	s.closed = true
	ready := s.ready
	s.ready = nil
	s.mu.Unlock()
	s.cancel()
	for _, c := range ready {
		c.Close()
	}
	s.wait.Wait()
}
