package tui

// This file holds the state of the view and what happens to it: the messages
// of the terminal, of the clock and of the observer.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"topside/internal/see"
	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/sample"
	"topside/internal/steer/threshold"
	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

// A Model is the view. It is a [tea.Model]; its methods are called by one
// goroutine.
type Model struct {
	ctx     context.Context
	options Options

	width, height int
	depth         theme.Depth
	light         bool
	glyphs        screen.Glyphs
	canvas        screen.Canvas
	painter       *screen.Painter
	painted       paintedWith

	settings Settings
	keys     keymap
	custom   map[string][]string // the bindings that keys was made of
	// held says that the settings were chosen on the command line and hold
	// until they are changed anywhere.
	held Settings

	scene    *Scene
	failure  string // why the last sample failed
	sampling bool
	paused   bool
	ticked   int // generation of the clock
	history  *history

	table     table
	groups    groupTable
	alerts    alertTable
	sessions  []Session
	focus     layout.Panel
	full      layout.Panel // "" when no panel has the whole screen
	placed    []layout.Placed
	details   detailsPane
	overlay   overlay
	typing    bool // the filter is being typed
	ofMachine bool // CPU% of the machine, not of a core

	status  string
	warn    bool
	expires time.Time
	now     func() time.Time

	regions []region
	lines   map[*sample.Facts]string // command lines as they are shown
	scratch struct {
		columns []columnID
		samples []float32
	}
	view     string
	stale    bool // the view is not that of the state
	quitting bool
}

// paintedWith is what a painter was made for.
type paintedWith struct {
	theme string
	light bool
	depth theme.Depth
}

// newModel makes the view; nothing runs until its Init's commands do.
func newModel(ctx context.Context, o Options) *Model {
	m := &Model{
		ctx: ctx, options: o, width: 80, height: 24, glyphs: o.Glyphs, history: newHistory(), table: newTable(),
		focus: layout.Processes, now: time.Now, lines: map[*sample.Facts]string{}, stale: true, sampling: true,
	}
	if m.glyphs.Name == "" {
		m.glyphs = screen.Braille
	}
	m.settings = o.Configuration.Current()
	m.custom = m.settings.Keys
	var remarks []string
	m.keys, remarks = newKeymap(m.custom)
	m.held = m.settings
	if o.Theme != "" {
		m.settings.Theme = o.Theme
	}
	if o.Layout != "" {
		m.settings.Layout = o.Layout
	}
	if o.Interval != 0 {
		m.settings.Interval = o.Interval
	}
	m.suggestOrder()
	switch {
	case m.settings.Fault != "":
		m.tell(true, "%s", m.settings.Fault)
	case len(remarks) > 0:
		m.tell(true, "%s", remarks[0])
	}
	return m
}

// The messages of the view's own.
type (
	sampled struct {
		scene    *Scene
		alerts   []Alert
		judged   bool
		sessions []Session
		err      error
	}
	tick     struct{ generation int }
	look     struct{} // at the configuration
	detailed struct {
		target  Target
		details *see.Details
	}
	previewed struct {
		target  Target
		signal  string
		preview Preview
		err     error
	}
	signalled struct {
		text string
		err  error
	}
)

// lookEvery is how often the configuration is looked at while samples are
// farther apart.
const lookEvery = time.Second

// Init starts sampling.
func (m *Model) Init() tea.Cmd {
	return tea.Batch(m.sample(), m.tickAfter(m.interval()), m.lookLater(), tea.RequestBackgroundColor)
}

// sample takes an observation in the background.
func (m *Model) sample() tea.Cmd {
	m.sampling = true
	o := m.options
	return func() tea.Msg {
		scene, err := o.Source.Sample(m.ctx)
		if err != nil {
			return sampled{err: err}
		}
		out := sampled{scene: scene}
		if o.Alerts != nil {
			out.alerts, err = o.Alerts.Judge(m.ctx, scene)
			out.judged = err == nil
		}
		if o.Sessions != nil {
			out.sessions, _ = o.Sessions.List(m.ctx)
		}
		return out
	}
}

func (m *Model) tickAfter(d time.Duration) tea.Cmd {
	m.ticked++
	generation := m.ticked
	return tea.Tick(d, func(time.Time) tea.Msg { return tick{generation} })
}

func (m *Model) lookLater() tea.Cmd {
	return tea.Tick(min(lookEvery, m.interval()), func(time.Time) tea.Msg { return look{} })
}

func (m *Model) interval() time.Duration {
	return min(max(m.settings.Interval, see.MinInterval), time.Hour)
}

