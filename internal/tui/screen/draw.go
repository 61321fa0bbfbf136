package screen

// This file draws what is more than text: frames, gauges and graphs.

import (
	"math"

	"topside/internal/tui/theme"
)

// Frame draws a border with a title in its upper edge and a note at the right
// of it, and returns the area inside. An area too small for a border gets none.
func (a Area) Frame(title, note string, line, titled, noted theme.Style) Area {
	if a.W < 4 || a.H < 3 {
		return a
	}
	g := &a.canvas.glyphs
	for x := 1; x < a.W-1; x++ {
		a.set(x, 0, g.Horizontal, line)
		a.set(x, a.H-1, g.Horizontal, line)
	}
	for y := 1; y < a.H-1; y++ {
		a.set(0, y, g.Vertical, line)
		a.set(a.W-1, y, g.Vertical, line)
	}
	a.set(0, 0, g.TopLeft, line)
	a.set(a.W-1, 0, g.TopRight, line)
	a.set(0, a.H-1, g.BottomLeft, line)
	a.set(a.W-1, a.H-1, g.BottomRight, line)
	used := 0
	if title != "" && a.W > 6 {
		a.set(2, 0, ' ', line)
		used = a.Fit(3, 0, a.W-6, titled, title)
		a.set(3+used, 0, ' ', line)
	}
	if w := Width(note); note != "" && used+w+9 <= a.W {
		a.set(a.W-w-4, 0, ' ', line)
		a.Text(a.W-w-3, 0, noted, note)
		a.set(a.W-3, 0, ' ', line)
	}
	return a.Sub(1, 1, a.W-2, a.H-2)
}

// A Segment is a part of a gauge, as a share of its whole.
type Segment struct {
	Share float64 // 0 to 1
	Style theme.Style
}

// Gauge draws segments one after the other over width columns.
func (a Area) Gauge(x, y, width int, empty theme.Style, segments ...Segment) {
	width = min(width, a.W-x)
	if width <= 0 {
		return
	}
	g := &a.canvas.glyphs
	for i := range width {
		a.set(x+i, y, g.Empty, empty)
	}
	var sum float64
	from := 0
	for _, s := range segments {
		if math.IsNaN(s.Share) || s.Share <= 0 {
			continue
		}
		sum = min(sum+s.Share, 1)
		halves := int(math.Round(sum * float64(width) * 2))
		if from == 0 && halves == 0 {
			halves = 1 // something is not nothing
		}
		for ; from < halves/2; from++ {
			a.set(x+from, y, g.Filled, s.Style)
		}
		if halves%2 == 1 && from < width && g.Half != 0 {
			a.set(x+from, y, g.Half, s.Style)
		}
	}
}

// Graph draws values as a filled curve, the last at the right edge. top is the
// value that fills the height; style chooses by the share that a row stands
// for, from 0 to 1. An unknown value is NaN and leaves a gap.
func (a Area) Graph(values []float32, top float64, style func(share float64) theme.Style) {
	if a.W <= 0 || a.H <= 0 || top <= 0 {
		return
	}
	if a.canvas.glyphs.Name == Braille.Name {
		a.braille(values, top, style)
		return
	}
	levels := a.canvas.glyphs.levels
	for x := range a.W {
		i := len(values) - a.W + x
		if i < 0 {
			continue
		}
		filled := steps(values[i], top, a.H*(len(levels)-1))
		for y := range a.H {
			row := a.H - 1 - y
			if n := min(max(filled-row*(len(levels)-1), 0), len(levels)-1); n > 0 {
				a.set(x, y, levels[n], style(rowShare(row, a.H)))
			}
		}
	}
}

// dots are the bits of a braille cell by column and by height from below.
var dots = [2][4]rune{{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}}

func (a Area) braille(values []float32, top float64, style func(share float64) theme.Style) {
	for x := range a.W {
		first := len(values) - 2*(a.W-x)
		var filled [2]int
		for side := range 2 {
			if i := first + side; i >= 0 {
				filled[side] = steps(values[i], top, a.H*4)
			}
		}
		for y := range a.H {
			row := a.H - 1 - y
			var bits rune
			for side, n := range filled {
				for dot := range min(max(n-row*4, 0), 4) {
					bits |= dots[side][dot]
				}
			}
			if bits != 0 {
				a.set(x, y, 0x2800+bits, style(rowShare(row, a.H)))
			}
		}
	}
}

// rowShare is the share that a row of a graph stands for: its middle, and of a
// single row nothing, since that may be any.
func rowShare(row, rows int) float64 {
	if rows == 1 {
		return 0
	}
	return (float64(row) + 0.5) / float64(rows)
}

// steps is how many of all steps a value fills; what is known and not zero
// fills at least one.
func steps(v float32, top float64, all int) int {
	share := min(float64(v)/top, 1)
	if !(share > 0) { // neither does what is not a number
		return 0
	}
	return max(int(math.Round(share*float64(all))), 1)
}

// Level is one cell that stands for a share, from 0 to 1.
func (a Area) Level(x, y int, share float64, style theme.Style) {
	levels := a.canvas.glyphs.levels
	n := 0
	if share > 0 {
		n = max(int(math.Round(min(share, 1)*float64(len(levels)-1))), 1)
	}
	a.set(x, y, levels[n], style)
}

// Rule draws a horizontal line.
func (a Area) Rule(y int, style theme.Style) {
	for x := range a.W {
		a.set(x, y, a.canvas.glyphs.Horizontal, style)
	}
}

// ScrollBar draws, in the last column, which part of all rows is seen.
func (a Area) ScrollBar(first, shown, all int, style theme.Style) {
	if shown <= 0 || all <= shown || a.H <= 0 {
		return
	}
	size := max(a.H*shown/all, 1)
	from := min(a.H*max(first, 0)/all, a.H-size)
	if first+shown >= all {
		from = a.H - size
	}
	for y := range size {
		a.set(a.W-1, from+y, a.canvas.glyphs.Scroll, style)
	}
}
