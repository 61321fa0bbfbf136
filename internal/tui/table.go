package tui

// This file holds the process table: which processes it shows, in which order,
// and which of them is selected.

import (
	"cmp"
	"slices"
	"strings"

	"topside/internal/see/model"
	"topside/internal/see/resource"
)

// A row is one line of the table.
type row struct {
	process  *model.Process
	resource *resource.Resource
	depth    int
	last     bool   // no sibling follows
	pass     uint64 // bit i: an ancestor at depth i has siblings below
	folded   bool   // has children that are not shown
	aside    bool   // shown only since a descendant matches the filter
}

// A place is what a process belongs to.
type place struct{ container, unit string }

// A table is the process table between frames.
type table struct {
	scene  *Scene
	rows   []row
	places []place // by group
	order  []*resource.Resource

	sort      columnID
	ascending bool
	chosen    bool // the order was chosen by a person
	tree      bool
	noKernel  bool
	filter    string
	terms     []term
	folds     map[Target]bool

	selected Target
	cursor   int
	first    int // the first row on the screen
	follow   bool

	forest forest
}

// A forest is reused between ticks to arrange rows as a tree.
type forest struct {
	byPID    map[int32]int
	children [][]int
	kept     []bool
	matches  []bool
	visited  []bool
}

func newTable() table {
	return table{sort: byCPU, folds: map[Target]bool{}, forest: forest{byPID: map[int32]int{}}}
}

// show takes a new scene.
func (t *table) show(s *Scene) {
	t.scene = s
	t.nameGroups()
	t.arrange()
}

// nameGroups finds, for each group of the observation, the names of the
// innermost container and unit around it.
func (t *table) nameGroups() {
	groups := t.scene.Observation.Groups
	names := make(map[*model.Group]string, len(groups))
	all := t.scene.Catalogue.All()
	for i := range all {
		if g := all[i].Group; g != nil {
			names[g] = all[i].Name
		}
	}
	t.places = slices.Grow(t.places[:0], len(groups))[:len(groups)]
	for i := range groups {
		var p place
		for g, hops := i, 0; g >= 0 && g < len(groups) && hops <= len(groups); g, hops = groups[g].Parent, hops+1 {
			switch name := names[&groups[g]]; {
			case groups[g].Container && p.container == "":
				p.container = name
			case !groups[g].Container && p.unit == "":
				p.unit = name
			}
		}
		t.places[i] = p
	}
}

func (t *table) placeOf(p *model.Process) place {
	if p.Group < 0 || p.Group >= len(t.places) {
		return place{}
	}
	return t.places[p.Group]
}

// arrange makes the rows anew and finds the selected process among them.
func (t *table) arrange() {
	if t.scene == nil {
		return
	}
	t.order = t.order[:0]
	all := t.scene.Catalogue.All()
	for i := range all {
		if p := all[i].Proc; p != nil && !(t.noKernel && p.Kernel) {
			t.order = append(t.order, &all[i])
		}
	}
	t.rows = t.rows[:0]
	if t.tree {
		t.sorted()
		t.grow()
	} else {
		t.order = slices.DeleteFunc(t.order, func(r *resource.Resource) bool { return !t.keeps(r.Proc, r.Name) })
		t.sorted()
		for _, r := range t.order {
			t.rows = append(t.rows, row{process: r.Proc, resource: r})
		}
	}
	t.find()
}

// sorted puts the processes in order; equal ones by PID, so that rows do not
// jump about.
func (t *table) sorted() {
	compare := columns[t.sort].compare
	sign := -1
	if t.ascending {
		sign = 1
	}
	slices.SortFunc(t.order, func(a, b *resource.Resource) int {
		return cmp.Or(sign*compare(t, a, b), cmp.Compare(a.Proc.PID, b.Proc.PID))
	})
}

// grow adds the rows of a tree: children below their parents, siblings in the
// table's order. A process whose parent is not there, or is itself through a
// contradiction in the sample, is a root.
func (t *table) grow() {
	f := &t.forest
	n := len(t.order)
	clear(f.byPID)
	for i, r := range t.order {
		f.byPID[r.Proc.PID] = i
	}
	f.children = slices.Grow(f.children[:0], n)[:n]
	f.kept, f.matches, f.visited = zeroed(f.kept, n), zeroed(f.matches, n), zeroed(f.visited, n)
	for i := range f.children {
		f.children[i] = f.children[i][:0]
	}
	var roots []int
	for i, r := range t.order {
		if parent, ok := f.byPID[r.Proc.PPID]; ok && parent != i {
			f.children[parent] = append(f.children[parent], i)
		} else {
			roots = append(roots, i)
		}
	}
	t.mark()
	for i, root := range roots {
		t.branch(root, 0, 0, i == len(roots)-1)
	}
	for i := range t.order { // what is on a cycle has no root
		if !f.visited[i] {
			t.branch(i, 0, 0, true)
		}
	}
}

