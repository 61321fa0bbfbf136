package tool

// This file declares the see toolset of the united surface and handles its
// calls. Rows are written in row.go, the summary in summary.go, and what is
// known of one resource in detail.go.

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"topside/internal/see"
	"topside/internal/see/resource"
)

// The environments and kinds that the united surface knows.
var (
	environments = []resource.Environment{resource.Linux, resource.Docker, resource.Podman, resource.Containerd, resource.Kubernetes, resource.LXC}
	kinds        = []string{"process", "application", "container"}
)

// filterLength bounds the filters that name something, in characters.
const filterLength = 256

// matchLength bounds the regular expression of a filter, in characters.
const matchLength = 512

// SeeTools declares the see toolset. The observer may be nil where the tools
// are only described. Secrets are shown on request only.
func SeeTools(observer *see.Observer, showSecrets bool) []*Tool {
	v := &viewer{observer: observer, showSecrets: showSecrets}
	snapshot := Property{Name: "snapshot_id", Type: String, MinLength: 1, Description: "Kept snapshot to read, as a result returned it."}
	pinned := snapshot
	pinned.Required = true
	age := Property{Name: "max_age_ms", Type: Integer, Minimum: Bound(0), Description: "Greatest age of the latest snapshot (default 3000; 0 takes a new one). Not with snapshot_id."}
	parent := Property{Name: "parent", Type: String, MinLength: 1, Description: "Only direct children of this resource_id; needs snapshot_id."}
	subject := Property{Name: "resource_id", Type: String, MinLength: 1, Required: true}
	filters := []Property{
		{Name: "sort_by", Type: String, Enum: []string{"cpu", "memory", "name"}, Description: "Default cpu."},
		{Name: "sort_order", Type: String, Enum: []string{"asc", "desc"}, Description: "Default desc."},
		{Name: "limit", Type: Integer, Minimum: Bound(0), Maximum: Bound(1000), Default: 30},
		{Name: "environment", Type: String, Enum: environmentNames()},
		{Name: "resource_kind", Type: String, Enum: kinds, Description: "An application is a systemd unit or a pod."},
		{Name: "name_contains", Type: String, MaxLength: nameLength, Description: "Case-sensitive."},
		{Name: "match", Type: String, MaxLength: matchLength, Format: Regexp, Description: "RE2 over name and arguments."},
		{Name: "user", Type: String, MinLength: 1, MaxLength: filterLength, Description: "User name or uid."},
		{Name: "container", Type: String, MinLength: 1, MaxLength: filterLength, Description: "Name, or id from the left; what is inside it too."},
		{Name: "unit", Type: String, MinLength: 1, MaxLength: filterLength, Description: "systemd unit; what is inside it too."},
	}
	tools := []*Tool{
		{
			Name:        "get_system_summary",
			Title:       "System summary",
			Description: "Start here to find out why a machine is busy: CPU, memory, pressure, disks, filesystems, network, limits, environments and the busiest processes, and the snapshot_id to keep. Figures overlap: do not add them. What is absent was not measured; it is not zero.",
			Input:       []Property{snapshot, age},
			Exclusive:   [][2]string{{"snapshot_id", "max_age_ms"}},
			Output:      summarySchema(),
			Handler:     v.summary,
		},
		{
			Name:        "list_resources",
			Title:       "List resources",
			Description: "Find processes, units and containers by CPU or memory, with filters; says how many matched and were left out. Pass the snapshot_id on: a resource_id belongs to its snapshot. What belongs to what follows from parent_ids, never from names.",
			Input:       append([]Property{snapshot, age, parent}, filters...),
			Exclusive:   [][2]string{{"snapshot_id", "max_age_ms"}},
			Needs:       [][2]string{{"parent", "snapshot_id"}},
			Output:      listSchema(),
			Handler:     func(ctx context.Context, c Call) (Result, error) { return v.list(ctx, c, c.Text("parent")) },
		},
		{
			Name:        "inspect_resource",
			Title:       "Inspect a resource",
			Description: "Everything known of one listed resource: state, user, command line, files, I/O, cgroup, limits, throttling, image, labels.",
			Input:       []Property{pinned, subject},
			Output:      inspectSchema(),
			Handler:     v.inspect,
		},
		{
			Name:        "list_children",
			Title:       "List children",
			Description: "Direct children of a container or a unit, in the same snapshot. Their use is inside their parent's.",
			Input:       append([]Property{pinned, subject}, filters...),
			Output:      listSchema(),
			Handler:     func(ctx context.Context, c Call) (Result, error) { return v.list(ctx, c, c.Text("resource_id")) },
		},
	}
	for _, t := range tools {
		t.Toolset = See
		t.Annotations = Annotations{ReadOnly: true}
	}
	return tools
}

