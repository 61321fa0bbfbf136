package tool

// This file writes the rows of the united surface: compact, with absent figures
// left out and named, with the reason, in "absent".

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"topside/internal/see/display"
	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
	"topside/internal/see/sample"
)

// A row is a resource in a list.
type row struct {
	ID        string            `json:"resource_id"`
	ParentIDs []string          `json:"parent_ids"`
	CoresUsed *float64          `json:"cores_used,omitempty"`
	Usage     usage             `json:"usage"`
	Absent    map[string]string `json:"absent,omitempty"`
}

// usage is who a resource is and what it uses.
type usage struct {
	Environment    resource.Environment `json:"environment"`
	Source         string               `json:"source,omitempty"` // of a process in a container: the container's id, cut
	Kind           resource.Kind        `json:"kind"`
	ID             string               `json:"id"`
	PID            *int32               `json:"pid,omitempty"`
	PPID           *int32               `json:"ppid,omitempty"`
	Name           string               `json:"name"`
	NameCut        bool                 `json:"name_cut,omitempty"`
	Args           string               `json:"args,omitempty"` // behind the program, which is the first of them
	ArgsCut        bool                 `json:"args_cut,omitempty"`
	Kernel         bool                 `json:"kernel,omitempty"` // a kernel task
	User           string               `json:"user,omitempty"`
	State          string               `json:"state,omitempty"`
	CPUPercent     *float64             `json:"cpu_percent,omitempty"`
	CPUTimeSeconds *float64             `json:"cpu_time_seconds,omitempty"`
	MemoryBytes    *uint64              `json:"memory_bytes,omitempty"`
	Processes      int                  `json:"processes,omitempty"` // of a container or unit
}

// A rowWriter writes rows of one snapshot.
type rowWriter struct {
	observation *model.Observation
	catalogue   *resource.Catalogue
	showSecrets bool
	lengths     textLengths
}

// textLengths bound the texts of a row that the observed machine chooses, in
// characters.
type textLengths struct{ args, name int }

// listedLengths are the lengths of texts in lists: shorter where there are many
// rows, or where longer ones would not fit a list of that many.
var listedLengths = []textLengths{{100, nameLimit}, {48, nameLimit}, {32, 60}, {16, 40}, {8, 24}, {8, 12}}

// fewRows is how many rows may have the longest texts.
const fewRows = 10

// inspectedLengths are those of a single resource.
var inspectedLengths = textLengths{args: 8192, name: pathLimit}

// nameLimit bounds names and ids of outside, in characters.
const nameLimit = 100

func shortText(s string) string {
	shown, _ := plaintext.Bounded(s, nameLimit)
	return shown
}

func (w *rowWriter) row(r *resource.Resource) row {
	o, c := w.observation, w.catalogue
	line := row{
		ID:        c.ID(r),
		ParentIDs: c.ParentIDs(r),
		CoresUsed: coresUsed(r.CPU, o.CPUs),
		Usage: usage{
			Environment:    r.Environment,
			Source:         shortID(r.Source),
			Kind:           r.Kind,
			CPUPercent:     figure(r.CPU, 2),
			CPUTimeSeconds: figure(r.CPUSeconds, 1),
			MemoryBytes:    bytesOf(r.Memory),
		},
	}
	line.Usage.ID, _ = plaintext.Bounded(shortID(r.NativeID), w.lengths.name)
	line.Usage.Name, line.Usage.NameCut = plaintext.Bounded(r.Name, w.lengths.name)
	if r.CPU.Known || o.RatesAbsent == "" {
		line.note("cpu_percent", line.Usage.CPUPercent == nil, whyNoRate(r))
	}
	if overcounted(r) {
		line.Usage.MemoryBytes = nil
		line.note("memory_bytes", true, "its inactive file cache is counted larger than its current usage")
	}
	line.note("memory_bytes", line.Usage.MemoryBytes == nil && line.Absent["memory_bytes"] == "", string(missingOf(r, "memory")))
	switch {
	case r.Proc != nil:
		w.process(&line, r)
	case r.Group != nil:
		line.Usage.Processes = r.Group.Processes
	}
	return line
}

func (w *rowWriter) process(line *row, r *resource.Resource) {
	p := r.Proc
	line.Usage.ID = strconv.Itoa(int(p.PID))
	line.Usage.PID, line.Usage.PPID = &p.PID, &p.PPID
	line.Usage.State = stateLetter(p.State)
	line.Usage.Kernel = p.Kernel
	line.Usage.User = shortText(p.Facts.User)
	line.note("user", !p.Facts.UIDKnown, string(p.Facts.Absent["user"]))
	if reason, missing := p.Facts.Absent["args"]; missing {
		line.note("args", reason != sample.KernelTask, string(reason))
	}
	line.Usage.Args, line.Usage.ArgsCut = display.Behind(p.Facts.Args, w.showSecrets, w.lengths.args)
}

// overcounted says that a cgroup counts more inactive cache than usage, so that
// what is in use is not known: it is not zero.
func overcounted(r *resource.Resource) bool {
	if r.Group == nil || r.Group.Group == nil {
		return false
	}
	u := &r.Group.Usage
	return u.MemoryCurrent != nil && u.MemoryInactiveFile != nil && *u.MemoryInactiveFile > *u.MemoryCurrent
}

