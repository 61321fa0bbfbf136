package tool

// This file holds the twelve tools of the xtop contract (sections 1.2 to 1.6):
// how their arguments are read, which is strict and silent, and what they
// answer. The defects of the original's figures are gone, its names, limits and
// messages are kept. xtop_record.go writes the records and xtop_alert.go the
// alerts.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"topside/internal/see"
	"topside/internal/steer"
	"topside/internal/steer/action"
	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
)

// The limits of the contract's answers.
const (
	xtopTopDefault = 10
	xtopTopMost    = 200
	xtopSearchMost = 100
	xtopAlertsMost = 50
	xtopAlertsHead = 5
	// longestPattern bounds a regular expression, in characters. The contract's
	// regular expressions are bounded by their compiled size.
	longestPattern = 1000
)

// killTool is how policy and audit log know the tool that sends signals, on
// both surfaces.
const killTool = "process_kill"

// An Xtop answers the tools of the xtop contract. It is safe for concurrent use.
type Xtop struct {
	observer *see.Observer
	advisor  *steer.Advisor
	tools    []*Tool
	hide     bool // secrets

	mu    sync.Mutex
	ticks uint64
	last  string // what became of the action before
}

// NewXtop makes what answers the contract's tools. Both arguments may be nil
// where the machine cannot be observed; every tool then answers so.
func NewXtop(observer *see.Observer, advisor *steer.Advisor) *Xtop {
	x := &Xtop{observer: observer, advisor: advisor}
	x.tools = x.declare()
	return x
}

// HideSecrets makes it hide passwords and tokens in names and first arguments,
// also from its searches. The contract shows them.
func (x *Xtop) HideSecrets(hide bool) *Xtop {
	x.hide = hide
	return x
}

// Tools lists the contract's tools in their order.
func (x *Xtop) Tools() []*Tool { return x.tools }

// declare lists the tools. Required arguments are named so in the schema; which
// of them are missed is the matter of [CheckXtop] and of the handlers.
func (x *Xtop) declare() []*Tool {
	pid := []Property{{Name: "pid", Type: Integer, Required: true, Description: "Process id."}}
	tools := []*Tool{
		{
			Name:        "system_summary",
			Description: "CPU, memory, process count, disks, network interfaces, uptime, host name and number of alerts.",
			Handler:     x.summary,
		},
		{
			Name:        "processes_top",
			Description: "The processes that use most CPU, optionally those whose name, first argument or executable matches a regular expression.",
			Input: []Property{
				{Name: "count", Type: Integer, Default: xtopTopDefault, Description: "How many to return."},
				{Name: "filter", Type: String, Description: "Regular expression on name, first argument or executable."},
			},
			Handler: x.top,
		},
		{
			Name:        "processes_search",
			Description: "Find processes by a regular expression on chosen fields; at most 100, by CPU.",
			Input: []Property{
				{Name: "pattern", Type: String, Required: true, Description: "Regular expression; (?i) ignores case."},
				{Name: "fields", Type: String, Description: "Fields to search, separated by commas: name, cmd, user, state, exe, cwd. Default name."},
			},
			Handler: x.search,
		},
		{Name: "process_info", Description: "Everything known of one process.", Input: pid, Handler: x.info},
		{Name: killTool, Description: "Ask a process to end (SIGTERM). killed says whether the signal was sent, reason why not.", Input: pid, Handler: x.kill},
		{
			Name:        "threshold_set",
			Description: "Set the limits of CPU, memory and disk use, in percent.",
			Input: []Property{
				{Name: "cpu", Type: Number, Required: true}, {Name: "mem", Type: Number, Required: true}, {Name: "disk", Type: Number, Required: true},
			},
			Handler: x.setThresholds,
		},
		{Name: "threshold_get", Description: "The limits of CPU, memory and disk use, in percent.", Handler: x.thresholds},
		{Name: "config_get", Description: "Theme, layout and interval of the terminal view, and the host name.", Handler: x.configuration},
		{
			Name:        "config_set",
			Description: "Set the interval, the theme or the layout of the terminal view.",
			Input: []Property{
				{Name: "interval_ms", Type: Integer, Description: "Milliseconds between two samples."},
				{Name: "theme", Type: String}, {Name: "layout", Type: String},
			},
			Handler: x.configure,
		},
		{Name: "process_alerts", Description: "What looks suspicious among the processes, the most severe first; at most 50.", Handler: x.alerts},
		{Name: "alerts_status", Description: "How many alerts there are by severity, and the five most severe.", Handler: x.alertsStatus},
		{Name: "plugin_status", Description: "State of the monitor, its last action and its alerts.", Handler: x.status},
	}
	for _, t := range tools {
		t.Toolset = XtopTools
	}
	return tools
}

