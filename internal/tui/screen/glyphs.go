package screen

// This file holds the characters that things are drawn with, for terminals
// that can show much, little and nothing but ASCII.

import "strings"

// Glyphs are the characters of one kind of terminal.
type Glyphs struct {
	// Name is braille, block or ascii.
	Name string
	// Only says that nothing but ASCII may be written.
	Only                                                     bool
	Horizontal, Vertical                                     rune
	TopLeft, TopRight, BottomLeft, BottomRight               rune
	Filled, Half, Empty                                      rune // of gauges; Half is 0 where there is none
	Branch, Last, Pass                                       string
	Ellipsis, Separator, Up, Down, Ascending, Marker, Scroll rune
	levels                                                   []rune // of one cell, from empty to full
}

// Braille draws graphs with eight dots per cell.
var Braille = Glyphs{
	Name: "braille", Horizontal: '─', Vertical: '│', TopLeft: '╭', TopRight: '╮', BottomLeft: '╰', BottomRight: '╯',
	Filled: '━', Half: '╸', Empty: '─', Branch: "├─ ", Last: "└─ ", Pass: "│  ",
	Ellipsis: '…', Separator: '·', Up: '↑', Down: '↓', Ascending: '▲', Marker: '▼', Scroll: '┃',
	levels: []rune(" ▁▂▃▄▅▆▇█"),
}

// Block draws them with blocks, as the Linux console can.
var Block = func() Glyphs {
	g := Braille
	g.Name = "block"
	g.TopLeft, g.TopRight, g.BottomLeft, g.BottomRight = '┌', '┐', '└', '┘'
	g.Filled, g.Half, g.Empty = '█', 0, '░'
	return g
}()

// ASCII uses letters and punctuation only.
var ASCII = Glyphs{
	Name: "ascii", Only: true, Horizontal: '-', Vertical: '|', TopLeft: '+', TopRight: '+', BottomLeft: '+', BottomRight: '+',
	Filled: '#', Empty: '.', Branch: "|- ", Last: "`- ", Pass: "|  ",
	Ellipsis: '~', Separator: '-', Up: '^', Down: 'v', Ascending: '^', Marker: 'v', Scroll: '#',
	levels: []rune(" .:-=+*#"),
}

// GlyphsByName returns the glyphs of that name.
func GlyphsByName(name string) (Glyphs, bool) {
	for _, g := range []Glyphs{Braille, Block, ASCII} {
		if g.Name == name {
			return g, true
		}
	}
	return Glyphs{}, false
}

// GlyphsFor chooses by the environment: ASCII when the locale says that the
// terminal has another encoding than UTF-8, blocks on the Linux console.
func GlyphsFor(getenv func(string) string) Glyphs {
	term := getenv("TERM")
	switch {
	case strings.HasPrefix(term, "vt"), term == "dumb", term == "ansi", otherEncoding(getenv):
		return ASCII
	case term == "linux", term == "cons25":
		return Block
	}
	return Braille
}

// otherEncoding is true only when a locale names one: where none is set, as in
// most containers, the terminal outside speaks UTF-8 all the same.
func otherEncoding(getenv func(string) string) bool {
	locale := getenv("LC_ALL")
	if locale == "" {
		locale = getenv("LC_CTYPE")
	}
	if locale == "" {
		locale = getenv("LANG")
	}
	_, encoding, named := strings.Cut(strings.ToLower(locale), ".")
	encoding = strings.ReplaceAll(encoding, "-", "")
	return named && !strings.HasPrefix(encoding, "utf8")
}

// shown returns what stands for r on this terminal, and its width.
func (g *Glyphs) shown(r rune) (rune, int) {
	r, w := settled(r)
	if !g.Only || r < 0x80 {
		return r, w
	}
	switch r {
	case '·', '─':
		return '-', 1
	case '…':
		return '~', 1
	case '↑', '▲':
		return '^', 1
	case '↓', '▼':
		return 'v', 1
	}
	if w == 0 {
		return r, 0
	}
	return '?', 1
}
