package session

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"topside/internal/compute/engine"
)

// Request is one evaluation.
type Request struct {
	Source string
	// Timeout stops the evaluation; 0 means no limit.
	Timeout time.Duration
	// Progress, when set, is called about every 20 ms of a running evaluation with the sizes of its output so far.
	Progress func(stdout, stderr int64)

	// batch is the row of evaluations this one belongs to, nil when it is alone.
	batch *engine.Batch
}

// Eval evaluates source. The error is about the session (closed, cancelled while waiting, no process to be had);
// whatever is wrong with the source, exits and crashes included, is in the result.
func (s *Session) Eval(ctx context.Context, r Request) (Result, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	return s.eval(ctx, r)
}

// EvalBatch evaluates sources in order in one turn of the session and stops after the first that fails. The
// results are those of the sources that were evaluated.
func (s *Session) EvalBatch(ctx context.Context, sources []string, timeout time.Duration) ([]Result, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var results []Result
	var batch *engine.Batch
	for i, source := range sources {
		if !batch.Running() {
			batch = s.batchOf(sources[i:], timeout)
		}
		r, err := s.eval(ctx, Request{Source: source, Timeout: timeout, batch: batch})
		if err != nil {
			return results, err
		}
		results = append(results, r)
		if r.Err != nil {
			break
		}
	}
	return results, nil
}

// Bounds of what is sent to the child at once.
const (
	batchSources = 200
	batchBytes   = 1 << 20
)

// batchOf lets the child evaluate sources without waiting for the server in between. With a timeout they are sent one by
// one: an interrupt that comes too late must not meet the next one.
func (s *Session) batchOf(sources []string, timeout time.Duration) *engine.Batch {
	if timeout > 0 || !s.o.Language.Capabilities().Batch {
		return nil
	}
	n, size := 0, 0
	for n < len(sources) && n < batchSources && size < batchBytes {
		size += len(sources[n])
		n++
	}
	if n < 2 {
		return nil
	}
	return s.current().Batch(s.seq+1, sources[:n])
}

func (s *Session) eval(ctx context.Context, r Request) (Result, error) {
	return s.perform(ctx, r, func(ctx context.Context, c *engine.Child, seq uint64, call *engine.Call) (engine.Reply, error) {
		if r.batch != nil {
			return r.batch.Next(ctx, call)
		}
		return c.Eval(ctx, seq, r.Source, "", false, r.Timeout, call)
	}, func(reply engine.Reply) {
		if entries := s.entries(r.Source, reply.Phrases); len(entries) > 0 {
			if err := s.log.add(entries); err != nil {
				s.note("log", "the phrase log cannot be written: "+err.Error())
			}
		}
	})
}

// entries are the phrases of the reply as the log has them.
func (s *Session) entries(source string, phrases []engine.Phrase) []entry {
	var entries []entry
	for _, p := range phrases {
		start, stop := min(max(p.Start, 0), len(source)), min(p.Stop, len(source))
		if stop <= start || p.Kind == "#use" && p.Arg == s.log.Path() {
			continue
		}
		if text := s.o.Language.Entry(source[start:stop], p.Kind, p.Arg); text != "" {
			entries = append(entries, entry{seq: s.seq, text: text, took: s.took})
		}
	}
	return entries
}

type performer func(ctx context.Context, c *engine.Child, seq uint64, call *engine.Call) (engine.Reply, error)

