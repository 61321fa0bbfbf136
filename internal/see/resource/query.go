package resource

// This file filters, sorts and limits a catalogue (contract wsltop, section
// 1.5): first the filters, then the order, then the limit.

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A SortKey names a column to sort by.
type SortKey string

// The columns that a listing can be sorted by.
const (
	ByCPU    SortKey = "cpu"
	ByMemory SortKey = "memory"
	ByName   SortKey = "name"
)

// A Query selects resources. Zero fields do not filter.
type Query struct {
	// Parent restricts to the direct children of that resource of the same
	// catalogue.
	Parent       *Resource
	Environment  Environment
	Kind         Kind
	NameContains string         // case-sensitive, on the name alone
	Match        *regexp.Regexp // on the name and on the command line
	User         string         // a user's name or number
	Container    string         // a container's name, or its id from the left
	Unit         string         // a unit's name, with or without its suffix
	SortBy       SortKey        // "" is ByCPU
	Ascending    bool
	Limit        int
}

// Query returns the resources that match q, in order, at most q.Limit of them,
// and how many matched.
func (c *Catalogue) Query(q Query) (rows []*Resource, matched int) {
	candidates := c.candidates(q)
	rows = make([]*Resource, 0, min(len(candidates), 64))
	for _, r := range candidates {
		if c.matches(q, r) {
			rows = append(rows, r)
		}
	}
	return first(rows, max(q.Limit, 0), comparator(q.SortBy, q.Ascending)), len(rows)
}

// first returns the first limit rows in order. A listing shows few of many, so
// it keeps the best seen so far instead of sorting them all.
func first(rows []*Resource, limit int, compare func(a, b *Resource) int) []*Resource {
	if limit == 0 {
		return nil
	}
	if limit >= len(rows) {
		slices.SortFunc(rows, compare)
		return rows
	}
	best := make([]*Resource, 0, limit+1)
	for _, r := range rows {
		if len(best) == limit && compare(r, best[limit-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, r, compare)
		best = slices.Insert(best, at, r)
		best = best[:min(len(best), limit)]
	}
	return best
}

func (c *Catalogue) candidates(q Query) []*Resource {
	if q.Parent != nil {
		return c.Children(q.Parent)
	}
	all := make([]*Resource, len(c.resources))
	for i := range c.resources {
		all[i] = &c.resources[i]
	}
	return all
}

func (c *Catalogue) matches(q Query, r *Resource) bool {
	switch {
	case q.Environment != "" && r.Environment != q.Environment,
		q.Kind != "" && r.Kind != q.Kind,
		!strings.Contains(r.Name, q.NameContains),
		q.Match != nil && !q.Match.MatchString(r.Name) && !q.Match.MatchString(r.Args),
		q.User != "" && !ownedBy(r, q.User),
		q.Container != "" && !c.within(r, func(a *Resource) bool { return isContainer(a, q.Container) }),
		q.Unit != "" && !c.within(r, func(a *Resource) bool { return isUnit(a, q.Unit) }):
		return false
	}
	return true
}

func ownedBy(r *Resource, user string) bool {
	if r.Proc == nil || !r.Proc.Facts.UIDKnown {
		return false
	}
	return r.Proc.Facts.User == user || strconv.FormatUint(uint64(r.Proc.Facts.UID), 10) == user
}

// within reports whether r or anything around it satisfies is.
func (c *Catalogue) within(r *Resource, is func(*Resource) bool) bool {
	for {
		if is(r) {
			return true
		}
		if len(r.parents) == 0 {
			return false
		}
		r = &c.resources[r.parents[0]]
	}
}

// shortestID is how much of a container's id must be given, as with docker.
const shortestID = 4

func isContainer(r *Resource, name string) bool {
	if r.Kind != Container {
		return false
	}
	return r.Name == name || r.NativeID == name || len(name) >= shortestID && strings.HasPrefix(r.NativeID, name)
}

func isUnit(r *Resource, name string) bool {
	if r.Kind != Application {
		return false
	}
	stem, _, _ := cutLast(r.NativeID, ".")
	return r.NativeID == name || stem == name || r.Name == name
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// comparator orders by the key, then by the second key, both reversed for a
// descending order, and then by fixed ascending tie-breaks.
func comparator(key SortKey, ascending bool) func(a, b *Resource) int {
	primary := func(a, b *Resource) int {
		switch key {
		case ByName:
			return strings.Compare(a.Name, b.Name)
		case ByMemory:
			return cmp.Or(compareFigures(a.Memory.Or(0), b.Memory.Or(0)), compareFigures(a.CPU.Or(0), b.CPU.Or(0)))
		default:
			return cmp.Or(compareFigures(a.CPU.Or(0), b.CPU.Or(0)), compareFigures(a.Memory.Or(0), b.Memory.Or(0)))
		}
	}
	return func(a, b *Resource) int {
		order := primary(a, b)
		if !ascending {
			order = -order
		}
		return cmp.Or(order, tieBreak(a, b))
	}
}

// compareFigures takes what is not finite for zero.
func compareFigures(a, b float64) int { return cmp.Compare(finite(a), finite(b)) }

func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func tieBreak(a, b *Resource) int {
	if order := strings.Compare(a.Name, b.Name); order != 0 {
		return order // nearly always
	}
	return cmp.Or(
		cmp.Compare(rank(a.Environment), rank(b.Environment)),
		strings.Compare(string(a.Kind), string(b.Kind)),
		strings.Compare(a.Source, b.Source), // absent sorts before any text
		strings.Compare(a.NativeID, b.NativeID),
		cmp.Compare(start(a), start(b)),
		cmp.Compare(a.index, b.index),
	)
}

// rank is the environments' fixed order (contract wsltop, section 1.5, and the
// united surface's own after it).
func rank(e Environment) int { return slices.Index(ranks[:], e) }

var ranks = [...]Environment{Windows, WSL, WSLC, Linux, Docker, Podman, Containerd, Kubernetes, LXC}

func start(r *Resource) uint64 {
	if r.Proc == nil {
		return 0
	}
	return r.Proc.StartTicks
}