func environmentNames() []string {
	names := make([]string, len(environments))
	for i, e := range environments {
		names[i] = string(e)
	}
	return names
}

// field and typed shorten the declarations of output schemas.
func field(name string, s Schema) Field { return Field{name, s} }
func typed(name string, t Type) Field   { return Field{name, Schema{Type: t}} }
func record(name string, fields ...Field) Field {
	return Field{name, Schema{Type: Object, Properties: fields}}
}

// replySchema is the schema of a reply: the snapshot and the data, or an error.
func replySchema(data Field, more ...Field) *Schema {
	fields := append([]Field{record("snapshot", typed("snapshot_id", String)), data}, more...)
	return &Schema{Type: Object, Properties: append(fields, typed("error", Object))}
}

func summarySchema() *Schema {
	return replySchema(record("data",
		typed("host_logical_cpu_count", Integer), typed("host_cpu_percent", Number), typed("unaccounted_cpu_percent", Number),
		typed("host_memory", Object), typed("environments", Object),
		list("busiest_by_cpu"), list("busiest_by_memory"), list("not_measured")))
}

func list(name string) Field { return Field{name, Schema{Type: Array, Items: &Schema{Type: Object}}} }

func listSchema() *Schema {
	return replySchema(field("data", Schema{Type: Array, Items: &Schema{Type: Object, Properties: rowFields(), Required: rowRequired}}),
		typed("matched", Integer), typed("returned", Integer), typed("left_out", Integer))
}

var rowRequired = []string{"resource_id", "parent_ids", "usage"}

func rowFields() []Field {
	return []Field{
		typed("resource_id", String),
		field("parent_ids", Schema{Type: Array, Items: &Schema{Type: String}}),
		typed("cores_used", Number),
		typed("usage", Object),
		typed("absent", Object),
	}
}

func inspectSchema() *Schema {
	return replySchema(Field{"data", Schema{Type: Object, Properties: append(rowFields(), list("parents"), typed("details", Object)), Required: rowRequired}})
}

// A viewer handles the calls of the see toolset.
type viewer struct {
	observer    *see.Observer
	showSecrets bool
	summaries   memo[Result]
	rows        memo[*book[written]]
	inspections memo[*book[Result]]
}

// machineScope says that percentages are of all CPUs of the observed machine.
const machineScope = "machine"

func (v *viewer) summary(ctx context.Context, c Call) (Result, error) {
	s, err := selected(ctx, v.observer, c)
	if err != nil {
		return Result{}, err
	}
	return v.summaries.of(s, v.summarise)
}

func (v *viewer) summarise(s *see.Snapshot) (Result, error) {
	meta := describeSnapshot(s, machineScope)
	data := summaryOf(s.Observation(), s.Catalogue())
	encoded, err := marshal(envelope{meta, data})
	return Result{Structured: encoded, Text: data.text(meta)}, err
}

// listing is the envelope of a list, with what was left out of it.
type listing struct {
	Snapshot snapshotMeta `json:"snapshot"`
	Matched  int          `json:"matched"`
	Returned int          `json:"returned"`
	LeftOut  int          `json:"left_out"`
	// Cut says that the list was ended before its limit, for its length.
	Cut    string            `json:"cut,omitempty"`
	Absent map[string]string `json:"absent,omitempty"`
	Data   []written         `json:"-"` // put in by encode
}

// longestList is the greatest length of a list's rows, in bytes of JSON: about
// nine thousand tokens. Clients cut or spill what is longer without a word.
const longestList = 36_000

// encode is the JSON of the list; it ends the list early when it grows too long.
func (l *listing) encode() (json.RawMessage, error) {
	length := 0
	for i := range l.Data {
		if length += len(l.Data[i].json); length > longestList && i > 0 {
			l.cutAt(i)
			break
		}
	}
	head, err := marshal(l)
	if err != nil {
		return nil, err
	}
	return withData(head, l.Data), nil
}

