package tool

// This file holds the tools of one session of the topup contract, and the shapes
// of their results (sections 4 and 5).

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"topside/internal/compute/engine"
	"topside/internal/compute/session"
)

// topupResult is the result of an evaluation: the nine members that are always
// there, in their order, and behind them what the original could not tell.
type topupResult struct {
	Value          *string        `json:"value_repr"`
	ValueOverflow  *topupOverflow `json:"value_repr_overflow"`
	Type           *string        `json:"type"`
	Stdout         string         `json:"stdout"`
	StdoutOverflow *topupOverflow `json:"stdout_overflow"`
	Stderr         string         `json:"stderr"`
	StderrOverflow *topupOverflow `json:"stderr_overflow"`
	Warnings       []string       `json:"warnings"`
	Error          *topupError    `json:"error"`
	LateStdout     string         `json:"late_stdout,omitempty"`
	LateStderr     string         `json:"late_stderr,omitempty"`
	Recovery       *topupRecovery `json:"recovery,omitempty"`
	Notes          []string       `json:"notes,omitempty"`
}

type topupOverflow struct {
	Path  string `json:"path"`
	Total int64  `json:"total_bytes"`
}

type topupError struct {
	Phase     string          `json:"phase"`
	Location  *topupLocation  `json:"location"`
	Message   string          `json:"message"`
	Related   []string        `json:"related"`
	Backtrace []topupLocation `json:"backtrace,omitempty"`
}

type topupLocation struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	ColStart int    `json:"col_start"`
	ColEnd   int    `json:"col_end"`
	LineEnd  int    `json:"line_end,omitempty"`
}

// topupRecovery tells that the session's process was replaced.
type topupRecovery struct {
	Summary    string   `json:"summary"`
	Generation uint64   `json:"generation"`
	By         string   `json:"by"`
	Replayed   int      `json:"replayed"`
	Failed     []string `json:"failed,omitempty"`
}

func topupLocationOf(l *engine.Location) *topupLocation {
	if l == nil {
		return nil
	}
	return &topupLocation{File: l.File, Line: l.Line, ColStart: l.ColStart, ColEnd: l.ColEnd, LineEnd: l.LineEnd}
}

func overflowOf(t session.Text) *topupOverflow {
	if t.Path == "" {
		return nil
	}
	return &topupOverflow{t.Path, t.Total}
}

func topupResultOf(r session.Result) topupResult {
	out := topupResult{
		Stdout: r.Stdout.Marked(), StdoutOverflow: overflowOf(r.Stdout),
		Stderr: r.Stderr.Marked(), StderrOverflow: overflowOf(r.Stderr),
		LateStdout: r.LateStdout.Marked(), LateStderr: r.LateStderr.Marked(),
		Warnings: []string{}, Notes: r.Notes,
	}
	if r.Value != nil {
		shown := r.Value.Marked()
		out.Value, out.ValueOverflow = &shown, overflowOf(*r.Value)
	}
	if r.Type != nil {
		shown := r.Type.Marked()
		out.Type = &shown
	}
	for _, d := range r.Warnings {
		out.Warnings = append(out.Warnings, warningText(d))
	}
	if e := r.Err; e != nil {
		out.Error = &topupError{Phase: e.Phase, Location: topupLocationOf(e.Location), Message: e.Message, Related: e.Related}
		if out.Error.Related == nil {
			out.Error.Related = []string{}
		}
		for i := range e.Backtrace {
			out.Error.Backtrace = append(out.Error.Backtrace, *topupLocationOf(&e.Backtrace[i]))
		}
	}
	if rec := r.Recovery; rec != nil {
		out.Recovery = &topupRecovery{Summary: rec.Describe(), Generation: rec.Generation, By: rec.By, Replayed: rec.Replayed}
		for _, f := range rec.Failed {
			out.Recovery.Failed = append(out.Recovery.Failed, f.Source+": "+f.Message)
		}
	}
	return out
}

