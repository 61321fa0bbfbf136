package tool

// This file declares the four tools of the wsltop contract and writes its rows
// and its summary (contract wsltop, sections 1 and 4). Absence has three
// styles there, which clients know: a null, a key that is left out, and a null
// in place of a whole object.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"topside/internal/see"
	"topside/internal/see/display"
	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
)

// idLength is the greatest length of an id in both surfaces.
const idLength = 16384

// nameLength is the greatest length of name_contains in both surfaces.
const nameLength = 1024

// wsltopTools is the toolset of the contract's tools.
const wsltopTools = "wsltop"

// WsltopOptions say how the wsltop contract's tools answer.
type WsltopOptions struct {
	// WSLOnly leaves out the host's figures, which are then null.
	WSLOnly bool
	// ShowSecrets leaves passwords and tokens in args, as the contract has it.
	ShowSecrets bool
}

// WsltopTools declares the tools of the wsltop contract. The observer has the
// wsltop flavour of resource names.
func WsltopTools(observer *see.Observer, o WsltopOptions) []*Tool {
	w := &wsltop{observer: observer, options: o}
	snapshot := Property{Name: "snapshot_id", Type: String, MinLength: 1, MaxLength: idLength,
		Description: "Opaque id of a kept snapshot, as a result returned it; not to be parsed."}
	age := Property{Name: "max_age_ms", Type: Integer, Minimum: Bound(0),
		Description: "How old the latest snapshot may be, in milliseconds; default 3000, 0 forces a new collection. Not together with snapshot_id."}
	parent := Property{Name: "parent", Type: String, MinLength: 1, MaxLength: idLength,
		Description: "Only the direct children of this resource id; needs snapshot_id."}
	subject := Property{Name: "resource_id", Type: String, MinLength: 1, MaxLength: idLength, Required: true}
	filters := []Property{
		{Name: "sort_by", Type: String, Enum: []string{"cpu", "memory", "name"}},
		{Name: "sort_order", Type: String, Enum: []string{"asc", "desc"}},
		{Name: "limit", Type: Integer, Minimum: Bound(0), Maximum: Bound(1000), Default: 30},
		{Name: "environment", Type: String, Enum: []string{"windows", "wsl", "wslc", "docker"}},
		{Name: "resource_kind", Type: String, Enum: []string{"process", "application", "container", "infra", "host"}},
		{Name: "name_contains", Type: String, MaxLength: nameLength, Description: "Case-sensitive part of the name."},
	}
	pinned := snapshot
	pinned.Required = true
	tools := []*Tool{
		{
			Name:        "get_system_summary",
			Description: "Start here to diagnose CPU or memory: host and per-environment CPU and memory, and the snapshot to keep. The values overlap, so do not add them. null is not zero. Memory use alone says nothing about paging, disk I/O or memory pressure as a cause.",
			Input:       []Property{snapshot, age},
			Exclusive:   [][2]string{{"snapshot_id", "max_age_ms"}},
			Handler:     w.summary,
		},
		{
			Name:        "list_resources",
			Description: "Find processes, applications, containers and infrastructure by CPU or memory, with filters and a limit. Reuse the returned snapshot_id in the calls that follow: resource ids belong to that observation. Take what belongs to what from the returned hierarchy, never from a process name or a source label.",
			Input:       append([]Property{snapshot, age, parent}, filters...),
			Exclusive:   [][2]string{{"snapshot_id", "max_age_ms"}},
			Needs:       [][2]string{{"parent", "snapshot_id"}},
			Handler:     func(ctx context.Context, c Call) (Result, error) { return w.list(ctx, c, c.Text("parent")) },
		},
		{
			Name:        "inspect_resource",
			Description: "Details of one resource that a listing returned: pass its resource_id with the same snapshot_id.",
			Input:       []Property{pinned, subject},
			Handler:     w.inspect,
		},
		{
			Name:        "list_children",
			Description: "Drill into the direct children of a container, an application or an attribution group, with the same snapshot_id. What children use is already inside what their parent uses.",
			Input:       append([]Property{pinned, subject}, filters...),
			Handler:     func(ctx context.Context, c Call) (Result, error) { return w.list(ctx, c, c.Text("resource_id")) },
		},
	}
	for _, t := range tools {
		t.Toolset = wsltopTools
		t.Annotations = Annotations{ReadOnly: true}
	}
	return tools
}

