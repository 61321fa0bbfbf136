package tool

// This file declares the see toolset of the united surface and handles its
// calls. Rows are written in row.go, the summary in summary.go, and what is
// known of one resource in detail.go.

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"topside/internal/see"
	"topside/internal/see/display"
	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/proc"
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
	snapshot := Property{Name: "snapshot_id", Type: String, MinLength: 1, Description: "Kept snapshot to read."}
	pinned := snapshot
	pinned.Required = true
	age := Property{Name: "max_age_ms", Type: Integer, Minimum: Bound(0), Description: "Greatest age of the snapshot (default 3000; 0 takes a new one). Not with snapshot_id."}
	parent := Property{Name: "parent", Type: String, MinLength: 1, Description: "Only its direct children; needs snapshot_id."}
	subject := Property{Name: "resource_id", Type: String, MinLength: 1, Required: true}
	filters := []Property{
		{Name: "sort_by", Type: String, Enum: []string{"cpu", "memory", "name"}, Description: "Default cpu."},
		{Name: "sort_order", Type: String, Enum: []string{"asc", "desc"}, Description: "Default desc."},
		{Name: "limit", Type: Integer, Minimum: Bound(0), Maximum: Bound(1000), Default: 30},
		{Name: "offset", Type: Integer, Minimum: Bound(0)},
		{Name: "environment", Type: String, Enum: environmentNames()},
		{Name: "resource_kind", Type: String, Enum: kinds, Description: "An application is a systemd unit or a pod."},
		{Name: "name_contains", Type: String, MaxLength: nameLength, Description: "Case-sensitive."},
		{Name: "match", Type: String, MaxLength: matchLength, Format: Regexp, Description: "RE2 over name and arguments."},
		{Name: "user", Type: String, MinLength: 1, MaxLength: filterLength, Description: "User name or uid."},
		{Name: "container", Type: String, MinLength: 1, MaxLength: filterLength, Description: "Name, or start of its id; what is inside too."},
		{Name: "unit", Type: String, MinLength: 1, MaxLength: filterLength, Description: "systemd unit; what is inside too."},
	}
	tools := []*Tool{
		{
			Name:        "get_system_summary",
			Title:       "System summary",
			Description: "Start here to find out why a machine is busy: CPU, memory, pressure, disks, filesystems, network, limits, environments and the busiest processes, and the snapshot_id to keep. Figures overlap. What is absent was not measured; it is not zero.",
			Input:       []Property{snapshot, age},
			Exclusive:   [][2]string{{"snapshot_id", "max_age_ms"}},
			Output:      summarySchema(),
			Handler:     v.summary,
		},
		{
			Name:        "list_resources",
			Title:       "List resources",
			Description: "Find processes, units and containers by CPU or memory, with filters; says how many were left out. A resource_id belongs to its snapshot. parent_ids tell what belongs to what.",
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
			Description: "Direct children of a container or unit. Their use is inside their parent's. Filters as in list_resources.",
			Input:       append([]Property{pinned, subject}, undescribed(filters)...),
			Output:      listSchema(),
			Handler:     func(ctx context.Context, c Call) (Result, error) { return v.list(ctx, c, c.Text("resource_id")) },
		},
	}
	for _, t := range tools {
		t.Toolset = See
		t.Annotations = Annotations{ReadOnly: true}
		for i := range t.Input {
			t.Input[i].Terse = true // every client pays for the schema
		}
	}
	return tools
}

// undescribed are arguments that another tool describes: the list of tools is
// read by models, again and again.
func undescribed(all []Property) []Property {
	bare := slices.Clone(all)
	for i := range bare {
		bare[i].Description = ""
	}
	return bare
}

func environmentNames() []string {
	names := make([]string, len(environments))
	for i, e := range environments {
		names[i] = string(e)
	}
	return names
}

// The declarations of output schemas. What is in a record's required list is in
// every reply; the rest may be absent.
func typed(name string, t Type) Field { return Field{name, Schema{Type: t}} }

func record(name string, required []string, fields ...Field) Field {
	return Field{name, Schema{Type: Object, Properties: fields, Required: required}}
}

func list(name string) Field { return objects(name, nil) }

func objects(name string, required []string, fields ...Field) Field {
	return Field{name, Schema{Type: Array, Items: &Schema{Type: Object, Properties: fields, Required: required}}}
}

// replySchema is the schema of a reply: the snapshot and the data, or an error.
// Which of the two it is cannot be said without alternatives, that some clients
// refuse; so either is declared whole, and that there is one of them.
func replySchema(data Field, more ...Field) *Schema {
	snapshot := record("snapshot", []string{"snapshot_id", "warnings"}, typed("snapshot_id", String))
	failure := record("error", []string{"code", "message"})
	return &Schema{Type: Object, MinProperties: 1, Properties: append([]Field{snapshot, data, failure}, more...)}
}

