package proc

import (
	"slices"
	"strings"
	"testing"
)

func TestCmdline(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	for pid, expected := range map[int32][]string{
		26231: {"vim", "test.go", "+10"},
		26232: nil,
		26233: {"com.github.uiautomator"},
	} {
		if got, err := f.Cmdline(pid); err != nil || !slices.Equal(got, expected) {
			t.Errorf("%d: %q %v", pid, got, err)
		}
	}
	for content, expected := range map[string][]string{
		"":                     nil,
		"\x00\x00":             nil,
		"a\x00\x00b\x00":       {"a", "", "b"},
		"nginx: worker":        {"nginx: worker"},
		"\xff\x00two\nlines":   {"\xff", "two\nlines"},
		"\x00b\x00\x00\x00":    {"", "b"},
		"a b\x00c\x00\x00\x00": {"a b", "c"},
	} {
		if got := ParseCmdline([]byte(content)); !slices.Equal(got, expected) {
			t.Errorf("%q: %q, expected %q", content, got, expected)
		}
	}
	long := written(t, map[string]string{"proc/9/cmdline": strings.Repeat("0123456789abcde\x00", MaxCmdline)})
	if got, err := long.Cmdline(9); err != nil || len(got) != MaxCmdline/16 {
		t.Errorf("%d arguments, %v", len(got), err)
	}
}
