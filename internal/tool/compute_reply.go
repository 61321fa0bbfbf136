package tool

// This file writes what the compute toolset answers: bounded, with a note of
// everything that was left out, and the text block beside it.

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"topside/internal/compute/engine"
	"topside/internal/compute/promote"
	"topside/internal/compute/session"
)

// A standing is the state of a session, in every reply.
type standing struct {
	Session    string `json:"session"`
	Engine     string `json:"engine,omitempty"`
	State      string `json:"state"`
	Generation uint64 `json:"generation"`
}

func standingOf(name string, s *session.Session) standing {
	if s == nil {
		return standing{Session: shownWhole(name), State: "stopped"}
	}
	st := s.Status()
	return standing{Session: shownWhole(name), Engine: st.Engine, State: string(st.State), Generation: st.Generation}
}

// shownWhole is the name as callers pass it.
func shownWhole(name string) string {
	if name == "" {
		return localName
	}
	return name
}

func (s standing) line() string {
	words := []string{s.State}
	if s.Engine != "" {
		words = append(words, s.Engine)
	}
	if s.Generation > 0 {
		words = append(words, fmt.Sprintf("generation %d", s.Generation))
	}
	return fmt.Sprintf("[%s: %s]", shown(s.Session), strings.Join(words, ", "))
}

// An overflow says where a text is whole.
type overflow struct {
	Path  string `json:"path,omitempty"`
	Total int64  `json:"total_bytes"`
	// Dropped is what the file does not have either.
	Dropped int64 `json:"dropped_bytes,omitempty"`
}

func spillOf(t session.Text) *overflow {
	if t.Cut == 0 {
		return nil
	}
	return &overflow{t.Path, t.Total, t.Dropped}
}

// A piece is a part of the output, in order; Omitted bytes follow its text.
type piece struct {
	Stream  string `json:"stream"`
	Text    string `json:"text"`
	Omitted int64  `json:"omitted_bytes,omitempty"`
}

// A place is the contract's location (section 4.5) with the line of the end.
type place struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line"`
	ColStart int    `json:"col_start"`
	LineEnd  int    `json:"line_end"`
	ColEnd   int    `json:"col_end"`
}

func placeOf(l *engine.Location) *place {
	if l == nil {
		return nil
	}
	return &place{l.File, l.Line, l.ColStart, l.LineEnd, l.ColEnd}
}

func (p *place) String() string {
	if p == nil {
		return ""
	}
	if p.LineEnd > p.Line {
		return fmt.Sprintf(" at %s:%d:%d-%d:%d", p.File, p.Line, p.ColStart, p.LineEnd, p.ColEnd)
	}
	return fmt.Sprintf(" at %s:%d:%d-%d", p.File, p.Line, p.ColStart, p.ColEnd)
}

// A warning is a diagnostic of the compiler.
type warning struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name,omitempty"`
	Message  string   `json:"message"`
	Location *place   `json:"location,omitempty"`
	Related  []string `json:"related,omitempty"`
}

// A fault is why an evaluation stopped.
type fault struct {
	Phase    string   `json:"phase"`
	Location *place   `json:"location"`
	Message  string   `json:"message"`
	Related  []string `json:"related"`
	// Cause is what stopped it from outside: timeout, cancel or processes.
	Cause     string  `json:"cause,omitempty"`
	Backtrace []place `json:"backtrace,omitempty"`
}

// A recovered tells that the session's process was replaced.
type recovered struct {
	Cause      string         `json:"cause"`
	By         string         `json:"by"`
	Generation uint64         `json:"generation"`
	Replayed   int            `json:"replayed"`
	Failed     []replayFailed `json:"failed,omitempty"`
	Says       string         `json:"summary"`
}

type replayFailed struct {
	Source  string `json:"source"`
	Message string `json:"message"`
}