func summarySchema() *Schema {
	resourceKeys := []string{"resource_id", "pid", "name"}
	return replySchema(record("data",
		[]string{"host_logical_cpu_count", "environments", "counts", "busiest_by_cpu", "busiest_by_memory", "not_measured"},
		typed("host_logical_cpu_count", Integer), record("environments", environmentNames()),
		record("counts", []string{"processes", "containers", "units"}),
		objects("busiest_by_cpu", resourceKeys), objects("busiest_by_memory", resourceKeys),
		objects("not_measured", []string{"figure", "reason"})))
}

func listSchema() *Schema {
	return replySchema(objects("data", rowRequired, rowFields()...),
		typed("matched", Integer), typed("returned", Integer), typed("left_out", Integer))
}

var rowRequired = []string{"resource_id", "parent_ids", "usage"}

func rowFields() []Field {
	return []Field{
		typed("resource_id", String),
		{"parent_ids", Schema{Type: Array, Items: &Schema{Type: String}}},
		record("usage", []string{"environment", "kind", "id", "name"}),
	}
}

func inspectSchema() *Schema {
	return replySchema(record("data", append(slices.Clone(rowRequired), "details"), append(rowFields(), typed("details", Object))...))
}

// A viewer handles the calls of the see toolset.
type viewer struct {
	observer    *see.Observer
	showSecrets bool
	summaries   memo[Result]
	rows        memo[*book[rowKey, written]]
	lists       memo[*book[string, Result]]
	inspections memo[*book[rowKey, Result]]
	lines       memo[*book[rowKey, string]]
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
	Offset   int          `json:"offset,omitempty"`
	Returned int          `json:"returned"`
	LeftOut  int          `json:"left_out"` // behind these
	// NextOffset is the offset of the first that was left out.
	NextOffset int `json:"next_offset,omitempty"`
	// Cut says that the list was ended before its limit, for its length.
	Cut    string            `json:"cut,omitempty"`
	Hint   string            `json:"hint,omitempty"`
	Absent map[string]string `json:"absent,omitempty"`
	Data   []written         `json:"-"` // put in by encode
}

// The greatest lengths of a list, in characters of JSON: of one of at most the
// usual rows about three thousand tokens, of a longer one nine thousand. Clients
// cut or spill what is longer without a word.
const (
	usualRows     = 30
	longestUsual  = 12_000
	longestList   = 36_000
	headAllowance = 300 // for what is said of a cut
)

func longestOf(rows int) int {
	if rows <= usualRows {
		return longestUsual
	}
	return longestList
}

// head is the list without its rows.
func (l *listing) head() (json.RawMessage, error) { return marshal(l) }

// fits reports whether the list is within its greatest length.
func (l *listing) fits() bool {
	head, err := l.head()
	return err == nil && l.length(len(head), len(l.Data)) <= longestOf(len(l.Data))
}

// length is that of the list with its first rows, in characters.
func (l *listing) length(head, rows int) int {
	length := head + len(`,"data":[]`)
	for i := range l.Data[:rows] {
		length += l.Data[i].characters + 1
	}
	return length
}

// encode is the JSON of the list; it ends the list early when it grows too long.
func (l *listing) encode() (json.RawMessage, error) {
	head, err := l.head()
	if err != nil {
		return nil, err
	}
	longest := longestOf(len(l.Data))
	if l.length(len(head), len(l.Data)) > longest {
		length := utf8.RuneCount(head) + headAllowance
		for i := range l.Data {
			if length += l.Data[i].characters + 1; length > longest && i > 0 {
				l.cutAt(i, longest)
				break
			}
		}
		if head, err = l.head(); err != nil {
			return nil, err
		}
	}
	return withData(head, l.Data), nil
}

// cutAt keeps the first n rows and says so.
func (l *listing) cutAt(n, longest int) {
	l.LeftOut += len(l.Data) - n
	l.Returned, l.Data = n, l.Data[:n]
	l.NextOffset = l.Offset + n
	l.Cut = fmt.Sprintf("the list was ended after %d rows, at about %d characters: offset=%d goes on, a filter makes it shorter", n, longest, l.NextOffset)
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
	lists, err := v.lists.of(s, newBook)
	if err != nil {
		return Result{}, err
	}
	lists.bound(keptLists)
	return lists.of(c.key(), func() (Result, error) { return v.listed(s, q, c, parent) })
}

func (v *viewer) listed(s *see.Snapshot, q resource.Query, c Call, parent string) (Result, error) {
	skip, _ := c.Integer("offset")
	from, err := v.lister(s)
	if err != nil {
		return Result{}, err
	}
	l, found := from.found(q, int(min(skip.Int(), math.MaxInt32)))
	l.Snapshot = describeSnapshot(s, machineScope)
	if l.Matched == 0 {
		l.Hint = hintOf(c, parent)
	}
	if reason := s.Observation().RatesAbsent; reason != "" {
		l.note("cpu_percent", reason)
	}
	if err := from.fill(&l, found); err != nil {
		return Result{}, err
	}
	encoded, err := l.encode()
	return Result{Structured: encoded, Text: l.text(c)}, err
}

