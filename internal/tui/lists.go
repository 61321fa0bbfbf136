package tui

// This file holds the smaller tables: containers and units, and alerts.

import (
	"cmp"
	"slices"

	"topside/internal/see/resource"
	"topside/internal/tui/layout"
)

// A list is where the cursor of a table is.
type list struct{ cursor, first, count int }

func (l *list) choose(at int) { l.cursor = max(min(at, l.count-1), 0) }

func (l *list) scroll(visible int) { l.first = scrolled(l.first, l.cursor, visible, l.count) }

// A groupTable is the containers and units, the busiest first.
type groupTable struct {
	list
	rows   []*resource.Resource
	chosen string // what the cursor is on
}

func (g *groupTable) show(s *Scene) {
	g.rows = g.rows[:0]
	all := s.Catalogue.All()
	for i := range all {
		if all[i].Group != nil {
			g.rows = append(g.rows, &all[i])
		}
	}
	slices.SortFunc(g.rows, func(a, b *resource.Resource) int {
		return cmp.Or(
			cmp.Compare(b.CPU.Or(-1), a.CPU.Or(-1)),
			cmp.Compare(b.Memory.Or(-1), a.Memory.Or(-1)),
			cmp.Compare(a.Group.Key, b.Group.Key),
		)
	})
	g.count = len(g.rows)
	if at := slices.IndexFunc(g.rows, func(r *resource.Resource) bool { return r.Group.Key == g.chosen }); at >= 0 && g.cursor > 0 {
		g.cursor = at
	}
	g.choose(g.cursor)
}

func (g *groupTable) choose(at int) {
	g.list.choose(at)
	if r := g.current(); r != nil {
		g.chosen = r.Group.Key
	}
}

func (g *groupTable) current() *resource.Resource {
	if g.cursor < len(g.rows) {
		return g.rows[g.cursor]
	}
	return nil
}

// An alertTable is the alerts, the most severe first.
type alertTable struct {
	list
	rows   []Alert
	judged bool // the rules have run at least once
}

func (a *alertTable) show(alerts []Alert) {
	var id string
	if r := a.current(); r != nil {
		id = r.ID
	}
	a.rows, a.count, a.judged = alerts, len(alerts), true
	if at := slices.IndexFunc(alerts, func(r Alert) bool { return r.ID == id }); at >= 0 && a.cursor > 0 {
		a.cursor = at
	}
	a.choose(a.cursor)
}

func (a *alertTable) current() *Alert {
	if a.cursor < len(a.rows) {
		return &a.rows[a.cursor]
	}
	return nil
}

// pressing counts the alerts that last and were not acknowledged.
func (a *alertTable) pressing(severity string) int {
	n := 0
	for i := range a.rows {
		if r := &a.rows[i]; r.Severity == severity && r.Ended.IsZero() && !r.Seen {
			n++
		}
	}
	return n
}

// tables are the panels that can have the focus, in the order of Tab.
var tables = []layout.Panel{layout.Processes, layout.Groups, layout.Alerts}

// focused is the table that keys go to: the one that was chosen if it is on
// the screen, else the first that is.
func (m *Model) focused() layout.Panel {
	on := m.tablesShown()
	if len(on) == 0 {
		return ""
	}
	if slices.Contains(on, m.focus) {
		return m.focus
	}
	return on[0]
}

func (m *Model) tablesShown() []layout.Panel {
	var on []layout.Panel
	for _, p := range tables {
		if slices.ContainsFunc(m.placed, func(at layout.Placed) bool { return at.Panel == p }) {
			on = append(on, p)
		}
	}
	return on
}

func (m *Model) focusNext(by int) {
	on := m.tablesShown()
	if len(on) == 0 {
		return
	}
	at := slices.Index(on, m.focused())
	m.focus = on[(at+by+len(on))%len(on)]
}