// wsltop handles the calls of the contract.
type wsltop struct {
	observer *see.Observer
	options  WsltopOptions
	digests  memo[wsltopDigest]
	rows     memo[*book[rowKey, written]]
}

// A wsltopDigest is what is the same for all calls of a snapshot.
type wsltopDigest struct {
	meta    snapshotMeta
	head    json.RawMessage // the envelope without its data
	summary json.RawMessage // the whole envelope
}

// scaleWarning goes with --wsl-only: whether the machine around this kernel has
// more CPUs cannot be seen from inside.
const scaleWarning = "CPU is in percent of the CPUs that are visible here; exact normalisation to a host around them is not possible with --wsl-only"

// digest makes the summary and the metadata; a warning of the summary's is in
// the metadata of every tool, so that it is the same for all of them.
func (w *wsltop) digest(s *see.Snapshot) (wsltopDigest, error) {
	meta := describeSnapshot(s, wslVisible)
	data, warning := wsltopSummaryOf(s.Observation(), s.Catalogue())
	if w.options.WSLOnly {
		data.CPUPercent, data.Memory = nil, nil
		meta.Warnings = append(meta.Warnings, scaleWarning)
	}
	if warning != "" {
		meta.Warnings = append(meta.Warnings, warning)
	}
	encoded, err := marshal(envelope{meta, data})
	if err != nil {
		return wsltopDigest{}, err
	}
	head, err := marshal(struct {
		Snapshot snapshotMeta `json:"snapshot"`
	}{meta})
	return wsltopDigest{meta, head, encoded}, err
}

// envelope is what every tool that sees returns.
type envelope struct {
	Snapshot snapshotMeta `json:"snapshot"`
	Data     any          `json:"data"`
}

// snapshotMeta is the same for all answers from one snapshot.
type snapshotMeta struct {
	ID         string   `json:"snapshot_id"`
	CapturedAt *int64   `json:"captured_at_unix_ms"` // null before 1970
	Window     int64    `json:"sample_window_ms"`
	Warnings   []string `json:"warnings"`
	Scope      string   `json:"resource_id_scope"`
	CPUScope   string   `json:"cpu_scope"`
}

// describeSnapshot makes the metadata of a snapshot.
func describeSnapshot(s *see.Snapshot, cpuScope string) snapshotMeta {
	o := s.Observation()
	meta := snapshotMeta{ID: s.ID(), Window: o.Window.Milliseconds(), Warnings: warningsOf(o.Warnings), Scope: "observation", CPUScope: cpuScope}
	if ms := o.CapturedAt.UnixMilli(); ms >= 0 {
		meta.CapturedAt = &ms
	}
	return meta
}

// The bounds of warnings, which every reply repeats.
const (
	shownWarnings = 20
	warningLength = 300
)

func warningsOf(all []string) []string {
	shown := make([]string, 0, min(len(all), shownWarnings+1))
	for _, warning := range all[:min(len(all), shownWarnings)] {
		line, _ := plaintext.Bounded(warning, warningLength)
		shown = append(shown, line)
	}
	if left := len(all) - len(shown); left > 0 {
		shown = append(shown, fmt.Sprintf("%d more warnings were left out", left))
	}
	return shown
}

// selector is the snapshot that a call asks for.
func selector(c Call) see.Selector {
	s := see.Selector{SnapshotID: c.Text("snapshot_id")}
	if age, ok := c.Integer("max_age_ms"); ok {
		d := time.Duration(math.MaxInt64)
		if age.Magnitude < uint64(d/time.Millisecond) {
			d = time.Duration(age.Magnitude) * time.Millisecond
		}
		s.MaxAge = &d
	}
	return s
}

