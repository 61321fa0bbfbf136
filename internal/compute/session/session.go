// Package session is a workspace in which source is evaluated, across calls and across deaths of its process.
//
// A Session owns one child of package engine, the log of what took effect, and the bounds on what is reported. One
// call works at a time, in order of arrival; a waiting call and a running one can be cancelled. When the process
// dies, is killed or exits, the state from before that evaluation comes back: from the child's own keeper where the
// language has one, else by evaluating the log again. Every reply carries the generation, which counts processes.
//
// Files: session.go the life, eval.go the calls, run.go evaluations in the background, recover.go the deaths,
// log.go, spill.go and checkpoint.go what is on disk, result.go what callers get.
package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"topside/internal/compute/engine"
)

// Options of a session. Zero values mean what the fields say.
type Options struct {
	Name     string // "" for the default session
	Language engine.Language
	Engine   engine.Options
	// LogPath is the phrase log (TOPUP_LOG); "" keeps the log in memory only, and then there are no checkpoints.
	LogPath string
	// CheckpointDir is the folder of checkpoints (TOPUP_CHECKPOINT_DIR); "" means none.
	CheckpointDir string
	// Spill keeps long texts (TOPUP_SPILL_DIR); nil keeps none.
	Spill *Spill
	// Inline is the limit of each reported text in bytes; 0 means 8192.
	Inline int
	// Prewarm is a source file that is run at the start; its bindings are not in the log.
	Prewarm string
	// Resume evaluates the log that an earlier server left at LogPath.
	Resume bool
	// Processes counts the processes that sessions of this name have had, so that the generation grows across
	// sessions that replace each other; nil begins at 0.
	Processes *atomic.Uint64
	// Child provides a started child; nil starts one. The pool gives prewarmed ones.
	Child func(ctx context.Context) (*engine.Child, error)
}

// State of a session.
type State string

// The states. A recovering session answers its next call when it is back.
const (
	Idle       State = "idle"
	Busy       State = "busy"
	Recovering State = "recovering"
	Closed     State = "closed"
)

// Status is a snapshot of a session.
type Status struct {
	Name       string
	Engine     string
	State      State
	Generation uint64
	Pid        int
	Waiting    int // calls in the queue
	Phrases    int // in the log
	LogPath    string
	LastUsed   time.Time
	Running    string // the first bytes of the source being evaluated
	Since      time.Time
}

// ErrClosed is the error of calls on a closed session.
var ErrClosed = errors.New("the session is closed")

// Session is safe for concurrent use.
type Session struct {
	o     Options
	queue queue
	log   *Log

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	// The fields below belong to the caller that is in the queue's turn.
	seq       uint64
	took      time.Duration // of the evaluation before
	outSeen   int64
	errSeen   int64
	prewarmed bool

	mu         sync.Mutex
	child      *engine.Child
	state      State
	generation uint64
	lastUsed   time.Time
	running    string
	since      time.Time
	notes      []string
	noted      map[string]bool
	runs       []*Run
	nextRun    uint64
	live       *output // of the running evaluation
	closed     bool
	resumption *Recovery // what an earlier server left, until it is told
}