// perform is the course of every evaluation: revive the child if it died in between, take what was printed in
// between, run, collect the output, keep the log, recover from a death.
func (s *Session) perform(ctx context.Context, r Request, do performer, keep func(engine.Reply)) (Result, error) {
	begin := time.Now()
	s.setState(Busy, r.Source[:boundary([]byte(r.Source[:min(len(r.Source), 200)]), 120)])
	defer s.setState(Idle, "")
	var result Result
	// In a batch the child works already: a death is its next answer, and its output goes on from the last one's.
	ahead := r.batch.Running()
	if !ahead {
		if d := s.current().Check(); d != nil {
			rec, err := s.recoverFrom(ctx, d)
			if err != nil {
				return result, err
			}
			result.Recovery = rec
			if r.batch != nil {
				r.batch = nil // it was the old child's
			}
		}
	}
	c := s.current()
	o := s.openOutput(c)
	if ahead {
		o.continues(s)
	}
	result.LateStdout, result.LateStderr = o.late(s)
	s.seq++
	s.setLive(o)
	call := engine.Call{Watch: func() { o.look(r.Progress) }}
	begun := time.Now()
	reply, err := do(ctx, c, s.seq, &call)
	s.took = time.Since(begun)
	s.setLive(nil)
	if err == nil && r.batch != nil {
		o.endAt(reply, r.batch.Running())
	}
	var death *engine.Death
	var last string
	if errors.As(err, &death) {
		last = o.epitaph(s.o.Language)
	}
	result.Stdout, result.Stderr, result.Order = o.collect(s)
	switch {
	case err == nil:
		if n := len(reply.Phrases); n > 0 && reply.Failure == nil && call.Forced {
			// The last phrase may have been cut short: it is not evaluated again, for it could take as long.
			reply.Phrases = reply.Phrases[:n-1]
		}
		keep(reply)
		if reply.Value != nil {
			result.Value = s.text("value_repr", *reply.Value)
		}
		if reply.Type != nil {
			result.Type = s.typeText(*reply.Type)
		}
		result.Warnings = reply.Diagnostics
		for i := range result.Warnings {
			clamp(result.Warnings[i].Location, r.Source)
		}
		if reply.Failure == nil && call.Forced {
			// It went on after the first interrupt and may have been cut short by the second.
			reply.Failure = &engine.Failure{Phase: "runtime"}
		}
		if reply.Failure != nil {
			result.Err = s.failure(reply.Failure, call.Cause, r.Source)
		}
	case death != nil:
		if result.Err = deathError(death); last != "" && death.Cause == engine.None {
			result.Err.Message = last
		}
		rec, err := s.recoverFrom(ctx, death)
		var cut *InterruptedError
		if errors.As(err, &cut) {
			// The evaluation has its end; the state comes back at the next use.
			s.note("", cut.Error())
		} else if err != nil {
			return result, err
		}
		result.Recovery = rec
	case s.ctx.Err() != nil:
		return result, ErrClosed
	case errors.Is(err, engine.ErrClosed):
		// It ended before it had the request.
		result.Err = deathError(&engine.Death{})
		if result.Recovery, err = s.recoverFrom(ctx, err); err != nil {
			return result, err
		}
	default:
		return result, err
	}
	result.Generation = s.Status().Generation
	result.Notes = s.takeNotes()
	result.Elapsed = time.Since(begin)
	return result, nil
}

// typeText bounds a type: it is cut and never spilled.
func (s *Session) typeText(whole string) *Text {
	t := &Text{Total: int64(len(whole))}
	head := boundary([]byte(whole), s.o.Inline)
	t.Head, t.Cut = valid([]byte(whole[:head])), t.Total-int64(head)
	t.Dropped = t.Cut
	return t
}

// The contract's words for evaluations that were stopped.
const (
	msgTimedOut  = "evaluation timed out"
	msgCancelled = "evaluation cancelled"
)

func (s *Session) failure(f *engine.Failure, cause engine.Cause, source string) *Error {
	e := &Error{Phase: f.Phase, Location: f.Location, Message: f.Message, Related: f.Related, Backtrace: f.Backtrace}
	clamp(e.Location, source)
	switch {
	case cause == engine.TimedOut:
		e.Phase, e.Message, e.Cause = "runtime", msgTimedOut, cause
	case cause == engine.Cancelled || f.Broke:
		e.Phase, e.Message, e.Cause = "runtime", msgCancelled, engine.Cancelled
	}
	if e.Phase == "runtime" && e.Cause == engine.None && len(f.Backtrace) > 0 {
		for _, b := range f.Backtrace {
			if b.File == evalName {
				clamp(&b, source)
				e.Location = &b
				break
			}
		}
	}
	e.Message = strings.ToValidUTF8(e.Message, "\uFFFD")
	return e
}

func deathError(d *engine.Death) *Error {
	e := &Error{Phase: "runtime", Message: "the toplevel's " + d.Describe(), Cause: d.Cause}
	switch d.Cause {
	case engine.TimedOut:
		e.Message = msgTimedOut
	case engine.Cancelled:
		e.Message = msgCancelled
	case engine.Flooded:
		e.Message = "evaluation stopped: it had more processes than a session may have"
	}
	return e
}

// A mourned language has children that write of themselves to standard error when they die. Epitaph finds where that
// begins and says in a sentence what happened; it is "" where they did not.
type mourned interface {
	Epitaph(stderr string) (message string, begins int)
}

// epitaphBytes is more than such a text has.
const epitaphBytes = 256 << 10

// epitaph leaves out of the call's output what the child wrote of itself, and returns what it meant.
func (o *output) epitaph(l engine.Language) string {
	m, ok := l.(mourned)
	if !ok {
		return ""
	}
	size := o.c.Err.Size()
	from := max(o.errStart, size-epitaphBytes)
	message, begins := m.Epitaph(string(o.c.Err.Text(from, size)))
	if message == "" {
		return ""
	}
	o.errEnd = from + int64(begins)
	for i, s := range o.spans {
		if s.Stderr {
			o.spans[i].From, o.spans[i].To = min(s.From, o.errEnd-o.errStart), min(s.To, o.errEnd-o.errStart)
		}
	}
	o.spans = slices.DeleteFunc(o.spans, func(s Span) bool { return s.From == s.To })
	o.errLast = min(o.errLast, o.errEnd)
	return message
}

