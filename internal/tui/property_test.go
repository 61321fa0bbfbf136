package tui

// This file tries sizes, keys, clicks and scenes that nobody would think of.

import (
	"math"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/sample"
	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

// fits checks that a frame is what the terminal holds: so many lines, each
// exactly as wide.
func fits(t interface{ Fatalf(string, ...any) }, s *stage) {
	lines := strings.Split(s.View().Content, "\n")
	if len(lines) != s.height {
		t.Fatalf("%d×%d: the frame has %d lines", s.width, s.height, len(lines))
	}
	for i, line := range lines {
		if w := ansi.StringWidth(line); w != s.width {
			t.Fatalf("%d×%d: line %d is %d wide: %q", s.width, s.height, i, w, ansi.Strip(line))
		}
		if w := ansi.StringWidthWc(line); w != s.width {
			t.Fatalf("%d×%d: line %d is %d wide to terminals without grapheme clusters", s.width, s.height, i, w)
		}
	}
}

var everyKey = func() []string {
	keys := []string{"esc", "enter", "up", "down", "tab", "backspace", "ctrl+u", "ctrl+w", "y", "n", "日", "x", "0", "delete"}
	for _, b := range bindings {
		if b.action != actQuit && b.action != actSuspend {
			keys = append(keys, b.keys...)
		}
	}
	return keys
}()

// drawScene draws an observation that need not make sense.
func drawScene(t *rapid.T) *model.Observation {
	o := observationAt(rapid.IntRange(0, 1000).Draw(t, "tick"))
	figure := rapid.SampledFrom([]model.Figure{{}, model.Known(0), model.Known(-1), model.Known(100), model.Known(1e30), model.Known(math.NaN()), model.Known(math.Inf(1))})
	text := rapid.SampledFrom([]string{"", "a", "日本語", "\x1b]0;x\x07", "e\u0301\u0301\u0301", "👨‍👩‍👧", "🇩🇪", strings.Repeat("w", 5000), "\xff\xfe", "\u202etxt"})
	for range rapid.IntRange(0, 40).Draw(t, "more") {
		pid := rapid.Int32Range(4000, 4020).Draw(t, "pid") + int32(len(o.Processes))*32
		o.Processes = append(o.Processes, model.Process{
			Process: &sample.Process{
				PID: pid, PPID: rapid.Int32Range(0, 4020).Draw(t, "ppid"), State: rapid.Byte().Draw(t, "state"),
				RSS: rapid.Uint64().Draw(t, "rss"), Threads: rapid.Int32().Draw(t, "threads"),
				Facts: &sample.Facts{Comm: text.Draw(t, "comm"), User: text.Draw(t, "user"), Args: []string{text.Draw(t, "arg"), text.Draw(t, "arg")}},
			},
			CPU: figure.Draw(t, "cpu"), CPUSeconds: figure.Draw(t, "seconds").Value, Group: rapid.IntRange(-1, len(o.Groups)-1).Draw(t, "group"),
			ReadBytes: figure.Draw(t, "read"), WriteBytes: figure.Draw(t, "write"),
		})
	}
	if n := len(o.Processes); n > 30 { // a cycle of parents
		o.Processes[n-1].PPID, o.Processes[n-2].PPID = o.Processes[n-2].PID, o.Processes[n-1].PID
	}
	s := &o.System
	s.Busy, s.Hostname = figure.Draw(t, "busy"), text.Draw(t, "hostname")
	s.Cores = s.Cores[:0]
	for i := range rapid.SampledFrom([]int{0, 1, 2, 7, 64, 1000}).Draw(t, "cores") {
		s.Cores = append(s.Cores, model.Core{ID: i, Busy: figure.Draw(t, "core")})
	}
	for i := range s.Disks {
		s.Disks[i].ReadBytes, s.Disks[i].Utilisation, s.Disks[i].Name = figure.Draw(t, "read"), figure.Draw(t, "use"), text.Draw(t, "disk")
	}
	for i := range s.Interfaces {
		s.Interfaces[i].RxBytes, s.Interfaces[i].Drops = figure.Draw(t, "rx"), figure.Draw(t, "drops")
	}
	if rapid.Bool().Draw(t, "bare") {
		o.System = model.System{Absent: map[string]proc.Reason{"memory": proc.NoPermission}, Cores: s.Cores}
	}
	if rapid.Bool().Draw(t, "empty") {
		o.Processes, o.Groups = nil, nil
	}
	return o
}

// Whatever is shown, at any size, after any keys and clicks: the view does not
// panic and every frame fits.
func TestAnythingFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t, rapid.IntRange(1, 220).Draw(rt, "width"), rapid.IntRange(1, 70).Draw(rt, "height"))
		s.settings.Layout = rapid.SampledFrom(layout.Names()).Draw(rt, "layout")
		s.settings.Theme = rapid.SampledFrom(theme.Names()).Draw(rt, "theme")
		s.glyphs = rapid.SampledFrom([]screen.Glyphs{screen.Braille, screen.Block, screen.ASCII}).Draw(rt, "glyphs")
		s.depth = rapid.SampledFrom([]theme.Depth{theme.Full, theme.Sixteen, theme.None}).Draw(rt, "depth")
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			s.step(t, rt)
			s.stale = true
			fits(rt, s)
		}
	})
}

