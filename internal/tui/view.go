package tui

// This file draws a frame: the layout's panels, each by its own function, and
// what lies over them.

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"topside/internal/see/plaintext"
	"topside/internal/see/resource"
	"topside/internal/see/secret"
	"topside/internal/steer/threshold"
	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

// View returns the frame. It is drawn anew only when something has changed.
func (m *Model) View() tea.View {
	if m.stale || m.view == "" {
		m.draw()
		m.view = m.painter.Paint(&m.canvas)
		m.stale = false
	}
	v := tea.NewView(m.view)
	if m.quitting {
		v.Content = ""
	}
	v.AltScreen = true
	v.MouseMode = tea.MouseModeCellMotion
	v.WindowTitle = "topside top"
	return v
}

// draw draws the state into the canvas.
func (m *Model) draw() {
	m.preparePainter()
	m.canvas.Reset(m.width, m.height, m.glyphs)
	m.regions = m.regions[:0]
	m.placed = m.place()
	for _, p := range m.placed {
		a := m.canvas.At(p.Rect)
		if m.scene == nil && p.Panel != layout.Footer {
			continue
		}
		m.drawPanel(p.Panel, a)
	}
	if m.scene == nil {
		m.drawWaiting()
	}
	m.drawOverlay()
}

func (m *Model) preparePainter() {
	with := paintedWith{m.settings.Theme, m.light, m.depth}
	if m.painter != nil && m.painted == with {
		return
	}
	t, ok := theme.ByName(m.settings.Theme, m.light)
	if !ok {
		t, _ = theme.ByName(theme.Names()[0], m.light)
	}
	m.painter, m.painted = screen.NewPainter(t, m.depth), with
}

func (m *Model) place() []layout.Placed {
	if m.full != "" && m.width >= 40 && m.height >= 8 {
		return []layout.Placed{
			{Panel: layout.Header, Rect: screen.Rect{W: m.width, H: 1}},
			{Panel: m.full, Rect: screen.Rect{Y: 1, W: m.width, H: m.height - 2}},
			{Panel: layout.Footer, Rect: screen.Rect{Y: m.height - 1, W: m.width, H: 1}},
		}
	}
	return layout.Place(m.settings.Layout, m.width, m.height, m.wants())
}

// wants says how many rows the panels could fill.
func (m *Model) wants() layout.Wants {
	w := layout.Wants{CPU: m.cpuRows, Disks: 4, Network: 4, Groups: 5, Alerts: 3, Details: m.details.open}
	if m.scene == nil {
		return w
	}
	s := &m.scene.Observation.System
	w.Disks = 3 + len(m.shownDisks()) + len(m.shownFilesystems())
	w.Network = 3 + len(s.Interfaces)
	w.Groups = 3 + m.groups.count
	w.Alerts = 2 + max(m.alerts.count, 1)
	if len(m.sessions) > 0 {
		w.Sessions = 3 + len(m.sessions)
	}
	return w
}

func (m *Model) drawPanel(p layout.Panel, a screen.Area) {
	switch p {
	case layout.Header:
		m.drawHeader(a)
	case layout.Footer:
		m.drawFooter(a)
	case layout.Meters:
		m.drawMeters(a)
	case layout.CPU:
		m.drawCPU(a)
	case layout.Memory:
		m.drawMemory(a)
	case layout.Pressure:
		m.drawPressure(a)
	case layout.Disks:
		m.drawDisks(a)
	case layout.Network:
		m.drawNetwork(a)
	case layout.Processes:
		m.drawProcesses(a)
	case layout.Groups:
		m.drawGroups(a)
	case layout.Alerts:
		m.drawAlerts(a)
	case layout.Sessions:
		m.drawSessions(a)
	case layout.Details:
		m.drawDetails(a)
	}
}

func (m *Model) drawWaiting() {
	a := m.canvas.All()
	text, s := "looking at this machine …", style(theme.Dim)
	if m.failure != "" {
		text, s = m.failure, style(theme.Bad)
	}
	a.Fit(max((a.W-screen.Width(text))/2, 0), a.H/2, a.W, s, text)
}

// style is a foreground on the theme's background.
func style(r theme.Role) theme.Style { return theme.Style{Foreground: r} }

func bold(r theme.Role) theme.Style {
	return theme.Style{Foreground: r, Attributes: theme.Bold}
}

// frame draws a panel's frame; a table that has the focus has a title that
// stands out, and so has a panel whose figure is above its threshold.
func (m *Model) frame(a screen.Area, title, note string, role theme.Role) screen.Area {
	return a.Frame(title, note, style(theme.Line), bold(role), style(theme.Dim))
}

// titled is the title and its colour for a panel whose figure has a threshold.
func (m *Model) titled(title string, v float64, known bool, metric threshold.Metric) (string, theme.Role) {
	if known && v > m.limitOf(metric) {
		return title + " !", theme.Bad
	}
	return title, theme.Accent
}

// outside is text that processes, files and daemons chose, as it may be shown.
func (m *Model) outside(s string) string {
	// Cleaned first: what a terminal would not show must not hide a secret.
	s = plaintext.Line(s)
	if !m.options.ShowSecrets {
		s = secret.Text(s)
	}
	return s
}

// longestCommand bounds what is kept of a command line, in characters.
const longestCommand = 512

// commandLine is the command line of a process as it may be shown. It is made
// once per set of facts, which lasts from one exec to the next.
func (m *Model) commandLine(r *resource.Resource) string {
	f := r.Proc.Facts
	if line, ok := m.lines[f]; ok {
		return line
	}
	line := m.makeCommandLine(r)
	m.lines[f] = line
	return line
}

func (m *Model) makeCommandLine(r *resource.Resource) string {
	f := r.Proc.Facts
	if len(f.Args) == 0 {
		name := plaintext.Line(f.Comm)
		if r.Proc.Kernel {
			return "[" + name + "]"
		}
		return name
	}
	clean := make([]string, 0, len(f.Args))
	for _, arg := range f.Args {
		clean = append(clean, plaintext.Line(arg))
	}
	line := strings.Join(clean, " ")
	if !m.options.ShowSecrets {
		line = secret.CommandLine(clean)
	}
	line, _ = plaintext.Bounded(line, longestCommand)
	return line
}
