package tui

// This file holds what lies over the panels for a while: the help, the
// palette, an alert's evidence, and the question before a signal.

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"topside/internal/see/plaintext"
	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

// An overlayKind says what is open.
type overlayKind int

const (
	noOverlay overlayKind = iota
	helpOverlay
	paletteOverlay
	alertOverlay
	signalOverlay
)

// An overlay is what is open over the panels.
type overlay struct {
	kind  overlayKind
	list  list
	input string // of the palette
	alert Alert

	target  Target // of a signal
	owner   string
	preview *Preview // nil while it is being made
	fault   string
}

// signals are those that can be sent, the default first.
var signals = []struct{ name, does string }{
	{"TERM", "ask it to end"},
	{"KILL", "end it at once; it cannot clean up"},
	{"INT", "interrupt it, as Ctrl+C does"},
	{"HUP", "hang up; many daemons reload"},
	{"STOP", "stop it until CONT"},
	{"CONT", "let it go on"},
	{"USR1", "what the program makes of it"},
	{"USR2", "what the program makes of it"},
}

// overlayKey gives a key to what is open.
func (m *Model) overlayKey(name string, k tea.KeyPressMsg) tea.Cmd {
	o := &m.overlay
	page := max(m.height-6, 1)
	switch name {
	case "esc":
		m.overlay = overlay{}
		return nil
	case "up":
		o.list.cursor = max(o.list.cursor-1, 0)
		return m.previewSignal()
	case "down":
		o.list.cursor++
		return m.previewSignal()
	case "pgup":
		o.list.cursor = max(o.list.cursor-page, 0)
		return m.previewSignal()
	case "pgdown":
		o.list.cursor += page
		return m.previewSignal()
	}
	switch o.kind {
	case paletteOverlay:
		return m.paletteKey(name, k.Text)
	case signalOverlay:
		return m.signalKey(name)
	default:
		if a := m.keys.actions[name]; a == actQuit || a == actHelp || a == actOpen || a == actBack {
			m.overlay = overlay{}
		} else if a == actSeen && o.kind == alertOverlay {
			m.acknowledge()
			m.overlay = overlay{}
		}
	}
	return nil
}

// An entry is one line of the palette.
type entry struct {
	text string
	keys string
	do   func() tea.Cmd
}

// entries are the lines that match what was typed.
func (m *Model) entries() []entry {
	var all []entry
	for _, b := range bindings {
		if b.action == actPalette || b.action == actUp || b.action == actDown {
			continue
		}
		all = append(all, entry{b.does, label(m.keys.keys[b.action]), func() tea.Cmd { return m.do(b.action) }})
	}
	for _, name := range layout.Names() {
		all = append(all, entry{"layout " + name, "", func() tea.Cmd { m.chooseLayout(name); return nil }})
	}
	for _, name := range theme.Names() {
		all = append(all, entry{"theme " + name, "", func() tea.Cmd { m.chooseTheme(name); return nil }})
	}
	words := strings.Fields(strings.ToLower(m.overlay.input))
	return slices.DeleteFunc(all, func(e entry) bool {
		for _, w := range words {
			if !containsFold(e.text, w) {
				return true
			}
		}
		return false
	})
}

func (m *Model) paletteKey(name, text string) tea.Cmd {
	switch name {
	case "enter":
		entries := m.entries()
		at := min(m.overlay.list.cursor, len(entries)-1)
		m.overlay = overlay{}
		if at >= 0 {
			return entries[at].do()
		}
	case "backspace":
		m.overlay.input, m.overlay.list = withoutLast(m.overlay.input), list{}
	case "ctrl+u":
		m.overlay.input, m.overlay.list = "", list{}
	default:
		m.paste(text)
	}
	return nil
}

// askSignal opens the question for the selected process. It is bound to that
// process, whatever the table does meanwhile.
func (m *Model) askSignal() tea.Cmd {
	r := m.table.current()
	switch {
	case m.options.Actor == nil:
		m.tell(true, "signals cannot be sent from here")
		return nil
	case r == nil || m.focused() != layout.Processes:
		m.tell(true, "select a process first")
		return nil
	}
	target := targetOf(r.resource)
	target.Name, _ = plaintext.Bounded(r.resource.Name, 32)
	m.overlay = overlay{kind: signalOverlay, target: target, owner: plaintext.Line(r.process.Facts.User)}
	return m.previewSignal()
}

// previewSignal asks what the chosen signal would do.
func (m *Model) previewSignal() tea.Cmd {
	o := &m.overlay
	if o.kind != signalOverlay {
		return nil
	}
	o.list.cursor = min(o.list.cursor, len(signals)-1)
	o.preview, o.fault = nil, ""
	target, signal, actor := o.target, signals[o.list.cursor].name, m.options.Actor
	return func() tea.Msg {
		p, err := actor.Preview(m.ctx, target, signal)
		return previewed{target: target, signal: signal, preview: p, err: err}
	}
}