// Update takes one message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.stale = true
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	case tea.ColorProfileMsg:
		m.depth = depthOf(msg.Profile)
	case tea.BackgroundColorMsg:
		m.light = !msg.IsDark()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		m.paste(msg.Content)
	case tea.MouseClickMsg:
		return m, m.click(tea.Mouse(msg))
	case tea.MouseWheelMsg:
		m.wheel(tea.Mouse(msg))
	case tick:
		return m, m.tick(msg)
	case look:
		return m, tea.Batch(m.obey(m.options.Configuration.Current()), m.lookLater())
	case sampled:
		return m, m.take(msg)
	case detailed:
		m.details.take(msg)
	case previewed:
		m.overlay.take(msg)
	case signalled:
		m.report(msg)
	default:
		m.stale = false
	}
	return m, nil
}

func depthOf(p colorprofile.Profile) theme.Depth {
	switch {
	case p >= colorprofile.ANSI256:
		return theme.Full
	case p == colorprofile.ANSI:
		return theme.Sixteen
	}
	return theme.None
}

// tick begins the next sample. A sample that takes longer than the interval is
// not overtaken.
func (m *Model) tick(t tick) tea.Cmd {
	m.stale = false
	if t.generation != m.ticked {
		return nil
	}
	next := m.tickAfter(m.interval())
	if m.paused || m.sampling {
		return next
	}
	return tea.Batch(m.sample(), next)
}

// take shows a sample.
func (m *Model) take(s sampled) tea.Cmd {
	m.sampling = false
	if s.err != nil {
		if !errors.Is(s.err, context.Canceled) {
			m.failure = plaintext.Line(s.err.Error())
		}
		return nil
	}
	m.failure = ""
	m.scene = s.scene
	m.history.add(s.scene.Observation)
	m.table.show(s.scene)
	m.groups.show(s.scene)
	if s.judged {
		m.alerts.show(s.alerts)
	}
	m.sessions = s.sessions
	m.forgetLines()
	if m.expires.Before(m.now()) {
		m.status = ""
	}
	return m.readDetails()
}

// forgetLines bounds the command lines that are remembered.
func (m *Model) forgetLines() {
	if len(m.lines) > 1024 {
		clear(m.lines)
	}
}

// obey takes over settings that were changed elsewhere.
func (m *Model) obey(now Settings) tea.Cmd {
	was := m.held
	m.held = now
	changed := false
	if now.Theme != was.Theme {
		m.settings.Theme, changed = now.Theme, true
	}
	if now.Layout != was.Layout {
		m.settings.Layout, changed = now.Layout, true
		m.suggestOrder()
	}
	m.settings.Thresholds = now.Thresholds
	if now.Fault != was.Fault && now.Fault != "" {
		m.tell(true, "%s", now.Fault)
		changed = true
	}
	if !sameKeys(now.Keys, m.custom) {
		var remarks []string
		m.custom = now.Keys
		m.keys, remarks = newKeymap(now.Keys)
		if len(remarks) > 0 {
			m.tell(true, "%s", remarks[0])
		}
		changed = true
	}
	m.stale = changed
	if now.Interval != was.Interval {
		return m.setInterval(now.Interval)
	}
	return nil
}

func sameKeys(a, b map[string][]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, keys := range a {
		if !slices.Equal(keys, b[name]) {
			return false
		}
	}
	return true
}

// setInterval changes how often a sample is taken, from now on.
func (m *Model) setInterval(d time.Duration) tea.Cmd {
	m.settings.Interval = d
	m.stale = true
	source, interval := m.options.Source, m.interval()
	retune := func() tea.Msg {
		if err := source.Retune(interval); err != nil {
			return signalled{err: fmt.Errorf("the interval could not be changed: %w", err)}
		}
		return nil
	}
	return tea.Batch(retune, m.tickAfter(interval))
}

// suggestOrder sorts as the layout suggests, until a person chose an order.
func (m *Model) suggestOrder() {
	if m.table.chosen {
		return
	}
	by := byCPU
	if m.settings.Layout == "Memory Focus" {
		by = byMemory
	}
	if m.table.sort != by {
		m.table.sort, m.table.ascending = by, columns[by].ascending
		m.table.arrange()
	}
}

// statusFor is how long a message stays in the footer.
const statusFor = 6 * time.Second

func (m *Model) tell(warn bool, format string, args ...any) {
	m.status, m.warn = plaintext.Line(strings.TrimSpace(fmt.Sprintf(format, args...))), warn
	m.expires = m.now().Add(statusFor)
}

func (m *Model) report(s signalled) {
	if s.err != nil {
		m.tell(true, "%v", s.err)
		return
	}
	m.tell(false, "%s", s.text)
}

// limitOf is the threshold that recolours a figure, in percent.
func (m *Model) limitOf(metric threshold.Metric) float64 {
	return m.settings.Thresholds.Of(metric).Limit
}

// cpuShown is a process's CPU as the table shows it.
func (m *Model) cpuShown(f model.Figure) model.Figure {
	if !m.ofMachine && m.scene != nil {
		f.Value *= float64(max(m.scene.Observation.CPUs, 1))
	}
	return f
}