// note names an absent figure with its reason.
func (l *row) note(figure string, absent bool, reason string) {
	if !absent {
		return
	}
	if l.Absent == nil {
		l.Absent = map[string]string{}
	}
	if reason == "" {
		reason = "unknown"
	}
	l.Absent[figure] = reason
}

// whyNoRate is the reason for a CPU figure that is unknown although there were
// two samples.
func whyNoRate(r *resource.Resource) string {
	if reason := missingOf(r, "cpu"); reason != "" {
		return string(reason)
	}
	return "no earlier sample of it to compare with"
}

func missingOf(r *resource.Resource, figure string) proc.Reason {
	if r.Group == nil || r.Group.Group == nil {
		return ""
	}
	return r.Group.Usage.Missing[figure]
}

func stateLetter(state byte) string {
	if state < 'A' || state > 'z' {
		return ""
	}
	return string(rune(state))
}

// shortID cuts a container's full id to the twelve characters that people know
// it by; filters take it from the left.
func shortID(id string) string {
	const full, short = 64, 12
	head, rest, inside := strings.Cut(id, ":")
	if len(head) != full || strings.Trim(head, "0123456789abcdef") != "" {
		return id
	}
	if inside {
		return head[:short] + ":" + rest
	}
	return head[:short]
}

// coresUsed is a share of the machine in CPUs, rounded as lists show it.
func coresUsed(percent model.Figure, cpus int) *float64 {
	c := cores(percent, cpus)
	if c != nil {
		*c = round(*c, 3)
	}
	return c
}

func bytesOf(f model.Figure) *uint64 {
	if !f.Known || f.Value < 0 {
		return nil
	}
	n := uint64(f.Value)
	return &n
}

// text is a list as lines of columns.
func (l *listing) text(c Call) string {
	var b strings.Builder
	b.WriteString(l.Snapshot.heading())
	by, direction := c.Text("sort_by"), c.Text("sort_order")
	if by == "" {
		by = "cpu"
	}
	if direction == "" {
		direction = "desc"
	}
	fmt.Fprintf(&b, "%d of %d matching", l.Returned, l.Matched)
	if l.Offset > 0 {
		fmt.Fprintf(&b, " from offset %d", l.Offset)
	}
	fmt.Fprintf(&b, ", by %s %s", by, direction)
	switch {
	case l.LeftOut > 0 && l.Returned == 0:
		fmt.Fprintf(&b, "; %d left out (raise limit)", l.LeftOut)
	case l.LeftOut > 0:
		fmt.Fprintf(&b, "; %d left out (offset=%d goes on, or filter)", l.LeftOut, l.NextOffset)
	}
	b.WriteByte('\n')
	if l.Cut != "" {
		fmt.Fprintf(&b, "%s\n", l.Cut)
	}
	if l.Hint != "" {
		fmt.Fprintf(&b, "hint: %s\n", l.Hint)
	}
	for _, figure := range slices.Sorted(maps.Keys(l.Absent)) {
		fmt.Fprintf(&b, "%s absent: %s\n", figure, l.Absent[figure])
	}
	if len(l.Data) > 0 {
		b.WriteString("resource_id kind environment pid user cpu% cores memory name args < parent\n")
	}
	for i := range l.Data {
		b.WriteString(l.Data[i].text)
		b.WriteByte('\n')
	}
	return b.String()
}

// written encodes the row of a resource.
func (w *rowWriter) written(r *resource.Resource) (written, error) {
	line := w.row(r)
	encoded, err := marshal(&line)
	return written{encoded, line.text(), utf8.RuneCount(encoded)}, err
}

func (l *row) text() string {
	columns := []string{l.ID, string(l.Usage.Kind), string(l.Usage.Environment)}
	if l.Usage.PID != nil {
		columns = append(columns, strconv.Itoa(int(*l.Usage.PID)), orDash(l.Usage.User))
	} else {
		columns = append(columns, "-", "-")
	}
	columns = append(columns, number(l.Usage.CPUPercent), number(l.CoresUsed), sizeOf(l.Usage.MemoryBytes), l.Usage.Name)
	if l.Usage.Args != "" {
		columns = append(columns, l.Usage.Args)
	}
	if len(l.ParentIDs) > 0 {
		columns = append(columns, "<", strings.Join(l.ParentIDs, ","))
	}
	return strings.Join(columns, " ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func number(f *float64) string {
	if f == nil {
		return "?"
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func sizeOf(n *uint64) string {
	if n == nil {
		return "?"
	}
	return size(*n)
}

// size is a number of bytes for reading: binary units, three digits.
func size(n uint64) string {
	const units = "KMGTPE"
	v, unit := float64(n), -1
	for v >= 999.5 && unit < len(units)-1 {
		v /= 1024
		unit++
	}
	switch {
	case unit < 0:
		return fmt.Sprintf("%dB", n)
	case v < 9.95:
		return fmt.Sprintf("%.1f%ciB", v, units[unit])
	}
	return fmt.Sprintf("%.0f%ciB", v, units[unit])
}
