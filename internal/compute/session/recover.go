package session

import (
	"context"
	"errors"
	"strings"
	"time"

	"topside/internal/compute/engine"
)

// replayEach bounds the replay of one phrase, beside ten times what it took before, and replayLimit that of all that
// are quick.
const (
	replayLimit = 60 * time.Second
	replayEach  = 20 * time.Second
	// quickPhrase is what a phrase may have taken that is evaluated again together with others.
	quickPhrase = 200 * time.Millisecond
	// replayTries is how often a process may end while the log is evaluated again without getting further.
	replayTries = 20
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayTime(s.log.after(0)))
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	seq, alive := death.Seq, death.Recovered
	deadly := &suspect{skip: map[string]bool{}}
	for tries, all := 0, 0; tries < replayTries && all < 10*replayTries; tries, all = tries+1, all+1 {
		rec.Replayed, rec.Failed = 0, nil
		if alive {
			s.mu.Lock()
			s.generation = s.o.Processes.Add(1)
			s.mu.Unlock()
		} else {
			rec.By, seq = ByReplay, 0
			if err := s.emptied(ctx); err != nil {
				return nil, err
			}
			if s.prewarmed && s.o.Prewarm != "" {
				if err := s.prewarm(ctx, s.current()); err != nil {
					rec.Failed = append(rec.Failed, ReplayFailure{Source: s.o.Prewarm, Message: err.Error()})
				}
			}
		}
		again, err := s.replay(ctx, rec, s.log.after(seq), deadly)
		if err != nil {
			// What was reached lacks phrases of the log: the next call begins with a new process.
			s.current().Close()
			if s.ctx.Err() != nil {
				return nil, ErrClosed
			}
			return nil, &InterruptedError{s.log.Path(), err}
		}
		if again == nil {
			rec.Generation = s.Status().Generation
			return rec, nil
		}
		if again.Recovered && again.Seq > seq {
			tries = 0 // a keeper holds a part of what was evaluated again
		}
		if again.Signal != "" && sent(again) {
			tries-- // somebody kills it, which is no fault of the log
		}
		seq, alive = again.Seq, again.Recovered
		if s.ctx.Err() != nil {
			return nil, ErrClosed
		}
	}
	return nil, errors.New("the session's process ended again and again while its log was evaluated; reset the session")
}

// again is how long the phrase may take this time.
func (e entry) again() time.Duration { return replayEach + 10*e.took }

// replayTime bounds the replay of all entries.
func replayTime(entries []entry) time.Duration {
	limit := replayLimit
	for _, e := range entries {
		limit += 10 * e.took
		if e.took > quickPhrase {
			limit += replayEach
		}
	}
	return limit
}

// suspect finds the phrase whose replay ends the process: it was this one again and again. A process that somebody
// kills dies at other places.
type suspect struct {
	what  string
	times int // in a row
	total int // at any phrase: from two on, phrases go one by one
	skip  map[string]bool
}

func (s *suspect) died(what string, d *engine.Death) {
	if d.Cause == engine.None && sent(d) && d.Signal != "" {
		return // somebody killed it: no fault of the phrase
	}
	if what != s.what {
		s.what, s.times = what, 0
	}
	s.total++
	if s.times++; s.times >= 3 {
		s.skip[what] = true
	}
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

// replay evaluates entries again and drops their output. It returns nil when it came to the end, or how the process
// ended on the way; a phrase that ends it again and again is left out the next time. The error is an interruption:
// what was running then is no phrase that fails.
func (s *Session) replay(ctx context.Context, rec *Recovery, entries []entry, deadly *suspect) (*engine.Death, error) {
	defer s.skipOutput()
	for i := 0; i < len(entries); i++ {
		if n := s.batch(entries[i:], deadly); n > 1 {
			done, death, err := s.replayBatch(ctx, rec, entries[i:i+n])
			if err != nil {
				return nil, err
			}
			if death != nil {
				deadly.died(entries[i].text, death)
				return death, nil
			}
			i += done - 1
			continue
		}
		e := entries[i]
		what := e.text + e.load
		if deadly.skip[what] {
			rec.Failed = append(rec.Failed, ReplayFailure{Source: clip(what), Message: "not evaluated again: it ends the process"})
			continue
		}
		call := engine.Call{}
		var reply engine.Reply
		var err error
		if e.load != "" {
			reply, err = s.current().Load(ctx, e.seq, e.load, &call)
		} else {
			reply, err = s.current().Eval(ctx, e.seq, e.text, "", false, e.again(), &call)
		}
		if cut := cutShort(ctx, &call, reply.Failure); cut != nil {
			return nil, cut
		}
		rec.Replayed++
		if err != nil {
			death := &engine.Death{}
			errors.As(err, &death)
			deadly.died(what, death)
			return death, nil
		}
		if reply.Failure != nil {
			rec.Failed = append(rec.Failed, ReplayFailure{Source: clip(what), Message: reply.Failure.Message})
		}
	}
	if !s.current().Alive() {
		return s.current().Check(), nil
	}
	return nil, nil
}

// cutShort is an interruption that the process may have survived. A death is dealt with by its caller.
func cutShort(ctx context.Context, call *engine.Call, failure *engine.Failure) error {
	return interrupted(ctx, call, failure, nil)
}

// batchSize is how many phrases are evaluated again in one request: the way to the child and back costs more than most
// of them do.
const batchSize = 50

// batch is the number of entries to evaluate together: quick ones, for the limit is that of one phrase. When the process
// ended twice, it is one, to find the culprit; and so it is in a language that does not allow a name twice in one
// source.
func (s *Session) batch(entries []entry, deadly *suspect) int {
	if s.o.Language.Capabilities().Terminator == "" || deadly.total >= 2 {
		return 1
	}
	n := 0
	for n < len(entries) && n < batchSize && entries[n].load == "" && len(entries[n].text) < 10000 && entries[n].took <= quickPhrase {
		n++
	}
	return n
}

// replayBatch evaluates entries in one request and returns how many are done with: when one fails, those before it
// and itself.
func (s *Session) replayBatch(ctx context.Context, rec *Recovery, entries []entry) (int, *engine.Death, error) {
	var source strings.Builder
	ends := make([]int, len(entries))
	limit := replayEach
	for i, e := range entries {
		limit += 10 * e.took
		source.WriteString(e.text)
		ends[i] = source.Len()
	}
	call := engine.Call{}
	reply, err := s.current().Eval(ctx, entries[len(entries)-1].seq, source.String(), "", false, limit, &call)
	if cut := cutShort(ctx, &call, reply.Failure); cut != nil {
		return 0, nil, cut
	}
	if err != nil {
		death := &engine.Death{}
		errors.As(err, &death)
		return 0, death, nil
	}
	if reply.Failure == nil {
		rec.Replayed += len(entries)
		return len(entries), nil, nil
	}
	reached := 0
	if n := len(reply.Phrases); n > 0 {
		reached = reply.Phrases[n-1].Stop
	}
	failed := 0
	for failed < len(ends)-1 && ends[failed] <= reached+1 {
		failed++
	}
	rec.Replayed += failed + 1
	rec.Failed = append(rec.Failed, ReplayFailure{Source: clip(entries[failed].text), Message: reply.Failure.Message})
	return failed + 1, nil, nil
}

func clip(s string) string { return s[:boundary([]byte(s), 200)] }