// warningText is a warning as one string: kind, number and name, place, text.
func warningText(d engine.Diagnostic) string {
	var b strings.Builder
	b.WriteString(d.Kind)
	if d.Name != "" {
		b.WriteString(" " + d.Name)
	}
	if l := d.Location; l != nil {
		fmt.Fprintf(&b, " (%s, line %d, characters %d-%d)", l.File, l.Line, l.ColStart, l.ColEnd)
	}
	b.WriteString(": " + d.Message)
	for _, r := range d.Related {
		b.WriteString("\n" + r)
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// stopped is the result of an evaluation that did not begin.
func stopped(message string) topupResult {
	return topupResult{Warnings: []string{}, Error: &topupError{Phase: "runtime", Message: message, Related: []string{}}}
}

const (
	topupTimedOut  = "evaluation timed out"
	topupCancelled = "evaluation cancelled"
)

// timeLimit reads the timeout in seconds: 0 for none, negative for one that is
// over at once.
func timeLimit(a topupArguments) time.Duration {
	seconds, given := a.number("timeout")
	switch {
	case !given:
		return 0
	case seconds <= 0:
		return -1
	case seconds >= math.MaxInt64/float64(time.Second):
		return 0
	}
	return max(time.Duration(seconds*float64(time.Second)), time.Microsecond)
}

// isCancelled tells a call that was cancelled while it waited.
func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func evaluate(ctx context.Context, s *session.Session, source string, limit time.Duration) (topupResult, error) {
	if limit < 0 {
		return stopped(topupTimedOut), nil
	}
	r, err := s.Eval(ctx, session.Request{Source: source, Timeout: limit})
	if isCancelled(err) {
		return stopped(topupCancelled), nil
	}
	return topupResultOf(r), err
}

func evalTopup(ctx context.Context, _ *TopupClient, s *session.Session, a topupArguments) (Result, error) {
	source, err := a.needed("source")
	if err != nil {
		return Result{}, err
	}
	r, err := evaluate(ctx, s, source, timeLimit(a))
	return Result{Structured: r}, err
}

type topupBatch struct {
	Results        []topupResult `json:"results"`
	StoppedOnError bool          `json:"stopped_on_error"`
}

func evalBatchTopup(ctx context.Context, _ *TopupClient, s *session.Session, a topupArguments) (Result, error) {
	sources, ok := a.texts("sources")
	switch {
	case !ok:
		return Result{}, topupUsage("'sources' must be an array of strings")
	case len(sources) == 0:
		return Result{}, topupUsage("'sources' must be non-empty")
	}
	limit := timeLimit(a)
	batch := topupBatch{Results: []topupResult{}}
	if limit < 0 {
		batch.Results = append(batch.Results, stopped(topupTimedOut))
		batch.StoppedOnError = len(sources) > 1
		return Result{Structured: batch}, nil
	}
	results, err := s.EvalBatch(ctx, sources, limit)
	for _, r := range results {
		batch.Results = append(batch.Results, topupResultOf(r))
	}
	if isCancelled(err) {
		batch.Results, err = append(batch.Results, stopped(topupCancelled)), nil
	}
	last := len(batch.Results) - 1
	batch.StoppedOnError = last >= 0 && batch.Results[last].Error != nil && len(batch.Results) < len(sources)
	return Result{Structured: batch}, err
}

type topupBinding struct {
	Name     string         `json:"name"`
	Type     string         `json:"type"`
	Location *topupLocation `json:"location"`
	Preview  *string        `json:"preview"`
}

func topupBindingOf(b engine.Binding) topupBinding {
	return topupBinding{Name: b.Name, Type: b.Type, Location: topupLocationOf(b.Location), Preview: b.Preview}
}

func envTopup(ctx context.Context, _ *TopupClient, s *session.Session, a topupArguments) (Result, error) {
	filter, _ := a.text("filter")
	found, err := s.Env(ctx, a.flag("all"), filter)
	if err != nil {
		return Result{}, err
	}
	// The original's filter is a prefix, its page's a substring: both find theirs.
	slices.SortFunc(found, func(a, b engine.Binding) int {
		if p, q := strings.HasPrefix(a.Name, filter), strings.HasPrefix(b.Name, filter); p != q {
			if p {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	list := make([]topupBinding, 0, len(found))
	for _, b := range found {
		list = append(list, topupBindingOf(b))
	}
	return Result{Structured: list}, nil
}

func lookupTopup(ctx context.Context, _ *TopupClient, s *session.Session, a topupArguments) (Result, error) {
	name, err := a.needed("name")
	if err != nil {
		return Result{}, err
	}
	if !mayName(name) {
		return Result{Text: "null"}, nil
	}
	b, err := s.Lookup(ctx, name)
	if err != nil || b == nil {
		return Result{Text: "null"}, err
	}
	return Result{Structured: topupBindingOf(*b)}, nil
}

// mayName tells whether a binding may have that name: a path that ends in a dot, as
// one does that is still being typed, names nothing and is no error.
func mayName(name string) bool {
	name = strings.TrimSpace(name)
	if name == "" || name[0] == '.' {
		return false
	}
	operator := strings.Trim(name, "!$%&*+-./:<=>?@^|~") == ""
	return operator || !strings.HasSuffix(name, ".") && !strings.Contains(name, "..")
}

func resetTopup(ctx context.Context, _ *TopupClient, s *session.Session, _ topupArguments) (Result, error) {
	return ok, s.Reset(ctx)
}

func loadTopup(ctx context.Context, _ *TopupClient, s *session.Session, a topupArguments) (Result, error) {
	path, err := a.needed("path")
	if err != nil {
		return Result{}, err
	}
	r, err := s.Load(ctx, path)
	return Result{Structured: topupResultOf(r)}, err
}

func checkpointTopup(ctx context.Context, _ *TopupClient, s *session.Session, a topupArguments) (Result, error) {
	label, err := a.needed("label")
	if err != nil {
		return Result{}, err
	}
	if _, err := s.Checkpoint(ctx, label); err != nil {
		return Result{}, err
	}
	return Result{Structured: struct {
		OK    bool   `json:"ok"`
		Label string `json:"label"`
	}{true, label}}, nil
}

func restoreTopup(ctx context.Context, _ *TopupClient, s *session.Session, a topupArguments) (Result, error) {
	label, err := a.needed("label")
	if err != nil {
		return Result{}, err
	}
	r, err := s.Restore(ctx, label)
	if isCancelled(err) {
		return Result{Structured: stopped(topupCancelled)}, nil
	}
	return Result{Structured: topupResultOf(r)}, err
}

func compileTopup(ctx context.Context, _ *TopupClient, s *session.Session, a topupArguments) (Result, error) {
	entry, err := a.needed("entry")
	if err != nil {
		return Result{}, err
	}
	out, err := a.needed("out")
	if err != nil {
		return Result{}, err
	}
	libraries, _ := a.texts("libraries")
	built, err := s.Promote(ctx, entry, out, libraries)
	if err != nil {
		return Result{}, err
	}
	reply := struct {
		OK       bool    `json:"ok"`
		Path     *string `json:"binary_path"`
		BuildLog string  `json:"build_log"`
	}{OK: built.OK, BuildLog: built.BuildLog}
	if built.OK {
		reply.Path = &built.BinaryPath
	}
	return Result{Structured: reply}, nil
}