// XtopTools is the toolset of the contract's tools, which a client of the united
// surface gets on request only.
const XtopTools = "xtop"

// An UnknownTool is a call of a tool that the contract does not have.
type UnknownTool struct{ Name string }

func (e *UnknownTool) Error() string { return "Tool not found: " + e.Name }

// Call serves one call as the contract has it. The error is an *[UnknownTool],
// an *[ArgumentError] whose message is the contract's, or a failure of the
// action.
func (x *Xtop) Call(ctx context.Context, name, client string, arguments json.RawMessage) (Result, error) {
	i := slices.IndexFunc(x.tools, func(t *Tool) bool { return t.Name == name })
	if i < 0 {
		return Result{}, &UnknownTool{name}
	}
	call, err := CheckXtop(x.tools[i], arguments)
	if err != nil {
		return Result{}, err
	}
	call.Client = client
	x.tick()
	answer, err := x.tools[i].Handler(ctx, call)
	if err == nil {
		answer.Text = compact(answer.Structured)
	}
	x.note(name, answer.Text, err)
	return answer, err
}

func (x *Xtop) tick() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ticks++
}

// note remembers what became of an action. Failures of the setters and of a
// signal are not remembered there (section 1.4, plugin_status).
func (x *Xtop) note(name, text string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil:
		x.last = fmt.Sprintf("ok (%d chars)", len(text))
	case slices.Contains([]string{"system_summary", "processes_top", "processes_search", "process_info"}, name):
		x.last = "error: " + err.Error()
	}
}

// CheckXtop reads the arguments of a call as the contract does: an argument of
// another type than declared counts as absent, one that is not declared too, and
// of one that is given twice the last one counts. Beside the string of the
// contract, "fields" may be a list. The error is an *[ArgumentError] with the
// contract's message.
func CheckXtop(t *Tool, arguments json.RawMessage) (Call, error) {
	call := Call{tool: t}
	sent, err := members(arguments)
	if err != nil {
		sent = nil // arguments that are no object are none
	}
	for _, m := range lastOnes(sent) {
		p, ok := t.property(m.name)
		if !ok {
			continue
		}
		if v, ok := silently(p, bytes.TrimSpace(m.sent)); ok {
			call.values = append(call.values, value{m.name, v})
		}
	}
	for _, p := range t.Input {
		// A missing text is told by the action instead: it is an empty one.
		if p.Required && p.Type != String && !call.Has(p.Name) {
			return Call{}, &ArgumentError{Message: "missing required argument: " + p.Name}
		}
	}
	if t.Name == "config_set" && len(call.values) == 0 {
		return Call{}, &ArgumentError{Message: "expected interval_ms, theme, or layout"}
	}
	return call, nil
}

// silently reads a value of exactly the declared type.
func silently(p *Property, sent json.RawMessage) (any, bool) {
	switch p.Type {
	case Integer:
		n, err := strconv.ParseInt(string(sent), 10, 64)
		if n < 0 {
			return Whole{Negative: true, Magnitude: uint64(-n)}, err == nil
		}
		return Whole{Magnitude: uint64(n)}, err == nil
	case Number:
		f, err := strconv.ParseFloat(string(sent), 64)
		return f, err == nil && decimal.Match(sent)
	case String:
		if s, ok := textOf(sent); ok {
			return s, true
		}
		var list []string
		if p.Name == "fields" && json.Unmarshal(sent, &list) == nil && list != nil {
			return list, true
		}
	}
	return nil, false
}

// errNotObserved is the failure of all tools where there is nothing to observe.
var errNotObserved = errors.New("topside cannot observe this platform yet: run topside doctor")

// snapshot takes a new observation: every call is a tick of its own, so that it
// speaks of the machine as it is now.
func (x *Xtop) snapshot(ctx context.Context) (*see.Snapshot, error) {
	if x.observer == nil || x.advisor == nil {
		return nil, fmt.Errorf("system snapshot unavailable: %w", errNotObserved)
	}
	s, err := x.observer.Select(ctx, see.Selector{MaxAge: new(time.Duration)})
	if err != nil {
		return nil, fmt.Errorf("system snapshot unavailable: %w", err)
	}
	if err := s.Observation().TableError; err != nil {
		return nil, fmt.Errorf("system snapshot unavailable: %w", err)
	}
	return s, nil
}

