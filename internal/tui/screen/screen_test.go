package screen

import (
	"math"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"topside/internal/tui/theme"
)

func canvas(w, h int, g Glyphs) *Canvas {
	c := new(Canvas)
	c.Reset(w, h, g)
	return c
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		fit  int
		want string
	}{
		{"plain", 9, "plain"}, {"plain", 5, "plain"}, {"plain", 4, "pla…"}, {"plain", 1, "…"}, {"plain", 0, ""},
		{"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"},
		{"a\tb\x1bc", 9, "a b c"}, {"e\u0301", 3, "e"}, {"🇩🇪", 3, "DE"}, {"👍🏽!", 4, "👍!"},
	} {
		a := canvas(9, 1, Braille).All()
		a.Fit(0, 0, c.fit, theme.Style{}, c.text)
		if got := strings.TrimSuffix(a.canvas.Plain(), "\n"); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.fit, got, c.want)
		}
	}
}

// Half of a wide character that is written over does not stay behind.
func TestWideCharactersAreWrittenOver(t *testing.T) {
	t.Parallel()
	c := canvas(6, 1, Braille)
	a := c.All()
	a.Text(0, 0, theme.Style{}, "日本語")
	a.Text(1, 0, theme.Style{}, "x")
	a.Text(4, 0, theme.Style{}, "y")
	if got := c.Plain(); got != " x本y\n" {
		t.Errorf("%q", got)
	}
}

func TestGauge(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{0: "────────", 0.01: "╸───────", 0.5: "━━━━────", 0.56: "━━━━╸───", 1: "━━━━━━━━", 7: "━━━━━━━━", -1: "────────", math.NaN(): "────────"} {
		c := canvas(8, 1, Braille)
		c.All().Gauge(0, 0, 8, theme.Style{}, Segment{Share: share})
		if got := strings.TrimSuffix(c.Plain(), "\n"); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
	c := canvas(8, 1, ASCII)
	c.All().Gauge(0, 0, 8, theme.Style{}, Segment{Share: 0.25}, Segment{Share: 0.25}, Segment{Share: 9})
	if got := c.Plain(); got != "########\n" {
		t.Errorf("segments: %q", got)
	}
}

func TestGraph(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	plain := func(float64) theme.Style { return theme.Style{} }
	for name, c := range map[string]struct {
		glyphs Glyphs
		values []float32
		h      int
		want   string
	}{
		"braille":         {Braille, []float32{0, 25, 50, 100}, 1, "  ⢀⣼\n"},
		"two rows":        {Braille, []float32{0, 25, 50, 100}, 2, "   ⢸\n  ⢠⣿\n"},
		"unknown":         {Braille, []float32{nan, 100, nan, 0.001}, 1, "  ⢸⢀\n"},
		"block":           {Block, []float32{0, 12.5, 50, 100}, 1, " ▁▄█\n"},
		"ascii":           {ASCII, []float32{0, 1, 50, 500}, 1, " .=#\n"},
		"more than fits":  {ASCII, []float32{100, 100, 100, 100, 100, 100, 0, 0}, 1, "##\n"},
		"nothing at all":  {Braille, nil, 1, "\n"},
		"infinite values": {Braille, []float32{float32(math.Inf(1)), float32(math.Inf(-1))}, 1, "   ⡇\n"},
	} {
		canvas := canvas(4, c.h, c.glyphs)
		canvas.All().Graph(c.values, 100, plain)
		if got := canvas.Plain(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Whatever is drawn, wherever: lines are as wide as the canvas, for terminals
// with grapheme clusters and without.
func TestLinesAreAsWideAsTheCanvas(t *testing.T) {
	t.Parallel()
	th, _ := theme.ByName("oslo", false)
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(0, 40).Draw(t, "w"), rapid.IntRange(0, 8).Draw(t, "h")
		g := rapid.SampledFrom([]Glyphs{Braille, Block, ASCII}).Draw(t, "glyphs")
		c := canvas(w, h, g)
		number := rapid.IntRange(-3, 45)
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			a := c.All().Sub(number.Draw(t, "x"), number.Draw(t, "y"), number.Draw(t, "w"), number.Draw(t, "h"))
			text := rapid.String().Draw(t, "text")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				a.Text(number.Draw(t, "at"), number.Draw(t, "line"), theme.Style{}, text)
			case 1:
				a.Fit(number.Draw(t, "at"), number.Draw(t, "line"), number.Draw(t, "room"), theme.Style{Behind: theme.Selection}, text)
			case 2:
				a.Right(number.Draw(t, "end"), number.Draw(t, "line"), theme.Style{}, text)
			case 3:
				a.Frame(text, text, theme.Style{}, theme.Style{}, theme.Style{})
			case 4:
				a.Graph(rapid.SliceOf(rapid.Float32()).Draw(t, "values"), rapid.Float64().Draw(t, "top"), func(float64) theme.Style { return theme.Style{} })
			case 5:
				a.Gauge(number.Draw(t, "at"), number.Draw(t, "line"), number.Draw(t, "room"), theme.Style{}, Segment{Share: rapid.Float64().Draw(t, "share")})
			case 6:
				a.ScrollBar(number.Draw(t, "first"), number.Draw(t, "shown"), number.Draw(t, "all"), theme.Style{})
			}
		}
		painted := NewPainter(th, theme.Full).Paint(c)
		for i, line := range strings.Split(painted, "\n") {
			if h > 0 && (ansi.StringWidth(line) != w || ansi.StringWidthWc(line) != w) {
				t.Fatalf("line %d is %d and %d wide, want %d: %q", i, ansi.StringWidth(line), ansi.StringWidthWc(line), w, ansi.Strip(line))
			}
		}
	})
}

func TestGlyphsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"TERM": "xterm-256color"}, "braille"},
		{map[string]string{"TERM": "xterm", "LANG": "de_DE.UTF-8"}, "braille"},
		{map[string]string{"TERM": "xterm", "LANG": "C.utf8"}, "braille"},
		{map[string]string{"TERM": "xterm", "LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.ISO-8859-1"}, "ascii"},
		{map[string]string{"TERM": "linux"}, "block"},
		{map[string]string{"TERM": "vt100"}, "ascii"},
		{map[string]string{"TERM": "dumb"}, "ascii"},
	} {
		if got := GlyphsFor(func(name string) string { return c.env[name] }).Name; got != c.want {
			t.Errorf("%v: %s, want %s", c.env, got, c.want)
		}
	}
}