// take shows a preview, unless it is of a question that is no longer asked.
func (o *overlay) take(p previewed) {
	if o.kind != signalOverlay || o.target != p.target || signals[o.list.cursor].name != p.signal {
		return
	}
	if p.err != nil {
		o.fault = plaintext.Line(p.err.Error())
		return
	}
	o.preview = &p.preview
}

// signalKey sends the signal on y, once it is known that it may be sent.
func (m *Model) signalKey(name string) tea.Cmd {
	o := &m.overlay
	switch name {
	case "y", "Y":
		if o.preview == nil || o.preview.Refusal != "" {
			return nil
		}
		target, signal, actor := o.target, signals[o.list.cursor].name, m.options.Actor
		m.overlay = overlay{}
		m.tell(false, "sending SIG%s to %d (%s) …", signal, target.PID, target.Name)
		return func() tea.Msg {
			text, err := actor.Signal(m.ctx, target, signal)
			return signalled{text, err}
		}
	case "n", "N", "q":
		m.overlay = overlay{}
	}
	return nil
}

// A box is the lines of an overlay.
type box struct {
	title, foot string
	lines       []boxLine
	cursor      int // of the line that is selected; -1 without
	width       int
}

type boxLine struct {
	text, right string
	style       theme.Style
}

func (b *box) add(style theme.Style, text string) {
	b.lines = append(b.lines, boxLine{text: text, style: style})
}

// wrap adds text over several lines.
func (b *box) wrap(style theme.Style, indent, text string) {
	room := max(b.width-screen.Width(indent), 8)
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case screen.Width(line)+1+screen.Width(word) > room:
			b.add(style, indent+line)
			line = word
		default:
			line += " " + word
		}
		for screen.Width(line) > room {
			cut := cutAt(line, room)
			b.add(style, indent+line[:cut])
			line = line[cut:]
		}
	}
	if line != "" {
		b.add(style, indent+line)
	}
}

// cutAt is the byte at which a text is room columns wide.
func cutAt(s string, room int) int {
	width := 0
	for i, r := range s {
		w := screen.Width(string(r))
		if width+w > room && i > 0 {
			return i
		}
		width += w
	}
	return len(s)
}

// drawOverlay draws what is open in the middle of the screen.
func (m *Model) drawOverlay() {
	var b box
	b.cursor = -1
	b.width = min(m.width-6, 72)
	switch m.overlay.kind {
	case helpOverlay:
		m.helpBox(&b)
	case paletteOverlay:
		m.paletteBox(&b)
	case alertOverlay:
		m.alertBox(&b)
	case signalOverlay:
		m.signalBox(&b)
	default:
		return
	}
	m.regions = m.regions[:0] // what lies below cannot be clicked
	m.drawBox(&b)
}

func (m *Model) drawBox(b *box) {
	w, h := min(b.width+4, m.width), min(len(b.lines)+3, m.height)
	all := m.canvas.All()
	if m.width >= 20 && m.height >= 6 {
		all.Restyle(func(theme.Style) theme.Style {
			return theme.Style{Foreground: theme.Line}
		})
	}
	a := all.Sub((m.width-w)/2, max((m.height-h)/2, 0), w, h)
	a.Fill(' ', theme.Style{})
	in := a.Frame(b.title, "", style(theme.Accent), bold(theme.Accent), style(theme.Dim))
	if w >= 12 && in.H > 1 {
		in.Fit(1, in.H-1, in.W-2, style(theme.Dim), b.foot)
		in = in.Sub(1, 0, in.W-2, in.H-1)
	}
	first := m.overlay.list.cursor
	if b.cursor >= 0 {
		first = scrolled(m.overlay.list.first, b.cursor, in.H, len(b.lines))
	} else {
		first = max(min(first, len(b.lines)-in.H), 0)
		m.overlay.list.cursor = first
	}
	m.overlay.list.first = first
	for y := range in.H {
		i := first + y
		if i >= len(b.lines) {
			break
		}
		line := b.lines[i]
		s := line.style
		if i == b.cursor {
			s.Behind = theme.Selection
			in.Sub(0, y, in.W, 1).Fill(' ', s)
		}
		in.Fit(0, y, in.W-screen.Width(line.right)-1, s, line.text)
		right := style(theme.Dim)
		right.Behind = s.Behind
		in.Right(in.W, y, right, line.right)
		if b.cursor >= 0 {
			m.clickable(in.Sub(0, y, in.W, 1), func() tea.Cmd { return m.clickLine(i) })
		}
	}
	in.ScrollBar(first, in.H, len(b.lines), style(theme.Dim))
}