// An xtopSummary is the answer of system_summary. The units of memory are GiB,
// despite their names.
type xtopSummary struct {
	Alerts     int      `json:"alerts"`
	CPU        tenths   `json:"cpu_avg"`
	Disks      int      `json:"disks"`
	Hostname   string   `json:"hostname"`
	Interfaces []string `json:"interfaces"`
	MemPct     int64    `json:"mem_pct"`
	MemTotal   tenths   `json:"mem_total_gb"`
	MemUsed    tenths   `json:"mem_used_gb"`
	Processes  int      `json:"processes"`
	Uptime     int64    `json:"uptime_secs"`
}

func (x *Xtop) summary(ctx context.Context, _ Call) (Result, error) {
	s, err := x.snapshot(ctx)
	if err != nil {
		return Result{}, err
	}
	status, err := x.advisor.Status(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("system snapshot unavailable: %w", err)
	}
	o := s.Observation()
	sum := xtopSummary{
		Alerts: status.Total, CPU: tenths(round(o.System.Busy.Or(0), 1)), Disks: len(o.System.Filesystems), Hostname: line(o.System.Hostname),
		Interfaces: []string{}, Processes: len(o.Processes), Uptime: int64(o.System.Uptime.Seconds()),
	}
	for i := range o.System.Interfaces {
		sum.Interfaces = append(sum.Interfaces, line(o.System.Interfaces[i].Name))
	}
	if used, total, ok := memoryUse(o.System.Memory); ok {
		sum.MemTotal, sum.MemUsed = tenths(round(total/gib, 1)), tenths(round(used/gib, 1))
		sum.MemPct = int64(math.Round(100 * used / total))
	}
	return Result{Structured: sum}, nil
}

const gib = 1 << 30

func (x *Xtop) top(ctx context.Context, c Call) (Result, error) {
	count := int64(xtopTopDefault)
	if w, ok := c.Integer("count"); ok && !w.Negative {
		count = w.Int()
	}
	s, err := x.snapshot(ctx)
	if err != nil {
		return Result{}, err
	}
	if count == 0 {
		return Result{}, errors.New("count must be > 0")
	}
	match := func(*steer.Record) bool { return true }
	if filter := c.Text("filter"); filter != "" {
		re, err := xtopPattern(filter)
		if err != nil {
			return Result{}, fmt.Errorf("invalid regex in filter: %w", err)
		}
		match = func(r *steer.Record) bool {
			return re.MatchString(r.Name) || re.MatchString(r.Cmd) || re.MatchString(r.Exe)
		}
	}
	return Result{Structured: x.records(s, match, int(min(count, xtopTopMost)), false)}, nil
}

func (x *Xtop) search(ctx context.Context, c Call) (Result, error) {
	s, err := x.snapshot(ctx)
	if err != nil {
		return Result{}, err
	}
	pattern := strings.TrimSpace(c.Text("pattern"))
	if pattern == "" {
		return Result{}, errors.New("search pattern cannot be empty")
	}
	re, err := xtopPattern(pattern)
	if err != nil {
		return Result{}, fmt.Errorf("invalid regex: %w", err)
	}
	fields := fieldsOf(c)
	match := func(r *steer.Record) bool {
		return slices.ContainsFunc(fields, func(f string) bool {
			text, known := fieldOf(r, f)
			return known && re.MatchString(text)
		})
	}
	return Result{Structured: x.records(s, match, xtopSearchMost, slices.Contains(fields, "user"))}, nil
}