// selected is the snapshot of a call.
func selected(ctx context.Context, observer *see.Observer, c Call) (*see.Snapshot, error) {
	if observer == nil {
		return nil, &see.Error{Code: see.CollectionFailed, Message: "topside cannot observe this platform yet", Hint: "run topside doctor"}
	}
	return observer.Select(ctx, selector(c))
}

// order fills in how a listing is sorted and limited.
func order(c Call, q *resource.Query) {
	q.Environment = resource.Environment(c.Text("environment"))
	q.Kind = resource.Kind(c.Text("resource_kind"))
	q.NameContains = c.Text("name_contains")
	q.SortBy = resource.SortKey(c.Text("sort_by"))
	q.Ascending = c.Text("sort_order") == "asc"
	limit, _ := c.Integer("limit")
	q.Limit = int(limit.Int())
}

const wslVisible = "wsl_visible"

func (w *wsltop) summary(ctx context.Context, c Call) (Result, error) {
	_, d, err := w.selected(ctx, c)
	return Result{Structured: d.summary}, err
}

func (w *wsltop) selected(ctx context.Context, c Call) (*see.Snapshot, wsltopDigest, error) {
	s, err := selected(ctx, w.observer, c)
	if err != nil {
		return nil, wsltopDigest{}, err
	}
	d, err := w.digests.of(s, w.digest)
	return s, d, err
}

func (w *wsltop) list(ctx context.Context, c Call, parent string) (Result, error) {
	s, d, err := w.selected(ctx, c)
	if err != nil {
		return Result{}, err
	}
	var q resource.Query
	order(c, &q)
	if parent != "" {
		if q.Parent, err = s.Resource(parent); err != nil {
			return Result{}, err
		}
	}
	found, _ := s.Catalogue().Query(q)
	kept, err := w.rows.of(s, newBook)
	if err != nil {
		return Result{}, err
	}
	rows := make([]written, len(found))
	length := argsLengthOf(found)
	for i, r := range found {
		rows[i], err = kept.of(rowKey{r, textLengths{args: length}}, func() (written, error) {
			encoded, err := marshal(w.row(s.Observation(), s.Catalogue(), r, length))
			return written{json: encoded}, err
		})
		if err != nil {
			return Result{}, err
		}
	}
	return Result{Structured: withData(d.head, rows)}, nil
}

func (w *wsltop) inspect(ctx context.Context, c Call) (Result, error) {
	s, d, err := w.selected(ctx, c)
	if err != nil {
		return Result{}, err
	}
	r, err := s.Resource(c.Text("resource_id"))
	if err != nil {
		return Result{}, err
	}
	return Result{Structured: envelope{d.meta, w.row(s.Observation(), s.Catalogue(), r, display.Whole)}}, nil
}

// A reply holds whole command lines as long as they are not megabytes together,
// which nothing could read.
const (
	muchArgs    = 2 << 20 // bytes
	argsOfHuges = 4096    // characters
)

func argsLengthOf(found []*resource.Resource) int {
	total := 0
	for _, r := range found {
		total += len(r.Args)
	}
	if total > muchArgs {
		return argsOfHuges
	}
	return display.Whole
}

// A wsltopRow is a resource as the contract shows it.
type wsltopRow struct {
	ID        string      `json:"resource_id"`
	ParentIDs []string    `json:"parent_ids"`
	CoresUsed *float64    `json:"cores_used"`
	Usage     wsltopUsage `json:"usage"`
}

