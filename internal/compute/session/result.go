package session

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"topside/internal/compute/engine"
)

// Text is a bounded piece of text: a value, or what was written to a descriptor.
type Text struct {
	// Head is the beginning, at most Limits.Inline bytes, cut at a character boundary; bytes that are no UTF-8
	// are replaced.
	Head string
	// Tail is the end, when the middle was left out.
	Tail string
	// Cut is the number of bytes that follow Head in the whole text.
	Cut int64
	// Total is the length of the whole text in bytes.
	Total int64
	// Path is the file that holds the text, "" when it was not spilled.
	Path string
	// Dropped is the number of bytes at the end that are not in the file either.
	Dropped int64
}

// Marked returns the head with the contract's overflow marker (contracts, section 4.9).
func (t Text) Marked() string {
	switch {
	case t.Cut == 0:
		return t.Head
	case t.Path == "":
		return fmt.Sprintf("%s…[+%d bytes]", t.Head, t.Cut)
	}
	return fmt.Sprintf("%s…[+%d bytes; full at %s]", t.Head, t.Cut, t.Path)
}

// Preview returns head and tail with a count of what lies between.
func (t Text) Preview() string {
	between := t.Cut - int64(len(t.Tail))
	if t.Cut == 0 || between <= 0 {
		return t.Head + t.Tail
	}
	where := ""
	if t.Path != "" {
		where = "; full at " + t.Path
	}
	return fmt.Sprintf("%s\n…[%d bytes left out%s]…\n%s", t.Head, between, where, t.Tail)
}

// Span is a run of one descriptor's output within the merged order of both, in bytes of that descriptor's text of
// this call. Runs are told apart as finely as the output was looked at, every 20 ms.
type Span struct {
	Stderr   bool
	From, To int64
}

// Error is why an evaluation stopped.
type Error struct {
	Phase     string // "typecheck" (lexing, parsing, typing) or "runtime"
	Location  *engine.Location
	Message   string
	Related   []string
	Backtrace []engine.Location // innermost first
	Cause     engine.Cause      // set when it was stopped from outside
}

func (e *Error) Error() string { return e.Message }

// How a session came back.
const (
	ByKeeper = "keeper" // a fork from before the evaluation took over
	ByReplay = "replay" // the log was evaluated again in a new process
)

// Recovery tells that the session's process was replaced, and what that means for its state.
type Recovery struct {
	Cause      string // what happened: "process exited with code 3"
	By         string // ByKeeper or ByReplay
	Generation uint64
	Replayed   int             // phrases evaluated again; their side effects happened twice
	Failed     []ReplayFailure // phrases that could not be evaluated again
}

// ReplayFailure is a logged phrase that failed when it was evaluated again.
type ReplayFailure struct {
	Source  string // at most 200 bytes of it
	Message string
}

// Describe says it in one sentence, for a person or an agent.
func (r *Recovery) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the %s; ", r.Cause)
	switch {
	case r.By == ByKeeper && r.Replayed == 0:
		b.WriteString("the state from before this evaluation is back")
	case r.By == ByKeeper:
		fmt.Fprintf(&b, "the state from before this evaluation is back, %s evaluated again", counted("the last phrase", "the last %d phrases", r.Replayed))
	default:
		fmt.Fprintf(&b, "a new process evaluated the log again (%s)", counted("1 phrase", "%d phrases", r.Replayed))
	}
	if n := len(r.Failed); n > 0 {
		fmt.Fprintf(&b, "; %d of them failed: %s", n, r.Failed[0].Message)
	}
	fmt.Fprintf(&b, " (generation %d)", r.Generation)
	return b.String()
}

// Result is what one evaluation brought.
type Result struct {
	Value    *Text // the last value, nil when nothing had one
	Type     *Text
	Stdout   Text
	Stderr   Text
	Order    []Span
	Warnings []engine.Diagnostic
	Err      *Error // nil for success

	// Late is output that arrived between the previous call and this one, for instance of a background thread.
	LateStdout, LateStderr Text

	Generation uint64
	Recovery   *Recovery
	Notes      []string // troubles that did not stop the evaluation: a log that cannot be written
	Elapsed    time.Duration
}

// boundary returns the largest n ≤ limit such that b[:n] ends with a whole character.
func boundary(b []byte, limit int) int {
	if len(b) <= limit {
		return len(b)
	}
	n := limit
	for n > 0 && n > limit-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n--
	}
	if !utf8.RuneStart(b[n]) {
		return limit
	}
	return n
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// counted is one for a single thing, and many, with the number in it, otherwise.
func counted(one, many string, n int) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}