func recoveredOf(r *session.Recovery) *recovered {
	if r == nil {
		return nil
	}
	out := &recovered{Cause: r.Cause, By: r.By, Generation: r.Generation, Replayed: r.Replayed, Says: r.Describe()}
	for _, f := range r.Failed[:min(len(r.Failed), mostListed)] {
		out.Failed = append(out.Failed, replayFailed{f.Source, shorten(f.Message, 300)})
	}
	return out
}

// mostListed bounds warnings, related messages and the like.
const mostListed = 20

// An evaluation is what one source brought: the contract's keys (section 4.1),
// and what is known beyond them.
type evaluation struct {
	Value          *string   `json:"value_repr"`
	ValueOverflow  *overflow `json:"value_repr_overflow,omitempty"`
	Type           *string   `json:"type"`
	Stdout         string    `json:"stdout"`
	StdoutOverflow *overflow `json:"stdout_overflow,omitempty"`
	Stderr         string    `json:"stderr"`
	StderrOverflow *overflow `json:"stderr_overflow,omitempty"`
	// Output is both streams in order, when both were written to.
	Output []piece `json:"output,omitempty"`
	// Late is what was printed after the reply of the call before this one.
	Late      []piece    `json:"late_output,omitempty"`
	Warnings  []warning  `json:"warnings"`
	Error     *fault     `json:"error"`
	Recovered bool       `json:"recovered,omitempty"`
	Recovery  *recovered `json:"recovery,omitempty"`
	Notes     []string   `json:"notes,omitempty"`
	Elapsed   float64    `json:"elapsed_ms"`
}

// evaluationOf bounds each text of a result to about limit bytes.
func evaluationOf(r session.Result, limit int) evaluation {
	e := evaluation{
		Stdout: preview(r.Stdout, limit), StdoutOverflow: spillOf(r.Stdout),
		Stderr: preview(r.Stderr, limit), StderrOverflow: spillOf(r.Stderr),
		Late: pieces(r.LateStdout, r.LateStderr, nil, limit), Warnings: []warning{},
		Recovered: r.Recovery != nil, Recovery: recoveredOf(r.Recovery), Notes: r.Notes,
		Elapsed: milliseconds(r.Elapsed),
	}
	if r.Value != nil {
		v := preview(*r.Value, limit)
		e.Value, e.ValueOverflow = &v, spillOf(*r.Value)
	}
	if r.Type != nil {
		t := preview(*r.Type, limit)
		e.Type = &t
	}
	if r.Stdout.Total > 0 && r.Stderr.Total > 0 {
		e.Output = pieces(r.Stdout, r.Stderr, r.Order, limit)
	}
	for i, w := range r.Warnings {
		if i == mostListed {
			e.Notes = append(e.Notes, fmt.Sprintf("%d more warnings were left out", len(r.Warnings)-i))
			break
		}
		e.Warnings = append(e.Warnings, warning{w.Kind, w.Name, shorten(w.Message, limit/4), placeOf(w.Location), few(w.Related, limit/8)})
	}
	if r.Err != nil {
		e.Error = &fault{r.Err.Phase, placeOf(r.Err.Location), shorten(r.Err.Message, limit), few(r.Err.Related, limit/4), string(r.Err.Cause), nil}
		for _, l := range r.Err.Backtrace[:min(len(r.Err.Backtrace), mostListed)] {
			e.Error.Backtrace = append(e.Error.Backtrace, *placeOf(&l))
		}
	}
	return e
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func few(all []string, limit int) []string {
	kept := []string{}
	for _, s := range all[:min(len(all), mostListed)] {
		kept = append(kept, shorten(s, limit))
	}
	return kept
}

// shorten keeps the beginning of a text, at a character's boundary.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := limit
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return fmt.Sprintf("%s…[+%d bytes]", s[:n], len(s)-n)
}

// ending keeps the end of a text, at a character's boundary.
func ending(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := len(s) - limit
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return s[n:]
}

