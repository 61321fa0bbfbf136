// Package steer acts on a machine with care: it holds thresholds that mean
// something, alerts that can be trusted, and guarded actions on processes.
//
// It is the façade over its parts: config (what the user chose), threshold
// (limits as a state machine), alert (the rules and the book of alerts),
// evidence and packages (what rules may ask of the machine), action (signals
// through pidfds), policy (who may do what) and audit (what was done). It sees
// the machine through package see alone, and knows no tools and no wire: an
// [Advisor] answers in values, which the surfaces render.
package steer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"topside/internal/see"
	"topside/internal/steer/action"
	"topside/internal/steer/alert"
	"topside/internal/steer/audit"
	"topside/internal/steer/config"
	"topside/internal/steer/evidence"
	"topside/internal/steer/policy"
	"topside/internal/steer/threshold"
)

// The pace of the background passes.
const (
	// Interval is the time between two passes while somebody asks.
	Interval = 5 * time.Second
	// SlowInterval is the same after nobody asked for [SlowAfter], and
	// IdleInterval after nobody asked for [IdleAfter]. A question that finds the
	// last pass too old has a new one made.
	SlowInterval = 10 * time.Second
	SlowAfter    = 15 * time.Second
	IdleInterval = 30 * time.Second
	IdleAfter    = 2 * time.Minute
)

// Options say what to watch and where to keep things.
type Options struct {
	// Observer sees the machine. The advisor does not close it.
	Observer *see.Observer
	// Config is the path of the configuration; "" keeps it in memory.
	Config string
	// Audit is the path of the audit log. Without one every action is denied.
	Audit string
	// Ledger is the path of the ledger of alerts; "" is alerts.json beside the
	// audit log, and none without one.
	Ledger string
	// Protected lists processes that must not be hit, such as the keepers of
	// sessions; nil is none. It must be safe for concurrent use.
	Protected func() []action.Protected
	// Interval overrides the pace; 0 is [Interval].
	Interval time.Duration
}

// Paths returns where the configuration and the audit log of this user are:
// in topside/ below the folders that the system has for such files.
func Paths() (configuration, auditLog string, err error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", "", fmt.Errorf("no place for a configuration: %w", err)
	}
	state := os.Getenv("XDG_STATE_HOME")
	if runtime.GOOS != "linux" || !filepath.IsAbs(state) {
		state = folder
		if home, err := os.UserHomeDir(); err == nil && runtime.GOOS == "linux" {
			state = filepath.Join(home, ".local", "state")
		}
	}
	return filepath.Join(folder, "topside", "config.json"), filepath.Join(state, "topside", "audit.log"), nil
}

// An Advisor watches one machine and acts on it. It is safe for concurrent
// use. Close it when done.
type Advisor struct {
	o        Options
	store    *config.Store
	storeErr error
	rules    *policy.File
	actor    *action.Actor

	begin   sync.Once
	stop    context.CancelFunc
	running sync.WaitGroup
	firstly chan struct{} // closed when the first pass is done
	closed  chan struct{}
	closing sync.Once
	hasten  chan struct{} // ends the pause before the next pass

	mu       sync.Mutex
	asked    time.Time
	passed   chan struct{} // closed when the next pass is done, and replaced
	book     alert.Book
	watch    *threshold.Watch
	passes   uint64
	last     time.Time // of the last pass
	lastErr  error
	cost     time.Duration // of the rules in the last pass
	warnings []string
	memory   memory
	// remembering keeps two writes of the ledger apart; it is locked before mu.
	remembering sync.Mutex

	// Of the goroutine that makes the passes alone.
	engine   *alert.Engine
	evidence *evidence.Reader
	revision int
}

