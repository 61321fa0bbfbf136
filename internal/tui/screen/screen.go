// Package screen is a grid of character cells: text, frames, gauges and graphs
// are drawn into it, cut at its edges, and it becomes one string of lines that
// are exactly as wide as the terminal.
//
// It sits above package theme, which gives the colours, and below package tui,
// which decides what is drawn. A [Canvas] is used again for every frame, so
// that a frame costs no allocation per cell or row.
package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"topside/internal/tui/theme"
)

// A cell is one column of one line. A rune of 0 is the right half of a wide
// character.
type cell struct {
	r     rune
	style theme.Style
}

// A Canvas is the cells of one frame.
type Canvas struct {
	width, height int
	cells         []cell
	glyphs        Glyphs
}

// Reset makes the canvas blank and of that size.
func (c *Canvas) Reset(width, height int, g Glyphs) {
	c.width, c.height, c.glyphs = max(width, 0), max(height, 0), g
	n := c.width * c.height
	if cap(c.cells) < n {
		c.cells = make([]cell, n)
	}
	c.cells = c.cells[:n]
	for i := range c.cells {
		c.cells[i] = cell{r: ' '}
	}
}

// All is the whole canvas as an area to draw in.
func (c *Canvas) All() Area { return Area{canvas: c, Rect: Rect{W: c.width, H: c.height}} }

// A Painter turns canvases into text for one theme and terminal.
type Painter struct {
	theme     theme.Theme
	depth     theme.Depth
	sequences map[theme.Style]string
	out       strings.Builder
}

// NewPainter returns a painter.
func NewPainter(t theme.Theme, d theme.Depth) *Painter {
	return &Painter{theme: t, depth: d, sequences: map[theme.Style]string{}}
}

func (p *Painter) sequence(s theme.Style) string {
	q, ok := p.sequences[s]
	if !ok {
		q = p.theme.Sequence(s, p.depth)
		p.sequences[s] = q
	}
	return q
}

// Paint returns the canvas as lines of text with escape sequences.
func (p *Painter) Paint(c *Canvas) string {
	p.out.Reset()
	p.out.Grow(len(c.cells) * 2)
	for y := range c.height {
		if y > 0 {
			p.out.WriteByte('\n')
		}
		var now theme.Style
		for x, cell := range c.line(y) {
			if x == 0 || cell.style != now {
				now = cell.style
				p.out.WriteString(p.sequence(now))
			}
			if cell.r != 0 {
				p.out.WriteRune(cell.r)
			}
		}
		p.out.WriteString("\x1b[0m")
	}
	return p.out.String()
}

