package tui

// This file draws the machine's own figures: header, CPU, memory, pressure,
// disks and network, and the meters of small screens.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/proc"
	"topside/internal/steer/threshold"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

func (m *Model) drawHeader(a screen.Area) {
	o := m.scene.Observation
	s := &o.System
	a.Fill(' ', theme.Style{Behind: theme.Bar})
	bar := func(r theme.Role, attributes theme.Attributes) theme.Style {
		return theme.Style{Foreground: r, Behind: theme.Bar, Attributes: attributes}
	}
	right := o.CapturedAt.Format("15:04:05") + " · " + m.settings.Layout
	if a.W >= 90 {
		right = "every " + pause(m.interval()) + " · " + right
	}
	state, stateRole := "", theme.Warn
	switch {
	case m.failure != "":
		state, stateRole = "cannot sample: "+m.failure, theme.Bad
	case m.paused:
		state = "paused"
	default:
		if n := m.alerts.pressing("Critical"); n > 0 {
			state, stateRole = plural(n, "critical alert"), theme.Bad
		} else if n := m.alerts.pressing("Warning"); n > 0 {
			state = plural(n, "warning")
		}
	}
	end := a.W - 1
	a.Right(end, 0, bar(theme.Dim, 0), right)
	end -= screen.Width(right) + 2
	if state != "" {
		if w := screen.Width(state); w < end-12 {
			a.Right(end, 0, bar(stateRole, theme.Bold), state)
			end -= w + 2
		}
	}
	x := 1 + a.Fit(1, 0, end-1, bar(theme.Accent, theme.Bold), "topside") + 1
	part := func(role theme.Role, text string) {
		if w := screen.Width(text); text != "" && x+w+1 <= end {
			x += a.Text(x, 0, bar(role, 0), text) + 2
		}
	}
	part(theme.Text, m.outside(s.Hostname))
	if s.Load != nil {
		part(theme.Dim, fmt.Sprintf("load %.2f %.2f %.2f", s.Load.One, s.Load.Five, s.Load.Fifteen))
	}
	part(theme.Dim, tasks(o))
	if s.Uptime > 0 {
		part(theme.Dim, "up "+span(s.Uptime))
	}
	if s.Kernel != "" {
		part(theme.Dim, "Linux "+plaintext.Line(s.Kernel))
	}
}