// preview is the beginning and the end of a text, with a count of what lies
// between and where to read it.
func preview(t session.Text, limit int) string {
	whole := t.Head
	if t.Cut == 0 && len(whole) <= limit {
		return whole
	}
	head := whole
	if len(head) > limit {
		n := limit
		for n > 0 && !utf8.RuneStart(head[n]) {
			n--
		}
		head = head[:n]
	}
	tail := t.Tail
	if t.Cut == 0 {
		tail = whole[len(head):]
	}
	tail = ending(tail, limit/4)
	between := t.Total - int64(len(head)+len(tail))
	if between <= 0 {
		return head + tail
	}
	where := ""
	if t.Path != "" {
		where = "; read_output " + t.Path
	}
	return fmt.Sprintf("%s\n…[%d bytes left out%s]…\n%s", head, between, where, tail)
}

// mostPieces bounds the pieces of one output.
const mostPieces = 60

// pieces are the outputs of both descriptors in their order, as far as a reply
// holds them.
func pieces(stdout, stderr session.Text, order []session.Span, limit int) []piece {
	outs := [2]session.Text{stdout, stderr}
	exact := true
	for _, t := range outs {
		// Bytes that are no UTF-8 were replaced: offsets say nothing then.
		exact = exact && int64(len(t.Head)) == t.Total-t.Cut
	}
	var all []piece
	var done [2]int64
	add := func(i int, to int64) {
		t := outs[i]
		if to <= done[i] {
			return
		}
		text, omitted := between(t, done[i], to, limit)
		done[i] = to
		if n := len(all); n > 0 && all[n-1].Stream == streams[i] && all[n-1].Omitted == 0 {
			all[n-1].Text += text
			all[n-1].Omitted = omitted
			return
		}
		all = append(all, piece{streams[i], text, omitted})
	}
	if exact {
		for _, s := range order[:min(len(order), mostPieces)] {
			add(index(s.Stderr), min(s.To, outs[index(s.Stderr)].Total))
		}
	}
	for i, t := range outs {
		if exact {
			add(i, t.Total)
		} else if t.Total > 0 {
			all = append(all, piece{Stream: streams[i], Text: preview(t, limit)})
		}
	}
	return all
}

var streams = [2]string{"stdout", "stderr"}

func index(stderr bool) int {
	if stderr {
		return 1
	}
	return 0
}

