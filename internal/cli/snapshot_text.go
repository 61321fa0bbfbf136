package cli

// This file writes one observation for a person: as a page of top, with what
// top does not know.

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"topside/internal/see"
	"topside/internal/see/container"
	"topside/internal/see/display"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
)

// A snapshotView writes to a person.
type snapshotView struct {
	out         io.Writer
	palette     palette
	columns     int
	limit       int
	showSecrets bool
}

func (v snapshotView) write(snapshot *see.Snapshot) error {
	buffered := bufio.NewWriter(v.out)
	v.out = buffered
	v.header(snapshot.Observation())
	v.devices(&snapshot.Observation().System)
	v.groups(snapshot, resource.Container, "CONTAINERS")
	v.groups(snapshot, resource.Application, "UNITS AND PODS")
	v.processes(snapshot)
	v.footer(snapshot.Observation())
	return buffered.Flush()
}

// line writes one labelled line of the header.
func (v snapshotView) line(label, format string, args ...any) {
	fmt.Fprintf(v.out, "%s %s\n", v.palette.strong(fmt.Sprintf("%-9s", label)), fmt.Sprintf(format, args...))
}

func (v snapshotView) header(o *model.Observation) {
	s := &o.System
	name := clean(s.Hostname)
	if name == "" {
		name = "this machine"
	}
	title := name
	if s.Kernel != "" {
		title += "  kernel " + clean(s.Kernel)
	}
	if s.Uptime > 0 {
		title += "  up " + duration(s.Uptime)
	}
	window := o.RatesAbsent
	if window == "" {
		window = "over " + duration(o.Window)
	} else {
		window = "no rates: " + window
	}
	fmt.Fprintf(v.out, "%s  %s\n", v.palette.strong(title), v.palette.faint(o.CapturedAt.Format("2006-01-02 15:04:05")+", "+window))
	v.line("CPU", "%s", cpuLine(o))
	v.line("load", "%s", loadLine(s))
	if s.Memory != nil {
		v.line("memory", "%s", memoryLine(s))
	} else {
		v.line("memory", "%s", absence(s.Absent, "memory"))
	}
	v.line("pressure", "%s", pressureText(s))
	if s.Limits != nil && s.Limits.Limited(o.CPUs, totalMemory(s)) {
		v.line("limits", "%s", limitsText(s))
	}
}

func totalMemory(s *model.System) uint64 {
	if s.Memory == nil || s.Memory.Total == nil {
		return 0
	}
	return *s.Memory.Total
}

func cpuLine(o *model.Observation) string {
	s := &o.System
	parts := []string{fmt.Sprintf("%s busy of %d CPUs", percent(s.Busy), o.CPUs)}
	if !s.Busy.Known {
		parts[0] = fmt.Sprintf("%d CPUs", o.CPUs)
	}
	for _, mode := range []struct {
		name   string
		figure model.Figure
	}{
		{"user", s.Modes.User}, {"nice", s.Modes.Nice}, {"system", s.Modes.System}, {"iowait", s.Modes.IOWait},
		{"irq", s.Modes.IRQ}, {"softirq", s.Modes.SoftIRQ}, {"steal", s.Modes.Steal}, {"idle", s.Modes.Idle},
	} {
		if mode.figure.Known && (mode.figure.Value >= 0.05 || mode.name == "user" || mode.name == "system" || mode.name == "idle") {
			parts = append(parts, mode.name+" "+percent(mode.figure))
		}
	}
	if s.Unaccounted.Known && s.Unaccounted.Value >= 0.05 {
		parts = append(parts, "in no process "+percent(s.Unaccounted))
	}
	return strings.Join(parts, ", ")
}

func loadLine(s *model.System) string {
	var parts []string
	if s.Load != nil {
		parts = append(parts, fmt.Sprintf("%.2f %.2f %.2f", s.Load.One, s.Load.Five, s.Load.Fifteen))
	}
	if s.Running != nil {
		parts = append(parts, fmt.Sprintf("%d running", *s.Running))
	}
	if s.Blocked != nil {
		parts = append(parts, fmt.Sprintf("%d blocked on I/O", *s.Blocked))
	}
	if s.ContextSwitches.Known {
		parts = append(parts, number(s.ContextSwitches, 0)+" context switches/s")
	}
	if s.Forks.Known {
		parts = append(parts, number(s.Forks, 1)+" forks/s")
	}
	if len(parts) == 0 {
		return absence(s.Absent, "load")
	}
	return strings.Join(parts, ", ")
}

