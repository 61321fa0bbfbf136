package tui

// This file draws the tables: processes, containers and units, alerts and
// sessions, and the footer.

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/resource"
	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

// tableTitle is the colour of a table's title: it stands out with the focus.
func (m *Model) tableTitle(p layout.Panel) theme.Role {
	if m.focused() == p {
		return theme.Accent
	}
	return theme.Dim
}

func (m *Model) drawProcesses(a screen.Area) {
	t := &m.table
	note := fmt.Sprintf("%d of %d", min(t.cursor+1, len(t.rows)), len(t.rows))
	title := "Processes"
	if t.tree {
		title = "Processes, tree"
	}
	if t.filter != "" && !m.typing {
		title += ": " + t.filter
	}
	in := m.frame(a, title, note, m.tableTitle(layout.Processes))
	if in.H < 2 {
		return
	}
	shown := shownColumns(in.W, m.scratch.columns)
	m.scratch.columns = shown
	m.drawTitles(in.Sub(0, 0, in.W, 1), shown)
	body := in.Sub(0, 1, in.W, in.H-1)
	t.scroll(body.H)
	for y := range body.H {
		at := t.first + y
		if at >= len(t.rows) {
			break
		}
		line := body.Sub(0, y, body.W, 1)
		m.drawProcess(line, shown, &t.rows[at], at == t.cursor)
		m.clickable(line, func() tea.Cmd {
			m.focus = layout.Processes
			if m.table.cursor == at && m.table.follow {
				return m.open()
			}
			m.table.choose(at)
			m.table.follow = true
			return m.readDetails()
		})
	}
	if len(t.rows) == 0 {
		body.Fit(1, 0, body.W-2, style(theme.Dim), "no process matches "+t.filter)
	}
	body.ScrollBar(t.first, body.H, len(t.rows), style(theme.Dim))
}

// columnGap separates columns.
const columnGap = 1

func (m *Model) drawTitles(a screen.Area, shown []columnID) {
	a.Fill(' ', theme.Style{Behind: theme.Bar})
	x := 0
	for _, c := range shown {
		col := &columns[c]
		s := theme.Style{Foreground: theme.Dim, Behind: theme.Bar}
		title := col.title
		if c == byCPU && m.ofMachine {
			title = "CPU%m"
		}
		if m.table.sort == c {
			s.Foreground, s.Attributes = theme.Accent, theme.Bold
			mark := m.glyphs.Marker
			if m.table.ascending {
				mark = m.glyphs.Ascending
			}
			if col.left {
				title += string(mark)
			} else {
				title = string(mark) + title
			}
		}
		width := col.width
		if c == byName {
			width = a.W - x
		}
		if col.left {
			a.Fit(x, 0, width+columnGap, s, title)
		} else {
			a.Right(x+width, 0, s, title)
		}
		m.clickable(a.Sub(x, 0, width+columnGap, 1), func() tea.Cmd { m.orderBy(c); return nil })
		x += width + columnGap
	}
}

// drawProcess draws one line of the table.
func (m *Model) drawProcess(a screen.Area, shown []columnID, r *row, selected bool) {
	base := theme.Style{}
	if r.aside || r.process.Kernel {
		base.Foreground = theme.Dim
	}
	if selected && m.focused() == layout.Processes {
		base.Behind = theme.Selection
		a.Fill(' ', base)
	}
	x := 0
	for _, c := range shown {
		width := columns[c].width
		if c == byName {
			width = a.W - x - 1
		}
		m.drawValue(a.Sub(x, 0, width, 1), c, r, base)
		x += width + columnGap
	}
}

// with is a style with another foreground.
func with(s theme.Style, r theme.Role) theme.Style { s.Foreground = r; return s }

