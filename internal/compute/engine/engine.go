// Package engine runs evaluated code in child processes.
//
// A Language says which program to run; Start runs it and returns a Child, which speaks the child protocol of
// this package with it. The child reads requests on descriptor 3, replies on descriptor 4 and gives descriptors
// 0 (empty), 1 and 2 (files of the server) to the evaluated code. Package session is the only user: it adds the
// log, the recovery by replay and the bounds on what is reported.
//
// Files: value.go and frame.go are the protocol; child.go the life of a child; reaper, guardian, limits and
// capture are what the operating system must do for it.
package engine

import (
	"context"
	"fmt"
	"time"
)

// Language is one kind of engine. Values are immutable and safe for concurrent use.
type Language interface {
	// Name is the word callers choose the engine by: "ocaml", "ocaml-native", "javascript".
	Name() string
	// Capabilities says what sessions of this language can do.
	Capabilities() Capabilities
	// Probe tells the version that would run, or an *Unavailable error that names what to install. It is
	// cheap enough for a status page and starts no session.
	Probe(ctx context.Context) (Info, error)
	// Command prepares the program (compiling a driver where needed) and says how to run it.
	Command(ctx context.Context) (Command, error)
	// Rebuild is called once when a child ended before it was ready: it drops what Command may have cached.
	Rebuild(ctx context.Context) error
	// Entry turns a succeeded phrase into the text that replays it, or "" when the phrase has no effect to replay.
	Entry(text, kind, arg string) string
}

// Capabilities of a language.
type Capabilities struct {
	// Keeper: a fork of the child holds the state from before an evaluation.
	Keeper bool
	// Batch: evaluations can be sent ahead, see Child.Batch.
	Batch bool
	// Promote: a session can become a native binary.
	Promote bool
	// Extension of source files, with its dot: logs and checkpoints have it.
	Extension string
	// Archives are the extensions that Load accepts, with their dots.
	Archives []string
	// Terminator ends a phrase ("" when a line does).
	Terminator string
}

// Info describes an available engine.
type Info struct {
	Version string // of the language, "4.13.1"
	Path    string // of its compiler or interpreter
	// Note tells what is less than asked for, for instance native phrases that run as bytecode.
	Note string
}

// Unavailable is the error of an engine that cannot run on this machine.
type Unavailable struct {
	Language string
	Reason   string // what is missing
	Install  string // what to do about it
}

func (e *Unavailable) Error() string {
	return fmt.Sprintf("%s is not available: %s; %s", e.Language, e.Reason, e.Install)
}

// Command is a program that speaks the child protocol.
type Command struct {
	Path string
	Args []string // without the program's own name
	Env  []string // added to the session's environment
}

// Limits of one child. Zero fields mean the defaults of DefaultLimits, negative ones no limit.
type Limits struct {
	Memory    int64 // address space, bytes
	Processes int64 // processes in the child's group, its own included
	FileSize  int64 // bytes of one file it writes, captured output included
}

// DefaultLimits are used for every field that is zero.
var DefaultLimits = Limits{Memory: 8 << 30, Processes: 512, FileSize: 16 << 30}

func (l Limits) withDefaults() Limits {
	if l.Memory == 0 {
		l.Memory = DefaultLimits.Memory
	}
	if l.Processes == 0 {
		l.Processes = DefaultLimits.Processes
	}
	if l.FileSize == 0 {
		l.FileSize = DefaultLimits.FileSize
	}
	return l
}

// Options of Start.
type Options struct {
	Limits Limits
	Dir    string   // working directory, "" for the server's
	Env    []string // the environment to clean and pass on; nil for the server's own
	// Back answers Topup.read_back and Topup.write_back of a session that a peer drives; nil means the child
	// opens the files itself.
	Back Back
	// Ready bounds the wait for a started child; zero means 10 s.
	Ready time.Duration
}

// Back is the file side of a back-channel.
type Back interface {
	ReadBack(ctx context.Context, path string) ([]byte, error)
	WriteBack(ctx context.Context, path string, data []byte) error
}

