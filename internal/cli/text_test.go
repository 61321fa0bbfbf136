package cli

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"topside/internal/see/model"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[float64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 * 1024: "10 KiB", 1536: "1.5 KiB",
		1 << 20: "1.0 MiB", 1 << 30: "1.0 GiB", 1 << 40: "1.0 TiB", 1 << 62: "4.0 EiB",
	} {
		if got := size(bytes); got != want {
			t.Errorf("size(%v) = %q, want %q", bytes, got, want)
		}
	}
	if got := sizeOf(model.Figure{}); got != unknown {
		t.Errorf("an unknown size is %q", got)
	}
}

func TestDurationAndClock(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		1500 * time.Millisecond: "1.5s", 61 * time.Second: "1m 1s", 3 * time.Hour: "3h 0m", 50 * time.Hour: "2d 2h",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) = %q, want %q", d, got, want)
		}
	}
	for seconds, want := range map[float64]string{0: "0:00.00", 59.999: "1:00.00", 17.21: "0:17.21", 3601.5: "60:01.50"} {
		if got := clock(model.Known(seconds)); got != want {
			t.Errorf("clock(%v) = %q, want %q", seconds, got, want)
		}
	}
	if got := clock(model.Figure{}); got != unknown {
		t.Errorf("an unknown time is %q", got)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := newTable(">PID", "NAME")
	table.add("7", "a")
	table.add("1234", "日本語 and more")
	var b strings.Builder
	table.write(&b, palette{}, " ", 14)
	want := "  PID  NAME\n    7  a\n 1234  日本語…\n"
	if b.String() != want {
		t.Errorf("got\n%q, want\n%q", b.String(), want)
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"/usr/bin/topside": "/usr/bin/topside", "/my tools/topside": "'/my tools/topside'", "it's": `'it'\''s'`, "": "''",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", word, got, want)
		}
	}
}

func TestFolded(t *testing.T) {
	t.Parallel()
	if got, want := folded("one two three four five six", "    ", 24), "one two three four\n    five six"; got != want {
		t.Errorf("folded = %q, want %q", got, want)
	}
	if got := folded("as it is", "    ", 0); got != "as it is" {
		t.Errorf("without a width it became %q", got)
	}
}

// TestDistance holds the laws of a metric, by which suggestions can be trusted.
func TestDistance(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-c_]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		ab, ba := distance(a, b), distance(b, a)
		switch {
		case ab != ba:
			t.Fatalf("%d one way, %d the other", ab, ba)
		case (ab == 0) != (a == b):
			t.Fatalf("distance %d between %q and %q", ab, a, b)
		case ab > max(len(a), len(b)):
			t.Fatalf("distance %d exceeds both words", ab)
		case distance(a, c) > ab+distance(b, c):
			t.Fatalf("a detour over %q is shorter", b)
		}
	})
}

func TestSuggestion(t *testing.T) {
	t.Parallel()
	names := []string{"get_system_summary", "list_resources", "inspect_resource", "list_children"}
	for typed, want := range map[string]string{
		"list_resource": "Did you mean list_resources?\n", "summary": "Did you mean get_system_summary?\n", "kill": "", "": "",
	} {
		if got := suggestion(typed, names); got != want {
			t.Errorf("suggestion(%q) = %q, want %q", typed, got, want)
		}
	}
}