func tasks(o *model.Observation) string {
	text := plural(len(o.Processes), "task")
	if o.System.Running != nil {
		text += fmt.Sprintf(", %d running", *o.System.Running)
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// coreTile is the least width of one core in the list of cores.
const coreTile = 12

// cpuRows is the height of a CPU panel that shows each core on a line.
func (m *Model) cpuRows(width int) int {
	if m.scene == nil {
		return 8
	}
	n := len(m.scene.Observation.System.Cores)
	perRow := max((width-2)/2/coreTile, 1)
	return 3 + max((n+perRow-1)/perRow, 4)
}

func (m *Model) drawCPU(a screen.Area) {
	s := &m.scene.Observation.System
	title, role := m.titled("CPU", s.Busy.Value, s.Busy.Known, threshold.CPU)
	note := fmt.Sprintf("%d cores", m.scene.Observation.CPUs)
	if s.Limits != nil && s.Limits.CPUQuotaCores != nil {
		note = fmt.Sprintf("%.3g of %d cores", *s.Limits.CPUQuotaCores, m.scene.Observation.CPUs)
	}
	in := m.frame(a, title, note, role)
	in = in.Sub(1, 0, in.W-2, in.H)
	m.drawBusy(in)
	body := in.Sub(0, 1, in.W, in.H-1)
	if body.H <= 0 {
		return
	}
	limit := m.limitOf(threshold.CPU)
	curve := func(share float64) theme.Style { return style(levelOf(share*100, limit)) }
	coresWidth := m.coresWidth(body)
	graph := body.Sub(0, 0, body.W-coresWidth, body.H)
	if coresWidth > 0 {
		graph = body.Sub(0, 0, body.W-coresWidth-1, body.H)
	}
	if graph.W >= 4 {
		graph.Graph(m.history.cpu.last(2*graph.W), 100, curve)
	}
	if coresWidth > 0 {
		m.drawCores(body.Sub(body.W-coresWidth, 0, coresWidth, body.H))
	}
}

// drawBusy draws the machine's CPU on one line: gauge, share, modes.
func (m *Model) drawBusy(a screen.Area) {
	s := &m.scene.Observation.System
	text := percent(s.Busy)
	modes := m.modes(a.W - 30)
	if why := m.scene.Observation.RatesAbsent; why != "" && len(why) <= a.W-30 {
		modes = why
	}
	gauge := max(a.W-8-screen.Width(modes)-2, 0)
	if modes == "" {
		gauge = max(a.W-8, 0)
	}
	role := levelOf(s.Busy.Value, m.limitOf(threshold.CPU))
	a.Gauge(0, 0, gauge, style(theme.Line), screen.Segment{Share: s.Busy.Or(0) / 100, Style: style(role)})
	a.Right(gauge+7, 0, bold(role), text)
	a.Text(gauge+9, 0, style(theme.Dim), modes)
}

// modes says how the CPU time was spent, in at most room columns.
func (m *Model) modes(room int) string {
	c := &m.scene.Observation.System.Modes
	var b strings.Builder
	for _, part := range []struct {
		name string
		f    model.Figure
	}{{"user", c.User}, {"system", c.System}, {"wait", c.IOWait}, {"steal", c.Steal}, {"nice", c.Nice}, {"irq", plus(c.IRQ, c.SoftIRQ)}} {
		if !part.f.Known {
			continue
		}
		text := fmt.Sprintf("%s %4s", part.name, decimal(part.f.Value))
		if b.Len() > 0 {
			text = "  " + text
		}
		if b.Len()+len(text) > room {
			break
		}
		b.WriteString(text)
	}
	return b.String()
}

// coresWidth is how much of the body the cores take; all of it has at most
// three fifths.
func (m *Model) coresWidth(body screen.Area) int {
	n := len(m.scene.Observation.System.Cores)
	if n < 2 || body.H < 1 || body.W < 2*coreTile {
		return 0
	}
	perColumn := max(body.H, 1)
	need := (n + perColumn - 1) / perColumn
	most := body.W * 3 / 5
	if need*coreTile > most {
		return min(n, most)
	}
	return min(max(need*coreTile, body.W/2), most)
}

// drawCores draws each core: as a tile with a graph where there is room, as a
// line, or as a single cell.
func (m *Model) drawCores(a screen.Area) {
	cores := m.scene.Observation.System.Cores
	n := len(cores)
	across := max(min(a.W/coreTile, n), 1)
	down := (n + across - 1) / across
	if down > a.H {
		m.drawCoreMap(a)
		return
	}
	// As few columns as the height allows, so that each is wide.
	across = (n + a.H - 1) / a.H
	if a.H >= 2*n {
		across = 1
	} else if a.W/coreTile >= 2*across && a.H >= 3 {
		across = min(n, max(across, a.W/(coreTile*2)))
	}
	down = (n + across - 1) / across
	width, height := a.W/across, a.H/down
	for i := range cores {
		tile := a.Sub((i/down)*width, (i%down)*height, width-1, height)
		m.drawCore(tile, i)
	}
}

func (m *Model) drawCore(a screen.Area, i int) {
	core := &m.scene.Observation.System.Cores[i]
	limit := m.limitOf(threshold.CPU)
	role := levelOf(core.Busy.Value, limit)
	name := itoa(core.ID)
	a.Right(3, 0, style(theme.Dim), name)
	a.Right(a.W, 0, style(role), percent(core.Busy))
	middle := a.Sub(4, 0, a.W-11, 1)
	curve := func(share float64) theme.Style { return style(levelOf(share*100, limit)) }
	switch {
	case a.H == 2:
		curve = func(float64) theme.Style { return style(role) }
		fallthrough
	case a.H > 2:
		middle.Gauge(0, 0, middle.W, style(theme.Line), screen.Segment{Share: core.Busy.Or(0) / 100, Style: style(role)})
		a.Sub(4, 1, a.W-4, a.H-1).Graph(m.history.cores[i].last(2*a.W), 100, curve)
	case middle.W >= 14:
		spark := middle.W / 2
		middle.Gauge(0, 0, middle.W-spark-1, style(theme.Line), screen.Segment{Share: core.Busy.Or(0) / 100, Style: style(role)})
		middle.Sub(middle.W-spark, 0, spark, 1).Graph(m.history.cores[i].last(2*spark), 100, func(float64) theme.Style { return style(role) })
	default:
		middle.Gauge(0, 0, middle.W, style(theme.Line), screen.Segment{Share: core.Busy.Or(0) / 100, Style: style(role)})
	}
}

// drawCoreMap draws one cell per core, for machines with very many.
func (m *Model) drawCoreMap(a screen.Area) {
	cores := m.scene.Observation.System.Cores
	limit := m.limitOf(threshold.CPU)
	perRow := max(a.W, 1)
	for i := range cores {
		y := i / perRow
		if y == a.H-1 && len(cores) > perRow*a.H {
			a.Fit(0, y, a.W, style(theme.Dim), fmt.Sprintf("and %d more", len(cores)-i))
			return
		}
		f := cores[i].Busy
		a.Level(i%perRow, y, max(f.Or(0), 1)/100, style(levelOf(f.Or(0), limit)))
	}
}

func (m *Model) drawMemory(a screen.Area) {
	mem := memoryOf(&m.scene.Observation.System)
	taken := mem.taken()
	title, role := m.titled("Memory", taken.Value, taken.Known, threshold.Memory)
	note := ""
	if mem.ok {
		note = size(mem.total)
	}
	in := m.frame(a, title, note, role)
	in = in.Sub(1, 0, in.W-2, in.H)
	if !mem.ok {
		in.Fit(0, 0, in.W, style(theme.Dim), orReason("", m.scene.Observation.System.Absent["memory"]))
		return
	}
	level := levelOf(taken.Value, m.limitOf(threshold.Memory))
	gauge := max(in.W-15, 0)
	in.Text(0, 0, style(theme.Dim), "RAM")
	in.Gauge(5, 0, gauge, style(theme.Line),
		screen.Segment{Share: mem.used / mem.total, Style: style(level)},
		screen.Segment{Share: mem.arc / mem.total, Style: style(theme.Memory)},
		screen.Segment{Share: mem.cache / mem.total, Style: style(theme.Cache)})
	in.Right(in.W, 0, bold(level), percent(taken))
	y := 1
	if mem.swapKnown && in.H > y {
		m.drawSwap(in.Sub(0, y, in.W, 1), &mem, gauge)
		y++
	}
	y += m.drawMemoryWords(in.Sub(0, y, in.W, in.H-y), &mem)
	if in.H-y >= 2 {
		limit := m.limitOf(threshold.Memory)
		in.Sub(0, y, in.W, in.H-y).Graph(m.history.memory.last(2*in.W), 100, func(share float64) theme.Style {
			return style(levelOf(share*100, limit))
		})
	}
}

func (m *Model) drawSwap(a screen.Area, mem *memory, gauge int) {
	a.Text(0, 0, style(theme.Dim), "Swap")
	if mem.swapTotal == 0 {
		a.Fit(5, 0, gauge, style(theme.Dim), "none")
		return
	}
	share := mem.swapShare()
	role := levelOf(share.Value, m.limitOf(threshold.Swap))
	a.Gauge(5, 0, gauge, style(theme.Line), screen.Segment{Share: share.Value / 100, Style: style(role)})
	a.Right(a.W, 0, style(role), percent(share))
}

// drawMemoryWords names the parts, each in the colour of its segment, over as
// many lines as they need; it returns how many.
func (m *Model) drawMemoryWords(a screen.Area, mem *memory) int {
	level := levelOf(mem.used/mem.total*100, m.limitOf(threshold.Memory))
	parts := []struct {
		name  string
		value string
		role  theme.Role
	}{
		{"used", size(mem.used), level}, {"cache", size(mem.cache), theme.Cache}, {"arc", size(mem.arc), theme.Memory},
		{"free", size(mem.free), theme.Dim}, {"swap", size(mem.swapUsed) + "/" + size(mem.swapTotal), theme.Dim},
		{"available", size(mem.available), theme.Dim}, {"shared", sizeOf(mem.shared), theme.Dim},
		{"slab", sizeOf(mem.slab), theme.Dim}, {"dirty", sizeOf(mem.dirty), theme.Dim},
	}
	x, y := 0, 0
	for _, p := range parts {
		if p.name == "arc" && mem.arc == 0 || p.name == "swap" && mem.swapTotal == 0 {
			continue
		}
		width := len(p.name) + 1 + screen.Width(p.value)
		if x > 0 && x+width > a.W {
			x, y = 0, y+1
		}
		if y >= a.H || y >= 2 && a.H < 8 {
			break
		}
		x += a.Text(x, y, style(theme.Dim), p.name+" ")
		x += a.Text(x, y, style(p.role), p.value) + 2
	}
	return min(y+1, a.H)
}

// pressures are the resources of PSI, in order.
var pressures = []struct {
	name   string
	metric threshold.Metric // "" without a threshold
}{
	{"cpu", threshold.PressureCPU}, {"memory", threshold.PressureMemory}, {"io", threshold.PressureIO}, {"irq", ""},
}

func (m *Model) drawPressure(a screen.Area) {
	s := &m.scene.Observation.System
	title, role := "Pressure", theme.Accent
	for _, p := range pressures {
		if f := stalled(s.Pressure[p.name]); p.metric != "" && f.Known && f.Value > m.limitOf(p.metric) {
			title, role = "Pressure !", theme.Bad
		}
	}
	in := m.frame(a, title, "stalled, 10 s", role)
	in = in.Sub(1, 0, in.W-2, in.H)
	if len(s.Pressure) == 0 {
		in.Fit(0, 0, in.W, style(theme.Dim), orReason("", m.pressureReason()))
		return
	}
	if in.H == 1 {
		m.drawPressureLine(in)
		return
	}
	height := 1
	if known := len(s.Pressure); in.H >= 4*known {
		height = in.H / known
	}
	y := 0
	for _, p := range pressures {
		if s.Pressure[p.name] != nil && y < in.H {
			m.drawPressureOf(in.Sub(0, y, in.W, height), p.name, p.metric, s.Pressure[p.name])
			y += height
		}
	}
}

func (m *Model) pressureReason() proc.Reason {
	for name, why := range m.scene.Observation.System.Absent {
		if strings.HasPrefix(name, "pressure") {
			return why
		}
	}
	return proc.Unsupported
}

func (m *Model) drawPressureOf(a screen.Area, name string, metric threshold.Metric, p *proc.Pressure) {
	f := stalled(p)
	role := theme.Good
	if f.Value >= 1 {
		role = theme.Warn
	}
	if metric != "" && f.Value > m.limitOf(metric) {
		role = theme.Bad
	}
	full := ""
	if p.Full != nil && a.W >= 40 {
		full = fmt.Sprintf("  full %5s", decimal(p.Full.Avg10))
	}
	if p.Some != nil && a.W >= 58 {
		full += fmt.Sprintf("  60 s %5s  300 s %5s", decimal(p.Some.Avg60), decimal(p.Some.Avg300))
	}
	a.Fit(0, 0, 7, style(theme.Dim), name)
	gauge := max(a.W-7-6-len(full), 0)
	a.Gauge(7, 0, gauge, style(theme.Line), screen.Segment{Share: f.Or(0) / 100, Style: style(role)})
	a.Right(7+gauge+6, 0, style(role), percent(f))
	a.Text(7+gauge+6, 0, style(theme.Dim), full)
	if a.H >= 3 {
		a.Sub(7, 1, a.W-7, a.H-2).Graph(m.history.pressure[name].last(2*a.W), max(m.history.pressure[name].peak(2*a.W, 10), 1), func(float64) theme.Style { return style(role) })
	}
}

func (m *Model) drawPressureLine(a screen.Area) {
	x := 0
	for _, p := range pressures {
		at := m.scene.Observation.System.Pressure[p.name]
		if at == nil {
			continue
		}
		f := stalled(at)
		role := theme.Text
		if p.metric != "" && f.Value > m.limitOf(p.metric) {
			role = theme.Bad
		}
		x += a.Text(x, 0, style(theme.Dim), p.name+" ")
		x += a.Text(x, 0, style(role), percent(f)) + 3
	}
}

// shownDisks are the disks worth a line: whole ones, and others that move.
func (m *Model) shownDisks() []*model.Disk {
	var out []*model.Disk
	disks := m.scene.Observation.System.Disks
	for i := range disks {
		d := &disks[i]
		moving := d.ReadBytes.Or(0)+d.WriteBytes.Or(0) > 0
		if !d.Partition && (moving || !derived(d.Name)) {
			out = append(out, d)
		}
	}
	return out
}

// shownFilesystems are those that can fill up, the fullest first.
func (m *Model) shownFilesystems() []*proc.Usage {
	var out []*proc.Usage
	all := m.scene.Observation.System.Filesystems
	for i := range all {
		u := &all[i]
		if full, ok := u.Full(); ok && !images[u.Mount.Type] && !(full < 1 && inMemory[u.Mount.Type]) {
			out = append(out, u)
		}
	}
	slices.SortStableFunc(out, func(a, b *proc.Usage) int {
		x, _ := a.Full()
		y, _ := b.Full()
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(a.Mount.Point, b.Mount.Point))
	})
	return out
}

var images = map[string]bool{"squashfs": true, "iso9660": true, "erofs": true, "cramfs": true, "udf": true}

// inMemory are filesystems that are worth a line only when something is in them.
var inMemory = map[string]bool{"tmpfs": true, "devtmpfs": true, "ramfs": true, "efivarfs": true}

func (m *Model) drawDisks(a screen.Area) {
	disks, systems := m.shownDisks(), m.shownFilesystems()
	title, role := "Disks", theme.Accent
	if len(systems) > 0 {
		full, _ := systems[0].Full()
		title, role = m.titled("Disks", full, true, threshold.Disk)
	}
	read, wrote := diskTotals(m.scene.Observation.System.Disks)
	in := m.frame(a, title, "read "+speed(read)+"  write "+speed(wrote)+" /s", role)
	in = in.Sub(1, 0, in.W-2, in.H)
	rows := min(len(disks), max(in.H-min(len(systems), (in.H+1)/2), 0))
	for y := range rows {
		m.drawDisk(in.Sub(0, y, in.W, 1), disks[y])
	}
	for i := range systems {
		if rows+i >= in.H {
			break
		}
		m.drawFilesystem(in.Sub(0, rows+i, in.W, 1), systems[i])
	}
	if len(disks)+len(systems) == 0 {
		in.Fit(0, 0, in.W, style(theme.Dim), orReason("", m.scene.Observation.System.Absent["disks"]))
	}
}

func (m *Model) drawDisk(a screen.Area, d *model.Disk) {
	name := min(max(a.W/4, 6), 14)
	a.Fit(0, 0, name, theme.Style{}, m.outside(d.Name))
	x := name + 1
	x = m.drawFlow(a, x, "r", d.ReadBytes, theme.Read)
	x = m.drawFlow(a, x, "w", d.WriteBytes, theme.Write)
	if a.W-x >= 22 {
		a.Text(x, 0, style(theme.Dim), "wait")
		wait := unknown
		if d.Latency.Known {
			wait = decimal(d.Latency.Value) + "ms"
		} else if d.Reads.Known {
			wait = "·"
		}
		a.Right(x+12, 0, style(theme.Dim), wait)
		x += 14
	}
	if a.W-x >= 12 {
		role := levelOf(d.Utilisation.Or(0), 90)
		a.Gauge(x, 0, a.W-x-6, style(theme.Line), screen.Segment{Share: d.Utilisation.Or(0) / 100, Style: style(role)})
		a.Right(a.W, 0, style(role), whole(d.Utilisation))
	}
}

func whole(f model.Figure) string {
	if !f.Known {
		return unknown
	}
	return fmt.Sprintf("%.0f%%", f.Value)
}

// drawFlow draws a small letter and a speed and returns the column after them.
func (m *Model) drawFlow(a screen.Area, x int, letter string, f model.Figure, role theme.Role) int {
	a.Text(x, 0, style(theme.Dim), letter)
	if f.Or(0) < 0.5 {
		role = theme.Dim
	}
	a.Right(x+7, 0, style(role), speed(f))
	return x + 9
}

func (m *Model) drawFilesystem(a screen.Area, u *proc.Usage) {
	full, _ := u.Full()
	name := min(max(a.W/3, 8), 24)
	a.Fit(0, 0, name, theme.Style{}, m.outside(u.Mount.Point))
	role := levelOf(full, m.limitOf(threshold.Disk))
	x := name + 1
	if words := size(float64(*u.Total-*u.Free)) + " of " + size(float64(*u.Total)); a.W-x >= 34 {
		a.Right(x+15, 0, style(theme.Dim), words)
		x += 17
	}
	a.Gauge(x, 0, a.W-x-6, style(theme.Line), screen.Segment{Share: full / 100, Style: style(role)})
	a.Right(a.W, 0, style(role), fmt.Sprintf("%.0f%%", full))
}

// shownInterfaces are the interfaces, the busiest first, the loopback last.
func (m *Model) shownInterfaces() []*model.Interface {
	all := m.scene.Observation.System.Interfaces
	out := make([]*model.Interface, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	busy := func(n *model.Interface) float64 {
		if p := m.history.interfaces[n.Name]; p != nil {
			var sum float64
			for _, s := range [][]float32{p.rx.last(30), p.tx.last(30)} {
				for _, v := range s {
					if !math.IsNaN(float64(v)) {
						sum += float64(v)
					}
				}
			}
			return sum
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b *model.Interface) int {
		if (a.Name == loopback) != (b.Name == loopback) {
			if a.Name == loopback {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(busy(b), busy(a)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (m *Model) drawNetwork(a screen.Area) {
	all := m.shownInterfaces()
	g := m.glyphs
	var rx, tx model.Figure
	for _, n := range all {
		if n.Name != loopback {
			rx, tx = plus(rx, n.RxBytes), plus(tx, n.TxBytes)
		}
	}
	in := m.frame(a, "Network", string(g.Down)+" "+speed(rx)+"  "+string(g.Up)+" "+speed(tx)+" /s", theme.Accent)
	in = in.Sub(1, 0, in.W-2, in.H)
	if len(all) == 0 {
		in.Fit(0, 0, in.W, style(theme.Dim), orReason("", m.scene.Observation.System.Absent["interfaces"]))
		return
	}
	rows := min(len(all), in.H)
	graphs := in.H - rows
	y := 0
	if graphs >= 4 {
		m.drawFlows(in.Sub(0, 0, in.W, graphs))
		y = graphs
	}
	trouble := 0
	for _, n := range all {
		trouble = max(trouble, len(lost(n)))
	}
	for i, n := range all {
		if y+i >= in.H {
			break
		}
		m.drawInterface(in.Sub(0, y+i, in.W, 1), n, trouble)
	}
}

// drawFlows draws the traffic of all interfaces: what comes in, what goes out.
func (m *Model) drawFlows(a screen.Area) {
	half := a.W / 2
	for i, side := range []struct {
		title string
		s     *series
		role  theme.Role
	}{{string(m.glyphs.Down) + " received", &m.history.rx, theme.Receive}, {string(m.glyphs.Up) + " sent", &m.history.tx, theme.Transmit}} {
		part := a.Sub(i*half, 0, half-1, a.H-1)
		top := side.s.peak(2*part.W, 1024)
		part.Fit(0, 0, part.W, style(theme.Dim), fmt.Sprintf("%s, peak %s/s", side.title, size(top)))
		part.Sub(0, 1, part.W, part.H-1).Graph(side.s.last(2*part.W), top, func(float64) theme.Style { return style(side.role) })
	}
}

// lost tells of packets that had errors or were dropped; "" when none were.
func lost(n *model.Interface) string {
	if bad := plus(n.Errors, n.Drops); bad.Or(0) > 0 {
		return fmt.Sprintf(" %s lost/s", count(bad.Value))
	}
	return ""
}

// drawInterface draws one interface; trouble is the room to keep for what is lost.
func (m *Model) drawInterface(a screen.Area, n *model.Interface, trouble int) {
	name := min(max(a.W/4, 6), 16)
	a.Fit(0, 0, name, theme.Style{}, m.outside(n.Name))
	x := name + 1
	p := m.history.interfaces[n.Name]
	room := a.W - x - 16 - trouble
	spark := 0
	if p != nil && room >= 12 {
		spark = min(room/2-1, 40)
	}
	side := func(letter rune, f model.Figure, s *series, role theme.Role) {
		if f.Or(0) < 0.5 {
			a.Right(x+7, 0, style(theme.Dim), speed(f))
		} else {
			a.Right(x+7, 0, style(role), speed(f))
		}
		a.Text(x, 0, style(theme.Dim), string(letter))
		x += 8
		if spark > 0 {
			a.Sub(x, 0, spark, 1).Graph(s.last(2*spark), s.peak(2*spark, 1024), func(float64) theme.Style { return style(role) })
			x += spark + 1
		}
	}
	var none series
	rx, tx := &none, &none
	if p != nil {
		rx, tx = &p.rx, &p.tx
	}
	side(m.glyphs.Down, n.RxBytes, rx, theme.Receive)
	side(m.glyphs.Up, n.TxBytes, tx, theme.Transmit)
	a.Right(a.W, 0, style(theme.Bad), lost(n))
}

// drawMeters draws one short line per figure, as many as there is room for;
// on the smallest of screens one character says how busy the machine is.
func (m *Model) drawMeters(a screen.Area) {
	s := &m.scene.Observation.System
	mem := memoryOf(s)
	busy := s.Busy
	if a.W < 9 {
		role := levelOf(busy.Value, m.limitOf(threshold.CPU))
		switch {
		case !busy.Known:
			a.Fit(0, 0, a.W, style(theme.Dim), unknown)
			return
		case a.W < 4:
			a.Level(0, 0, busy.Or(0)/100, style(role))
			return
		}
		a.Fit(0, 0, a.W, style(role), whole(busy))
		return
	}
	across := max(min(a.W/28, 4), 1)
	width := a.W / across
	i := 0
	next := func() screen.Area {
		at := a.Sub((i/a.H)*width, i%a.H, width-1, 1)
		if i >= a.H*across {
			at = a.Sub(0, 0, 0, 0)
		}
		i++
		return at
	}
	meter := func(name string, f model.Figure, limit float64, note string) {
		at := next()
		role := levelOf(f.Or(0), limit)
		at.Text(0, 0, style(theme.Dim), name)
		used := 7
		if at.W >= 34 && note != "" {
			at.Right(at.W, 0, style(theme.Dim), note)
			used += screen.Width(note) + 1
		}
		gauge := max(at.W-4-used, 0)
		at.Gauge(4, 0, gauge, style(theme.Line), screen.Segment{Share: f.Or(0) / 100, Style: style(role)})
		at.Right(4+gauge+6, 0, bold(role), percent(f))
	}
	meter("CPU", busy, m.limitOf(threshold.CPU), "")
	meter("MEM", mem.taken(), m.limitOf(threshold.Memory), size(mem.used)+"/"+size(mem.total))
	meter("SWP", mem.swapShare(), m.limitOf(threshold.Swap), "")
	read, wrote := diskTotals(s.Disks)
	words := func(name, text string, role theme.Role) {
		at := next()
		at.Text(0, 0, style(theme.Dim), name)
		at.Fit(4, 0, at.W-4, style(role), text)
	}
	rx, tx := m.history.rx.newest(), m.history.tx.newest()
	words("NET", string(m.glyphs.Down)+speed(rx)+" "+string(m.glyphs.Up)+speed(tx), theme.Text)
	words("DSK", "r"+speed(read)+" w"+speed(wrote), theme.Text)
	if s.Load != nil {
		words("LOA", fmt.Sprintf("%.2f %.2f %.2f", s.Load.One, s.Load.Five, s.Load.Fifteen), theme.Text)
	}
	if f := stalled(s.Pressure["cpu"]); f.Known {
		words("PSI", fmt.Sprintf("cpu %s mem %s io %s", decimal(f.Value), decimal(stalled(s.Pressure["memory"]).Or(math.NaN())), decimal(stalled(s.Pressure["io"]).Or(math.NaN()))), theme.Text)
	}
	critical, warnings := m.alerts.pressing("Critical"), m.alerts.pressing("Warning")
	switch {
	case critical > 0:
		words("ALR", plural(critical, "critical alert"), theme.Bad)
	case warnings > 0:
		words("ALR", plural(warnings, "warning"), theme.Warn)
	}
	if r := m.busiest(); r != "" {
		words("TOP", r, theme.Text)
	}
}

// busiest names the process with the most CPU.
func (m *Model) busiest() string {
	var top *model.Process
	var name string
	all := m.scene.Catalogue.All()
	for i := range all {
		if p := all[i].Proc; p != nil && p.CPU.Known && (top == nil || p.CPU.Value > top.CPU.Value) {
			top, name = p, all[i].Name
		}
	}
	if top == nil {
		return ""
	}
	return percent(m.cpuShown(top.CPU)) + " " + m.outside(name)
}

// newest is the last sample.
func (s *series) newest() model.Figure {
	if len(s.samples) == 0 || math.IsNaN(float64(s.samples[len(s.samples)-1])) {
		return model.Figure{}
	}
	return model.Known(float64(s.samples[len(s.samples)-1]))
}
