package tui

// This file tests what keys, the mouse and the configuration do.

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"topside/internal/see/model"
	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
	"topside/internal/tui/layout"
	"topside/internal/tui/theme"
)

func pids(s *stage) []int32 {
	var out []int32
	for i := range s.table.rows {
		out = append(out, s.table.rows[i].process.PID)
	}
	return out
}

// The names are those of the configuration, which MCP clients set.
func TestNamesAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	if !slices.Equal(theme.Names(), config.Themes) {
		t.Errorf("themes: %v, the configuration has %v", theme.Names(), config.Themes)
	}
	if !slices.Equal(layout.Names(), config.Layouts) {
		t.Errorf("layouts: %v, the configuration has %v", layout.Names(), config.Layouts)
	}
}

func TestSorting(t *testing.T) {
	t.Parallel()
	s := newStage(t, 200, 50).play(2)
	for c := range columnCount {
		s.table.sort, s.table.ascending = c, true
		s.table.arrange()
		up := pids(s)
		s.table.ascending = false
		s.table.arrange()
		down := pids(s)
		if len(up) != len(worldProcesses) || len(down) != len(up) {
			t.Fatalf("column %s: %d and %d rows", columns[c].title, len(up), len(down))
		}
		for i := 1; i < len(s.table.rows); i++ {
			if columns[c].compare(&s.table, s.table.rows[i-1].resource, s.table.rows[i].resource) < 0 {
				t.Errorf("column %s: row %d is out of order", columns[c].title, i)
			}
		}
	}
	s.press("N")
	if got := pids(s); !slices.IsSorted(got) {
		t.Errorf("N sorts %v", got)
	}
	s.press("N")
	if got := pids(s); got[0] != 3100 {
		t.Errorf("N again starts with %d, want the last", got[0])
	}
	s.press("N", ">")
	if s.table.sort != byUser {
		t.Errorf("after the PID comes column %d", s.table.sort)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	s := newStage(t, 160, 50).play(2)
	for filter, want := range map[string][]int32{
		"NGINX":                {1520, 1531, 1532},
		"user:postgres":        {901, 940, 941, 942},
		"u:kate rg":            {2290},
		"unit:redis":           {1705},
		"container:shop-web":   {1520, 1531, 1532},
		"pid:940":              {940},
		"state:z":              {2400},
		"/^redis/":             {1705},
		"/work.*process/":      {1531, 1532},
		"/(/":                  nil,
		"checkpointer user:x":  nil,
		"hunter2":              {1610},
		"user:1000 /srv/shop":  {1610},
		"unit:postgresql D":    {901, 940, 941, 942},
		"container:nosuch":     nil,
		"state:d unit:postgre": {942},
	} {
		s.table.setFilter(filter)
		got := pids(s)
		slices.Sort(got)
		if filter == "unit:postgresql D" || filter == "u:kate rg" {
			// words match anywhere in the arguments; these only must hold
			for _, pid := range want {
				if filter == "u:kate rg" && !slices.Contains(got, pid) {
					t.Errorf("%q: %v lacks %d", filter, got, pid)
				}
			}
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", filter, got, want)
		}
	}
}

func TestTypingAFilter(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 40).play(2)
	s.press("/").typed("nginxq")
	if len(s.table.rows) != 0 || s.table.filter != "nginxq" {
		t.Fatalf("q ended the filter: %q", s.table.filter)
	}
	s.press("backspace", "enter")
	if s.typing || len(s.table.rows) != 3 {
		t.Errorf("after Enter: typing %v, %d rows", s.typing, len(s.table.rows))
	}
	s.press("esc")
	if s.table.filter != "" {
		t.Errorf("Esc leaves the filter %q", s.table.filter)
	}
	s.press("/")
	s.Update(tea.PasteMsg{Content: "redis\x1b[31m\nserver" + strings.Repeat("x", 5000)})
	if len(s.table.filter) > longestFilter || strings.ContainsAny(s.table.filter, "\x1b\n") {
		t.Errorf("pasted: %q", s.table.filter)
	}
	s.press("ctrl+u").typed("日本")
	s.press("backspace")
	if s.table.filter != "日" {
		t.Errorf("backspace leaves %q", s.table.filter)
	}
}

