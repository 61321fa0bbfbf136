// Package see observes one machine: it answers with immutable snapshots of its
// processes, containers and units, and of the system's own figures.
//
// It is the façade of the observation layers: proc reads the kernel's files,
// cgroup and container say what belongs together, sample takes one pass over
// all of them, model turns two passes into rates, resource builds the
// catalogue of one snapshot, and store keeps the last few. A caller chooses a
// snapshot with [Observer.Select] and asks that snapshot everything else, so
// that all answers of one investigation speak of the same moment.
//
// see only reads. It imports neither steer nor os/exec.
package see

import (
	"errors"
	"fmt"
	"time"
)

// The limits of the snapshot store (contract wsltop, section 2.1).
const (
	Capacity      = 4
	Retention     = 60 * time.Second
	DefaultMaxAge = 3 * time.Second
)

// sameMoment is how long a snapshot answers whoever accepts one of any age but
// zero. The kernel counts CPU time in ticks of 10 ms: a second sample so soon
// would show nothing else, and calls that a client makes together, which reach
// the server one after the other, then speak of one observation.
const sameMoment = 25 * time.Millisecond

// A Code is a stable name of an operational error (contract wsltop, section
// 5.2). Clients may branch on it; messages are for reading.
type Code string

// The codes of operational errors.
const (
	SnapshotUnavailable Code = "snapshot_unavailable"
	UnknownResource     Code = "unknown_resource"
	CollectionFailed    Code = "collection_failed"
	AmbiguousResource   Code = "ambiguous_resource"
	InvalidHierarchy    Code = "invalid_hierarchy"
	InvalidArgument     Code = "invalid_argument"
)

// An Error is an operational failure: what happened, and what to do next.
type Error struct {
	Code    Code
	Message string
	Hint    string // the next step, "" when there is none
	Err     error  // the cause, nil when there is none
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of err, or "" when err is not an [Error].
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func failure(code Code, hint, format string, args ...any) *Error {
	e := &Error{Code: code, Hint: hint, Message: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if err, ok := a.(error); ok {
			e.Err = err
		}
	}
	return e
}

// A Selector chooses a snapshot: the retained one with SnapshotID, or, when
// that is empty, the latest if it is at most MaxAge old (nil means
// [DefaultMaxAge]); else a new one is collected. A MaxAge of zero always
// collects.
type Selector struct {
	SnapshotID string
	MaxAge     *time.Duration
	// Window is how long the window of a new snapshot may be, where that is more
	// than two intervals: the last pass is compared with then, however short the
	// interval is, which spares a second pass.
	Window time.Duration
}
