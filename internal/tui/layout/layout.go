// Package layout divides a screen among panels: the seven layouts of the xtop
// contract (section 5), and how each gives way, step by step, on smaller
// screens.
//
// It knows names and rectangles only; package tui draws. A layout is a tree of
// splits. Every part says how much it wants and needs, and a rank: where there
// is not enough room, the part of the highest rank goes first.
package layout

import (
	"slices"

	"topside/internal/tui/screen"
)

// A Panel names what is shown in a rectangle.
type Panel string

// The panels.
const (
	Header    Panel = "header"
	Footer    Panel = "footer"
	CPU       Panel = "cpu"
	Memory    Panel = "memory"
	Pressure  Panel = "pressure"
	Disks     Panel = "disks"
	Network   Panel = "network"
	Processes Panel = "processes"
	Groups    Panel = "groups"
	Alerts    Panel = "alerts"
	Sessions  Panel = "sessions"
	Details   Panel = "details"
	Meters    Panel = "meters" // one line per figure, without a frame
)

// A Placed is a panel and where it is.
type Placed struct {
	Panel Panel
	Rect  screen.Rect
}

// Wants say what the panels have to show, in rows including their frame.
type Wants struct {
	// CPU is what all cores take at the width given.
	CPU func(width int) int
	// Lists are the rows of the panels that hold lists.
	Disks, Network, Groups, Alerts, Sessions int
	// Details is whether the details of the selected process are open.
	Details bool
}

// A part is a leaf (a panel) or a split of parts along one axis.
type part struct {
	panel Panel
	down  bool // split into rows, else into columns
	parts []part

	want   int // along the axis of the split around it; 0 shares what is left
	weight int // of the shares; 0 counts as 1
	least  int // along that axis
	across int // the least extent across it
	rank   int // 0 stays; the highest goes first
}

// Place divides a screen of that size for the layout of that name. A layout
// that is not known is the first one.
func Place(name string, width, height int, w Wants) []Placed {
	return place(tree(name, width, height, w), screen.Rect{W: width, H: height}, nil)
}

func place(p part, r screen.Rect, out []Placed) []Placed {
	if r.W <= 0 || r.H <= 0 {
		return out
	}
	if p.panel != "" {
		return append(out, Placed{p.panel, r})
	}
	extent, across := r.W, r.H
	if p.down {
		extent, across = r.H, r.W
	}
	parts := fitting(p.parts, extent, across)
	at := 0
	for i, size := range sizes(parts, extent) {
		sub := screen.Rect{X: r.X + at, Y: r.Y, W: size, H: r.H}
		if p.down {
			sub = screen.Rect{X: r.X, Y: r.Y + at, W: r.W, H: size}
		}
		out = place(parts[i], sub, out)
		at += size
	}
	return out
}

// fitting leaves out parts, highest rank first, until the others have room.
func fitting(parts []part, extent, across int) []part {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.rank > 0 && p.across > across })
	for len(parts) > 1 {
		need, worst := 0, 0
		for i, p := range parts {
			need += max(p.least, 1)
			if p.rank >= parts[worst].rank {
				worst = i
			}
		}
		if need <= extent {
			break
		}
		parts = slices.Delete(parts, worst, worst+1)
	}
	return parts
}

// sizes gives each part its least, then those that want more up to that, then
// shares the rest among those that want all they can get.
func sizes(parts []part, extent int) []int {
	out := make([]int, len(parts))
	left := extent
	for i, p := range parts {
		out[i] = min(max(p.least, 1), left)
		left -= out[i]
	}
	for i, p := range parts {
		more := min(max(p.want-out[i], 0), left)
		out[i] += more
		left -= more
	}
	share(parts, out, left)
	return out
}

// share divides what is left by weight; without anybody to take it the last
// part does.
func share(parts []part, out []int, left int) {
	weights, taken := 0, 0
	for i, p := range parts {
		if p.want == 0 {
			weights += max(p.weight, 1)
			taken += out[i]
		}
	}
	if weights == 0 {
		if len(out) > 0 {
			out[len(out)-1] += left
		}
		return
	}
	pool, given := left+taken, 0
	for i, p := range parts {
		if p.want != 0 {
			continue
		}
		out[i] = max(pool*max(p.weight, 1)/weights, max(p.least, 1))
		given += out[i]
	}
	settle(parts, out, pool-given)
}

// settle takes what rounding and leasts gave too much from whom can spare it,
// and gives what they left over to the last that shares.
func settle(parts []part, out []int, rest int) {
	for i := len(parts) - 1; i >= 0 && rest != 0; i-- {
		if parts[i].want != 0 {
			continue
		}
		change := max(rest, max(parts[i].least, 1)-out[i])
		out[i] += change
		rest -= change
	}
}
