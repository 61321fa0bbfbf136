package layout

import (
	"testing"

	"pgregory.net/rapid"

	"topside/internal/tui/screen"
)

func wants(details bool, list int) Wants {
	return Wants{CPU: func(int) int { return 8 }, Disks: list, Network: list, Groups: list, Alerts: list, Details: details}
}

// Whatever the size, panels tile the screen: none overlaps, none lies outside,
// no cell is left over, and none is shown twice.
func TestPanelsTileTheScreen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(1, 300).Draw(t, "width"), rapid.IntRange(1, 120).Draw(t, "height")
		name := rapid.SampledFrom(append(Names(), "no such layout")).Draw(t, "layout")
		w := wants(rapid.Bool().Draw(t, "details"), rapid.IntRange(3, 40).Draw(t, "list"))
		w.Sessions = rapid.IntRange(0, 9).Draw(t, "sessions")
		cells, seen := make([]int, width*height), map[Panel]bool{}
		for _, p := range Place(name, width, height, w) {
			if seen[p.Panel] {
				t.Fatalf("%s is placed twice", p.Panel)
			}
			seen[p.Panel] = true
			for y := p.Rect.Y; y < p.Rect.Y+p.Rect.H; y++ {
				for x := p.Rect.X; x < p.Rect.X+p.Rect.W; x++ {
					if x < 0 || y < 0 || x >= width || y >= height {
						t.Fatalf("%s lies outside: %+v", p.Panel, p.Rect)
					}
					cells[y*width+x]++
				}
			}
		}
		for i, n := range cells {
			if n != 1 {
				t.Fatalf("cell %d,%d is covered %d times", i%width, i/width, n)
			}
		}
	})
}

// The steps down: what is there at each size.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width, height int
		has, hasNot   []Panel
	}{
		{160, 50, []Panel{Header, CPU, Memory, Network, Disks, Pressure, Processes, Groups, Alerts, Footer}, []Panel{Meters, Sessions}},
		{80, 24, []Panel{Header, CPU, Memory, Processes, Footer}, []Panel{Groups, Meters}},
		{60, 14, []Panel{Header, CPU, Processes, Footer}, []Panel{Meters, Network}},
		{59, 14, []Panel{Meters, Processes, Footer}, []Panel{CPU, Header}},
		{39, 8, []Panel{Meters}, []Panel{Processes}},
		{1, 1, []Panel{Meters}, []Panel{Processes}},
	} {
		placed := map[Panel]screen.Rect{}
		for _, p := range Place("Dashboard", c.width, c.height, wants(false, 6)) {
			placed[p.Panel] = p.Rect
		}
		for _, p := range c.has {
			if _, ok := placed[p]; !ok {
				t.Errorf("%d×%d lacks %s", c.width, c.height, p)
			}
		}
		for _, p := range c.hasNot {
			if r, ok := placed[p]; ok {
				t.Errorf("%d×%d has %s at %+v", c.width, c.height, p, r)
			}
		}
	}
}
