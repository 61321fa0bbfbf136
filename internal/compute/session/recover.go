package session

import (
	"context"
	"errors"
	"time"

	"topside/internal/compute/engine"
)

// replayLimit bounds one replay, and replayEach one phrase of it.
const (
	replayLimit = 60 * time.Second
	replayEach  = 20 * time.Second
)

// recoverFrom brings the state back after the end of the process. A keeper that took over lacks at most the
// evaluations since it was forked; a new process lacks all. Those are evaluated again, their output is dropped.
func (s *Session) recoverFrom(ctx context.Context, cause error) (*Recovery, error) {
	if s.ctx.Err() != nil {
		return nil, ErrClosed
	}
	s.setState(Recovering, "")
	death := &engine.Death{}
	errors.As(cause, &death)
	rec := &Recovery{Cause: death.Describe(), By: ByKeeper}
	// The call that killed the process may be over for its caller; the session must come back nevertheless.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayLimit)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	if death.Recovered {
		s.mu.Lock()
		s.generation++
		s.mu.Unlock()
		s.replay(ctx, rec, s.log.after(death.Seq))
		if s.current().Alive() {
			rec.Generation = s.Status().Generation
			return rec, nil
		}
	}
	rec.By, rec.Replayed, rec.Failed = ByReplay, 0, nil
	fresh, err := s.freshChild(ctx)
	if err != nil {
		return nil, err
	}
	s.replaceChild(fresh)
	if s.prewarmed && s.o.Prewarm != "" {
		if err := s.prewarm(ctx, fresh); err != nil {
			rec.Failed = append(rec.Failed, ReplayFailure{Source: s.o.Prewarm, Message: err.Error()})
		}
	}
	s.replay(ctx, rec, s.log.after(0))
	rec.Generation = s.Status().Generation
	return rec, nil
}

// freshChild starts a process; what a pool holds may have died too, so a second try starts one directly.
func (s *Session) freshChild(ctx context.Context) (*engine.Child, error) {
	c, err := s.newChild(ctx)
	if err == nil && c.Alive() {
		return c, nil
	}
	if err == nil {
		c.Close()
	}
	return engine.Start(ctx, s.o.Language, s.o.Engine)
}

// replay evaluates entries again. A phrase that kills even the new process is left out, and so is what follows.
func (s *Session) replay(ctx context.Context, rec *Recovery, entries []entry) {
	for i, e := range entries {
		if ctx.Err() != nil || !s.current().Alive() {
			rec.Failed = append(rec.Failed, ReplayFailure{Message: "not evaluated again: the replay was stopped"})
			_ = i
			break
		}
		call := engine.Call{}
		var reply engine.Reply
		var err error
		if e.load != "" {
			reply, err = s.current().Load(ctx, e.seq, e.load, &call)
		} else {
			reply, err = s.current().Eval(ctx, e.seq, e.text, "", false, replayEach, &call)
		}
		rec.Replayed++
		switch {
		case err != nil:
			rec.Failed = append(rec.Failed, ReplayFailure{Source: clip(e.text), Message: err.Error()})
		case reply.Failure != nil:
			rec.Failed = append(rec.Failed, ReplayFailure{Source: clip(e.text), Message: reply.Failure.Message})
		}
	}
	s.skipOutput()
}

func clip(s string) string { return s[:boundary([]byte(s), 200)] }
