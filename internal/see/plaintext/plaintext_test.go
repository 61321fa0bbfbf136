package plaintext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain":               {"cc1plus -O2 source.cc", "cc1plus -O2 source.cc"},
		"empty":               {"", ""},
		"letters stay":        {"größe 数据 ёлка 👍", "größe 数据 ёлка 👍"},
		"newline and tab":     {"a\nb\t\r\nc", "a b c"},
		"colour":              {"\x1b[31mred\x1b[0m", "red"},
		"title":               {"\x1b]0;owned\x07name", "name"},
		"link":                {"\x1b]8;;http://evil/\x1b\\text\x1b]8;;\x1b\\", "text"},
		"one-byte CSI":        {"a\u009b31mb", "a31mb"},
		"unfinished sequence": {"name\x1b[12", "name"},
		"split sequence":      {"\x1b\x1b[0m[31mx", "[31mx"},
		"null and delete":     {"a\x00b\x7fc", "abc"},
		"bidi override":       {"exe\u202egpj.\u2066x\u2069", "exegpj.x"},
		"zero width":          {"pass\u200bword\ufeff\u00ad", "password"},
		"tags":                {"hi\U000E0068\U000E0069", "hi"},
		"selectors":           {"x\ufe0f\U000E0101", "x"},
		"fillers":             {"a\u3164b\u2800c", "abc"},
		"private use":         {"a\ue000b", "ab"},
		"line separators":     {"a\u2028b\u2029c\u0085d", "a b c d"},
		"broken UTF-8":        {"caf\xe9 \xff\xfe", "caf\ufffd \ufffd"},
		"non-character":       {"a\ufffeb\U0001ffffc", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Line(c.in); got != c.want {
				t.Errorf("Line(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
		cut   bool
	}{
		"short":           {"abc", 5, "abc", false},
		"exact":           {"abcde", 5, "abcde", false},
		"long":            {"abcdef", 5, "abcd…", true},
		"wide exact":      {"ääääé", 5, "ääääé", false},
		"wide long":       {"äääääé", 5, "ääää…", true},
		"hidden is free":  {"a\u200bb\u200bc", 3, "abc", false},
		"enormous":        {strings.Repeat("x", 1<<20), 4, "xxx…", true},
		"enormous hidden": {strings.Repeat("\u200b", 1<<20), 4, "…", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, cut := Bounded(c.in, c.limit)
			if got != c.want || cut != c.cut {
				t.Errorf("Bounded(%.40q, %d) = %q, %v, want %q, %v", c.in, c.limit, got, cut, c.want, c.cut)
			}
		})
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{"sleep 5", "\x1b[31mred", "\x1b]0;t\x07", "\u202ex", "\xff\xfe", "\x1b\x1b[0m[31mx", "\u009b1m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := Line(s)
		if !utf8.ValidString(line) {
			t.Fatalf("Line(%q) = %q is not UTF-8", s, line)
		}
		for _, r := range line {
			if r != ' ' && (unicode.IsSpace(r) || hidden(r)) {
				t.Fatalf("Line(%q) = %q holds %U", s, line, r)
			}
		}
		if again := Line(line); again != line {
			t.Fatalf("Line is not idempotent: %q, then %q", line, again)
		}
		if short, _ := Bounded(s, 8); utf8.RuneCountInString(short) > 8 {
			t.Fatalf("Bounded(%q, 8) = %q is longer", s, short)
		}
	})
}