// evalName is the file name of source given to Eval.
const evalName = "<eval>"

// clamp moves a place beyond the end of the source, where the driver added a terminator, to the end.
func clamp(l *engine.Location, source string) {
	if l == nil || source == "" || l.File != evalName {
		return
	}
	lines := strings.Count(source, "\n") + 1
	last := len(source) - (strings.LastIndexByte(source, '\n') + 1)
	if l.Line > lines || l.Line == lines && l.ColStart > last {
		l.Line, l.ColStart = lines, last
	}
	if l.LineEnd > lines || l.LineEnd == lines && l.ColEnd > last {
		l.LineEnd, l.ColEnd = lines, last
	}
}

// Env lists bindings: those of the session's own phrases, or all in scope.
func (s *Session) Env(ctx context.Context, all bool, filter string) ([]engine.Binding, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var bindings []engine.Binding
	err = s.query(ctx, func(c *engine.Child) error {
		var err error
		bindings, err = c.Bindings(ctx, engine.EnvQuery{All: all, Filter: filter, Files: []string{evalName, s.log.Path()}})
		return err
	})
	for i := range bindings {
		bindings[i].Type = s.typeText(bindings[i].Type).Marked()
	}
	return bindings, err
}

// Lookup finds one name; nil when there is none.
func (s *Session) Lookup(ctx context.Context, name string) (*engine.Binding, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var b *engine.Binding
	err = s.query(ctx, func(c *engine.Child) error {
		var err error
		b, err = c.Lookup(ctx, name)
		return err
	})
	if b != nil {
		b.Type = s.typeText(b.Type).Marked()
	}
	return b, err
}

