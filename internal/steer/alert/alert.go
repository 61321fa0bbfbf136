// Package alert judges the processes of a machine: it holds the ten rules of
// the xtop contract (section 3) and eight new ones, each in a file of its own,
// the engine that runs them over the snapshots of see, and the book that makes
// lasting alerts of what they find.
//
// A rule convicts on evidence: where the executable came from (package
// databases), who started it (parentage, sessions, units, containers), what it
// holds open, whose rights it has, what it did before. A name, a path or a
// number alone is never enough for more than [Info]. Rules read nothing
// themselves: what a snapshot does not hold comes through [Evidence], so that
// they run on recorded scenes as well as on the live machine.
package alert

import (
	"time"
)

// A Severity says how much an alert matters. The words are those of the xtop
// contract.
type Severity string

// The severities.
const (
	Critical Severity = "Critical"
	Warning  Severity = "Warning"
	Info     Severity = "Info"
)

// Rank orders severities, the most severe lowest.
func (s Severity) Rank() int {
	switch s {
	case Critical:
		return 0
	case Warning:
		return 1
	}
	return 2
}

// A Finding is what a rule says of a process in one pass.
type Finding struct {
	Rule     string
	Severity Severity
	// Cause joins findings of the same kind into one alert: the same
	// executable started fifty times is one cause.
	Cause      string
	PID        int32 // 0 for the machine as a whole
	StartTicks uint64
	Process    string // the kernel's name for it
	Executable string // "" when unknown
	User       string
	Unit       string // systemd unit, "" without
	Container  string // container id, "" without
	Message    string
	// Evidence is what convinced the rule, one observation each.
	Evidence []string
	// Next is what to look at next.
	Next []string
}

// An Identity is a process for all time of one boot.
type Identity struct {
	PID        int32
	StartTicks uint64
}

// An Alert is one cause for as long as it is seen, and after.
type Alert struct {
	// ID names the alert: twelve characters, the same for the same cause in
	// every process of this program.
	ID string
	Finding
	FirstSeen, LastSeen time.Time
	// Ended is when it was last seen and then no more; zero while it lasts.
	Ended time.Time
	// Count is how many processes it is about; Processes are some of them.
	Count     int
	Processes []Identity
	// Peak is the figure's greatest value, for thresholds.
	Peak, Limit *float64
	// Acknowledged is when a person said that they have seen it.
	Acknowledged time.Time
	Note         string
}

// Active reports whether the alert lasts.
func (a Alert) Active() bool { return a.Ended.IsZero() }

// A Rule is one rule as people read of it.
type Rule struct {
	Name string
	// Severities are those that the rule gives, the most severe first.
	Severities []Severity
	// Asks, Evidence, Silent and Limits are sentences for a security engineer:
	// what the rule asks, what convinces it, what keeps it silent, and what it
	// cannot see.
	Asks, Evidence, Silent, Limits string
	// New is true for rules that the xtop contract does not have.
	New bool

	// static judges a process when it is new or changed (an exec, another
	// user, another parent, a new inspection). What it says holds until the
	// next change.
	static func(*subject) *Finding
	// watches tells, at a change, whether the process must be judged by
	// dynamic in every pass.
	watches func(*subject) bool
	dynamic func(*subject) *Finding
	// machine judges the machine as a whole, once in every pass.
	machine func(*pass) []Finding
}

// Rules are all rules, in the order in which they judge a process.
func Rules() []Rule { return rules }

var rules = []Rule{
	suspiciousPath, masquerading, knownThreat, suspiciousPipe, orphan, escalation,
	browserChild, highThreads, manyDescriptors, spawnStorm,
	anonymousExecutable, preloadedLibrary, ptraceInjection, unpackagedListener,
	hiddenPID, newSetuid, miningBehaviour, forkBomb,
}
