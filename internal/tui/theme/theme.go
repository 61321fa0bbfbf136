// Package theme holds the colours of the terminal view: twelve themes under the
// names of the xtop contract (section 5), and how they become escape sequences
// on terminals with many colours, with sixteen, and with none.
//
// It sits below package screen, which knows cells, and package tui, which
// knows what is shown. A colour is asked for by its [Role], never by its value,
// so that every theme can be read on its own background: [ByName] lifts each
// colour to the contrast that WCAG asks for.
package theme

import (
	"slices"
	"strconv"
	"strings"
)

// A Role says what a colour is for.
type Role uint8

// The roles. Text is that of ordinary words; Background, Selection and Bar are
// backgrounds, the others foregrounds.
const (
	Text   Role = iota
	Dim         // labels, units, what matters less
	Line        // borders and the empty part of gauges
	Accent      // titles, the sorted column, keys
	Good
	Warn
	Bad
	CPU
	Memory
	Cache
	Receive
	Transmit
	Read
	Write
	Background
	Selection // behind the selected row
	Bar       // behind the header of a table
	roles
)

// A Colour is 0xRRGGBB.
type Colour uint32

// A Depth is how many colours a terminal has.
type Depth uint8

// The depths. Full is 24 bits (the renderer finds the nearest of 256 where
// those are all); None uses bold, faint and reverse only.
const (
	Full Depth = iota
	Sixteen
	None
)

// A Theme is a set of colours that go together.
type Theme struct {
	Name string
	// Own is false when the terminal's own background and text colour stay.
	Own     bool
	Light   bool
	colours [roles]Colour
	accent  int // of the sixteen
}

// Names lists the themes, the default first.
func Names() []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names
}

// ByName returns a theme; ok is false when there is none of that name. light
// says that the terminal's own background is light, which only theme x minds.
func ByName(name string, light bool) (t Theme, ok bool) {
	i := slices.IndexFunc(all, func(t Theme) bool { return t.Name == name })
	if i < 0 {
		return Theme{}, false
	}
	t = all[i]
	if !t.Own && light {
		t = onLight
	}
	t.lift()
	return t, true
}

// Colour returns the colour of a role.
func (t *Theme) Colour(r Role) Colour { return t.colours[r] }

// floors are the least contrasts of the roles: 4.5 for what is read, 3 for
// what is seen, 1.3 for lines that only separate.
var floors = [roles]float64{
	Text: 7, Dim: 4.5, Line: 1.3, Accent: 4.5, Good: 4.5, Warn: 4.5, Bad: 4.5,
	CPU: 3, Memory: 3, Cache: 3, Receive: 3, Transmit: 3, Read: 3, Write: 3,
}

// lift moves each foreground away from the background, and what is read also
// from the selection, until it can be read.
func (t *Theme) lift() {
	for r := Text; r < Background; r++ {
		against := []Colour{t.colours[Background]}
		if floors[r] >= 4.5 {
			against = append(against, t.colours[Selection], t.colours[Bar])
		}
		for _, behind := range against {
			t.colours[r] = lifted(t.colours[r], behind, min(floors[r], 4.5), t.Light)
		}
		t.colours[r] = lifted(t.colours[r], t.colours[Background], floors[r], t.Light)
	}
}

// lifted mixes c with black or white, little by little.
func lifted(c, behind Colour, floor float64, light bool) Colour {
	towards := Colour(0xFFFFFF)
	if light {
		towards = 0
	}
	for step := 1; step <= 20 && Contrast(c, behind) < floor; step++ {
		c = mix(c, towards, 0.06)
	}
	return c
}

func mix(a, b Colour, share float64) Colour {
	channel := func(shift uint) Colour {
		x, y := float64(a>>shift&0xFF), float64(b>>shift&0xFF)
		return Colour(x+(y-x)*share+0.5) << shift
	}
	return channel(16) | channel(8) | channel(0)
}

// Attributes of text.
type Attributes uint8

// The attributes.
const (
	Bold Attributes = 1 << iota
	Faint
	Reverse
	Underline
)

// A Style is how a cell looks. Its zero value is ordinary text.
type Style struct {
	Foreground, Behind Role // a Behind that is no background is [Background]
	Attributes         Attributes
}

// Sequence returns the escape sequence that switches to s from any other style.
func (t *Theme) Sequence(s Style, depth Depth) string {
	var b strings.Builder
	b.WriteString("\x1b[0")
	attributes := s.Attributes
	switch depth {
	case Full:
		t.full(&b, s)
	case Sixteen:
		attributes |= t.sixteen(&b, s)
	default:
		attributes |= colourless(s)
	}
	for i, code := range [...]string{";1", ";2", ";7", ";4"} {
		if attributes&(1<<i) != 0 {
			b.WriteString(code)
		}
	}
	b.WriteByte('m')
	return b.String()
}

func (t *Theme) full(b *strings.Builder, s Style) {
	if t.Own || s.Foreground != Text {
		t.write(b, ";38;2;", s.Foreground)
	}
	switch {
	case s.Behind == Selection, s.Behind == Bar:
		t.write(b, ";48;2;", s.Behind)
	case t.Own:
		t.write(b, ";48;2;", Background)
	}
}

func (t *Theme) write(b *strings.Builder, prefix string, r Role) {
	c := t.colours[r]
	b.WriteString(prefix)
	for i, shift := range []uint{16, 8, 0} {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(strconv.Itoa(int(c >> shift & 0xFF)))
	}
}

// ofSixteen is the basic colour of each role; -1 is the terminal's own.
var ofSixteen = [roles]int{
	Text: -1, Dim: -1, Line: 8, Good: 2, Warn: 3, Bad: 1, CPU: 2, Memory: 4,
	Cache: 6, Receive: 6, Transmit: 5, Read: 4, Write: 5,
}

// sixteen leaves backgrounds alone, since nothing is known of what the
// terminal makes of them, and marks the selection by reversing it.
func (t *Theme) sixteen(b *strings.Builder, s Style) (extra Attributes) {
	if s.Behind == Selection {
		return Reverse
	}
	index := -1
	switch s.Foreground {
	case Accent:
		index = t.accent
	default:
		index = ofSixteen[s.Foreground]
	}
	switch {
	case index >= 8:
		b.WriteString(";" + strconv.Itoa(90+index-8))
	case index >= 0:
		b.WriteString(";" + strconv.Itoa(30+index))
	}
	return 0
}

func colourless(s Style) Attributes {
	switch {
	case s.Behind == Selection:
		return Reverse
	case s.Foreground == Bad || s.Foreground == Accent || s.Foreground == Warn:
		return Bold
	case s.Foreground == Line:
		return Faint
	}
	return 0
}