// query asks the child something that changes nothing, once more when the child had died.
func (s *Session) query(ctx context.Context, ask func(*engine.Child) error) error {
	s.setState(Busy, "")
	defer s.setState(Idle, "")
	if d := s.current().Check(); d != nil {
		if _, err := s.recoverFrom(ctx, d); err != nil {
			return err
		}
	}
	err := ask(s.current())
	var death *engine.Death
	if errors.As(err, &death) {
		if _, err := s.recoverFrom(ctx, death); err != nil {
			return err
		}
		err = ask(s.current())
	}
	if err != nil && s.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// output follows what one call writes.
type output struct {
	c                  *engine.Child
	outStart, errStart int64
	lateOut, lateErr   int64 // where the bytes before this call begin
	outLast, errLast   int64
	outGiven, errGiven int64 // ends of the ranges given back during a flood
	outEnd, errEnd     int64 // where the call's output ended when the child has gone on since, else -1
	ahead              bool  // it has gone on
	spans              []Span
}

// Bounds of a flood: what is kept of the beginning for the spill file, and of the end, while it runs.
const (
	floodLimit = 64 << 20
	floodHead  = 16 << 20
	floodTail  = 1 << 20
	// resetAbove is how much a capture may have carried before it is emptied between calls.
	resetAbove = 1 << 30
)

func (s *Session) openOutput(c *engine.Child) *output {
	o := &output{c: c, lateOut: s.outSeen, lateErr: s.errSeen, outStart: c.Out.Size(), errStart: c.Err.Size()}
	// A file that got shorter was opened anew by the session's code (`> /dev/stdout`).
	o.lateOut, o.lateErr = min(o.lateOut, o.outStart), min(o.lateErr, o.errStart)
	o.outLast, o.errLast = o.outStart, o.errStart
	o.outEnd, o.errEnd = -1, -1
	return o
}

// continues makes the output begin where that of the call before has ended.
func (o *output) continues(s *Session) {
	o.outStart, o.errStart = min(s.outSeen, o.outStart), min(s.errSeen, o.errStart)
	o.lateOut, o.lateErr = o.outStart, o.errStart
	o.outLast, o.errLast = o.outStart, o.errStart
}

// endAt makes the output end where the reply says, and notes whether the child has gone on since.
func (o *output) endAt(reply engine.Reply, ahead bool) {
	o.outEnd, o.errEnd, o.ahead = reply.OutEnd, reply.ErrEnd, ahead
}

// sizes are the ends of the call's output. The session's code may have put something else in the place of a
// descriptor: what the child says counts only where it can be true.
func (o *output) sizes() (out, err int64) {
	within := func(end, start, size int64) int64 {
		if end >= start && end <= size {
			return end
		}
		return size
	}
	return within(o.outEnd, o.outStart, o.c.Out.Size()), within(o.errEnd, o.errStart, o.c.Err.Size())
}

func (o *output) late(s *Session) (stdout, stderr Text) {
	stdout = s.captured("late_stdout", o.c.Out, o.lateOut, o.outStart)
	stderr = s.captured("late_stderr", o.c.Err, o.lateErr, o.errStart)
	return
}

// look notes how far the output has come, and gives storage back when there is a flood.
func (o *output) look(progress func(stdout, stderr int64)) {
	out, err := o.c.Out.Size(), o.c.Err.Size()
	o.extend(out, err)
	o.outGiven = relieve(o.c.Out, o.outStart, o.outGiven, out)
	o.errGiven = relieve(o.c.Err, o.errStart, o.errGiven, err)
	if progress != nil {
		progress(out-o.outStart, err-o.errStart)
	}
}

func relieve(c *engine.Capture, start, given, size int64) int64 {
	if size-start <= floodLimit {
		return given
	}
	from, to := max(start+floodHead, given), size-floodTail
	if to > from {
		c.Discard(from, to)
		return to
	}
	return given
}

func (o *output) extend(out, err int64) {
	add := func(stderr bool, start, last, now int64) {
		if now <= last {
			return
		}
		if n := len(o.spans); n > 0 && o.spans[n-1].Stderr == stderr {
			o.spans[n-1].To = now - start
			return
		}
		if len(o.spans) < 1000 {
			o.spans = append(o.spans, Span{stderr, last - start, now - start})
		}
	}
	add(false, o.outStart, o.outLast, out)
	add(true, o.errStart, o.errLast, err)
	o.outLast, o.errLast = max(o.outLast, out), max(o.errLast, err)
}

// collect reads the output of the call and gives its storage back.
func (o *output) collect(s *Session) (stdout, stderr Text, order []Span) {
	out, err := o.sizes()
	if out < o.outStart {
		o.outStart = 0
	}
	if err < o.errStart {
		o.errStart = 0
	}
	o.extend(out, err)
	stdout = s.captured("stdout", o.c.Out, o.outStart, out)
	stderr = s.captured("stderr", o.c.Err, o.errStart, err)
	s.outSeen, s.errSeen = o.release(o.c.Out, o.lateOut, out), o.release(o.c.Err, o.lateErr, err)
	return stdout, stderr, o.spans
}

// release gives back what was read and returns the offset of the next byte.
func (o *output) release(c *engine.Capture, from, size int64) int64 {
	if size > resetAbove && !o.ahead && c.Reset() == nil {
		return 0
	}
	if size-from > 64<<10 {
		c.Discard(from&^4095, size&^4095)
	}
	return size
}

// captured bounds the bytes [from,to) of a descriptor's output.
func (s *Session) captured(field string, c *engine.Capture, from, to int64) Text {
	t := Text{Total: to - from}
	if t.Total == 0 {
		return t
	}
	head := c.Text(from, min(to, from+int64(s.o.Inline)+4))
	n := boundary(head, s.o.Inline)
	t.Head, t.Cut = valid(head[:n]), t.Total-int64(n)
	if t.Cut > 0 {
		t.Tail = tail(string(c.Text(max(from+int64(n), to-tailBytes), to)))
		s.spilled(&t, field, io.NewSectionReader(c, from, t.Total))
	}
	return t
}

// skipOutput passes over what was written so far.
func (s *Session) skipOutput() {
	c := s.current()
	s.outSeen, s.errSeen = c.Out.Size(), c.Err.Size()
}

// Progress is what a running evaluation has written so far.
type Progress struct {
	Running        bool
	Since          time.Time
	Stdout, Stderr Text
}

// Progress of the running evaluation. The child is asked to write out its buffers first; what it still holds a
// moment later is missing.
func (s *Session) Progress() Progress {
	s.mu.Lock()
	o, child, since := s.live, s.child, s.since
	s.mu.Unlock()
	if o == nil {
		return Progress{}
	}
	child.Nudge()
	time.Sleep(2 * time.Millisecond)
	return Progress{
		Running: true, Since: since,
		Stdout: s.glimpse(o.c.Out, o.outStart), Stderr: s.glimpse(o.c.Err, o.errStart),
	}
}

// glimpse reads head and tail of a text that is still growing.
func (s *Session) glimpse(c *engine.Capture, from int64) Text {
	to := c.Size()
	if to <= from {
		return Text{}
	}
	t := Text{Total: to - from}
	head := c.Text(from, min(to, from+int64(s.o.Inline)+4))
	n := boundary(head, s.o.Inline)
	t.Head, t.Cut = valid(head[:n]), t.Total-int64(n)
	if t.Cut > 0 {
		t.Tail = tail(string(c.Text(max(from+int64(n), to-tailBytes), to)))
	}
	return t
}
