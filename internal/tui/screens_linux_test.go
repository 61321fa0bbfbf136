package tui

// This file makes the screenshots of docs/top.md from the view in a real
// terminal: go test ./internal/tui -run TestScreens -screens. Without -screens
// it checks that they are all there and that the document shows each.

import (
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

var writeScreens = flag.Bool("screens", false, "make docs/screens anew")

// A shot is one screenshot: what is shown, and the keys that lead there.
type shot struct {
	name, layout, theme string
	width, height       int
	keys                []string
	until               string // what the screen shows when it is ready
}

func shots() []shot {
	var all []shot
	for _, name := range layout.Names() {
		all = append(all, shot{strings.ToLower(strings.ReplaceAll(name, " ", "-")), name, "x", 140, 42, nil, "· " + name})
	}
	for _, name := range theme.Names() {
		all = append(all, shot{"theme-" + name, "Dashboard", name, 100, 20, nil, "checkpointer"})
	}
	return append(all,
		shot{"tree", "Process Focus", "tokio", 120, 30, []string{"v"}, "Processes, tree"},
		shot{"details", "Process Focus", "oslo", 140, 34, []string{"Down", "Enter"}, "oom score"},
		shot{"signal", "Process Focus", "praha", 120, 30, []string{"Down", "k"}, "Send SIGTERM"},
		shot{"small", "Dashboard", "lahabana", 56, 13, nil, "java"},
	)
}

func TestScreens(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "docs", "screens")
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "top.md"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shots() {
		path := filepath.Join(folder, s.name+".svg")
		if *writeScreens {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(s.take(t, self)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v: run with -screens to make it", err)
			continue
		}
		if err := xml.Unmarshal(data, new(struct{})); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if !strings.Contains(string(document), "screens/"+s.name+".svg") {
			t.Errorf("docs/top.md does not show %s", s.name)
		}
	}
}

// take takes one screenshot.
func (s *shot) take(t *testing.T, self string) string {
	term := open(t, s.width, s.height, fmt.Sprintf("%s='%s/%s' %s", playScene, s.layout, s.theme, self))
	term.shows("PID", "1610")
	for _, k := range s.keys {
		term.keys(k)
	}
	term.shows(s.until)
	picture := svgOf(term.tmux("capture-pane", "-p", "-e"), s.theme, s.width, s.height)
	term.keys("C-c")
	return picture
}

// The size of a cell in pixels.
const (
	cellWidth  = 8
	cellHeight = 17
	fontSize   = 13
)

// A looks is how captured cells look.
type looks struct {
	fg, bg                          string
	bold, faint, reverse, underline bool
}

// svgOf draws a captured screen. Lines, blocks and braille are drawn as shapes,
// since fonts disagree about them; other text is text.
func svgOf(capture, themeName string, width, height int) string {
	th, _ := theme.ByName(themeName, false)
	plain := looks{fg: hex(th.Colour(theme.Text)), bg: hex(th.Colour(theme.Background))}
	var back, shapes, text strings.Builder
	now := plain
	for y, line := range strings.Split(strings.TrimRight(capture, "\n"), "\n") {
		x := 0
		for line != "" {
			if rest, ok := strings.CutPrefix(line, "\x1b["); ok {
				code, after, _ := strings.Cut(rest, "m")
				now.apply(code, plain)
				line = after
				continue
			}
			end := strings.IndexByte(line, 0x1b)
			if end < 0 {
				end = len(line)
			}
			x = drawRun(&back, &shapes, &text, x, y, line[:end], now, plain)
			line = line[end:]
		}
	}
	w, h := width*cellWidth+16, height*cellHeight+16
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">
<rect width="%d" height="%d" rx="6" fill="%s"/>
<g transform="translate(8 8)">
%s%s<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="%d" xml:space="preserve">
%s</g>
</g>
</svg>
`, w, h, w, h, w, h, plain.bg, back.String(), shapes.String(), fontSize, text.String())
}

func hex(c theme.Colour) string { return fmt.Sprintf("#%06x", uint32(c)) }

// apply takes one SGR sequence.
func (l *looks) apply(code string, plain looks) {
	numbers := strings.Split(code, ";")
	for i := 0; i < len(numbers); i++ {
		n, _ := strconv.Atoi(numbers[i])
		switch {
		case n == 0:
			*l = plain
		case n == 1:
			l.bold = true
		case n == 2:
			l.faint = true
		case n == 4:
			l.underline = true
		case n == 7:
			l.reverse = true
		case n == 22:
			l.bold, l.faint = false, false
		case n == 24:
			l.underline = false
		case n == 27:
			l.reverse = false
		case n == 39:
			l.fg = plain.fg
		case n == 49:
			l.bg = plain.bg
		case (n == 38 || n == 48) && i+4 < len(numbers) && numbers[i+1] == "2":
			var rgb [3]int
			for j := range rgb {
				rgb[j], _ = strconv.Atoi(numbers[i+2+j])
			}
			colour := fmt.Sprintf("#%02x%02x%02x", rgb[0], rgb[1], rgb[2])
			if n == 38 {
				l.fg = colour
			} else {
				l.bg = colour
			}
			i += 4
		}
	}
}

// drawRun draws text of one look and returns the column after it.
func drawRun(back, shapes, text *strings.Builder, x, y int, run string, l, plain looks) int {
	if l.reverse {
		l.fg, l.bg = l.bg, l.fg
	}
	start := x
	var path, word strings.Builder
	wordAt := x
	flush := func() {
		if trimmed := strings.TrimRight(word.String(), " "); strings.TrimSpace(trimmed) != "" {
			writeWord(text, wordAt, y, trimmed, l)
		}
		word.Reset()
	}
	for _, r := range run {
		w := max(screen.Width(string(r)), 1)
		if d := shape(r, x*cellWidth, y*cellHeight); d != "" || r == ' ' && word.Len() == 0 {
			flush()
			path.WriteString(d)
			x += w
			continue
		}
		if word.Len() == 0 {
			wordAt = x
		}
		word.WriteRune(r)
		x += w
		if w == 2 {
			flush()
		}
	}
	flush()
	if l.bg != plain.bg && x > start {
		fmt.Fprintf(back, "<path d=\"M%d %dh%dv%dh-%dz\" fill=\"%s\"/>\n", start*cellWidth, y*cellHeight, (x-start)*cellWidth, cellHeight, (x-start)*cellWidth, l.bg)
	}
	if path.Len() > 0 {
		fmt.Fprintf(shapes, "<path d=\"%s\" fill=\"%s\"/>\n", path.String(), l.fg)
	}
	return x
}

func writeWord(text *strings.Builder, x, y int, word string, l looks) {
	attributes := ""
	if l.bold {
		attributes += ` font-weight="bold"`
	}
	if l.faint {
		attributes += ` opacity="0.6"`
	}
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(word))
	width := ""
	if n := len([]rune(word)); n > 1 {
		width = fmt.Sprintf(` textLength="%d"`, n*cellWidth)
	}
	fmt.Fprintf(text, "<text x=\"%d\" y=\"%d\"%s fill=\"%s\"%s>%s</text>\n", x*cellWidth, y*cellHeight+13, width, l.fg, attributes, escaped.String())
}

// shape is the outline of a character that is drawn; "" for others.
func shape(r rune, x, y int) string {
	const midX, midY = cellWidth / 2, cellHeight / 2
	bar := func(x, y, w, h float64) string { return fmt.Sprintf("M%g %gh%gv%gh-%gz", x, y, w, h, w) }
	fx, fy := float64(x), float64(y)
	switch {
	case r > 0x2800 && r < 0x2900:
		var d strings.Builder
		for i, at := range [8][2]float64{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {0, 3}, {1, 3}} {
			if (r-0x2800)&(1<<i) != 0 {
				d.WriteString(bar(fx+0.5+at[0]*4, fy+0.6+at[1]*4.25, 3, 3.1))
			}
		}
		return d.String()
	case r >= '▁' && r <= '█':
		h := float64(r-'▁'+1) / 8 * cellHeight
		return bar(fx, fy+cellHeight-h, cellWidth, h)
	}
	switch r {
	case '─':
		return bar(fx, fy+midY, cellWidth, 1)
	case '━':
		return bar(fx, fy+midY-1.5, cellWidth, 4)
	case '╸':
		return bar(fx, fy+midY-1.5, midX, 4)
	case '│':
		return bar(fx+midX, fy, 1, cellHeight)
	case '┃':
		return bar(fx+midX-1, fy, 3, cellHeight)
	case '╭':
		return bar(fx+midX, fy+midY, cellWidth-midX, 1) + bar(fx+midX, fy+midY, 1, cellHeight-midY)
	case '╮':
		return bar(fx, fy+midY, midX+1, 1) + bar(fx+midX, fy+midY, 1, cellHeight-midY)
	case '╰':
		return bar(fx+midX, fy+midY, cellWidth-midX, 1) + bar(fx+midX, fy, 1, midY+1)
	case '╯':
		return bar(fx, fy+midY, midX+1, 1) + bar(fx+midX, fy, 1, midY+1)
	case '├':
		return bar(fx+midX, fy+midY, cellWidth-midX, 1) + bar(fx+midX, fy, 1, cellHeight)
	case '└':
		return bar(fx+midX, fy+midY, cellWidth-midX, 1) + bar(fx+midX, fy, 1, midY+1)
	}
	return ""
}
