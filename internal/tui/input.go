package tui

// This file does what keys and the mouse ask for.

import (
	"slices"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"topside/internal/see/plaintext"
	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

// key does what a key is bound to. What is open on top gets it first.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	name := keyName(k.String())
	if name == "ctrl+c" {
		return m.quit()
	}
	switch {
	case m.overlay.kind != noOverlay:
		return m.overlayKey(name, k)
	case m.typing:
		return m.typeFilter(name, k.Text)
	}
	return m.do(m.keys.actions[name])
}

// quit ends the view with an empty frame: terminals that were resized meanwhile
// may keep a part of the last one.
func (m *Model) quit() tea.Cmd {
	m.quitting = true
	return tea.Quit
}

// typeFilter edits the filter; the table follows at once.
func (m *Model) typeFilter(name, text string) tea.Cmd {
	switch name {
	case "enter", "tab":
		m.typing = false
	case "esc":
		m.typing = false
		m.table.setFilter("")
	case "backspace":
		m.table.setFilter(withoutLast(m.table.filter))
	case "ctrl+u":
		m.table.setFilter("")
	case "ctrl+w":
		m.table.setFilter(withoutWord(m.table.filter))
	case "up":
		m.table.move(-1)
	case "down":
		m.table.move(1)
	default:
		m.paste(text)
	}
	return nil
}

// paste takes text as if it were typed.
func (m *Model) paste(text string) {
	if text == "" {
		return
	}
	text = plaintext.Line(text)
	switch {
	case m.overlay.kind == paletteOverlay:
		m.overlay.input = bounded(m.overlay.input + text)
		m.overlay.list = list{}
	case m.overlay.kind == noOverlay && m.typing:
		m.table.setFilter(bounded(m.table.filter + text))
	}
}

func bounded(s string) string {
	for len(s) > longestFilter {
		s = withoutLast(s)
	}
	return s
}

func withoutLast(s string) string {
	_, size := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-size]
}

func withoutWord(s string) string {
	for s != "" && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	for s != "" && s[len(s)-1] != ' ' {
		s = withoutLast(s)
	}
	return s
}

// do does an action.
func (m *Model) do(a action) tea.Cmd {
	switch a {
	case actQuit:
		return m.quit()
	case actSuspend:
		return tea.Suspend
	case actHelp:
		m.overlay = overlay{kind: helpOverlay}
	case actPalette:
		m.overlay = overlay{kind: paletteOverlay}
	case actTheme:
		m.chooseTheme(after(theme.Names(), m.settings.Theme, 1))
	case actThemeBack:
		m.chooseTheme(after(theme.Names(), m.settings.Theme, -1))
	case actLayout:
		m.chooseLayout(after(layout.Names(), m.settings.Layout, 1))
	case actLayoutBack:
		m.chooseLayout(after(layout.Names(), m.settings.Layout, -1))
	case actFull:
		m.toggleFull()
	case actFullNext:
		m.full = after(append([]layout.Panel{""}, fullPanels...), m.full, 1)
	case actGlyphs:
		m.glyphs, _ = screen.GlyphsByName(after([]string{"braille", "block", "ascii"}, m.glyphs.Name, 1))
	case actPause:
		m.paused = !m.paused
	case actNow:
		return m.afresh()
	case actFaster:
		return m.pace(-1)
	case actSlower:
		return m.pace(1)
	case actFocus:
		m.focusNext(1)
	case actFocusBack:
		m.focusNext(-1)
	case actFilter:
		m.typing, m.focus = true, layout.Processes
	case actBack:
		m.back()
	default:
		return m.doInTable(a)
	}
	return nil
}

// doInTable does what concerns the rows of a table.
func (m *Model) doInTable(a action) tea.Cmd {
	page := max(m.page(), 1)
	switch a {
	case actUp:
		return m.move(-1)
	case actDown:
		return m.move(1)
	case actPageUp:
		return m.move(-page)
	case actPageDown:
		return m.move(page)
	case actTop:
		return m.move(-1 << 30)
	case actBottom:
		return m.move(1 << 30)
	case actOpen:
		return m.open()
	case actSort:
		m.sortNext(1)
	case actSortBack:
		m.sortNext(-1)
	case actReverse:
		m.table.orderBy(m.table.sort)
	case actByCPU:
		m.orderBy(byCPU)
	case actByMemory:
		m.orderBy(byMemory)
	case actByPID:
		m.orderBy(byPID)
	case actByTime:
		m.orderBy(byTime)
	case actTree:
		m.table.tree = !m.table.tree
		m.table.arrange()
	case actFold:
		m.table.fold()
	case actKernel:
		m.table.noKernel = !m.table.noKernel
		m.table.arrange()
	case actPerCore:
		m.ofMachine = !m.ofMachine
	case actDetails:
		m.details.open = !m.details.open
		return m.readDetails()
	case actSignal:
		return m.askSignal()
	case actSeen:
		m.acknowledge()
	}
	return nil
}

// after is the value that comes by places after v in a ring.
func after[T comparable](ring []T, v T, by int) T {
	if len(ring) == 0 {
		return v
	}
	at := slices.Index(ring, v)
	return ring[((at+by)%len(ring)+len(ring))%len(ring)]
}

func (m *Model) chooseTheme(name string) {
	m.settings.Theme = name
	m.keep("theme " + name)
}

func (m *Model) chooseLayout(name string) {
	m.settings.Layout, m.full = name, ""
	m.suggestOrder()
	m.keep("layout " + name)
}

