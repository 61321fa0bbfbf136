package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"topside/internal/compute/session"
)

// StartLimit is how long a start or restart may take, its prewarm file included (contract topup, section 2).
const StartLimit = 20 * time.Second

var (
	errStartLimit     = fmt.Errorf("not ready after %.0f s", StartLimit.Seconds())
	errStartCancelled = errors.New("the start was cancelled")
)

// resumes tells whether a start evaluates the log of an earlier server, which may take as long as that took.
func (p *Pool) resumes(r StartRequest) bool {
	name := r.Engine
	if entry, known := p.registry.get(r.Name); known && name == "" {
		name = entry.Engine
	}
	lang, err := p.Language(name)
	if err != nil || !r.Resume {
		return false
	}
	info, err := os.Stat(p.logOf(r.Name, lang))
	return err == nil && info.Size() > 0
}

// starts are the starts under way, so that they can be cancelled. The zero value is ready.
type starts struct {
	mu  sync.Mutex
	all map[*start]bool
}

type start struct {
	name   string
	cancel context.CancelCauseFunc
}

// begin notes a start until done is called.
func (s *starts) begin(ctx context.Context, name string) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &start{name, cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*start]bool{}
	}
	s.all[one] = true
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, one)
		cancel(nil)
	}
}

// Starting tells whether a session of that name is being started or restarted.
func (p *Pool) Starting(name string) bool {
	p.starts.mu.Lock()
	defer p.starts.mu.Unlock()
	for one := range p.starts.all {
		if one.name == name {
			return true
		}
	}
	return false
}

// CancelStart ends the start of a session, and tells whether there was one.
func (p *Pool) CancelStart(name string) bool {
	p.starts.mu.Lock()
	defer p.starts.mu.Unlock()
	found := false
	for one := range p.starts.all {
		if one.name == name {
			one.cancel(errStartCancelled)
			found = true
		}
	}
	return found
}

// checkPrewarm refuses what has no end or no beginning: devices, pipes, folders.
func checkPrewarm(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the session's own error is the contract's
	case err == nil && !info.Mode().IsRegular():
		return &session.PrewarmError{Path: path, Err: errors.New("not a regular file: " + path)}
	}
	return nil
}

// startError is a start that was ended; what ended it is wrapped, and not in the text.
type startError struct {
	text string
	err  error
}

func (e *startError) Error() string { return e.text }
func (e *startError) Unwrap() error { return e.err }

// endedStart says why a start did not come to its end.
func endedStart(ctx context.Context, e Entry) error {
	why := errStartCancelled.Error()
	if cause := context.Cause(ctx); errors.Is(cause, errStartLimit) || errors.Is(cause, context.DeadlineExceeded) {
		why = errStartLimit.Error()
	}
	if e.Prewarm != "" {
		return &startError{fmt.Sprintf("prewarm %s: %s: %s", e.Name, why, e.Prewarm), ctx.Err()}
	}
	return &startError{fmt.Sprintf("local session %s: %s", e.Name, why), ctx.Err()}
}