// step lets one thing happen.
func (s *stage) step(t *testing.T, rt *rapid.T) {
	switch rapid.IntRange(0, 5).Draw(rt, "what") {
	case 0:
		s.Update(sampled{scene: sceneOf(t, drawScene(rt)), alerts: worldAlerts(), judged: true, sessions: []Session{{Name: "日本"}}})
	case 1:
		s.Update(tea.WindowSizeMsg{Width: rapid.IntRange(-1, 300).Draw(rt, "w"), Height: rapid.IntRange(-1, 90).Draw(rt, "h")})
	case 2:
		at := tea.Mouse{X: rapid.IntRange(-2, 300).Draw(rt, "x"), Y: rapid.IntRange(-2, 90).Draw(rt, "y"), Button: tea.MouseLeft}
		s.View()
		s.Update(tea.MouseClickMsg(at))
		at.Button = rapid.SampledFrom([]tea.MouseButton{tea.MouseWheelUp, tea.MouseWheelDown, tea.MouseWheelLeft}).Draw(rt, "wheel")
		s.Update(tea.MouseWheelMsg(at))
	case 3:
		s.Update(tea.PasteMsg{Content: rapid.String().Draw(rt, "paste")})
	default:
		for range rapid.IntRange(1, 4).Draw(rt, "keys") {
			_, cmd := s.Update(keyPress(rapid.SampledFrom(everyKey).Draw(rt, "key")))
			if cmd != nil && s.overlay.kind == signalOverlay {
				s.run(cmd)
			}
		}
	}
}

// Every size from one cell on, for each layout, and each size after another.
func TestEverySize(t *testing.T) {
	t.Parallel()
	for _, name := range layout.Names() {
		s := newStage(t, 1, 1).play(3)
		s.settings.Layout = name
		for width := 1; width <= 170; width += 1 + width/24 {
			for height := 1; height <= 56; height += 1 + height/14 {
				s.Update(tea.WindowSizeMsg{Width: width, Height: height})
				fits(t, s)
			}
		}
	}
}

// Without a single sample too.
func TestEverySizeWithoutASample(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, 1)
	for width := 1; width <= 130; width += 3 {
		for height := 1; height <= 40; height += 3 {
			s.Update(tea.WindowSizeMsg{Width: width, Height: height})
			fits(t, s)
			s.press("?")
			fits(t, s)
			s.press("esc")
		}
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	for profile, want := range map[colorprofile.Profile]theme.Depth{
		colorprofile.TrueColor: theme.Full, colorprofile.ANSI256: theme.Full, colorprofile.ANSI: theme.Sixteen,
		colorprofile.Ascii: theme.None, colorprofile.NoTTY: theme.None, colorprofile.Unknown: theme.None,
	} {
		if got := depthOf(profile); got != want {
			t.Errorf("%v: depth %d, want %d", profile, got, want)
		}
	}
}

// Filters are typed by people: whatever they type is read without harm.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{"nginx", "user:root /^k.*/", "unit:", ":", "/(/", "u:x c:y", strings.Repeat("a ", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tab := newTable()
		tab.show(sceneAt(t, 1))
		tab.setFilter(s)
		if len(tab.rows) > len(worldProcesses) {
			t.Fatalf("%q: %d rows", s, len(tab.rows))
		}
		tab.tree = true
		tab.arrange()
		seen := map[int32]bool{}
		for i := range tab.rows {
			if seen[tab.rows[i].process.PID] {
				t.Fatalf("%q: a process is shown twice", s)
			}
			seen[tab.rows[i].process.PID] = true
		}
	})
}