// drawValue draws one value of one process into its column.
func (m *Model) drawValue(a screen.Area, c columnID, r *row, base theme.Style) {
	p := r.process
	right := func(s theme.Style, text string) { a.Right(a.W, 0, s, text) }
	switch c {
	case byPID:
		right(with(base, theme.Dim), strconv.Itoa(int(p.PID)))
	case byUser:
		a.Fit(0, 0, a.W, base, userName(p))
	case byState:
		m.drawState(a, p, base)
	case byNice:
		right(dimZero(base, p.Nice == 0), strconv.Itoa(int(p.Nice)))
	case byThreads:
		right(with(base, theme.Dim), strconv.Itoa(int(p.Threads)))
	case byCPU:
		f := m.cpuShown(p.CPU)
		right(heat(base, f, 10, 80), decimalOf(f))
	case byHistory:
		m.drawTrace(a, p, base)
	case byShare:
		share := m.shareOfRAM(p)
		right(heat(base, share, 5, 40), decimalOf(share))
	case byMemory:
		right(dimZero(base, p.RSS == 0), dot(float64(p.RSS)))
	case byRead:
		right(dimZero(base, p.ReadBytes.Or(0) < 0.5), speed(p.ReadBytes))
	case byWrite:
		right(dimZero(base, p.WriteBytes.Or(0) < 0.5), speed(p.WriteBytes))
	case byTime:
		right(base, cpuTime(p.CPUSeconds))
	case byPlace:
		a.Fit(0, 0, a.W, with(base, theme.Dim), m.outside(m.table.placeOf(p).shown()))
	case byName:
		m.drawCommand(a, r, base)
	}
}

func dot(v float64) string {
	if v == 0 {
		return "·"
	}
	return size(v)
}

// dimZero fades what says nothing.
func dimZero(s theme.Style, nothing bool) theme.Style {
	if nothing {
		s.Foreground = theme.Dim
	}
	return s
}

// heat makes what is large stand out and what is nothing fade.
func heat(s theme.Style, f model.Figure, warm, hot float64) theme.Style {
	switch {
	case f.Or(0) < 0.05:
		s.Foreground = theme.Dim
	case f.Value >= hot:
		s.Foreground, s.Attributes = theme.Bad, theme.Bold
	case f.Value >= warm:
		s.Foreground = theme.Warn
	}
	return s
}

func decimalOf(f model.Figure) string {
	switch {
	case !f.Known:
		return unknown
	case f.Value < 0.05:
		return "·"
	}
	return decimal(f.Value)
}

func userName(p *model.Process) string {
	if p.Facts.User == "" {
		return unknown
	}
	return plaintext.Line(p.Facts.User)
}

func (m *Model) drawState(a screen.Area, p *model.Process, base theme.Style) {
	switch p.State {
	case 'R':
		base.Foreground = theme.Good
	case 'D', 'T', 't':
		base.Foreground = theme.Warn
	case 'Z', 'X':
		base.Foreground = theme.Bad
	default:
		base.Foreground = theme.Dim
	}
	a.Text(0, 0, base, string(rune(p.State)))
}

func (m *Model) drawTrace(a screen.Area, p *model.Process, base theme.Style) {
	samples := m.history.of(p, m.scratch.samples)
	m.scratch.samples = samples
	top := 100.0
	if n := m.scene.Observation.CPUs; n > 0 {
		top /= float64(n) // one core fills it
	}
	a.Graph(samples, top, func(float64) theme.Style { return with(base, theme.CPU) })
}

func (m *Model) shareOfRAM(p *model.Process) model.Figure {
	mem := m.scene.Observation.System.Memory
	if mem == nil || mem.Total == nil || *mem.Total == 0 {
		return model.Figure{}
	}
	return model.Known(float64(p.RSS) / float64(*mem.Total) * 100)
}

// coreShare is a process's CPU in percent of one core.
func (m *Model) coreShare(r *resource.Resource) model.Figure {
	f := r.Proc.CPU
	f.Value *= float64(max(m.scene.Observation.CPUs, 1))
	return f
}

// drawCommand draws the tree's branches and the command line, the program's
// name brighter than its folder and arguments.
func (m *Model) drawCommand(a screen.Area, r *row, base theme.Style) {
	x := 0
	if m.table.tree {
		x = m.drawBranches(a, r, base)
	}
	line := m.commandLine(r.resource)
	if base.Foreground != theme.Text {
		a.Fit(x, 0, a.W-x, base, line)
		return
	}
	program, rest := line, ""
	if i := strings.IndexByte(line, ' '); i >= 0 {
		program, rest = line[:i], line[i:]
	}
	if i := strings.LastIndexByte(program, '/'); i >= 0 && i+1 < len(program) && program[0] == '/' {
		x += a.Text(x, 0, with(base, theme.Dim), program[:i+1])
		program = program[i+1:]
	}
	strong := base
	strong.Attributes |= theme.Bold
	if screen.Width(program) <= a.W-x {
		x += a.Text(x, 0, strong, program)
		a.Fit(x, 0, a.W-x, with(base, theme.Dim), rest)
		return
	}
	a.Fit(x, 0, a.W-x, strong, program)
}