// cutAt keeps the first n rows and says so.
func (l *listing) cutAt(n int) {
	l.LeftOut += len(l.Data) - n
	l.Returned, l.Data = n, l.Data[:n]
	l.Cut = fmt.Sprintf("the list was ended after %d rows, at about %d characters: use a filter, or inspect single resources", n, longestList)
}

func (v *viewer) list(ctx context.Context, c Call, parent string) (Result, error) {
	s, err := selected(ctx, v.observer, c)
	if err != nil {
		return Result{}, err
	}
	q, err := v.query(s, c, parent)
	if err != nil {
		return Result{}, err
	}
	found, matched := find(s.Catalogue(), q, v.showSecrets)
	w := rowWriter{s.Observation(), s.Catalogue(), v.showSecrets, listedArgs(len(found))}
	l := listing{Snapshot: describeSnapshot(s, machineScope), Matched: matched, Returned: len(found), LeftOut: matched - len(found), Data: make([]written, len(found))}
	if reason := s.Observation().RatesAbsent; reason != "" {
		l.Absent = map[string]string{"cpu_percent": reason}
	}
	rows, err := v.rows.of(s, newBook)
	if err != nil {
		return Result{}, err
	}
	for i, r := range found {
		if l.Data[i], err = rows.of(rowKey{r, w.argsLength}, func() (written, error) { return w.written(r) }); err != nil {
			return Result{}, err
		}
	}
	encoded, err := l.encode()
	return Result{Structured: encoded, Text: l.text(c)}, err
}

func (v *viewer) query(s *see.Snapshot, c Call, parent string) (resource.Query, error) {
	q := resource.Query{User: c.Text("user"), Container: c.Text("container"), Unit: c.Text("unit")}
	order(c, &q)
	if match := c.Text("match"); match != "" {
		var err error
		if q.Match, err = regexp.Compile(match); err != nil {
			return q, c.Fault("match", "is no regular expression: %v", err)
		}
	}
	if parent != "" {
		var err error
		if q.Parent, err = s.Resource(parent); err != nil {
			return q, err
		}
	}
	return q, nil
}

// longestMatched bounds the command lines that a regular expression is tried
// on, in characters.
const longestMatched = 1 << 20

// find is the catalogue's query, but for one thing: what a reply hides cannot
// be found by guessing at it with a regular expression.
func find(c *resource.Catalogue, q resource.Query, showSecrets bool) (rows []*resource.Resource, matched int) {
	if q.Match == nil || showSecrets {
		return c.Query(q)
	}
	limit := q.Limit
	q.Limit = c.Len()
	rows, _ = c.Query(q)
	rows = slices.DeleteFunc(rows, func(r *resource.Resource) bool {
		return !q.Match.MatchString(r.Name) && !q.Match.MatchString(commandLine(r, false, longestMatched))
	})
	return rows[:min(len(rows), limit)], len(rows)
}

func (v *viewer) inspect(ctx context.Context, c Call) (Result, error) {
	s, err := selected(ctx, v.observer, c)
	if err != nil {
		return Result{}, err
	}
	r, err := s.Resource(c.Text("resource_id"))
	if err != nil {
		return Result{}, err
	}
	kept, err := v.inspections.of(s, newBook)
	if err != nil {
		return Result{}, err
	}
	return kept.of(rowKey{of: r}, func() (Result, error) { return v.inspected(ctx, s, r) })
}

func (v *viewer) inspected(ctx context.Context, s *see.Snapshot, r *resource.Resource) (Result, error) {
	details := s.Details(ctx, r)
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	w := rowWriter{s.Observation(), s.Catalogue(), v.showSecrets, longestArgs}
	i := w.inspection(r, details, v.observer.FS().ClockTicks())
	meta := describeSnapshot(s, machineScope)
	encoded, err := marshal(envelope{meta, i})
	return Result{Structured: encoded, Text: i.text(meta)}, err
}

// heading is the first line of every text: the snapshot, and what went wrong
// with it.
func (m snapshotMeta) heading() string {
	var b strings.Builder
	fmt.Fprintf(&b, "snapshot_id %s (window %.1f s)\n", m.ID, float64(m.Window)/1000)
	for _, warning := range m.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	return b.String()
}

// compact is the JSON of v in a text block.
func compact(v any) string {
	encoded, err := marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(json.RawMessage(encoded))
}