// Open starts a session. A failing prewarm file is an *Error or *PrewarmError and leaves nothing behind.
func Open(ctx context.Context, o Options) (*Session, error) {
	if o.Inline == 0 {
		o.Inline = 8192
	}
	if o.Processes == nil {
		o.Processes = new(atomic.Uint64)
	}
	s := &Session{o: o, log: newLog(o.LogPath), state: Idle, lastUsed: time.Now(), noted: map[string]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	child, err := s.newChild(ctx)
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.setChild(child)
	if err := s.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// PrewarmError is a prewarm file that failed.
type PrewarmError struct {
	Path string
	Err  error
}

func (e *PrewarmError) Error() string { return e.Err.Error() }
func (e *PrewarmError) Unwrap() error { return e.Err }

// begin runs the prewarm file and the log of an earlier run.
func (s *Session) begin(ctx context.Context) error {
	if s.o.Prewarm != "" {
		if err := s.prewarm(ctx, s.current()); err != nil {
			return &PrewarmError{s.o.Prewarm, err}
		}
		s.prewarmed = true
	}
	if !s.log.Enabled() {
		return nil
	}
	defer s.keepOthers()
	if !s.o.Resume {
		if s.log.left() {
			s.note("left", fmt.Sprintf("an earlier run left a log of this session, which is not evaluated: restore with the label %q brings it back", Previous))
		}
		return nil
	}
	text, err := s.log.resume()
	if err != nil {
		s.note("log", "the log cannot be opened: what an earlier server may have left in it is not back, and nothing of this session outlives the server: "+err.Error())
		return nil
	}
	if text != "" {
		return s.resumeLog(ctx, text)
	}
	return nil
}

// keepOthers makes checkpoints of the logs that servers have left which ran beside the owner of this one: two states
// cannot be merged, and both are wanted.
func (s *Session) keepOthers() {
	if s.o.CheckpointDir == "" {
		return
	}
	for _, path := range s.log.others() {
		label, err := s.adopt(path)
		if err != nil {
			s.note("others", fmt.Sprintf("a second server has left a log of this session, %s, which cannot be made a checkpoint: %v", path, err))
		} else {
			s.note("", fmt.Sprintf("a second server that ran at the same time has left a log of this session; it is the checkpoint %s now", label))
		}
	}
}

// resumeTries is how often a replay is begun that something outside of it ends.
const resumeTries = 5

// InterruptedError is a session that could not be opened, because the replay of its log was interrupted and not by the
// log itself. The log is whole, and the next Open begins the replay again.
type InterruptedError struct {
	LogPath string
	Err     error
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("the log %s was not evaluated to its end (%v); it is unchanged, and the next use of the session begins again", e.LogPath, e.Err)
}
func (e *InterruptedError) Unwrap() error { return e.Err }

// resumeLog evaluates what an earlier server left. The file is touched only when the replay came to its end by itself:
// then a phrase that failed is reported and the rest is kept aside. One that is interrupted from outside is begun
// again, or is an *InterruptedError.
func (s *Session) resumeLog(ctx context.Context, text string) error {
	for try := 1; ; try++ {
		s.seq++
		call := engine.Call{}
		begun := time.Now()
		reply, err := s.current().Eval(ctx, s.seq, s.phrasesOf(text), s.log.Path(), true, 0, &call)
		s.took = time.Since(begun)
		s.skipOutput()
		interruption := interrupted(ctx, &call, reply.Failure, err)
		if interruption == nil {
			s.resumed(ctx, text, reply, err)
			return nil
		}
		if ctx.Err() != nil || try == resumeTries {
			return &InterruptedError{s.log.Path(), interruption}
		}
		if err := s.startAnew(ctx); err != nil {
			return &InterruptedError{s.log.Path(), err}
		}
	}
}

// startAnew replaces the process by one that has only the prewarm file.
func (s *Session) startAnew(ctx context.Context) error {
	if err := s.emptied(ctx); err != nil {
		return err
	}
	if s.prewarmed {
		return s.prewarm(ctx, s.current())
	}
	return nil
}

// resumed takes the state that a replay has reached.
func (s *Session) resumed(ctx context.Context, text string, reply engine.Reply, err error) {
	if err == nil {
		s.log.take(s.entries(text, reply.Phrases))
	}
	if err != nil || reply.Failure != nil {
		why := "the process ended"
		if err == nil {
			why = reply.Failure.Message
			if l := reply.Failure.Location; l != nil && l.File == s.log.Path() {
				why = fmt.Sprintf("line %d: %s", l.Line, why)
			}
		}
		s.note("resume", "the log of the earlier run could not be evaluated to its end ("+why+"); it is kept as "+s.log.Path()+".1")
		if err := s.log.replace(s.log.entries, ""); err != nil {
			s.note("log", "the log cannot be written: "+err.Error())
		}
	}
	if err != nil {
		s.recoverFrom(ctx, err)
	}
	if n := s.log.Len(); n > 0 {
		back := &Recovery{Cause: "server had ended", By: ByReplay, Generation: s.Status().Generation, Replayed: n}
		s.mu.Lock()
		s.resumption = back
		s.mu.Unlock()
	}
}

// TakeResumed returns once how the state that an earlier server left came back; nil where there was none.
func (s *Session) TakeResumed() *Recovery {
	s.mu.Lock()
	defer s.mu.Unlock()
	back := s.resumption
	s.resumption = nil
	return back
}

// interrupted returns what ended a replay from outside: its caller, a cancel, a signal that somebody sent. It is nil
// for a replay that came to its end, or that its own phrase ended.
func interrupted(ctx context.Context, call *engine.Call, failure *engine.Failure, err error) error {
	var death *engine.Death
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case call.Cause == engine.Cancelled:
		return context.Canceled
	case errors.Is(err, engine.ErrClosed):
		return err
	case errors.As(err, &death):
		if death.Cause == engine.None && sent(death) {
			return err
		}
	case failure != nil && failure.Broke && call.Cause == engine.None:
		return errors.New("the process was interrupted")
	}
	return nil
}

// sent tells whether the process died of a signal that comes from others and not from what it did itself.
func sent(d *engine.Death) bool {
	if d.ExitCode != nil {
		return false
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if d.Signal == signal.String() {
			return true
		}
	}
	return d.Signal == "" // how it ended is not known
}

func (s *Session) newChild(ctx context.Context) (*engine.Child, error) {
	if s.o.Child != nil {
		return s.o.Child(ctx)
	}
	return engine.Start(ctx, s.o.Language, s.o.Engine)
}

func (s *Session) setChild(c *engine.Child) {
	s.mu.Lock()
	s.child = c
	s.generation = s.o.Processes.Add(1)
	closed := s.closed
	s.mu.Unlock()
	s.outSeen, s.errSeen = c.Out.Size(), c.Err.Size()
	if closed {
		c.Close()
	}
}

func (s *Session) current() *engine.Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// Language of the session.
func (s *Session) Language() engine.Language { return s.o.Language }

// Log of the session.
func (s *Session) Log() *Log { return s.log }

// Status of the session now.
func (s *Session) Status() Status {
	_, waiting := s.queue.length()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Name: s.o.Name, Engine: s.o.Language.Name(), State: s.state, Generation: s.generation, Waiting: waiting,
		Phrases: s.log.Len(), LogPath: s.log.Path(), LastUsed: s.lastUsed, Running: s.running, Since: s.since,
	}
	if s.child != nil {
		st.Pid = s.child.Pid()
	}
	return st
}

