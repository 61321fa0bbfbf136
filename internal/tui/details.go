package tui

// This file holds the details of the selected process.

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"topside/internal/see"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

// A detailsPane is the details that are shown, once they were read.
type detailsPane struct {
	open    bool
	target  Target
	details *see.Details
}

// take keeps what was read, unless another process was selected since.
func (d *detailsPane) take(msg detailed) {
	if d.open && d.target == msg.target {
		d.details = msg.details
	}
}

// readDetails reads the details of the selected process in the background.
func (m *Model) readDetails() tea.Cmd {
	r := m.table.current()
	if !m.details.open || r == nil || m.scene == nil {
		return nil
	}
	target := targetOf(r.resource)
	if m.details.target != target {
		m.details.target, m.details.details = target, nil
	}
	scene, source, ctx, about := m.scene, m.options.Source, m.ctx, r.resource
	return func() tea.Msg {
		return detailed{target, source.Details(ctx, scene, about)}
	}
}

// A fact is one line of the details.
type fact struct{ name, value string }

// facts are what is known of a process without asking further.
func (m *Model) facts(r *resource.Resource) []fact {
	p := r.Proc
	f := p.Facts
	at := m.table.placeOf(p)
	out := []fact{
		{"pid", fmt.Sprintf("%d, parent %s", p.PID, m.parentOf(p.PPID))},
		{"user", orReason(f.User, f.Absent["user"])},
		{"state", stateWord(p.State)},
	}
	if started, ok := m.startOf(p.StartTicks); ok {
		out = append(out, fact{"started", started})
	}
	if at.unit != "" {
		out = append(out, fact{"unit", at.unit})
	}
	if at.container != "" {
		out = append(out, fact{"container", at.container})
	}
	executable := orReason(f.Executable, f.Absent["executable"])
	if f.Deleted {
		executable += " (deleted)"
	}
	out = append(out,
		fact{"program", executable},
		fact{"folder", orReason(f.Directory, f.Absent["directory"])},
		fact{"cpu", fmt.Sprintf("%s of a core, %s in all", percent(m.coreShare(r)), cpuTime(p.CPUSeconds))},
		fact{"memory", fmt.Sprintf("%s resident, %s mapped", size(float64(p.RSS)), size(float64(p.VirtualBytes)))},
		fact{"threads", fmt.Sprintf("%d, nice %d", p.Threads, p.Nice)},
		fact{"faults", fmt.Sprintf("%s minor, %s major a second", rateWord(p.MinorFaults), rateWord(p.MajorFaults))},
	)
	if p.IOKnown {
		out = append(out, fact{"storage", fmt.Sprintf("%s read, %s written", size(float64(p.IO.ReadBytes)), size(float64(p.IO.WriteBytes)))})
	} else if p.IOAbsent != "" {
		out = append(out, fact{"storage", "(" + string(p.IOAbsent) + ")"})
	}
	return append(out, m.readFacts()...)
}

// readFacts are those of the kernel files that were read for the details.
func (m *Model) readFacts() []fact {
	d := m.details.details
	if d == nil {
		return nil
	}
	var out []fact
	switch {
	case d.Descriptors == nil:
		out = append(out, fact{"files", "(" + string(d.Absent["descriptors"]) + ")"})
	default:
		limit := ""
		if l, ok := d.Limits["Max open files"]; ok && !l.SoftUnlimited {
			limit = fmt.Sprintf(" of %d", l.Soft)
		}
		out = append(out, fact{"files", fmt.Sprintf("%d open%s", *d.Descriptors, limit)})
	}
	if d.OOMScore != nil {
		out = append(out, fact{"oom score", itoa(*d.OOMScore)})
	}
	return out
}

func orReason(v string, why proc.Reason) string {
	switch {
	case v != "":
		return v
	case why != "":
		return "(" + string(why) + ")"
	}
	return unknown
}

// parentOf names a parent.
func (m *Model) parentOf(pid int32) string {
	if pid == 0 {
		return "none"
	}
	if r, ok := m.scene.Catalogue.ByPID(pid); ok {
		return fmt.Sprintf("%d %s", pid, r.Name)
	}
	return itoa(int(pid))
}

// startOf is when a process started, from the kernel's count of ticks.
func (m *Model) startOf(ticks uint64) (string, bool) {
	o := m.scene.Observation
	if o.System.Uptime <= 0 || m.scene.ClockTicks == 0 {
		return "", false
	}
	since := time.Duration(float64(ticks) / float64(m.scene.ClockTicks) * float64(time.Second))
	age := o.System.Uptime - since
	return fmt.Sprintf("%s, %s ago", o.CapturedAt.Add(-age).Format("2006-01-02 15:04:05"), span(max(age, 0))), true
}

var stateWords = map[byte]string{
	'R': "running", 'S': "sleeping", 'D': "waiting for a disk or device", 'T': "stopped", 't': "traced",
	'Z': "zombie", 'X': "dead", 'I': "idle", 'P': "parked",
}

func stateWord(s byte) string {
	if word, ok := stateWords[s]; ok {
		return string(rune(s)) + ", " + word
	}
	return string(rune(s))
}

// factWidth is the least width of a column of facts.
const factWidth = 44

// drawFacts draws facts in as many columns as there is room for, and returns
// how many lines they took.
func (m *Model) drawFacts(a screen.Area, facts []fact) int {
	across := max(a.W/factWidth, 1)
	down := (len(facts) + across - 1) / across
	width := a.W / across
	for i, f := range facts {
		at := a.Sub((i/down)*width, i%down, width-1, 1)
		at.Fit(0, 0, 10, style(theme.Dim), f.name)
		at.Fit(10, 0, at.W-10, theme.Style{}, m.outside(f.value))
	}
	return min(down, a.H)
}

func (m *Model) drawDetails(a screen.Area) {
	r := m.table.current()
	title := "Details"
	if r != nil {
		title = "Details: " + m.outside(r.resource.Name)
	}
	in := m.frame(a, title, "Esc close", theme.Accent)
	if r == nil {
		in.Fit(1, 0, in.W-2, style(theme.Dim), "no process is selected")
		return
	}
	in = in.Sub(1, 0, in.W-2, in.H)
	y := m.drawFacts(in, m.facts(r.resource))
	command := m.commandLine(r.resource)
	var b box
	b.width = in.W
	b.wrap(theme.Style{}, "", command)
	if y < in.H {
		in.Fit(0, y, in.W, style(theme.Dim), "command")
		y++
	}
	for _, line := range b.lines {
		in.Text(0, y, line.style, line.text)
		y++
	}
	if room := in.H - y - 1; room >= 2 {
		graph := in.Sub(0, y+1, min(in.W, shortSeries/2), min(room, 4))
		samples := m.history.of(r.process, m.scratch.samples)
		m.scratch.samples = samples
		top := 1.0
		for _, v := range samples {
			top = max(top, float64(v))
		}
		graph.Graph(samples, top, func(float64) theme.Style { return style(theme.CPU) })
		in.Fit(graph.W+1, y+1, in.W-graph.W-1, style(theme.Dim), strings.TrimSpace("CPU of late"))
	}
}