// The selection stays with its process while rows move, and lets go when it
// ends.
func TestSelectionFollowsTheProcess(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 40).play(1)
	s.press("down", "down")
	chosen := s.table.selected
	s.play(20)
	if s.table.selected != chosen {
		t.Errorf("selected %v, was %v", s.table.selected, chosen)
	}
	o := observationAt(30)
	o.Processes = slices.DeleteFunc(o.Processes, func(p model.Process) bool { return p.PID == chosen.PID })
	s.Update(sampled{scene: sceneOf(t, o)})
	if s.table.selected.PID == chosen.PID || s.table.selected.PID == 0 {
		t.Errorf("selected %v after that process ended", s.table.selected)
	}
	// The same PID with another start is another process.
	s = newStage(t, 120, 40).play(1)
	s.press("down")
	chosen = s.table.selected
	o = observationAt(2)
	for i := range o.Processes {
		if o.Processes[i].PID == chosen.PID {
			o.Processes[i].StartTicks++
		}
	}
	s.Update(sampled{scene: sceneOf(t, o)})
	if s.table.selected == chosen {
		t.Error("a recycled PID is still selected")
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 60).play(1)
	s.press("v")
	depth := map[int32]int{}
	for _, r := range s.table.rows {
		depth[r.process.PID] = r.depth
	}
	for pid, want := range map[int32]int{1: 0, 2: 0, 1200: 1, 1502: 2, 1520: 3, 1531: 4, 11: 1} {
		if depth[pid] != want {
			t.Errorf("%d is at depth %d, want %d", pid, depth[pid], want)
		}
	}
	for s.table.current().process.PID != 1200 {
		s.press("down")
	}
	s.press("space")
	if got := pids(s); slices.Contains(got, 1502) || slices.Contains(got, 1531) || !slices.Contains(got, 1200) {
		t.Errorf("folded: %v", got)
	}
	s.press("space")
	if got := pids(s); !slices.Contains(got, 1531) || len(got) != len(worldProcesses) {
		t.Errorf("unfolded: %v", got)
	}
	s.press("K")
	if got := pids(s); slices.Contains(got, 2) || slices.Contains(got, 11) {
		t.Errorf("kernel tasks are not hidden: %v", got)
	}
}

// A signal goes to the process that was asked about, after a y, and to no other.
func TestSignal(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 40).play(1)
	s.press("down", "k")
	asked := s.overlay.target
	s.press("enter", "k", "q")
	if len(s.actor.sent) != 0 {
		t.Fatalf("sent without a y: %v", s.actor.sent)
	}
	s.press("k")
	asked = s.overlay.target
	s.play(5) // rows move meanwhile
	s.press("down", "y")
	want := "KILL " + itoa(int(asked.PID)) + " " + itoa(int(asked.StartTicks))
	if !slices.Equal(s.actor.sent, []string{want}) {
		t.Errorf("sent %v, want %s", s.actor.sent, want)
	}
	if !strings.Contains(s.status, "SIGKILL sent") {
		t.Errorf("the status is %q", s.status)
	}
	s.actor.refusal = "it is topside itself"
	s.press("k", "y")
	if len(s.actor.sent) != 1 {
		t.Errorf("a refused signal was sent: %v", s.actor.sent)
	}
	if !strings.Contains(s.text(), "would be refused: it is topside itself") {
		t.Error("the refusal is not shown")
	}
	s.press("esc")
	s.options.Actor = nil
	s.press("k")
	if s.overlay.kind != noOverlay {
		t.Error("a signal is offered though none can be sent")
	}
}

