package proc

// Tests of the files of one process.

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestIO(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	io, err := f.IO(26231)
	expected := IO{ReadBytes: 1024, WriteBytes: 2048, ReadChars: 750339, WriteChars: 818609, ReadSyscalls: 7405, WriteSyscalls: 5245}
	if err != nil || io != expected {
		t.Errorf("%+v %v", io, err)
	}
	if _, err := f.IO(26232); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
	for _, wrong := range []string{"", "rchar: 1\n", "rchar: x\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 1\nwrite_bytes: 1\ncancelled_write_bytes: 1\n"} {
		if io, err := ParseIO([]byte(wrong)); !errors.Is(err, ErrMalformed) || io != (IO{}) {
			t.Errorf("%q: %+v %v", wrong, io, err)
		}
	}
}

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
	long := written(t, map[string]string{"proc/9/cmdline": strings.Repeat("0123456789abcde\x00", maxCmdline)})
	if got, err := long.Cmdline(9); err != nil || len(got) != maxCmdline/16 {
		t.Errorf("%d arguments, %v", len(got), err)
	}
}

func TestLinksOfTree(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	if path, deleted, err := f.Executable(26231); path != "/usr/bin/vim" || deleted || err != nil {
		t.Errorf("%q %v %v", path, deleted, err)
	}
	if path, err := f.WorkingDirectory(26231); path != "/usr/bin" || err != nil {
		t.Errorf("%q %v", path, err)
	}
	if target, err := f.Readlink("proc/self"); target != "26231" || err != nil {
		t.Errorf("%q %v", target, err)
	}
	if _, _, err := f.Executable(584); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}

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

func TestStatus(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	s, err := f.Status(26231)
	if err != nil {
		t.Fatal(err)
	}
	if s.Uids == nil || *s.Uids != [4]uint32{1000, 1000, 1000, 0} || s.Gids == nil || *s.Gids != [4]uint32{1001, 1001, 1001, 0} {
		t.Errorf("uids %v, gids %v", shown(s.Uids), shown(s.Gids))
	}
	if !same(s.VmSwap, ptr(uint64(660<<10))) || !same(s.VmHWM, ptr(uint64(8028<<10))) || !same(s.VoluntarySwitches, ptr(uint64(4742839))) ||
		!same(s.NonvoluntarySwitches, ptr(uint64(1727500))) || s.NoNewPrivs != nil || !same(s.CapEff, ptr(uint64(0x3fffffffff))) {
		t.Errorf("%v %v %v %v", shown(s.VmSwap), shown(s.VmHWM), shown(s.VoluntarySwitches), shown(s.NonvoluntarySwitches))
	}
	if uid, err := f.Owner(26231); uid != 1000 || err != nil {
		t.Errorf("owner %d %v", uid, err)
	}
	if _, err := f.Owner(584); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	s, err := ParseStatus([]byte("Name:\ta\\nUid:\nUid:\t1\t2\t3\t4294967295\nUid:\t9\t9\t9\t9\nVmSwap:\t  18446744073709551615 kB\n" +
		"NSpid:\t70 7\t1\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nNoNewPrivs:\t1\nTracerPid:\t0\nvoluntary_ctxt_switches:\t-1\nThreads:\t3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if *s.Uids != [4]uint32{1, 2, 3, 4294967295} || s.Gids != nil || s.VmSwap != nil || s.VoluntarySwitches != nil || s.VmHWM != nil ||
		!slices.Equal(s.NSpid, []int32{70, 7, 1}) || *s.CapEff != 1<<41-1 || *s.Seccomp != 2 || !*s.NoNewPrivs || *s.TracerPid != 0 || *s.Threads != 3 {
		t.Errorf("%+v", s)
	}
	if _, err := ParseStatus([]byte("nothing\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	limits, err := tree(t, "prometheus-procfs").Limits(26231)
	if err != nil {
		t.Fatal(err)
	}
	for name, expected := range map[string]Limit{
		"Max open files":        {Soft: 2048, Hard: 4096, Unit: "files"},
		"Max cpu time":          {SoftUnlimited: true, HardUnlimited: true, Unit: "seconds"},
		"Max stack size":        {Soft: 8388608, HardUnlimited: true, Unit: "bytes"},
		"Max realtime priority": {},
	} {
		if got, ok := limits[name]; !ok || got != expected {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := ParseLimits([]byte("Limit   Soft Limit\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func TestDescriptorCountOfTree(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	if n, err := f.DescriptorCount(26231); n != 5 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if _, err := f.DescriptorCount(584); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}

func TestOOMScore(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{"proc/7/oom_score": "667\n", "proc/8/oom_score": "x\n"})
	if n, err := f.OOMScore(7); n != 667 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if _, err := f.OOMScore(8); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func FuzzParseProcessFiles(f *testing.F) {
	for _, name := range []string{"io", "status", "limits", "cmdline", "cgroup"} {
		data, _ := tree(f, "prometheus-procfs").Read("proc/26231/" + name)
		f.Add(data)
	}
	for _, row := range corpus(f, "cgroups.tsv") {
		f.Add([]byte(row["cgroup"]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := ParseIO(data); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
		if s, err := ParseStatus(data); (s == nil) == (err == nil) {
			t.Error(s, err)
		}
		if l, err := ParseLimits(data); (l == nil) == (err == nil) {
			t.Error(l, err)
		}
		lines, err := ParseCgroups(data)
		if err != nil && (lines != nil || !errors.Is(err, ErrMalformed)) {
			t.Error(lines, err)
		}
		for _, l := range lines {
			if !strings.HasPrefix(l.Path, "/") && !(l.Deleted && l.Path == "") || strings.Contains(l.Controllers, ":") {
				t.Errorf("%+v", l)
			}
		}
		if got := strings.Join(ParseCmdline(data), "\x00"); got != string(bytes.TrimRight(data, "\x00")) {
			t.Errorf("%q became %q", data, got)
		}
	})
}
