package display

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		args    []string
		secrets bool
		limit   int
		want    string
		cut     bool
	}{
		{nil, false, 10, "", false},
		{[]string{"a", "b"}, false, 10, "a b", false},
		{[]string{"abc", "defghij"}, false, 6, "abc d…", true},
		{[]string{"a", "--password", "x"}, false, 50, "a --password [redacted]", false},
		{[]string{"a", "--password", "x"}, true, 50, "a --password x", false},
		{[]string{"a", "--pass\u200bword", "x\x1b[31m"}, false, 50, "a --password [redacted]", false},
		{[]string{"a", "--token=" + strings.Repeat("x", 2000), "end"}, false, 50, "a --token=[redacted] …", true},
	} {
		if got, cut := CommandLine(x.args, x.secrets, x.limit); got != x.want || cut != x.cut {
			t.Errorf("CommandLine(%.60q, %v, %d) = %q, %v", x.args, x.secrets, x.limit, got, cut)
		}
	}
}

// The last argument is there, or the line says that it is not.
func TestNothingIsLeftOutUnmarked(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"a", "漢", "\u200b", "é ", "x\n"})
	rapid.Check(t, func(t *rapid.T) {
		arg := strings.Repeat(word.Draw(t, "word"), rapid.IntRange(1, 40_000).Draw(t, "times"))
		limit := rapid.IntRange(20, 10_000).Draw(t, "limit")
		line, cut := CommandLine([]string{"prog", arg, "ENDMARK"}, false, limit)
		if !cut && !strings.HasSuffix(line, "ENDMARK") || cut != strings.HasSuffix(line, "…") || utf8.RuneCountInString(line) > limit {
			t.Fatalf("%d characters of at most %d, cut %v: …%s", utf8.RuneCountInString(line), limit, cut, line[max(0, len(line)-40):])
		}
	})
	if line, cut := CommandLine([]string{"prog", strings.Repeat("漢", 3000), "ENDMARK"}, false, 4096); cut || !strings.HasSuffix(line, "ENDMARK") {
		t.Errorf("what fits is cut: %v", cut)
	}
	if _, cut := CommandLine([]string{strings.Repeat("x", Whole)}, false, Whole); !cut {
		t.Error("a command line that was not read to its end is not marked")
	}
}

func TestBehind(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"": {"only: a title"}, "-O2 x": {"/usr/bin/cc", "-O2", "x"}, "-p[redacted] x": {"/usr/bin/mysql", "-phunter2", "x"},
		"[redacted]": {"--password", "hunter2"},
	} {
		if got, cut := Behind(args, false, 50); got != want || cut {
			t.Errorf("Behind(%q) = %q, %v", args, got, cut)
		}
	}
	if got, cut := Behind(nil, false, 50); got != "" || cut {
		t.Errorf("Behind(nil) = %q, %v", got, cut)
	}
}

func TestTextAndLabel(t *testing.T) {
	t.Parallel()
	if got := Text("https://u:p@h/\x1b[2J", false); got != "https://u:[redacted]@h/" {
		t.Error(got)
	}
	if got := Text("https://u:p@h/", true); got != "https://u:p@h/" {
		t.Error(got)
	}
	if got := Label("pass\u200bword", "x y", false); got != "[redacted]" {
		t.Error(got)
	}
}