// What MCP clients change in the configuration changes a running view; what was
// chosen for this view alone holds until then.
func TestConfigurationChanges(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 40)
	s.options.Theme = "miami"
	s.Model = newModel(s.ctx, s.options)
	s.width, s.height = 120, 40
	s.play(1)
	if s.settings.Theme != "miami" {
		t.Fatalf("theme %s, want that of the command line", s.settings.Theme)
	}
	_, _ = s.Update(look{})
	if s.settings.Theme != "miami" {
		t.Error("looking at an unchanged configuration changed the theme")
	}
	s.config.settings.Theme, s.config.settings.Layout = "oslo", "Memory Focus"
	s.config.settings.Interval = 2 * time.Second
	s.config.settings.Thresholds = threshold.Settings{"cpu": {Limit: 1}}
	s.config.settings.Keys = map[string][]string{"quit": {"x"}}
	cmd := s.obey(s.config.Current())
	s.run(cmd)
	if s.settings.Theme != "oslo" || s.settings.Layout != "Memory Focus" || s.source.tuned != 2*time.Second {
		t.Errorf("theme %s, layout %s, interval %v", s.settings.Theme, s.settings.Layout, s.source.tuned)
	}
	if s.table.sort != byMemory {
		t.Error("Memory Focus does not sort by memory")
	}
	if !strings.Contains(s.text(), "CPU") || s.keys.actions["x"] != actQuit || s.keys.actions["q"] == actQuit {
		t.Error("the new keys are not in force")
	}
	s.settings.Layout = "Dashboard"
	if !strings.Contains(s.text(), "CPU !") {
		t.Error("the threshold does not mark the CPU panel")
	}
}

// Choices are kept, and it is said when they cannot be.
func TestChoicesAreKept(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 40).play(1)
	s.press("t", "l")
	if s.config.settings.Theme != "berlin" || s.config.settings.Layout != "Vertical" {
		t.Errorf("kept %s and %s", s.config.settings.Theme, s.config.settings.Layout)
	}
	s.press("T", "T", "L", "L")
	if s.config.settings.Theme != "tokio" || s.config.settings.Layout != "Process Focus" {
		t.Errorf("kept %s and %s", s.config.settings.Theme, s.config.settings.Layout)
	}
	s.config.err = errors.New("disk full")
	s.press("t")
	if s.settings.Theme != "x" || !strings.Contains(s.status, "disk full") {
		t.Errorf("theme %s, status %q", s.settings.Theme, s.status)
	}
}

func TestMouse(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 40).play(1)
	find := func(text string) tea.Mouse {
		for y, line := range strings.Split(s.text(), "\n") {
			if x := strings.Index(line, text); x >= 0 {
				return tea.Mouse{X: len([]rune(line[:x])), Y: y, Button: tea.MouseLeft}
			}
		}
		t.Fatalf("%q is not on the screen", text)
		return tea.Mouse{}
	}
	click := func(text string) {
		_, cmd := s.Update(tea.MouseClickMsg(find(text)))
		s.run(cmd)
	}
	click("postgres: checkpointer")
	if s.table.selected.PID != 942 {
		t.Errorf("selected %v", s.table.selected)
	}
	click("postgres: checkpointer")
	if !s.details.open {
		t.Error("a second click does not open the details")
	}
	s.press("esc")
	click("RSS")
	if s.table.sort != byMemory {
		t.Errorf("sorted by %d", s.table.sort)
	}
	click("RSS")
	if !s.table.ascending {
		t.Error("a second click does not turn the order round")
	}
	click("shop-web")
	if s.focused() != layout.Groups || s.groups.current().Name != "shop-web" {
		t.Errorf("focus on %s", s.focused())
	}
	click("shop-web")
	if s.table.filter != "container:shop-web" {
		t.Errorf("filter %q", s.table.filter)
	}
	s.press("esc")
	before := s.table.cursor
	at := find("/usr/bin/containerd")
	at.Button = tea.MouseWheelDown
	s.Update(tea.MouseWheelMsg(at))
	if s.table.cursor != before+wheelRows {
		t.Errorf("the wheel moved from %d to %d", before, s.table.cursor)
	}
	click("? help")
	if s.overlay.kind != helpOverlay {
		t.Error("clicking the hint does not open the help")
	}
}

