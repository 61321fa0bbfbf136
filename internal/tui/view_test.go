package tui

// This file compares frames with golden screens. Run with -update to accept
// what has changed, and look at the difference.

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

var update = flag.Bool("update", false, "write the golden screens anew")

// run runs a command and what comes of it, but for clocks, as the program would.
func (s *stage) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil, tea.QuitMsg:
	case tea.BatchMsg:
		for _, c := range msg {
			if !isClock(c) {
				s.run(c)
			}
		}
	default:
		_, next := s.Update(msg)
		if !isClock(next) {
			s.run(next)
		}
	}
}

// isClock tells the commands that only wait, which tests do not.
func isClock(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	return reflect.ValueOf(cmd).Pointer() == reflect.ValueOf(tea.Tick(1, nil)).Pointer()
}

func (s *stage) press(keys ...string) *stage {
	for _, k := range keys {
		s.View()
		_, cmd := s.Update(keyPress(k))
		if !isClock(cmd) {
			s.run(cmd)
		}
	}
	return s
}

var namedKeys = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown,
	"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace,
	"space": tea.KeySpace, "f5": tea.KeyF5, "f9": tea.KeyF9, "delete": tea.KeyDelete,
}

func keyPress(k string) tea.KeyPressMsg {
	if rest, ok := strings.CutPrefix(k, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: []rune(rest)[0], Mod: tea.ModCtrl}
	}
	if k == "shift+tab" {
		return tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
	}
	if code, ok := namedKeys[k]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

func (s *stage) typed(text string) *stage {
	for _, r := range text {
		s.press(string(r))
	}
	return s
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "screens", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run with -update to make it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs from what is drawn now:\n%s", path, difference(string(want), got))
	}
}

// difference shows the lines that differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			fmt.Fprintf(&out, "%3d - %s\n    + %s\n", i+1, x, y)
		}
	}
	return out.String()
}

// Every layout at every step of size.
func TestLayouts(t *testing.T) {
	t.Parallel()
	for _, name := range layout.Names() {
		for _, size := range [][2]int{{160, 48}, {120, 40}, {80, 24}, {60, 14}} {
			s := newStage(t, size[0], size[1]).play(60)
			s.settings.Layout = name
			s.suggestOrder()
			golden(t, fmt.Sprintf("%s-%dx%d", strings.ToLower(strings.ReplaceAll(name, " ", "-")), size[0], size[1]), s.text())
		}
	}
}

// The steps down to one character, where all layouts are the same.
func TestSmallScreens(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, size := range [][2]int{{59, 13}, {40, 8}, {39, 7}, {30, 5}, {20, 3}, {12, 2}, {8, 1}, {4, 1}, {3, 1}, {1, 1}} {
		s := newStage(t, size[0], size[1]).play(60)
		fmt.Fprintf(&all, "== %d×%d\n%s", size[0], size[1], s.text())
	}
	golden(t, "small", all.String())
}

// What is open over the panels, and the other states of the view.
func TestStates(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*stage){
		"tree":          func(s *stage) { s.press("v") },
		"tree-filtered": func(s *stage) { s.press("v", "/").typed("worker") },
		"filter":        func(s *stage) { s.press("/").typed("user:postgres") },
		"filter-none":   func(s *stage) { s.press("/").typed("nothing-like-this").press("enter") },
		"details":       func(s *stage) { s.press("down", "enter") },
		"signal":        func(s *stage) { s.press("down", "k", "down") },
		"refused":       func(s *stage) { s.actor.refusal = "it is process 1"; s.press("k") },
		"help":          func(s *stage) { s.press("?") },
		"palette":       func(s *stage) { s.press("ctrl+p").typed("focus") },
		"alert":         func(s *stage) { s.press("tab", "tab", "enter") },
		"full-cpu":      func(s *stage) { s.press("f") },
		"full-network":  func(s *stage) { s.full = layout.Network },
		"paused":        func(s *stage) { s.press("p", "i") },
		"sorted":        func(s *stage) { s.press("M", "r") },
		"ascii":         func(s *stage) { s.glyphs = screen.ASCII; s.press("v") },
		"block":         func(s *stage) { s.glyphs = screen.Block },
	} {
		s := newStage(t, 120, 40).play(60)
		prepare(s)
		golden(t, "state-"+name, s.text())
	}
}

func TestWaitingAndFailing(t *testing.T) {
	t.Parallel()
	s := newStage(t, 60, 14)
	golden(t, "waiting", s.text())
	s.source.err = fmt.Errorf("no process table\x1b[2J here")
	s.play(1)
	golden(t, "failing", s.text())
}

// ASCII screens hold nothing else.
func TestASCII(t *testing.T) {
	t.Parallel()
	for _, name := range layout.Names() {
		s := newStage(t, 120, 40).play(30)
		s.glyphs, s.settings.Layout = screen.ASCII, name
		for _, r := range s.press("?").text() + s.press("esc", "tab", "enter").text() {
			if r > '~' {
				t.Fatalf("%s: %q is not ASCII", name, r)
			}
		}
	}
}

// Nothing from outside reaches the terminal as a control, and no secret is
// shown unless it was asked for.
func TestTextFromOutside(t *testing.T) {
	t.Parallel()
	s := newStage(t, 200, 60).play(2)
	for _, keys := range [][]string{{"v"}, {"enter"}, {"tab", "tab", "enter"}} {
		s.press(keys...)
		s.stale = true
		content := s.View().Content
		if strings.Contains(content, "\x1b[2J") || strings.ContainsAny(content, "\u202e\u200d\x07") {
			t.Errorf("after %v a control of outside is on the screen", keys)
		}
		for _, hidden := range []string{"hunter2", "psecret", "abcdef0123456789"} {
			if strings.Contains(s.canvas.Plain(), hidden) {
				t.Errorf("after %v the secret %q is on the screen", keys, hidden)
			}
		}
	}
	s = newStage(t, 200, 60)
	s.options.ShowSecrets = true
	if !strings.Contains(s.play(2).text(), "hunter2") {
		t.Error("--show-secrets does not show them")
	}
}

// Colours: none with NO_COLOR, only the sixteen where those are all.
func TestDepths(t *testing.T) {
	t.Parallel()
	for _, name := range theme.Names() {
		s := newStage(t, 120, 40).play(2)
		s.settings.Theme = name
		for depth, bad := range map[theme.Depth][]string{theme.None: {"38;", "48;", ";3", ";9"}, theme.Sixteen: {"38;2", "48;2"}, theme.Full: nil} {
			s.depth, s.stale = depth, true
			content := s.View().Content
			for _, b := range bad {
				if strings.Contains(strings.ReplaceAll(content, "[0m", ""), "\x1b[0"+b) {
					t.Errorf("%s at depth %d has %q", name, depth, b)
				}
			}
		}
	}
}