// A BackSwitch is a Back that serves some evaluations only: where Active is false for the context of an evaluation,
// the child opens the files itself.
type BackSwitch interface {
	Back
	Active(ctx context.Context) bool
}

func backActive(ctx context.Context, b Back) bool {
	if s, ok := b.(BackSwitch); ok {
		return s.Active(ctx)
	}
	return b != nil
}

// Location is a place in source text. Lines are 1-based, columns are 0-based bytes.
type Location struct {
	File     string
	Line     int
	ColStart int
	LineEnd  int
	ColEnd   int
}

// Failure is why an evaluation stopped.
type Failure struct {
	Phase     string // "typecheck" or "runtime"
	Location  *Location
	Message   string
	Related   []string
	Backtrace []Location // places in the session's code, innermost first
	// Broke is true when the failure is the interrupt itself.
	Broke bool
}

// Diagnostic is a warning or an alert.
type Diagnostic struct {
	Kind     string // "warning", "alert", "warning-error", "alert-error"
	Name     string // "8 [partial-match]", "deprecated"
	Location *Location
	Message  string
	Related  []string
}

// Phrase is a phrase that took effect: the bytes [Start,Stop) of the source.
type Phrase struct {
	Start, Stop int
	Kind        string // "expr", "def", or a directive such as "#require"
	Arg         string // the directive's string argument
}

// Binding is one name of a session.
type Binding struct {
	Name     string
	Kind     string // "value", or "item" for a module or type found by Lookup
	Type     string
	Location *Location
	Preview  *string
}

// Reply is what a child says about one evaluation.
type Reply struct {
	Seq         uint64
	Value, Type *string
	Failure     *Failure
	Diagnostics []Diagnostic
	Phrases     []Phrase
	// Of an evaluation in a batch: the sizes that the captures had at its end, or -1; and whether the child went on
	// with the next one.
	OutEnd, ErrEnd int64
	More           bool
}

func parseReply(d Dict) Reply {
	r := Reply{
		OutEnd: -1, ErrEnd: -1, More: d.Int("more") == 1,
		Seq: uint64(d.Int("seq")), Value: d.Maybe("value"), Type: d.Maybe("type"), Failure: parseFailure(d.Dict("error")),
	}
	if d.Get("more") != nil {
		r.OutEnd, r.ErrEnd = d.Int("out"), d.Int("err")
	}
	for _, v := range d.List("diagnostics") {
		if w, ok := v.(Dict); ok {
			r.Diagnostics = append(r.Diagnostics, Diagnostic{
				Kind: w.Text("kind"), Name: w.Text("name"), Location: parseLocation(w.Dict("loc")),
				Message: w.Text("message"), Related: parseTexts(w.List("related")),
			})
		}
	}
	for _, v := range d.List("phrases") {
		if p, ok := v.(Dict); ok {
			r.Phrases = append(r.Phrases, Phrase{Start: int(p.Int("start")), Stop: int(p.Int("stop")), Kind: p.Text("kind"), Arg: p.Text("arg")})
		}
	}
	return r
}

func parseFailure(d Dict) *Failure {
	if d == nil {
		return nil
	}
	f := &Failure{
		Phase: d.Text("phase"), Location: parseLocation(d.Dict("loc")), Message: d.Text("message"),
		Related: parseTexts(d.List("related")), Broke: d.Int("broke") == 1,
	}
	f.Backtrace = ParseBacktrace(d.Text("backtrace"))
	return f
}

func parseLocation(d Dict) *Location {
	if d == nil {
		return nil
	}
	return &Location{
		File: d.Text("file"), Line: int(d.Int("line")), ColStart: int(d.Int("col")),
		LineEnd: int(d.Int("line_end")), ColEnd: int(d.Int("col_end")),
	}
}

func parseTexts(l List) []string {
	var texts []string
	for _, v := range l {
		if s, ok := v.(string); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

func parseBinding(v Value) (Binding, bool) {
	d, ok := v.(Dict)
	if !ok {
		return Binding{}, false
	}
	return Binding{
		Name: d.Text("name"), Kind: d.Text("kind"), Type: d.Text("type"),
		Location: parseLocation(d.Dict("loc")), Preview: d.Maybe("preview"),
	}, true
}