type wsltopUsage struct {
	Environment    resource.Environment `json:"environment"`
	Source         string               `json:"source,omitempty"`
	Kind           resource.Kind        `json:"kind"`
	ID             string               `json:"id"`
	PID            *int32               `json:"pid"`
	PPID           *int32               `json:"ppid,omitempty"`
	Name           string               `json:"name"`
	Args           string               `json:"args,omitempty"`
	ArgsTruncated  bool                 `json:"args_truncated,omitempty"` // not in the original: args are not whole
	CPUPercent     *float64             `json:"cpu_percent"`
	CPUTimeSeconds *float64             `json:"cpu_time_seconds,omitempty"`
	MemoryBytes    uint64               `json:"memory_bytes"`
}

func (w *wsltop) row(o *model.Observation, c *resource.Catalogue, r *resource.Resource, argsLength int) wsltopRow {
	row := wsltopRow{
		ID:        c.ID(r),
		ParentIDs: c.ParentIDs(r),
		CoresUsed: cores(r.CPU, o.CPUs),
		Usage: wsltopUsage{
			Environment:    r.Environment,
			Source:         r.Source,
			Kind:           r.Kind,
			ID:             plaintext.Line(r.NativeID),
			CPUPercent:     figure(r.CPU, cpuDecimals),
			CPUTimeSeconds: figure(r.CPUSeconds, 2),
			MemoryBytes:    wholeBytes(r),
		},
	}
	row.Usage.Name, _ = plaintext.Bounded(r.Name, longestName)
	if r.Proc != nil {
		row.Usage.Args, row.Usage.ArgsTruncated = display.CommandLine(r.Proc.Facts.Args, w.options.ShowSecrets, argsLength)
		row.Usage.PID = &r.Proc.PID
		row.Usage.PPID = &r.Proc.PPID
	}
	return row
}

// wholeBytes is the memory of a row. The contract has no absence here: where a
// group's cgroup does not tell, its processes' sum stands.
func wholeBytes(r *resource.Resource) uint64 {
	if r.Memory.Known && r.Memory.Value >= 0 {
		return uint64(r.Memory.Value)
	}
	if r.Group != nil {
		return r.Group.RSS
	}
	return 0
}

// longestName bounds the names of the contract's rows, in characters.
const longestName = 1024

// cpuDecimals is how exact the contract's percentages are.
const cpuDecimals = 6

// cores is a share of the machine in CPUs; nil when unknown. It is made of the
// percentage as it is shown, so that a client that multiplies finds the same.
func cores(percent model.Figure, cpus int) *float64 {
	shown := figure(percent, cpuDecimals)
	if cpus <= 0 || shown == nil || *shown < 0 {
		return nil
	}
	return figure(model.Known(*shown*float64(cpus)/100), cpuDecimals+3)
}

// figure rounds a figure to that many decimals; nil when unknown or not finite.
func figure(f model.Figure, decimals int) *float64 {
	if !f.Known || math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
		return nil
	}
	v := round(f.Value, decimals)
	return &v
}

func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// A wsltopSummary is the contract's summary. The host's figures are those of
// the one kernel that is observed; Windows is never observed from here.
type wsltopSummary struct {
	CPUs         int                `json:"host_logical_cpu_count"`
	CPUPercent   *float64           `json:"host_cpu_percent"`
	Breakdown    *struct{}          `json:"cpu_breakdown"` // always null
	Unresolved   bool               `json:"cpu_overlap_unresolved"`
	Memory       *memoryTotals      `json:"host_memory"`
	Environments wsltopEnvironments `json:"environments"`
}

type memoryTotals struct {
	Total     uint64  `json:"total_bytes"`
	Available uint64  `json:"available_bytes"`
	Used      *uint64 `json:"used_bytes"` // null when total is 0 or less than available
}

// wsltopEnvironments has a null for what is not observed, or not there.
type wsltopEnvironments struct {
	Windows *wsltopTotals `json:"windows"`
	WSL     *wsltopTotals `json:"wsl"`
	WSLC    *wsltopTotals `json:"wslc"`
	Docker  *wsltopTotals `json:"docker"`
}

type wsltopTotals struct {
	CPUPercent  *float64 `json:"cpu_percent"`
	MemoryBytes *uint64  `json:"memory_bytes"`
}