// between is the text of [from,to) as far as it is among the first limit bytes
// or the last quarter of that.
func between(t session.Text, from, to int64, limit int) (text string, omitted int64) {
	headEnd := min(int64(len(t.Head)), int64(limit))
	tail := t.Tail
	if t.Cut == 0 && int64(len(t.Head)) > headEnd {
		tail = t.Head[headEnd:]
	}
	tail = ending(tail, max(limit/4, 1))
	tailStart := max(t.Total-int64(len(tail)), headEnd)
	var b strings.Builder
	if from < headEnd {
		b.WriteString(t.Head[from:min(to, headEnd)])
	}
	omitted = max(0, min(to, tailStart)-max(from, headEnd))
	if omitted > 0 && to > tailStart {
		fmt.Fprintf(&b, "\n…[%d bytes left out]…\n", omitted)
		omitted = 0
	}
	if to > tailStart && len(tail) > 0 {
		at := t.Total - int64(len(tail))
		b.WriteString(tail[max(from, tailStart)-at : to-at])
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD"), omitted
}

// text is the evaluation for a reader.
func (e *evaluation) text() string {
	var b strings.Builder
	if e.Recovery != nil {
		fmt.Fprintf(&b, "recovered: %s\n", e.Recovery.Says)
	}
	for _, p := range e.Late {
		fmt.Fprintf(&b, "%s since the last call:\n%s\n", p.Stream, strings.TrimSuffix(p.Text, "\n"))
	}
	switch {
	case len(e.Output) > 0:
		for _, p := range e.Output {
			fmt.Fprintf(&b, "%s:\n%s\n", p.Stream, strings.TrimSuffix(p.Text, "\n"))
		}
	case e.Stdout != "":
		fmt.Fprintf(&b, "stdout:\n%s\n", strings.TrimSuffix(e.Stdout, "\n"))
	case e.Stderr != "":
		fmt.Fprintf(&b, "stderr:\n%s\n", strings.TrimSuffix(e.Stderr, "\n"))
	}
	for _, w := range e.Warnings {
		if strings.Contains(e.Stderr, w.Message) {
			continue
		}
		fmt.Fprintf(&b, "%s %s%s: %s\n", w.Kind, w.Name, w.Location, w.Message)
	}
	switch {
	case e.Value != nil && e.Type != nil:
		fmt.Fprintf(&b, "%s : %s\n", *e.Value, *e.Type)
	case e.Value != nil:
		fmt.Fprintf(&b, "%s\n", *e.Value)
	case e.Type != nil:
		fmt.Fprintf(&b, ": %s\n", *e.Type)
	}
	if e.Error != nil {
		fmt.Fprintf(&b, "error (%s)%s: %s\n", e.Error.Phase, e.Error.Location, e.Error.Message)
		for _, r := range e.Error.Related {
			fmt.Fprintf(&b, "  %s\n", r)
		}
	}
	for _, n := range e.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// An evaluated is the reply of eval, load, restore and poll.
type evaluated struct {
	standing
	Run string `json:"run"`
	evaluation
}

// longestReply is the greatest length of a structured result, in bytes of JSON.
const longestReply = longestList

// limits are tried in turn until a reply is short enough.
var limits = []int{inlineText, inlineText / 2, inlineText / 4, inlineText / 16, 64}

// fitting encodes the first of the replies that is short enough.
func fitting(make func(limit int) (v any, text string)) Result {
	var encoded json.RawMessage
	var text string
	for _, limit := range limits {
		var v any
		v, text = make(limit)
		encoded = encode(v)
		if len(encoded) <= longestReply && len(text) <= longestReply {
			break
		}
	}
	return Result{Structured: encoded, Text: text}
}

// A oneResult is the answer of a run with one evaluation.
type oneResult struct {
	session *session.Session
	result  session.Result
}

func (o oneResult) reply(c *Computer, r *run) Result {
	at := standingOf(r.name, o.session)
	return fitting(func(limit int) (any, string) {
		e := evaluated{at, r.id, evaluationOf(o.result, limit)}
		e.Generation = max(e.Generation, o.result.Generation)
		return e, e.evaluation.text() + at.line() + "\n"
	})
}

// A runningReply says how far a run is that goes on.
type runningReply struct {
	standing
	Run            string    `json:"run"`
	Stdout         string    `json:"stdout"`
	StdoutOverflow *overflow `json:"stdout_overflow,omitempty"`
	Stderr         string    `json:"stderr"`
	StderrOverflow *overflow `json:"stderr_overflow,omitempty"`
	Elapsed        float64   `json:"elapsed_ms"`
	Next           string    `json:"next"`
}

// running is the reply for a run that goes on.
func (c *Computer) running(r *run) Result {
	s := r.session.Load()
	at := standingOf(r.name, s)
	at.State = c.state(r)
	var p session.Progress
	if s != nil && at.State == "running" {
		p = s.Progress()
	}
	elapsed := time.Since(r.started)
	return fitting(func(limit int) (any, string) {
		reply := runningReply{
			standing: at, Run: r.id, Elapsed: milliseconds(elapsed),
			Stdout: preview(p.Stdout, limit), StdoutOverflow: spillOf(p.Stdout),
			Stderr: preview(p.Stderr, limit), StderrOverflow: spillOf(p.Stderr),
			Next: fmt.Sprintf("it goes on: poll run %s collects it, cancel stops it", r.id),
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s for %.1f s as run %s; poll collects the rest, cancel stops it\n", at.State, elapsed.Seconds(), r.id)
		for i, text := range [2]string{reply.Stdout, reply.Stderr} {
			if text != "" {
				fmt.Fprintf(&b, "%s so far:\n%s\n", streams[i], strings.TrimSuffix(text, "\n"))
			}
		}
		return reply, b.String() + at.line() + "\n"
	})
}

// A batchResult is the answer of eval_batch.
type batchResult struct {
	session *session.Session
	results []session.Result
	stopped bool
	unrun   int
}

type batchReply struct {
	standing
	Run     string       `json:"run"`
	Results []evaluation `json:"results"`
	Stopped bool         `json:"stopped_on_error"`
	NotRun  int          `json:"not_run,omitempty"`
	LeftOut int          `json:"left_out,omitempty"`
}

func (o batchResult) reply(c *Computer, r *run) Result {
	at := standingOf(r.name, o.session)
	shownFirst := len(o.results)
	result := fitting(func(limit int) (any, string) {
		if limit == limits[len(limits)-1] {
			shownFirst = min(shownFirst, 40) // about 36,000 bytes at the smallest limit
		}
		reply := batchReply{standing: at, Run: r.id, Stopped: o.stopped, NotRun: o.unrun, LeftOut: len(o.results) - shownFirst}
		var b strings.Builder
		for i, res := range o.results {
			if i >= shownFirst-1 && i < len(o.results)-1 {
				continue // the last one is shown always: it may have failed
			}
			e := evaluationOf(res, limit)
			reply.Results = append(reply.Results, e)
			fmt.Fprintf(&b, "%d. %s", i+1, e.text())
		}
		if reply.LeftOut > 0 {
			fmt.Fprintf(&b, "%d results before the last one were left out\n", reply.LeftOut)
		}
		if o.stopped {
			fmt.Fprintf(&b, "stopped at the error; %d sources were not evaluated\n", o.unrun)
		}
		return reply, b.String() + at.line() + "\n"
	})
	return result
}

// A buildResult is the answer of compile_to_binary.
type buildResult struct {
	session *session.Session
	result  promote.Result
}

type buildReply struct {
	standing
	Run    string  `json:"run"`
	OK     bool    `json:"ok"`
	Binary *string `json:"binary_path"`
	Log    string  `json:"build_log"`
}

func (o buildResult) reply(c *Computer, r *run) Result {
	at := standingOf(r.name, o.session)
	whole := session.Text{Head: strings.ToValidUTF8(o.result.BuildLog, "\uFFFD")}
	whole.Total = int64(len(whole.Head))
	return fitting(func(limit int) (any, string) {
		reply := buildReply{standing: at, Run: r.id, OK: o.result.OK, Log: preview(whole, 2*limit)}
		if o.result.OK {
			reply.Binary = &o.result.BinaryPath
			return reply, "built " + o.result.BinaryPath + "\n" + at.line() + "\n"
		}
		return reply, "the build failed:\n" + reply.Log + "\n" + at.line() + "\n"
	})
}

// A startResult is the answer of start_local_session and restart_local_session.
type startResult struct {
	session  *session.Session
	pool     int
	recovery *session.Recovery
	notes    []string
}

type startReply struct {
	OK bool `json:"ok"`
	standing
	Run       string     `json:"run"`
	Pool      int        `json:"pool,omitempty"`
	Recovered bool       `json:"recovered,omitempty"`
	Recovery  *recovered `json:"recovery,omitempty"`
	Notes     []string   `json:"notes,omitempty"`
}

func (o startResult) reply(c *Computer, r *run) Result {
	reply := startReply{
		OK: true, standing: standingOf(r.name, o.session), Run: r.id, Pool: o.pool,
		Recovered: o.recovery != nil, Recovery: recoveredOf(o.recovery), Notes: o.notes,
	}
	text := "session " + shown(r.name) + " is started\n"
	if reply.Recovery != nil {
		text += "recovered: " + reply.Recovery.Says + "\n"
	}
	for _, n := range o.notes {
		text += "note: " + n + "\n"
	}
	return Result{Structured: reply, Text: text + reply.line() + "\n"}
}