// xtopPattern compiles a regular expression of the contract's dialect.
func xtopPattern(pattern string) (*regexp.Regexp, error) {
	if length(pattern) > longestPattern {
		return nil, fmt.Errorf("it is longer than %d characters", longestPattern)
	}
	if err := foreignSyntax(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(unicodeClasses(pattern))
}

func (x *Xtop) info(ctx context.Context, c Call) (Result, error) {
	pid, err := xtopPID(c)
	if err != nil {
		return Result{}, err
	}
	s, err := x.snapshot(ctx)
	if err != nil {
		return Result{}, err
	}
	found := x.records(s, func(r *steer.Record) bool { return int64(r.PID) == pid }, 1, false)
	if len(found) == 0 {
		return Result{}, fmt.Errorf("process %d not found", pid)
	}
	return Result{Structured: found[0]}, nil
}

// xtopPID is the pid of a call, an unsigned number of 32 bits.
func xtopPID(c Call) (int64, error) {
	w, _ := c.Integer("pid")
	if w.Negative || w.Magnitude > math.MaxUint32 {
		sign := ""
		if w.Negative {
			sign = "-"
		}
		return 0, fmt.Errorf("invalid pid: %s%d", sign, w.Magnitude)
	}
	return int64(w.Magnitude), nil
}

// An xtopKilled is the answer of process_kill.
type xtopKilled struct {
	Killed  bool   `json:"killed"`
	Outcome string `json:"outcome"`
	PID     int64  `json:"pid"`
	Reason  string `json:"reason,omitempty"`
}

func (x *Xtop) kill(ctx context.Context, c Call) (Result, error) {
	pid, err := xtopPID(c)
	if err != nil {
		return Result{}, err
	}
	if x.advisor == nil {
		return Result{}, errNotObserved
	}
	answer := xtopKilled{PID: pid, Outcome: string(action.NoSuchProcess), Reason: fmt.Sprintf("no process has the id %d", pid)}
	if pid == 0 || pid > math.MaxInt32 {
		return Result{Structured: answer}, nil
	}
	if why := elsewhere(x.observer); why != "" {
		answer.Outcome, answer.Reason = string(action.Denied), why
		return Result{Structured: answer}, nil
	}
	r := action.Request{Tool: killTool, Client: c.Client, Target: action.Identity{PID: int32(pid)}}
	done, err := x.advisor.Act(ctx, r)
	if err != nil {
		return Result{}, err
	}
	answer.Killed, answer.Outcome, answer.Reason = done.Sent, string(done.Outcome), line(done.Reason)
	if done.Outcome == action.NeedsPerson {
		// Nobody can be asked in this protocol.
		answer.Outcome = string(action.Denied)
		answer.Reason += ", and this protocol cannot ask for it"
		if _, err := x.advisor.Decline(r, done.Confirmation, answer.Reason); err != nil {
			answer.Reason += "; " + line(err.Error())
		}
	}
	return Result{Structured: answer}, nil
}

// elsewhere tells why no signal may be sent: where another root is observed, the
// same pid can be another process.
func elsewhere(observer *see.Observer) string {
	if observer != nil && observer.Root() == "/" && observer.Live() {
		return ""
	}
	return "this server observes another root than its own: a pid there can be another process here"
}

// An xtopLimits is the answer of the threshold tools.
type xtopLimits struct {
	CPU     tenths `json:"cpu"`
	Disk    tenths `json:"disk"`
	Mem     tenths `json:"mem"`
	Problem string `json:"problem,omitempty"` // of the configuration's file
	Reason  string `json:"reason,omitempty"`
	Set     bool   `json:"set,omitempty"`
}

func (x *Xtop) setThresholds(_ context.Context, c Call) (Result, error) {
	if x.advisor == nil {
		return Result{}, errNotObserved
	}
	limits := map[threshold.Metric]float64{}
	for _, m := range []threshold.Metric{threshold.CPU, threshold.Memory, threshold.Disk} {
		v, _ := c.Number(string(m))
		if !(v >= 0 && v <= 100) {
			return Result{}, fmt.Errorf("invalid %s threshold: %v is not a number from 0 to 100", m, v)
		}
		limits[m] = v
	}
	changed, err := x.advisor.SetThresholds(limits)
	if err != nil {
		return Result{}, err
	}
	answer := xtopLimitsOf(changed.Config.Thresholds)
	answer.Set = true
	if changed.Unsaved != nil {
		answer.Reason = line(changed.Unsaved.Error())
	}
	return Result{Structured: answer}, nil
}

func (x *Xtop) thresholds(context.Context, Call) (Result, error) {
	if x.advisor == nil {
		return Result{}, errNotObserved
	}
	answer := xtopLimitsOf(x.advisor.Limits())
	answer.Problem = configProblem(x.advisor)
	return Result{Structured: answer}, nil
}

func xtopLimitsOf(s threshold.Settings) xtopLimits {
	limit := func(m threshold.Metric) tenths { return tenths(s.Of(m).Limit) }
	return xtopLimits{CPU: limit(threshold.CPU), Mem: limit(threshold.Memory), Disk: limit(threshold.Disk)}
}

// An xtopConfig is the answer of config_get.
type xtopConfig struct {
	Hostname   string `json:"hostname"`
	IntervalMS int64  `json:"interval_ms"`
	Layout     string `json:"layout"`
	Problem    string `json:"problem,omitempty"` // of the configuration's file
	Theme      string `json:"theme"`
}

func (x *Xtop) configuration(context.Context, Call) (Result, error) {
	if x.advisor == nil {
		return Result{}, errNotObserved
	}
	c := x.advisor.Config()
	return Result{Structured: xtopConfig{hostname(x.observer), c.Interval.Milliseconds(), c.Layout, configProblem(x.advisor), c.Theme}}, nil
}

// hostname is that of the observed machine.
func hostname(observer *see.Observer) string {
	name, _ := observer.FS().Hostname()
	return line(name)
}

// An xtopConfigured is the answer of config_set: the keys that were given, and
// whether all of them were set.
type xtopConfigured struct {
	Applied    []string `json:"applied,omitempty"` // the keys that were set, when not all were
	IntervalMS *int64   `json:"interval_ms,omitempty"`
	Layout     *string  `json:"layout,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Set        bool     `json:"set"`
	Theme      *string  `json:"theme,omitempty"`
}

func (x *Xtop) configure(_ context.Context, c Call) (Result, error) {
	if x.advisor == nil {
		return Result{}, errNotObserved
	}
	change := changeOf(c)
	changed, err := x.advisor.Change(change)
	if errors.Is(err, config.ErrInvalid) {
		return Result{}, fmt.Errorf("invalid interval_ms: %d is negative", *change.IntervalMS)
	}
	if err != nil {
		return Result{}, err
	}
	answer := xtopConfigured{Theme: change.Theme, Layout: change.Layout}
	if changed.Interval {
		answer.IntervalMS = new(changed.Config.Interval.Milliseconds())
	}
	if changed.Layout {
		answer.Layout = &changed.Config.Layout
	}
	answer.Reason = notChanged(change, changed)
	answer.Set, answer.Applied = outcome(change, changed)
	return Result{Structured: answer}, nil
}

// outcome is whether all of a change was set, and what was when it was not.
func outcome(asked steer.Change, changed steer.Changed) (all bool, applied []string) {
	if (asked.Theme == nil || changed.Theme) && (asked.Layout == nil || changed.Layout) {
		return true, nil
	}
	return false, changed.Applied()
}

// changeOf is what a call wants to change in the configuration.
func changeOf(c Call) steer.Change {
	var change steer.Change
	if w, ok := c.Integer("interval_ms"); ok {
		change.IntervalMS = new(w.Int())
	}
	if c.Has("theme") {
		change.Theme = new(c.Text("theme"))
	}
	if c.Has("layout") {
		change.Layout = new(c.Text("layout"))
	}
	return change
}

// notChanged says what of a change was not done, or not kept; "" when all was.
func notChanged(asked steer.Change, changed steer.Changed) string {
	var why []string
	if changed.Moved {
		why = append(why, fmt.Sprintf("interval_ms is from %d to %d: %d became %d", config.MinInterval.Milliseconds(), config.MaxInterval.Milliseconds(),
			*asked.IntervalMS, changed.Config.Interval.Milliseconds()))
	}
	if asked.Theme != nil && !changed.Theme {
		why = append(why, "there is no theme "+named(*asked.Theme)+"; the themes are "+strings.Join(config.Themes, ", "))
	}
	if asked.Layout != nil && !changed.Layout {
		why = append(why, "there is no layout "+named(*asked.Layout)+"; the layouts are "+strings.Join(config.Layouts, ", "))
	}
	if changed.Unsaved != nil {
		why = append(why, "it holds in this server only: "+line(changed.Unsaved.Error()))
	}
	return strings.Join(why, "; ")
}

// An xtopStatus is the answer of plugin_status.
type xtopStatus struct {
	Active     int    `json:"active_alerts"`
	Critical   int    `json:"critical_alerts"`
	Enabled    bool   `json:"enabled"`
	LastAction string `json:"last_action"`
	LastResult string `json:"last_result"`
	Ticks      uint64 `json:"ticks"`
}

func (x *Xtop) status(ctx context.Context, _ Call) (Result, error) {
	if x.advisor == nil {
		return Result{}, errNotObserved
	}
	status, err := x.advisor.Status(ctx)
	if err != nil {
		return Result{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return Result{Structured: xtopStatus{
		Active: status.Total, Critical: status.Critical, Enabled: true,
		LastAction: "plugin.status()", LastResult: line(x.last), Ticks: x.ticks,
	}}, nil
}