func zeroed(s []bool, n int) []bool {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// mark keeps what matches the filter, and its ancestors.
func (t *table) mark() {
	f := &t.forest
	for i, r := range t.order {
		if !t.keeps(r.Proc, r.Name) {
			continue
		}
		f.matches[i] = true
		for at, ok := i, true; ok && !f.kept[at]; {
			f.kept[at] = true
			at, ok = f.byPID[t.order[at].Proc.PPID]
		}
	}
}

// deepest bounds how far a tree is drawn, and the recursion.
const deepest = 60

func (t *table) branch(i, depth int, pass uint64, last bool) {
	f := &t.forest
	if f.visited[i] || !f.kept[i] {
		f.visited[i] = true
		return
	}
	f.visited[i] = true
	r := t.order[i]
	kept := slices.DeleteFunc(f.children[i], func(c int) bool { return !f.kept[c] || f.visited[c] })
	folded := t.folds[targetOf(r)] && len(kept) > 0
	t.rows = append(t.rows, row{process: r.Proc, resource: r, depth: depth, last: last, pass: pass, folded: folded, aside: !f.matches[i]})
	if folded {
		t.hide(kept)
		return
	}
	if !last {
		pass |= 1 << min(depth, deepest)
	}
	for j, c := range kept {
		t.branch(c, min(depth+1, deepest), pass, j == len(kept)-1)
	}
}

// hide marks a folded subtree as done.
func (t *table) hide(children []int) {
	for len(children) > 0 {
		c := children[len(children)-1]
		children = children[:len(children)-1]
		if !t.forest.visited[c] {
			t.forest.visited[c] = true
			children = append(children, t.forest.children[c]...)
		}
	}
}

func targetOf(r *resource.Resource) Target {
	return Target{PID: r.Proc.PID, StartTicks: r.Proc.StartTicks}
}

// find puts the cursor on the selected process. When that is gone the cursor
// stays where it is; while nobody has moved it, it stays at the top.
func (t *table) find() {
	if !t.follow {
		t.cursor = 0
	} else {
		for i := range t.rows {
			if targetOf(t.rows[i].resource) == t.selected {
				t.cursor = i
				return
			}
		}
	}
	t.choose(t.cursor)
}

// choose moves the cursor to a row that there is.
func (t *table) choose(at int) {
	t.cursor = max(min(at, len(t.rows)-1), 0)
	t.selected = Target{}
	if len(t.rows) > 0 {
		t.selected = targetOf(t.rows[t.cursor].resource)
	}
}

// move moves the cursor by a person's wish; it then follows its process.
func (t *table) move(by int) {
	t.choose(t.cursor + by)
	t.follow = t.cursor > 0
}

// scroll makes the cursor visible among so many rows on the screen.
func (t *table) scroll(visible int) {
	t.first = scrolled(t.first, t.cursor, visible, len(t.rows))
}

func scrolled(first, cursor, visible, all int) int {
	if visible <= 0 {
		return cursor
	}
	first = max(min(first, cursor), cursor-visible+1)
	return max(min(first, all-visible), 0)
}

// current is the selected row; nil when there is none.
func (t *table) current() *row {
	if t.cursor < 0 || t.cursor >= len(t.rows) {
		return nil
	}
	return &t.rows[t.cursor]
}

// orderBy sorts by a column; the same one again turns the order round.
func (t *table) orderBy(c columnID) {
	if t.sort == c {
		t.ascending = !t.ascending
	} else {
		t.sort, t.ascending = c, columns[c].ascending
	}
	t.chosen = true
	t.arrange()
}

// fold closes or opens the subtree of the selected process.
func (t *table) fold() {
	r := t.current()
	if r == nil || !t.tree {
		return
	}
	key := targetOf(r.resource)
	if t.folds[key] {
		delete(t.folds, key)
	} else {
		t.folds[key] = true
	}
	t.follow = true
	t.arrange()
}

func (t *table) setFilter(s string) {
	t.filter, t.terms = s, parseFilter(s)
	t.arrange()
}

func compareNames(a, b string) int { return strings.Compare(a, b) }
