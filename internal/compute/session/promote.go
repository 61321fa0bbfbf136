package session

import (
	"context"
	"errors"

	"topside/internal/compute/promote"
)

// Promote builds a native program from the log. A build that fails is a result that is not OK; a call that cannot
// work is a *UsageError.
func (s *Session) Promote(ctx context.Context, entry, out string, libraries []string) (promote.Result, error) {
	if !s.o.Language.Capabilities().Promote {
		return promote.Result{}, usage("compile_to_binary works in OCaml sessions; this one is %s", s.o.Language.Name())
	}
	if !s.log.Enabled() {
		return promote.Result{}, usage("compile_to_binary requires phrase logging (TOPUP_LOG is off)")
	}
	// The log is copied in the session's turn; the build itself does not keep others waiting.
	_, leave, err := s.enter(ctx)
	if err != nil {
		return promote.Result{}, err
	}
	phrases := s.log.phrases()
	leave()
	if len(phrases) == 0 {
		return promote.Result{}, usage("phrase log not found at %s", s.log.Path())
	}
	r, err := promote.Build(ctx, promote.Request{Phrases: phrases, Entry: entry, Out: out, Libraries: libraries})
	var refused *promote.Error
	if errors.As(err, &refused) {
		return r, &UsageError{refused.Text}
	}
	return r, err
}

func (l *Log) phrases() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, e := range l.entries {
		if e.text != "" {
			texts = append(texts, e.text)
		}
	}
	return texts
}
