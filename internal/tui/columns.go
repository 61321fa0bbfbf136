package tui

// This file holds the columns of the process table: what each shows, how it
// sorts, and which give way on a narrow screen.

import (
	"cmp"
	"strconv"

	"topside/internal/see/model"
	"topside/internal/see/resource"
	"topside/internal/tui/theme"
)

// A columnID names a column.
type columnID int

// The columns, from left to right.
const (
	byPID columnID = iota
	byUser
	byState
	byNice
	byThreads
	byCPU
	byHistory
	byShare
	byMemory
	byRead
	byWrite
	byTime
	byPlace
	byName
	columnCount
)

// A column is one column of the table.
type column struct {
	title     string
	width     int
	left      bool // aligned to the left
	ascending bool // how it sorts at first
	from      int  // the least width of the table that shows it
	compare   func(t *table, a, b *resource.Resource) int
}

var columns [columnCount]column

func init() {
	by := func(f func(*model.Process) float64) func(*table, *resource.Resource, *resource.Resource) int {
		return func(_ *table, a, b *resource.Resource) int { return cmp.Compare(f(a.Proc), f(b.Proc)) }
	}
	figure := func(f func(*model.Process) model.Figure) func(*table, *resource.Resource, *resource.Resource) int {
		return by(func(p *model.Process) float64 { return f(p).Or(-1) })
	}
	text := func(f func(*table, *resource.Resource) string) func(*table, *resource.Resource, *resource.Resource) int {
		return func(t *table, a, b *resource.Resource) int { return compareNames(f(t, a), f(t, b)) }
	}
	cpu := func(_ *table, a, b *resource.Resource) int {
		return cmp.Or(cmp.Compare(a.Proc.CPU.Or(-1), b.Proc.CPU.Or(-1)), cmp.Compare(a.Proc.RSS, b.Proc.RSS))
	}
	rss := by(func(p *model.Process) float64 { return float64(p.RSS) })
	columns = [columnCount]column{
		byPID:     {title: "PID", width: 7, ascending: true, compare: by(func(p *model.Process) float64 { return float64(p.PID) })},
		byUser:    {title: "USER", width: 9, left: true, ascending: true, from: 56, compare: text(func(_ *table, r *resource.Resource) string { return r.Proc.Facts.User })},
		byState:   {title: "S", width: 1, left: true, ascending: true, from: 64, compare: by(func(p *model.Process) float64 { return float64(p.State) })},
		byNice:    {title: "NI", width: 3, ascending: true, from: 126, compare: by(func(p *model.Process) float64 { return float64(p.Nice) })},
		byThreads: {title: "THR", width: 4, from: 92, compare: by(func(p *model.Process) float64 { return float64(p.Threads) })},
		byCPU:     {title: "CPU%", width: 6, compare: cpu},
		byHistory: {title: "HISTORY", width: 8, left: true, from: 112, compare: cpu},
		byShare:   {title: "MEM%", width: 5, from: 84, compare: rss},
		byMemory:  {title: "RSS", width: 5, from: 38, compare: rss},
		byRead:    {title: "READ", width: 5, from: 100, compare: figure(func(p *model.Process) model.Figure { return p.ReadBytes })},
		byWrite:   {title: "WRITE", width: 5, from: 100, compare: figure(func(p *model.Process) model.Figure { return p.WriteBytes })},
		byTime:    {title: "TIME", width: 8, from: 72, compare: by(func(p *model.Process) float64 { return p.CPUSeconds })},
		byPlace:   {title: "UNIT/CONTAINER", width: 18, left: true, ascending: true, from: 136, compare: text(func(t *table, r *resource.Resource) string { return t.placeOf(r.Proc).shown() })},
		byName:    {title: "COMMAND", left: true, ascending: true, compare: text(func(_ *table, r *resource.Resource) string { return r.Name })},
	}
}

func (p place) shown() string {
	if p.container != "" {
		return p.container
	}
	return p.unit
}

// shownColumns are the columns that a table of that width has.
func shownColumns(width int, out []columnID) []columnID {
	out = out[:0]
	for c := range columnCount {
		if width >= columns[c].from {
			out = append(out, c)
		}
	}
	return out
}

// levelOf is the colour of a share of a limit: from half of it on it is worth
// a look, above it it is not right (contract xtop, section 2.4).
func levelOf(v, limit float64) theme.Role {
	switch {
	case v > limit:
		return theme.Bad
	case v >= 50:
		return theme.Warn
	}
	return theme.Good
}

func itoa(n int) string { return strconv.Itoa(n) }
