package session

import (
	"context"
	"time"
)

// Run is an evaluation that goes on without a caller waiting for it.
type Run struct {
	ID      uint64
	Source  string
	Started time.Time

	session *Session
	cancel  context.CancelFunc
	done    chan struct{}
	result  Result
	err     error
}

// keptRuns is how many finished runs a session remembers.
const keptRuns = 32

// Start begins an evaluation in the background. Its end is collected from Done and Result; the session remembers
// the last 32 of them for Run.
func (s *Session) Start(r Request) *Run {
	ctx, cancel := context.WithCancel(s.ctx)
	run := &Run{Source: r.Source, Started: time.Now(), session: s, cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	s.nextRun++
	run.ID = s.nextRun
	s.runs = append(s.runs, run)
	for i := 0; len(s.runs) > keptRuns && i < len(s.runs); {
		if s.runs[i].finished() {
			s.runs = append(s.runs[:i:i], s.runs[i+1:]...)
		} else {
			i++
		}
	}
	closed := s.closed
	if !closed {
		s.wait.Add(1)
	}
	s.mu.Unlock()
	if closed {
		cancel()
		run.err = ErrClosed
		close(run.done)
		return run
	}
	go func() {
		defer s.wait.Done()
		defer cancel()
		run.result, run.err = s.Eval(ctx, r)
		close(run.done)
	}()
	return run
}

// Run returns a remembered run, or nil.
func (s *Session) Run(id uint64) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Done is closed when the run has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

func (r *Run) finished() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Wait waits at most d and tells whether the run has ended.
func (r *Run) Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.finished()
}

// Result of an ended run.
func (r *Run) Result() (Result, error) {
	<-r.done
	return r.result, r.err
}

// Cancel stops the run, whether it waits or works.
func (r *Run) Cancel() { r.cancel() }