func memoryLine(s *model.System) string {
	m := s.Memory
	var parts []string
	if m.Total != nil && m.Available != nil && *m.Available <= *m.Total {
		parts = append(parts, size(float64(*m.Total-*m.Available))+" used of "+size(float64(*m.Total)))
	} else {
		parts = append(parts, sizeAt(m.Total)+" in all")
	}
	parts = append(parts, sizeAt(m.Available)+" available")
	if m.Cached != nil {
		parts = append(parts, sizeAt(m.Cached)+" cache")
	}
	if s.ARC != nil {
		parts = append(parts, size(float64(s.ARC.Size))+" ZFS ARC")
	}
	if m.SwapTotal != nil && *m.SwapTotal > 0 {
		parts = append(parts, "swap "+sizeAt(m.SwapUsed())+" of "+sizeAt(m.SwapTotal))
	}
	return strings.Join(parts, ", ")
}

func pressureText(s *model.System) string {
	var parts []string
	for _, name := range []string{"cpu", "memory", "io", "irq"} {
		p := s.Pressure[name]
		if p == nil {
			continue
		}
		text := name
		if p.Some != nil {
			text += fmt.Sprintf(" some %.1f %%", p.Some.Avg10)
		}
		if p.Full != nil && (name != "cpu" || p.Full.Avg10 > 0) {
			text += fmt.Sprintf(" full %.1f %%", p.Full.Avg10)
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return absence(s.Absent, "pressure")
	}
	return strings.Join(parts, ", ") + " (of the last 10 s)"
}

// absence names why a figure is missing.
func absence(absent map[string]proc.Reason, name string) string {
	if reason, ok := absent[name]; ok && reason != "" {
		return unknown + " (" + string(reason) + ")"
	}
	for key, reason := range absent {
		if strings.HasPrefix(key, name) {
			return unknown + " (" + string(reason) + ")"
		}
	}
	return unknown
}

func limitsText(s *model.System) string {
	l := s.Limits
	var parts []string
	if l.CPUQuotaCores != nil {
		parts = append(parts, fmt.Sprintf("CPU quota %.2f cores", *l.CPUQuotaCores))
	}
	if l.CPUSetCount != nil {
		parts = append(parts, fmt.Sprintf("cpuset of %d", *l.CPUSetCount))
	}
	if l.MemoryLimit != nil {
		parts = append(parts, "memory "+sizeAt(l.MemoryLimit))
	}
	if l.PIDsLimit != nil {
		parts = append(parts, fmt.Sprintf("%d tasks", *l.PIDsLimit))
	}
	return "our own control group allows " + strings.Join(parts, ", ")
}

// devices writes disks, filesystems and interfaces that do something or are
// nearly full.
func (v snapshotView) devices(s *model.System) {
	disks := newTable("DISK", ">READ", ">WRITE", ">UTIL", ">LATENCY")
	for _, d := range s.Disks {
		if d.Partition || !active(d.ReadBytes, d.WriteBytes, d.Utilisation) {
			continue
		}
		latency := number(d.Latency, 1)
		if latency != unknown {
			latency += " ms"
		}
		disks.add(clean(d.Name), rateOf(d.ReadBytes), rateOf(d.WriteBytes), percent(d.Utilisation), latency)
	}
	v.table(disks, "")
	filesystems := newTable("FILESYSTEM", "TYPE", ">USED", ">AVAILABLE", ">FULL")
	for i := range s.Filesystems {
		f := &s.Filesystems[i]
		switch {
		case f.Total == nil || f.Free == nil:
			if f.Reason != "" {
				filesystems.add(brief(f.Mount.Point, 40), brief(f.Mount.Type, 12), unknown, unknown, string(f.Reason))
			}
		case *f.Total > 0 && *f.Free <= *f.Total:
			used := *f.Total - *f.Free
			full, _ := f.Full()
			filesystems.add(brief(f.Mount.Point, 40), brief(f.Mount.Type, 12), size(float64(used)), sizeAt(f.Available),
				fmt.Sprintf("%.0f %%", full))
		}
	}
	v.table(filesystems, "")
	interfaces := newTable("INTERFACE", ">RECEIVED", ">SENT", ">ERRORS/S", ">DROPS/S")
	for _, n := range s.Interfaces {
		if active(n.RxBytes, n.TxBytes, n.Errors, n.Drops) {
			interfaces.add(clean(n.Name), rateOf(n.RxBytes), rateOf(n.TxBytes), number(n.Errors, 1), number(n.Drops, 1))
		}
	}
	v.table(interfaces, "")
}

func active(figures ...model.Figure) bool {
	return slices.ContainsFunc(figures, func(f model.Figure) bool { return f.Known && f.Value > 0 })
}

// table writes a table with at most limit rows, unless it is empty.
func (v snapshotView) table(t *table, more string) {
	if len(t.rows) == 0 {
		return
	}
	left := len(t.rows) - v.limit
	if left > 0 {
		t.rows = t.rows[:v.limit]
	}
	fmt.Fprintln(v.out)
	t.write(v.out, v.palette, "", v.columns)
	if left > 0 {
		fmt.Fprintln(v.out, v.palette.faint(fmt.Sprintf("… and %d more%s", left, more)))
	}
}

const moreByLimit = "; --limit N shows more, --json all"

// groups writes the containers or units, the busiest first.
func (v snapshotView) groups(snapshot *see.Snapshot, kind resource.Kind, heading string) {
	rows, _ := snapshot.Catalogue().Query(resource.Query{Kind: kind, Limit: snapshot.Catalogue().Len()})
	t := newTable(heading, "ENVIRONMENT", ">CPU", ">CORES", ">MEMORY", ">PROCESSES", "IMAGE")
	if kind == resource.Application {
		t = newTable(heading, "ENVIRONMENT", ">CPU", ">CORES", ">MEMORY", ">PROCESSES")
	}
	for _, r := range rows {
		cells := []string{brief(r.Name, 40), string(r.Environment), percent(r.CPU), cores(r, snapshot), sizeOf(r.Memory), fmt.Sprint(r.Group.Processes)}
		if kind == resource.Container {
			image := unknown
			if r.Group.Info != nil && r.Group.Info.Image != "" {
				image = brief(display.Text(r.Group.Info.Image, v.showSecrets), 60)
			}
			cells = append(cells, image)
		}
		t.add(cells...)
	}
	v.table(t, moreByLimit)
}

func cores(r *resource.Resource, snapshot *see.Snapshot) string {
	if !r.CPU.Known {
		return unknown
	}
	return number(model.Known(r.CPU.Value*float64(snapshot.Observation().CPUs)/100), 2)
}

func (v snapshotView) processes(snapshot *see.Snapshot) {
	catalogue := snapshot.Catalogue()
	rows, matched := catalogue.Query(resource.Query{Kind: resource.Process, Limit: v.limit})
	t := newTable(">PID", "USER", "S", ">CPU", ">CORES", ">MEMORY", ">TIME", "IN", "COMMAND")
	for _, r := range rows {
		p := r.Proc
		in := unknown
		if parents := catalogue.Parents(r); len(parents) > 0 {
			in = brief(parents[0].Name, 24)
		}
		user := brief(p.Facts.User, 16)
		if user == "" {
			user = unknown
		}
		t.add(fmt.Sprint(p.PID), user, clean(string(rune(p.State))), percent(r.CPU), cores(r, snapshot), sizeOf(r.Memory),
			clock(r.CPUSeconds), in, v.command(p))
	}
	v.limit = max(v.limit, len(t.rows))
	v.table(t, "")
	if left := matched - len(rows); left > 0 {
		fmt.Fprintln(v.out, v.palette.faint(fmt.Sprintf("… and %d more%s", left, moreByLimit)))
	}
}

// command is the command line as ps shows it: the kernel's name in brackets
// where there is none.
func (v snapshotView) command(p *model.Process) string {
	if len(p.Facts.Args) == 0 {
		return "[" + display.Text(p.Facts.Comm, v.showSecrets) + "]"
	}
	line, _ := commandLine(p.Facts.Args, v.showSecrets)
	return line
}

// footer says what is not in the tables.
func (v snapshotView) footer(o *model.Observation) {
	var missing []string
	for i := range o.Engines {
		e := &o.Engines[i]
		if e.Status != container.OK && e.Status != container.Absent {
			missing = append(missing, fmt.Sprintf("%s %s: %s", e.Engine, e.Status, clean(e.Reason)))
		}
	}
	names := make([]string, 0, len(o.System.Absent))
	for name := range o.System.Absent {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		missing = append(missing, fmt.Sprintf("%s (%s)", name, o.System.Absent[name]))
	}
	if len(missing) > 0 {
		fmt.Fprintf(v.out, "\n%s %s\n", v.palette.strong("not observed:"), strings.Join(missing, ", "))
	}
}
