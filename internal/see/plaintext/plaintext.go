// Package plaintext makes text from outside safe to show: a process chooses its
// own name and arguments, a container its labels, and both end up in front of a
// person's terminal and a model's eyes.
//
// It stands beside the observation layers and imports none of them. All text
// that the machine's processes, files and daemons chose passes through [Line]
// (or [Bounded]) once, where it is rendered; identifiers of our own do not.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Line returns s as one line of visible text: terminal escape sequences,
// control, bidirectional and invisible characters are gone, line breaks, tabs and
// wide spaces are a space, and bytes that are not UTF-8 are U+FFFD. Text that is
// clean already is returned as it is, without a copy.
func Line(s string) string {
	if isPlain(s) {
		return s
	}
	return visible(withoutEscapes(strings.ToValidUTF8(s, string(utf8.RuneError))))
}

// Bounded is [Line] cut to at most limit characters, the last of which is then
// an ellipsis; cut says whether anything was left out.
func Bounded(s string, limit int) (line string, cut bool) {
	// A bound on the work: a character is at most 4 bytes, and one that is
	// dropped is seldom followed by more than a few others that are.
	if most := 64 * (limit + 16); len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s, cut = s[:most], true
	}
	line = Line(s)
	if len(line) <= limit && !cut {
		return line, false
	}
	count := 0
	for i := range line {
		if count == limit-1 {
			rest := line[i:]
			if !cut && utf8.RuneCountInString(rest) <= 1 {
				return line, false
			}
			return line[:i] + "…", true
		}
		count++
	}
	if cut {
		line += "…"
	}
	return line, cut
}

// isPlain is the quick answer for what nearly all text is: printable ASCII.
func isPlain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// withoutEscapes drops whole escape sequences, so that their parameters do not
// stay behind as text. Stripping one can join the halves of another, hence the
// repetition; each round shortens the text.
func withoutEscapes(s string) string {
	for {
		stripped := ansi.Strip(s)
		if len(stripped) >= len(s) {
			return s
		}
		s = strings.ToValidUTF8(stripped, string(utf8.RuneError))
	}
}

func visible(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	broken := false // the last thing written stands for a line break or a tab
	for _, r := range s {
		switch {
		case r != ' ' && unicode.IsSpace(r):
			if !broken {
				b.WriteByte(' ')
			}
			broken = true
		case !hidden(r):
			b.WriteRune(r)
			broken = false
		}
	}
	return b.String()
}

// blanks are characters that count as letters or marks and yet show nothing:
// fillers, joiners and variation selectors, in which text can be smuggled.
var blanks = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034F, Hi: 0x034F, Stride: 1}, // combining grapheme joiner
		{Lo: 0x115F, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180B, Hi: 0x180F, Stride: 1}, // Mongolian selectors
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // Braille blank
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xFE00, Hi: 0xFE0F, Stride: 1}, // variation selectors
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1}, // half-width Hangul filler
	},
	R32: []unicode.Range32{
		{Lo: 0xE0000, Hi: 0xE0FFF, Stride: 1}, // tags and selectors
	},
}

// hidden says that r shows nothing, or changes how its neighbours show:
// controls, format characters (bidirectional and zero-width ones among them),
// private use, non-characters and the blanks above.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, blanks) ||
		r >= 0xFDD0 && r <= 0xFDEF || r&0xFFFE == 0xFFFE
}