func (m *Model) drawBranches(a screen.Area, r *row, base theme.Style) int {
	line := with(base, theme.Dim)
	x := 0
	g := m.glyphs
	for d := 1; d < r.depth; d++ {
		if r.pass&(1<<d) != 0 {
			a.Text(x, 0, line, g.Pass)
		}
		x += 3
	}
	if r.depth > 0 {
		branch := g.Branch
		if r.last {
			branch = g.Last
		}
		x += a.Text(x, 0, line, branch)
	}
	if r.folded {
		x += a.Text(x, 0, with(base, theme.Accent), "+ ")
	}
	return x
}

func (m *Model) drawGroups(a screen.Area) {
	g := &m.groups
	in := m.frame(a, "Containers and units", itoa(g.count), m.tableTitle(layout.Groups))
	if in.H < 2 {
		return
	}
	name := in.W - 6 - 6 - 5 - 3
	wide := name >= 48
	if wide {
		name -= 14
	}
	header := in.Sub(0, 0, in.W, 1)
	bar := theme.Style{Foreground: theme.Dim, Behind: theme.Bar}
	header.Fill(' ', bar)
	header.Fit(1, 0, name, bar, "NAME")
	x := name
	for _, col := range m.groupColumns(wide) {
		header.Right(x+col.width, 0, bar, col.title)
		x += col.width + 1
	}
	body := in.Sub(0, 1, in.W, in.H-1)
	g.scroll(body.H)
	for y := range body.H {
		at := g.first + y
		if at >= len(g.rows) {
			break
		}
		line := body.Sub(0, y, body.W, 1)
		m.drawGroup(line, g.rows[at], name, wide, at == g.cursor && m.focused() == layout.Groups)
		m.clickable(line, func() tea.Cmd {
			if m.focus == layout.Groups && m.groups.cursor == at {
				return m.open()
			}
			m.focus = layout.Groups
			m.groups.choose(at)
			return nil
		})
	}
	if len(g.rows) == 0 {
		body.Fit(1, 0, body.W-2, style(theme.Dim), "none here")
	}
	body.ScrollBar(g.first, body.H, len(g.rows), style(theme.Dim))
}

type groupColumn struct {
	title string
	width int
}

func (m *Model) groupColumns(wide bool) []groupColumn {
	cols := []groupColumn{{"CPU%", 6}, {"MEM", 6}, {"PROC", 5}}
	if wide {
		cols = append(cols, groupColumn{"READ", 6}, groupColumn{"WRITE", 6})
	}
	return cols
}

func (m *Model) drawGroup(a screen.Area, r *resource.Resource, name int, wide, selected bool) {
	base := theme.Style{}
	if selected {
		base.Behind = theme.Selection
		a.Fill(' ', base)
	}
	kind := base
	if r.Group.Container {
		kind = with(base, theme.Accent)
	}
	a.Fit(1, 0, name-2, kind, m.outside(r.Name))
	cpu := m.cpuShown(r.CPU)
	values := []struct {
		s    theme.Style
		text string
	}{
		{heat(base, cpu, 10, 80), decimalOf(cpu)},
		{base, sizeFigure(r.Memory)},
		{with(base, theme.Dim), itoa(r.Group.Processes)},
	}
	if r.Group.Throttled.Or(0) >= 1 {
		values[0].s = with(base, theme.Bad)
	}
	if wide {
		values = append(values, struct {
			s    theme.Style
			text string
		}{dimZero(base, r.Group.ReadBytes.Or(0) < 0.5), speed(r.Group.ReadBytes)}, struct {
			s    theme.Style
			text string
		}{dimZero(base, r.Group.WriteBytes.Or(0) < 0.5), speed(r.Group.WriteBytes)})
	}
	x := name
	for i, col := range m.groupColumns(wide) {
		a.Right(x+col.width, 0, values[i].s, values[i].text)
		x += col.width + 1
	}
}

func sizeFigure(f model.Figure) string {
	if !f.Known {
		return unknown
	}
	return size(f.Value)
}

func severityRole(severity string) theme.Role {
	switch severity {
	case "Critical":
		return theme.Bad
	case "Warning":
		return theme.Warn
	}
	return theme.Dim
}

