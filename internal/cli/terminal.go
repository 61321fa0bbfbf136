package cli

// This file knows what the streams are connected to, and styles text where that
// is a terminal.

import (
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a person's terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columnsOf is the width of a terminal; 0 when the stream is none, and then
// lines are as long as they are.
func columnsOf(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// A palette colours text, or leaves it alone. https://no-color.org
type palette struct{ on bool }

func paletteFor(stream any) palette {
	return palette{on: isTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (p palette) paint(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p palette) strong(text string) string { return p.paint("1", text) }
func (p palette) faint(text string) string  { return p.paint("2", text) }
func (p palette) good(text string) string   { return p.paint("32", text) }
func (p palette) warn(text string) string   { return p.paint("33", text) }
func (p palette) bad(text string) string    { return p.paint("31", text) }
func (p palette) accent(text string) string { return p.paint("36", text) }
