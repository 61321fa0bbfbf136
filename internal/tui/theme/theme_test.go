package theme

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	want := "x berlin bogota helsinki lahabana london madrid miami oslo paris praha tokio"
	if got := strings.Join(Names(), " "); got != want {
		t.Errorf("themes: %s, want %s", got, want)
	}
	if _, ok := ByName("seul", false); ok {
		t.Error("a theme that does not exist was found")
	}
}

// Every theme can be read on its own background, in a selected row too.
func TestContrast(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		for _, light := range []bool{false, true} {
			th, _ := ByName(name, light)
			for r := Text; r < Background; r++ {
				if got := Contrast(th.Colour(r), th.Colour(Background)); got < floors[r] {
					t.Errorf("%s: role %d has a contrast of %.2f, want %.1f", name, r, got, floors[r])
				}
				if floors[r] < 4.5 {
					continue
				}
				for _, behind := range []Role{Selection, Bar} {
					if got := Contrast(th.Colour(r), th.Colour(behind)); got < 4.5 {
						t.Errorf("%s: role %d has a contrast of %.2f on background %d, want 4.5", name, r, got, behind)
					}
				}
			}
		}
	}
}

func TestContrastOfKnownColours(t *testing.T) {
	t.Parallel()
	if got := Contrast(0, 0xFFFFFF); got < 20.99 || got > 21.01 {
		t.Errorf("black on white: %v, want 21", got)
	}
	if got := Contrast(0x777777, 0xFFFFFF); got < 4.47 || got > 4.49 {
		t.Errorf("grey on white: %v, want 4.48", got)
	}
}

func TestSequences(t *testing.T) {
	t.Parallel()
	x, _ := ByName("x", false)
	miami, _ := ByName("miami", false)
	for _, c := range []struct {
		theme *Theme
		style Style
		depth Depth
		want  string
	}{
		{&x, Style{}, Full, "\x1b[0m"},
		{&x, Style{Attributes: Bold | Underline}, Full, "\x1b[0;1;4m"},
		{&miami, Style{}, Full, "\x1b[0;38;2;241;233;255;48;2;22;15;38m"},
		{&miami, Style{Foreground: Accent}, Sixteen, "\x1b[0;35m"},
		{&miami, Style{Foreground: Line}, Sixteen, "\x1b[0;90m"},
		{&miami, Style{Foreground: Bad, Behind: Selection}, Sixteen, "\x1b[0;7m"},
		{&miami, Style{Foreground: Bad}, None, "\x1b[0;1m"},
		{&miami, Style{Foreground: CPU}, None, "\x1b[0m"},
		{&miami, Style{Behind: Selection}, None, "\x1b[0;7m"},
	} {
		if got := c.theme.Sequence(c.style, c.depth); got != c.want {
			t.Errorf("%s %+v at depth %d: %q, want %q", c.theme.Name, c.style, c.depth, got, c.want)
		}
	}
}