func (l *listing) note(what, reason string) {
	if l.Absent == nil {
		l.Absent = map[string]string{}
	}
	l.Absent[what] = reason
}

// A lister makes lists of one snapshot, whose rows and searched lines are kept.
type lister struct {
	observation *model.Observation
	catalogue   *resource.Catalogue
	showSecrets bool
	rows        *book[rowKey, written]
	lines       *book[rowKey, string]
}

func (v *viewer) lister(s *see.Snapshot) (*lister, error) {
	rows, err := v.rows.of(s, newBook)
	if err != nil {
		return nil, err
	}
	lines, err := v.lines.of(s, newBook)
	return &lister{s.Observation(), s.Catalogue(), v.showSecrets, rows, lines}, err
}

// found makes the listing of what a query finds, without its rows yet.
func (from *lister) found(q resource.Query, offset int) (listing, []*resource.Resource) {
	limit := q.Limit
	q.Limit = min(limit+offset, from.catalogue.Len())
	found, matched, unread := find(from.catalogue, q, from.showSecrets, from.lines)
	found = found[min(offset, len(found)):]
	found = found[:min(limit, len(found))]
	l := listing{Matched: matched, Offset: offset, Returned: len(found)}
	l.LeftOut = max(matched-offset-len(found), 0)
	if l.LeftOut > 0 {
		l.NextOffset = offset + len(found)
	}
	if unread > 0 {
		l.note("match", fmt.Sprintf("of %d processes only the first %d KiB of the command line are known", unread, display.Whole>>10))
	}
	return l, found
}

// fill writes the rows, with texts as long as the list's length allows.
func (from *lister) fill(l *listing, found []*resource.Resource) (err error) {
	levels := listedLengths
	switch {
	case len(found) > usualRows:
		levels = levels[1:2]
	case len(found) > fewRows:
		levels = levels[1:]
	}
	for _, level := range levels {
		w := rowWriter{from.observation, from.catalogue, from.showSecrets, level}
		l.Data = make([]written, len(found))
		for i, r := range found {
			if l.Data[i], err = from.rows.of(rowKey{r, level}, func() (written, error) { return w.written(r) }); err != nil {
				return err
			}
		}
		if l.fits() {
			break
		}
	}
	return nil
}

// hintOf says why nothing may have matched.
func hintOf(c Call, parent string) string {
	var hints []string
	if c.Text("name_contains") != "" || c.Text("match") != "" {
		hints = append(hints, "name_contains and match are case-sensitive; match=(?i)… is not")
	}
	if c.Text("container") != "" || c.Text("unit") != "" || c.Text("user") != "" {
		hints = append(hints, "user, container and unit must be given whole, containers also by the start of their id")
	}
	if parent != "" {
		return strings.Join(append(hints, "only direct children are listed"), "; ")
	}
	return strings.Join(append(hints, "a newer snapshot (max_age_ms=0) may have it"), "; ")
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

// keptLine is how long a command line may be to be kept for the next search, in
// bytes.
const keptLine = 2048

// find is the catalogue's query, but that a regular expression is tried on what
// replies show: what they hide cannot be found by guessing at it. unread is how
// many command lines are longer than what is known of them.
func find(c *resource.Catalogue, q resource.Query, showSecrets bool, lines *book[rowKey, string]) (rows []*resource.Resource, matched, unread int) {
	if q.Match == nil {
		rows, matched = c.Query(q)
		return rows, matched, 0
	}
	match, limit := q.Match, q.Limit
	q.Match, q.Limit = nil, c.Len()
	rows, _ = c.Query(q)
	rows = slices.DeleteFunc(rows, func(r *resource.Resource) bool {
		if match.MatchString(plaintext.Line(r.Name)) {
			return false
		}
		if r.Proc == nil {
			return true
		}
		if proc.CmdlineCut(r.Proc.Facts.Args) {
			unread++
		}
		return !match.MatchString(searched(r, showSecrets, lines))
	})
	return rows[:min(len(rows), limit)], len(rows), unread
}

// searched is the whole command line that a search looks at.
func searched(r *resource.Resource, showSecrets bool, lines *book[rowKey, string]) string {
	whole := func() (string, error) {
		line, _ := display.CommandLine(r.Proc.Facts.Args, showSecrets, display.Whole)
		return line, nil
	}
	if len(r.Args) > keptLine {
		line, _ := whole()
		return line
	}
	line, _ := lines.of(rowKey{of: r}, whole)
	return line
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
	w := rowWriter{s.Observation(), s.Catalogue(), v.showSecrets, inspectedLengths}
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