// keep keeps the theme and the layout in the configuration.
func (m *Model) keep(what string) {
	if err := m.options.Configuration.Choose(m.settings.Theme, m.settings.Layout); err != nil {
		m.tell(true, "%s, for now: %v", what, err)
		return
	}
	m.held.Theme, m.held.Layout = m.settings.Theme, m.settings.Layout
	m.tell(false, "%s", what)
}

// fullPanels are the panels that can have the whole screen.
var fullPanels = []layout.Panel{
	layout.CPU, layout.Memory, layout.Pressure, layout.Disks, layout.Network,
	layout.Processes, layout.Groups, layout.Alerts,
}

func (m *Model) toggleFull() {
	switch {
	case m.full != "":
		m.full = ""
	case m.focused() != layout.Processes && m.focused() != "":
		m.full = m.focused()
	default:
		m.full = layout.CPU
	}
}

// afresh draws the whole screen and takes a sample now.
func (m *Model) afresh() tea.Cmd {
	if m.sampling {
		return tea.ClearScreen
	}
	return tea.Batch(tea.ClearScreen, m.sample())
}

// paces are the intervals that keys choose from.
var paces = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
	3 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// pace changes the interval of this view to the next in paces.
func (m *Model) pace(by int) tea.Cmd {
	now := m.interval()
	next := now
	if by > 0 {
		if i := slices.IndexFunc(paces, func(d time.Duration) bool { return d > now }); i >= 0 {
			next = paces[i]
		}
	} else {
		for _, d := range paces {
			if d < now {
				next = d
			}
		}
	}
	if next == now {
		return nil
	}
	m.tell(false, "a sample every %s", pause(next))
	return m.setInterval(next)
}

func (m *Model) back() {
	switch {
	case m.details.open:
		m.details = detailsPane{}
	case m.full != "":
		m.full = ""
	case m.table.filter != "":
		m.table.setFilter("")
	}
}

// move moves the cursor of the focused table.
func (m *Model) move(by int) tea.Cmd {
	switch m.focused() {
	case layout.Groups:
		m.groups.choose(m.groups.cursor + by)
	case layout.Alerts:
		m.alerts.choose(m.alerts.cursor + by)
	case layout.Processes:
		m.table.move(by)
		return m.readDetails()
	}
	return nil
}

// page is how many rows of the focused table are on the screen.
func (m *Model) page() int {
	for _, p := range m.placed {
		if p.Panel == m.focused() {
			return p.Rect.H - 3
		}
	}
	return 1
}

// open shows more of the selected row.
func (m *Model) open() tea.Cmd {
	switch m.focused() {
	case layout.Groups:
		if r := m.groups.current(); r != nil {
			field := "unit:"
			if r.Group.Container {
				field = "container:"
			}
			m.table.setFilter(field + plaintext.Line(r.Name))
			m.focus = layout.Processes
		}
	case layout.Alerts:
		if a := m.alerts.current(); a != nil {
			m.overlay = overlay{kind: alertOverlay, alert: *a}
		}
	case layout.Processes:
		m.details.open = !m.details.open
		return m.readDetails()
	}
	return nil
}

func (m *Model) acknowledge() {
	a := m.alerts.current()
	if a == nil || m.options.Alerts == nil {
		return
	}
	if err := m.options.Alerts.Acknowledge(a.ID); err != nil {
		m.tell(true, "the alert could not be acknowledged: %v", err)
		return
	}
	a.Seen = true
	m.tell(false, "acknowledged: %s", a.Rule)
}

// sortNext sorts by a column beside the current one, among those shown.
func (m *Model) sortNext(by int) {
	shown := shownColumns(m.tableWidth(), m.scratch.columns)
	shown = slices.DeleteFunc(shown, func(c columnID) bool { return c == byHistory })
	m.orderBy(after(shown, m.table.sort, by))
}

func (m *Model) orderBy(c columnID) {
	m.table.orderBy(c)
	m.focus = layout.Processes
}

// tableWidth is the inner width of the process table.
func (m *Model) tableWidth() int {
	for _, p := range m.placed {
		if p.Panel == layout.Processes {
			return p.Rect.W - 2
		}
	}
	return m.width - 2
}

// A region is a part of the screen that the mouse can click.
type region struct {
	screen.Rect
	click func() tea.Cmd
}

// clickable makes a part of the screen clickable until the next frame.
func (m *Model) clickable(a screen.Area, f func() tea.Cmd) {
	if a.W > 0 && a.H > 0 {
		m.regions = append(m.regions, region{a.Rect, f})
	}
}

// click does what lies under the mouse. What was drawn last lies on top.
func (m *Model) click(at tea.Mouse) tea.Cmd {
	if at.Button != tea.MouseLeft {
		return nil
	}
	for _, r := range slices.Backward(m.regions) {
		if r.Contains(at.X, at.Y) {
			return r.click()
		}
	}
	return nil
}

// wheelRows is how far one notch of the wheel goes.
const wheelRows = 3

// wheel scrolls the table under the mouse.
func (m *Model) wheel(at tea.Mouse) {
	by := 0
	switch at.Button {
	case tea.MouseWheelUp:
		by = -wheelRows
	case tea.MouseWheelDown:
		by = wheelRows
	}
	if m.overlay.kind != noOverlay {
		m.overlay.list.cursor = max(m.overlay.list.cursor+by, 0)
		return
	}
	for _, p := range m.placed {
		if !p.Rect.Contains(at.X, at.Y) {
			continue
		}
		switch p.Panel {
		case layout.Groups:
			m.groups.choose(m.groups.cursor + by)
		case layout.Alerts:
			m.alerts.choose(m.alerts.cursor + by)
		case layout.Processes:
			m.table.move(by)
		}
	}
}