// wsltopSummaryOf sums an observation up. A warning that is not empty says why
// the CPU of wsl still includes that of docker.
func wsltopSummaryOf(o *model.Observation, c *resource.Catalogue) (summary wsltopSummary, warning string) {
	sums := sumUp(c)
	wsl, docker := sums[resource.WSL], sums[resource.Docker]
	summary = wsltopSummary{
		CPUs:       o.CPUs,
		CPUPercent: figure(o.System.Busy, cpuDecimals),
		Memory:     totals(o.System.Memory),
	}
	own := o.System.Busy
	if docker.containers > 0 {
		summary.Environments.Docker = &wsltopTotals{figure(docker.cpu, cpuDecimals), &docker.memory}
		switch {
		case !own.Known:
		case !docker.cpu.Known:
			summary.Unresolved = true
			warning = "WSL CPU overlap is unresolved: the CPU of a container is unknown; inclusive values are shown"
		case docker.cpu.Value > own.Value+overlapJitter:
			summary.Unresolved = true
			warning = fmt.Sprintf("WSL CPU overlap is unresolved: containers used %.2f %% and the kernel as a whole %.2f %%; inclusive values are shown", docker.cpu.Value, own.Value)
		default:
			own.Value = max(own.Value-docker.cpu.Value, 0)
		}
	}
	summary.Environments.WSL = wslTotals(own, wsl.processMemory, o.Hidden)
	return summary, warning
}

// overlapJitter is how far containers' CPU, which is exact, may lie above the
// kernel's, which counts in ticks, in percent of the machine.
const overlapJitter = 1

// wslTotals is null as a whole when neither figure is known: memory is not when
// some processes are hidden, since their sum would be too small.
func wslTotals(cpu model.Figure, memory uint64, hidden bool) *wsltopTotals {
	t := &wsltopTotals{CPUPercent: figure(cpu, cpuDecimals)}
	if !hidden {
		t.MemoryBytes = &memory
	}
	if t.CPUPercent == nil && t.MemoryBytes == nil {
		return nil
	}
	return t
}

// totals is the machine's memory; nil when it was not observed.
func totals(m *proc.Memory) *memoryTotals {
	if m == nil || m.Total == nil || m.Available == nil {
		return nil
	}
	t := &memoryTotals{Total: *m.Total, Available: *m.Available}
	if t.Total > 0 && t.Available <= t.Total {
		used := t.Total - t.Available
		t.Used = &used
	}
	return t
}

// A sum is what the resources of one environment use together.
type sum struct {
	containers    int
	processes     int
	cpu           model.Figure // of the outermost containers; unknown if one of theirs is
	memory        uint64       // of the outermost containers
	processMemory uint64       // RSS of processes
}

// sumUp sums each environment. A container inside another of the same
// environment is part of it already.
func sumUp(c *resource.Catalogue) map[resource.Environment]sum {
	sums := map[resource.Environment]sum{}
	all := c.All()
	for i := range all {
		r := &all[i]
		s := sums[r.Environment]
		switch {
		case r.Kind == resource.Process:
			s.processes++
			s.processMemory += wholeBytes(r)
		case r.Kind == resource.Container:
			if s.containers == 0 {
				s.cpu.Known = true
			}
			s.containers++
			if !nested(c, r) {
				s.cpu.Known = s.cpu.Known && r.CPU.Known
				s.cpu.Value += r.CPU.Or(0)
				s.memory += wholeBytes(r)
			}
		}
		sums[r.Environment] = s
	}
	return sums
}

func nested(c *resource.Catalogue, r *resource.Resource) bool {
	for hops := 0; hops < 16; hops++ {
		parents := c.Parents(r)
		if len(parents) == 0 {
			return false
		}
		if r = parents[0]; r.Kind == resource.Container {
			return true
		}
	}
	return false
}

// marshal encodes without the escapes for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