// clickLine selects a line of an overlay; in the palette, a selected one is done.
func (m *Model) clickLine(i int) tea.Cmd {
	o := &m.overlay
	if o.kind == paletteOverlay && o.list.cursor == i {
		return m.paletteKey("enter", "")
	}
	o.list.cursor = i
	return m.previewSignal()
}

func (m *Model) helpBox(b *box) {
	b.title, b.foot = "Keys", "↑ ↓ scroll · Esc close"
	for _, each := range bindings {
		keys := label(m.keys.keys[each.action])
		if keys == "" {
			keys = "–"
		}
		b.lines = append(b.lines, boxLine{text: fmt.Sprintf("%-16s %s", keys, each.does)})
	}
	b.add(theme.Style{}, "")
	b.add(bold(theme.Accent), "Mouse")
	b.add(theme.Style{}, "Click a row to select it, a column's title to sort by it.")
	b.add(theme.Style{}, "The wheel scrolls what is below it.")
	b.add(theme.Style{}, "")
	b.add(bold(theme.Accent), "Filter")
	b.wrap(theme.Style{}, "", "Words that must all match the name or the command line: nginx, user:www, container:shop, unit:cron, pid:1, state:D, /regular.expression/.")
	b.add(theme.Style{}, "")
	b.wrap(style(theme.Dim), "", "CPU% is of one core: a process that keeps two busy has 200. Dots are zeroes, dashes are what could not be read.")
}

func (m *Model) paletteBox(b *box) {
	b.title, b.foot = "Find: "+m.overlay.input+"▏", "Enter do · Esc close"
	if m.glyphs.Only {
		b.title = "Find: " + m.overlay.input + "_"
	}
	b.width = min(b.width, 52)
	entries := m.entries()
	for _, e := range entries {
		b.lines = append(b.lines, boxLine{text: e.text, right: e.keys})
	}
	if len(entries) == 0 {
		b.add(style(theme.Dim), "nothing is called that")
		return
	}
	m.overlay.list.cursor = min(m.overlay.list.cursor, len(entries)-1)
	b.cursor = m.overlay.list.cursor
}

func (m *Model) alertBox(b *box) {
	a := &m.overlay.alert
	b.title, b.foot = a.Severity+": "+a.Rule, label(m.keys.keys[actSeen])+" acknowledge · Esc close"
	b.wrap(bold(severityRole(a.Severity)), "", a.Message)
	b.add(theme.Style{}, "")
	who := plaintext.Line(a.Process)
	if a.PID != 0 {
		who += " " + itoa(int(a.PID))
	}
	if a.Count > 1 {
		who += fmt.Sprintf(", and %d more", a.Count-1)
	}
	if strings.TrimSpace(who) != "" {
		b.add(style(theme.Dim), who)
	}
	since := "since " + a.Since.Format("15:04:05")
	if !a.Ended.IsZero() {
		since = "from " + a.Since.Format("15:04:05") + " to " + a.Ended.Format("15:04:05")
	}
	if a.Seen {
		since += ", acknowledged"
	}
	b.add(style(theme.Dim), since)
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		b.add(theme.Style{}, "")
		b.add(bold(theme.Accent), title)
		for _, line := range lines {
			b.wrap(theme.Style{}, "  ", m.outside(line))
		}
	}
	section("Evidence", a.Evidence)
	section("What to look at next", a.Next)
}

func (m *Model) signalBox(b *box) {
	o := &m.overlay
	b.title, b.foot = "Signal "+itoa(int(o.target.PID))+" "+o.target.Name, "y send · ↑ ↓ choose · Esc cancel"
	b.width = min(b.width, 60)
	for _, s := range signals {
		b.lines = append(b.lines, boxLine{text: fmt.Sprintf("SIG%-5s %s", s.name, s.does)})
	}
	b.cursor = o.list.cursor
	b.add(theme.Style{}, "")
	switch {
	case o.fault != "":
		b.wrap(style(theme.Bad), "", o.fault)
	case o.preview == nil:
		b.add(style(theme.Dim), "looking at the process …")
	case o.preview.Refusal != "":
		b.wrap(style(theme.Bad), "", "It would be refused: "+plaintext.Line(o.preview.Refusal))
	default:
		for _, note := range o.preview.Notes {
			b.wrap(style(theme.Dim), "", m.outside(note))
		}
		b.wrap(bold(theme.Warn), "", fmt.Sprintf("Send SIG%s to %s (%d, %s)?", signals[o.list.cursor].name, o.target.Name, o.target.PID, o.owner))
	}
}