// New returns an advisor. It reads the configuration, and nothing of the
// machine before the first question. A configuration that cannot be used is no
// error: [Advisor.ConfigError] tells.
func New(o Options) (*Advisor, error) {
	if o.Observer == nil {
		return nil, errors.New("steer needs an observer")
	}
	if o.Interval == 0 {
		o.Interval = Interval
	}
	a := &Advisor{
		o: o, firstly: make(chan struct{}), closed: make(chan struct{}), hasten: make(chan struct{}, 1), passed: make(chan struct{}),
		engine: alert.NewEngine(o.Observer.FS().ClockTicks()), evidence: evidence.New(o.Observer.FS()),
	}
	if o.Config == "" {
		a.store = config.InMemory()
	} else {
		a.store, a.storeErr = config.Open(o.Config)
	}
	if o.Observer.Live() {
		a.engine.Serve(int32(os.Getpid()))
	}
	current := a.store.Get()
	a.watch = threshold.NewWatch(current.Thresholds)
	a.book.Suppress(current.Suppressed)
	a.rules = policy.NewFile(func() policy.Source {
		return policy.Source{Path: a.store.PolicyPath(), Named: a.store.Get().Policy != "", Unknown: a.store.PolicyUnknown()}
	})
	if o.Ledger == "" && o.Audit != "" {
		o.Ledger = filepath.Join(filepath.Dir(o.Audit), "alerts.json")
	}
	a.memory.file = a.ledgerFor(o.Ledger)
	var log *audit.Log
	if o.Audit != "" {
		log = audit.New(o.Audit)
	}
	a.actor = action.New(action.Options{
		FS: o.Observer.FS(), Policy: a.rules.Current, Audit: log, Protected: o.Protected, Surroundings: a.surroundings,
	})
	return a, nil
}

// Begin starts the background passes, once; they end with [Advisor.Close].
// Every question begins them too.
func (a *Advisor) Begin() {
	a.mu.Lock()
	a.asked = time.Now()
	a.mu.Unlock()
	a.begin.Do(func() {
		select {
		case <-a.closed:
			return
		default:
		}
		ctx, stop := context.WithCancel(context.Background())
		a.mu.Lock()
		a.stop = stop
		a.mu.Unlock()
		a.running.Go(func() { a.run(ctx) })
	})
}

// Close ends the background passes and waits for them.
func (a *Advisor) Close() error {
	a.closing.Do(func() { close(a.closed) })
	a.begin.Do(func() {}) // nothing begins any more
	a.mu.Lock()
	stop := a.stop
	a.mu.Unlock()
	if stop != nil {
		stop()
	}
	a.running.Wait()
	a.parting()
	return nil
}