func (s *Session) setState(state State, running string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.state = state
	s.lastUsed = time.Now()
	s.running = running
	if state == Busy {
		s.since = s.lastUsed
	}
}

func (s *Session) setLive(o *output) {
	s.mu.Lock()
	s.live = o
	s.mu.Unlock()
}

// note keeps a trouble for the next result, each kind once; those of the kind "" always.
func (s *Session) note(kind, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == "" || !s.noted[kind] {
		s.noted[kind] = true
		s.notes = append(s.notes, text)
	}
}

func (s *Session) takeNotes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := s.notes
	s.notes = nil
	return notes
}

// Cancel stops the running evaluation and tells whether there was one. It returns at once; calls that wait in the
// queue are not touched.
func (s *Session) Cancel() bool {
	c := s.current()
	return c != nil && c.Interrupt()
}

// Close ends the session and every process it started. Running and waiting calls return ErrClosed.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.state = Closed
	child := s.child
	s.mu.Unlock()
	s.cancel()
	if child != nil {
		child.Close()
	}
	s.wait.Wait()
	s.log.close()
	return nil
}

// enter takes the session's turn for a call, bounded by the life of the session too.
func (s *Session) enter(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })
	if err := s.queue.enter(ctx); err != nil {
		stop()
		cancel(nil)
		if s.ctx.Err() != nil {
			return nil, nil, ErrClosed
		}
		return nil, nil, fmt.Errorf("cancelled before it began: %w", err)
	}
	return ctx, func() {
		s.queue.leave()
		stop()
		cancel(nil)
	}, nil
}

// Reset gives the session a fresh process without bindings, libraries or prewarm, and starts a new log; the old
// one is kept aside. Programs that the session's code started go on: they are the caller's business, and end with the
// session.
func (s *Session) Reset(ctx context.Context) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.reset(ctx)
}

func (s *Session) reset(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.rewound() {
		fresh, err := s.newChild(ctx)
		if err != nil {
			return err
		}
		old := s.current()
		s.setChild(fresh)
		s.wait.Go(func() { old.Retire(fresh) })
	}
	s.prewarmed = false
	if err := s.log.replace(nil, ""); err != nil {
		s.note("log", "the log cannot be written: "+err.Error())
	}
	return nil
}

// emptied gives the session a process that has evaluated nothing: the child's own where it keeps one, else a fresh
// child's.
func (s *Session) emptied(ctx context.Context) error {
	if s.rewound() {
		return nil
	}
	fresh, err := s.freshChild(ctx)
	if err != nil {
		return err
	}
	s.replaceChild(fresh)
	return nil
}

// rewound lets the child go on from its beginning, where it can.
func (s *Session) rewound() bool {
	c := s.current()
	if c == nil || !c.Reset() {
		return false
	}
	s.mu.Lock()
	s.generation = s.o.Processes.Add(1)
	s.mu.Unlock()
	return true
}

func (s *Session) replaceChild(fresh *engine.Child) {
	old := s.current()
	s.setChild(fresh)
	if old != nil {
		s.wait.Go(func() { old.Close() })
	}
}

// prewarmLimit is how long a prewarm file may take, also where a log is evaluated after it.
var prewarmLimit = 20 * time.Second

// prewarm runs the prewarm file in the child.
func (s *Session) prewarm(ctx context.Context, c *engine.Child) error {
	source, err := os.ReadFile(s.o.Prewarm)
	if err != nil {
		return err
	}
	call := engine.Call{}
	s.seq++
	reply, err := c.Eval(ctx, s.seq, string(source), s.o.Prewarm, true, prewarmLimit, &call)
	s.skipOutput()
	if call.Cause == engine.TimedOut {
		return fmt.Errorf("not ready after %.0f s: %s", prewarmLimit.Seconds(), s.o.Prewarm)
	}
	if err != nil {
		return err
	}
	if reply.Failure != nil {
		return s.failure(reply.Failure, call.Cause, "")
	}
	return nil
}