func (m *Model) drawAlerts(a screen.Area) {
	t := &m.alerts
	note := ""
	if t.count > 0 {
		note = itoa(t.count)
	}
	in := m.frame(a, "Alerts", note, m.tableTitle(layout.Alerts))
	switch {
	case m.options.Alerts == nil:
		in.Fit(1, 0, in.W-2, style(theme.Dim), "no rules run here")
	case !t.judged:
		in.Fit(1, 0, in.W-2, style(theme.Dim), "looking …")
	case t.count == 0:
		in.Fit(1, 0, in.W-2, style(theme.Good), "nothing to report")
	}
	t.scroll(in.H)
	for y := range in.H {
		at := t.first + y
		if at >= t.count {
			break
		}
		line := in.Sub(0, y, in.W, 1)
		m.drawAlert(line, &t.rows[at], at == t.cursor && m.focused() == layout.Alerts)
		m.clickable(line, func() tea.Cmd {
			if m.focus == layout.Alerts && m.alerts.cursor == at {
				return m.open()
			}
			m.focus = layout.Alerts
			m.alerts.choose(at)
			return nil
		})
	}
	in.ScrollBar(t.first, in.H, t.count, style(theme.Dim))
}

func (m *Model) drawAlert(a screen.Area, r *Alert, selected bool) {
	role := severityRole(r.Severity)
	base := theme.Style{}
	if r.Seen || !r.Ended.IsZero() {
		role, base.Foreground = theme.Dim, theme.Dim
	}
	if selected {
		base.Behind = theme.Selection
		a.Fill(' ', base)
	}
	mark := map[string]string{"Critical": "!!", "Warning": "! "}[r.Severity]
	strong := with(base, role)
	strong.Attributes = theme.Bold
	a.Text(1, 0, strong, mark)
	x := 4
	if a.W >= 50 {
		x += a.Fit(x, 0, a.W-x-1, strong, strings.ReplaceAll(r.Rule, "_", " ")) + 2
	}
	text := r.Message
	if r.Process != "" {
		text = r.Process + ": " + text
	}
	a.Fit(x, 0, a.W-x-1, base, m.outside(text))
}

func (m *Model) drawSessions(a screen.Area) {
	in := m.frame(a, "Sessions", itoa(len(m.sessions)), theme.Dim)
	for y, s := range m.sessions {
		x := 1 + in.Fit(1, y, in.W/2, theme.Style{}, m.outside(s.Name)) + 2
		in.Fit(x, y, in.W-x, style(theme.Dim), m.outside(s.Engine+" "+s.State))
	}
}

// drawFooter draws what can be done next, or what has just happened.
func (m *Model) drawFooter(a screen.Area) {
	switch {
	case m.typing:
		m.drawFilterLine(a)
		return
	case m.status != "" && m.expires.After(m.now()):
		role := theme.Text
		if m.warn {
			role = theme.Warn
		}
		a.Fit(1, 0, a.W-2, style(role), m.status)
		return
	}
	x := 1
	for _, hint := range []struct {
		a    action
		text string
	}{
		{actHelp, "help"}, {actFilter, "filter"}, {actSort, "sort"}, {actTree, "tree"}, {actOpen, "details"}, {actSignal, "signal"},
		{actLayout, "layout"}, {actTheme, "theme"}, {actFocus, "next table"}, {actFull, "full screen"}, {actPalette, "find"}, {actQuit, "quit"},
	} {
		key := label([]string{m.keys.first(hint.a)})
		if key == "" {
			continue
		}
		width := screen.Width(key) + 1 + len(hint.text)
		if x+width > a.W-1 {
			continue
		}
		spot := a.Sub(x, 0, width, 1)
		spot.Text(0, 0, bold(theme.Accent), key)
		spot.Text(screen.Width(key)+1, 0, style(theme.Dim), hint.text)
		m.clickable(spot, func() tea.Cmd { return m.do(hint.a) })
		x += width + 2
	}
}

func (m *Model) drawFilterLine(a screen.Area) {
	x := 1 + a.Text(1, 0, bold(theme.Accent), "Filter ")
	text := m.table.filter
	for screen.Width(text) > max(a.W-x-2, 1) {
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
	}
	x += a.Text(x, 0, theme.Style{}, text)
	cursor := theme.Style{Behind: theme.Selection}
	a.Text(x, 0, cursor, " ")
	if hint := "user: container: unit: pid: state: /regexp/   Enter keep, Esc clear"; x+3+len(hint) < a.W {
		a.Right(a.W-1, 0, style(theme.Dim), hint)
	}
}

// rateWord writes events per second.
func rateWord(f model.Figure) string {
	if !f.Known {
		return unknown
	}
	return decimal(f.Value)
}