// run makes passes until ctx ends.
func (a *Advisor) run(ctx context.Context) {
	for first := true; ; first = false {
		a.pass(ctx)
		if first {
			// Reading the package databases leaves more garbage behind than all
			// that comes after it needs.
			debug.FreeOSMemory()
		}
		a.mu.Lock()
		close(a.passed)
		a.passed = make(chan struct{})
		a.mu.Unlock()
		timer := time.NewTimer(a.pause())
		select {
		case <-timer.C:
		case <-a.hasten:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// pause is the time until the next pass.
func (a *Advisor) pause() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch quiet := time.Since(a.asked); {
	case quiet > IdleAfter:
		return max(IdleInterval, a.o.Interval)
	case quiet > SlowAfter:
		return max(SlowInterval, a.o.Interval)
	}
	return a.o.Interval
}

// pass looks at the machine once: rules, thresholds, book.
func (a *Advisor) pass(ctx context.Context) {
	// What the machine did since the last pass, or the one before, is as good to
	// rules and thresholds as a shorter window.
	fresh, window := a.o.Interval/2, a.o.Interval*5/2
	snapshot, err := a.o.Observer.Select(ctx, see.Selector{MaxAge: &fresh, Window: window})
	if err != nil {
		a.mu.Lock()
		a.lastErr = err
		a.mu.Unlock()
		if ctx.Err() == nil {
			a.signalFirst()
		}
		return
	}
	observation := snapshot.Observation()
	if revision := a.evidence.Packages().Revision(); revision != a.revision {
		if a.revision != 0 {
			a.engine.ForgetOrigins()
		}
		a.revision = revision
	}
	began := time.Now()
	findings := a.engine.Evaluate(observation, a.evidence)
	cost := time.Since(began)
	readings := threshold.ReadingsOf(observation, a.o.Observer.FS())
	current := a.store.Get()
	a.recall(began)

	a.mu.Lock()
	now := time.Now()
	a.watch.Set(current.Thresholds)
	a.book.Suppress(current.Suppressed)
	a.book.Update(now, findings)
	changed := a.watch.Observe(now, readings)
	a.book.Cross(changed, a.watch.States())
	a.passes++
	a.last, a.lastErr, a.cost, a.warnings = now, nil, cost, observation.Warnings
	a.mu.Unlock()
	_ = a.remember(now) // the status tells when it failed
	a.signalFirst()
}

func (a *Advisor) signalFirst() {
	select {
	case <-a.firstly:
	default:
		close(a.firstly)
	}
}

// ready begins the passes and waits for the first.
func (a *Advisor) ready(ctx context.Context) error {
	a.Begin()
	select {
	case <-a.firstly:
	case <-a.closed:
		return errors.New("the advisor is closed")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.refresh(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.passes == 0 {
		return a.lastErr
	}
	return nil
}

// refresh hastens the next pass and waits for it when the last one is long ago,
// as it is after a time in which nobody asked. When ctx ends first, what is known
// will do.
func (a *Advisor) refresh(ctx context.Context) {
	a.mu.Lock()
	age, passed := time.Since(a.last), a.passed
	a.mu.Unlock()
	if age <= a.o.Interval*3/2 {
		return
	}
	select {
	case a.hasten <- struct{}{}:
	default:
	}
	select {
	case <-passed:
	case <-a.closed:
	case <-ctx.Done():
	}
}

// Alerts lists alerts, the most severe first. The first call waits for the
// first pass over the machine, which takes a few seconds at most.
func (a *Advisor) Alerts(ctx context.Context, v alert.View) ([]alert.Alert, error) {
	if err := a.ready(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book.List(v, time.Now()), nil
}

// A Status sums the alerts up.
type Status struct {
	Total, Critical, Warning, Info int
	// Alerts are all of them that are shown, the most severe first.
	Alerts []alert.Alert
	// Dropped found no room; Passes is how often the machine was looked at,
	// Last when, and Cost what the rules took then.
	Dropped int
	Passes  uint64
	Last    time.Time
	Cost    time.Duration
	// Packages names the package databases that origins are told by.
	Packages []string
	Warnings []string
}

// Status sums up the alerts that last and are neither acknowledged nor
// suppressed.
func (a *Advisor) Status(ctx context.Context) (Status, error) {
	alerts, err := a.Alerts(ctx, alert.View{})
	if err != nil {
		return Status{}, err
	}
	s := Status{Total: len(alerts), Alerts: alerts, Packages: a.evidence.Packages().Sources()}
	for i := range alerts {
		switch alerts[i].Severity {
		case alert.Critical:
			s.Critical++
		case alert.Warning:
			s.Warning++
		default:
			s.Info++
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Dropped, s.Passes, s.Last, s.Cost, s.Warnings = a.book.Dropped(), a.passes, a.last, a.cost, slices.Clone(a.warnings)
	if problem := a.memoryProblem(); problem != "" {
		s.Warnings = append(s.Warnings, problem)
	}
	return s, nil
}

// Suppress hides alerts from now on, with a new reason where they were hidden
// already, in this process and, when it could be
// saved (see [Advisor.Change]), in all of the user's.
func (a *Advisor) Suppress(s config.Suppression) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return a.suppressions(func(all []config.Suppression) ([]config.Suppression, error) {
		all = slices.DeleteFunc(all, func(o config.Suppression) bool { return sameScope(o, s) })
		return append(all, s), nil
	})
}

// ErrNoSuppression is wrapped by the error of a suppression that there is not.
var ErrNoSuppression = errors.New("no such suppression")

// Unsuppress removes the suppressions that equal s in rule, process and unit. The
// error wraps [ErrNoSuppression] when there is none.
func (a *Advisor) Unsuppress(s config.Suppression) error {
	return a.suppressions(func(all []config.Suppression) ([]config.Suppression, error) {
		left := slices.DeleteFunc(all, func(o config.Suppression) bool { return sameScope(o, s) })
		if len(left) == len(all) {
			return nil, ErrNoSuppression
		}
		return left, nil
	})
}

// sameScope reports whether two suppressions hide the same alerts.
func sameScope(a, b config.Suppression) bool {
	return a.Rule == b.Rule && a.Process == b.Process && a.Unit == b.Unit
}

func (a *Advisor) suppressions(change func([]config.Suppression) ([]config.Suppression, error)) error {
	applied, err := a.store.Update(func(c *config.Config) error {
		changed, err := change(c.Suppressed)
		if err == nil {
			c.Suppressed = changed
		}
		return err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.book.Suppress(applied.Suppressed)
	return err
}