// Plain returns the canvas as lines of text without style and trailing spaces.
func (c *Canvas) Plain() string {
	var b strings.Builder
	for y := range c.height {
		end := b.Len()
		for _, cell := range c.line(y) {
			if cell.r == 0 {
				continue
			}
			b.WriteRune(cell.r)
			if cell.r != ' ' {
				end = b.Len()
			}
		}
		line := b.String()[:end]
		b.Reset()
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

func (c *Canvas) line(y int) []cell { return c.cells[y*c.width : (y+1)*c.width] }

// A Rect is a part of the screen.
type Rect struct{ X, Y, W, H int }

// Contains reports whether a cell is inside.
func (r Rect) Contains(x, y int) bool {
	return x >= r.X && x < r.X+r.W && y >= r.Y && y < r.Y+r.H
}

// An Area is a part of a canvas to draw in; what would lie outside is cut off.
// Its coordinates start at its own corner.
type Area struct {
	Rect
	canvas *Canvas
}

// Sub is a part of the area, cut to what is inside it.
func (a Area) Sub(x, y, w, h int) Area {
	x, y = min(max(x, 0), a.W), min(max(y, 0), a.H)
	return Area{canvas: a.canvas, Rect: Rect{a.X + x, a.Y + y, max(min(w, a.W-x), 0), max(min(h, a.H-y), 0)}}
}

// At is the part of the canvas at r.
func (c *Canvas) At(r Rect) Area { return c.All().Sub(r.X, r.Y, r.W, r.H) }

// Glyphs are the characters that this area may use.
func (a Area) Glyphs() Glyphs { return a.canvas.glyphs }

// set writes one cell of the area.
func (a Area) set(x, y int, r rune, s theme.Style) {
	if x < 0 || y < 0 || x >= a.W || y >= a.H {
		return
	}
	at := (a.Y+y)*a.canvas.width + a.X + x
	a.mend(at)
	a.canvas.cells[at] = cell{r, s}
}

// mend blanks the other half of a wide character that is about to lose one.
func (a Area) mend(at int) {
	cells := a.canvas.cells
	if cells[at].r == 0 && at > 0 {
		cells[at-1].r = ' '
	}
	if at+1 < len(cells) && cells[at+1].r == 0 {
		cells[at+1].r = ' '
	}
}

// Text writes s from column x of line y on and returns how many columns it
// took; what does not fit is cut.
func (a Area) Text(x, y int, style theme.Style, s string) int {
	return a.write(x, y, a.W, style, s)
}

// Fit writes s into width columns from x on. Longer text ends with an ellipsis.
func (a Area) Fit(x, y, width int, style theme.Style, s string) int {
	width = min(width, a.W-x)
	if width <= 0 {
		return 0
	}
	if len(s) <= width || Width(s) <= width {
		return a.write(x, y, x+width, style, s)
	}
	n := a.write(x, y, x+width-1, style, s)
	a.set(x+n, y, a.canvas.glyphs.Ellipsis, style)
	return n + 1
}

// Right writes s so that it ends before column end; what does not fit is cut.
func (a Area) Right(end, y int, style theme.Style, s string) {
	a.write(max(end-Width(s), 0), y, end, style, s)
}

// write writes s between column x and end and returns the columns taken.
func (a Area) write(x, y, end int, style theme.Style, s string) int {
	if y < 0 || y >= a.H || x < 0 {
		return 0
	}
	end = min(end, a.W)
	start := x
	for i := 0; i < len(s) && x < end; {
		if c := s[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7F {
				c = ' '
			}
			a.set(x, y, rune(c), style)
			x++
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		r, w := a.canvas.glyphs.shown(r)
		if w == 0 {
			continue
		}
		if x+w > end {
			break
		}
		a.set(x, y, r, style)
		if w == 2 {
			a.set(x+1, y, ' ', style)
			a.canvas.cells[(a.Y+y)*a.canvas.width+a.X+x+1].r = 0
		}
		x += w
	}
	return x - start
}

// Fill writes the same character into every cell of the area.
func (a Area) Fill(r rune, style theme.Style) {
	for y := range a.H {
		for x := range a.W {
			a.set(x, y, r, style)
		}
	}
}

// Restyle changes the style of every cell of the area, leaving its text.
func (a Area) Restyle(change func(theme.Style) theme.Style) {
	for y := range a.H {
		for x := range a.W {
			at := (a.Y+y)*a.canvas.width + a.X + x
			a.canvas.cells[at].style = change(a.canvas.cells[at].style)
		}
	}
}

// Width is how many columns s takes on a canvas.
func Width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return i + wideWidth(s[i:])
		}
	}
	return len(s)
}

func wideWidth(s string) int {
	n := 0
	for _, r := range s {
		_, w := settled(r)
		n += w
	}
	return n
}

// settled returns the character that stands for r and its width in columns, one
// on which all terminals agree: marks that join their neighbour are left out,
// and so are skin tones; the letters that pair up to flags are letters.
func settled(r rune) (rune, int) {
	switch {
	case r < utf8.RuneSelf, r >= 0x2500 && r < 0x2600, r >= 0x2800 && r < 0x2900, r == '…', r == '·', r == '↑', r == '↓':
		return r, 1
	case r >= 0x1F1E6 && r <= 0x1F1FF:
		return 'A' + r - 0x1F1E6, 1
	case r >= 0x1F3FB && r <= 0x1F3FF, unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc), r >= 0x1160 && r <= 0x11FF:
		return r, 0
	}
	s := string(r)
	w := ansi.StringWidthWc(s)
	if w != ansi.StringWidth(s) || w < 0 || w > 2 {
		return '?', 1
	}
	return r, w
}