func TestKeymap(t *testing.T) {
	t.Parallel()
	k, remarks := newKeymap(map[string][]string{
		"signal": {"F9", "Ctrl+K"}, "tree": {"k"}, "no-such": {"z"}, "help": {}, "quit": {"ctrl+c", ""},
	})
	for key, want := range map[string]action{"ctrl+k": actSignal, "f9": actSignal, "k": actTree, "v": "", "?": "", "ctrl+c": actQuit, "q": ""} {
		if got := k.actions[key]; got != want {
			t.Errorf("%s does %q, want %q", key, got, want)
		}
	}
	if len(remarks) != 3 {
		t.Errorf("remarks: %q", remarks)
	}
	for in, want := range map[string]string{
		"Shift+Ctrl+X": "ctrl+shift+x", "PageUp": "pgup", "Escape": "esc", " ": "space", "+": "+", "ctrl++": "ctrl++", "G": "G", "": "",
	} {
		if got := keyName(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	taken := map[string]action{}
	for _, b := range bindings {
		for _, key := range b.keys {
			if other, ok := taken[key]; ok {
				t.Errorf("%s is bound to %s and to %s", key, other, b.action)
			}
			taken[key] = b.action
			if keyName(key) != key {
				t.Errorf("%s is written as %s", key, keyName(key))
			}
		}
	}
}

func TestAlertsAreAcknowledged(t *testing.T) {
	t.Parallel()
	s := newStage(t, 160, 48).play(1)
	s.press("tab", "tab", "a")
	if !slices.Equal(s.alerts.seen, []string{"a1"}) {
		t.Errorf("acknowledged %v", s.alerts.seen)
	}
	if !strings.Contains(s.text(), "1 warning") {
		t.Error("the header still counts the acknowledged alert")
	}
}

// An error of the observer is shown, and the last figures stay.
func TestFailingSample(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 40).play(2)
	s.source.err = errors.New("no more processes")
	s.play(1)
	text := s.text()
	if !strings.Contains(text, "cannot sample: no more processes") || !strings.Contains(text, "shop-1") {
		t.Error("the failure is not shown beside the last figures")
	}
	s.source.err = nil
	if strings.Contains(s.play(1).text(), "cannot sample") {
		t.Error("the failure stays")
	}
}

func TestPacing(t *testing.T) {
	t.Parallel()
	s := newStage(t, 120, 40).play(1)
	s.press("-")
	if s.interval() != 2*time.Second || s.source.tuned != 2*time.Second {
		t.Errorf("interval %v, tuned %v", s.interval(), s.source.tuned)
	}
	for range 20 {
		s.press("+")
	}
	if s.interval() != 100*time.Millisecond {
		t.Errorf("the shortest interval is %v", s.interval())
	}
	// A clock that was replaced does not tick any more, and a sample that is
	// still being taken is not overtaken.
	if _, cmd := s.Update(tick{s.ticked - 1}); cmd != nil {
		t.Error("an old clock still ticks")
	}
	s.press("p")
	if s.Update(tick{s.ticked}); s.sampling {
		t.Error("a paused view samples")
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0B", 999: "999B", 1000: "1.0K", 1536: "1.5K", 102000: "99.6K", 102400: "100K", 1 << 20: "1.0M", 1 << 40: "1.0T", -1: "–", 1e30: "867361738B"} {
		got := size(v)
		if v != 1e30 && got != want {
			t.Errorf("size(%v) = %s, want %s", v, got, want)
		}
		if v != 1e30 && len([]rune(got)) > 5 {
			t.Errorf("size(%v) = %s is too long", v, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 61 * time.Second: "1m 1s", 25 * time.Hour: "1d 1h", -1: "–"} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %s, want %s", d, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0:00.00", 61.5: "1:01.50", 6000: "1h40m", 360000: "100h", -1: "–"} {
		if got := cpuTime(s); got != want {
			t.Errorf("cpuTime(%v) = %s, want %s", s, got, want)
		}
	}
}

// The document lists every action with its keys.
func TestDocumentListsEveryKey(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/top.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings {
		var keys []string
		for _, key := range b.keys {
			keys = append(keys, "`"+label([]string{key})+"`")
		}
		if line := "| " + strings.Join(keys, " ") + " | `" + string(b.action) + "` | " + b.does + " |\n"; !strings.Contains(string(document), line) {
			t.Errorf("docs/top.md lacks the line %s", line)
		}
	}
}
