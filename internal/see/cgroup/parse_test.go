package cgroup

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"topside/internal/see/proc"
)

// realFile returns the content of a row of testdata/files.tsv, which real
// machines wrote.
func realFile(t testing.TB, id string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/files.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, "\t")
		if fields[0] != id {
			continue
		}
		// The files' escapes are a subset of Go's, but for the quote.
		content, err := strconv.Unquote(`"` + strings.ReplaceAll(fields[2], `"`, `\"`) + `"`)
		if err != nil {
			t.Fatalf("row %s: %v", id, err)
		}
		return []byte(content)
	}
	t.Fatalf("no row %s", id)
	return nil
}

func TestRealCPUStat(t *testing.T) {
	t.Parallel()
	s := parseCPUStat(realFile(t, "p024"))
	value(t, "usage", s.usage, 12849502000)
	value(t, "user", s.user, 10191064000)
	value(t, "system", s.system, 2658438000)
	value(t, "periods", s.periods, 0)
	value(t, "throttled", s.throttled, 0)
	value(t, "throttled time", s.micros, 0)

	s = parseCPUStat(realFile(t, "p025"))
	value(t, "usage of the root", s.usage, 38354643000)
	absent(t, "periods of the root", s.periods)
	absent(t, "throttled periods of the root", s.throttled)

	s = parseCPUStat(realFile(t, "p028"))
	absent(t, "usage of v1", s.usage)
	value(t, "periods of v1", s.periods, 380975143)
	value(t, "throttled of v1", s.throttled, 5583849)
	value(t, "throttled time of v1", s.micros, 254005032764)
}

func TestRealMemoryStat(t *testing.T) {
	t.Parallel()
	s := parseMemoryStat(realFile(t, "p029"), true)
	value(t, "inactive file", s.inactiveFile, 2935459840)
	value(t, "anon", s.anon, 2471755776)
	value(t, "file", s.file, 8532865024)
	s = parseMemoryStat(realFile(t, "p030"), true)
	value(t, "inactive file of 5.5", s.inactiveFile, 540672)
	value(t, "anon of 5.5", s.anon, 270336)
	s = parseMemoryStat(realFile(t, "p032"), false)
	value(t, "inactive file of v1", s.inactiveFile, 1601998848)
	value(t, "anon of v1", s.anon, 12778020864)
	value(t, "limit of v1", s.limit, 21474836480)
	absent(t, "swap of v1 without accounting", s.swap)
}

func TestRealLimitIOAndPressure(t *testing.T) {
	t.Parallel()
	if limit, unlimited := parseLimit(realFile(t, "p033")); limit != nil || !unlimited {
		t.Errorf("PAGE_COUNTER_MAX is a limit: %v, %t", limit, unlimited)
	}
	read, written := parseIOStat(realFile(t, "p035"))
	value(t, "rbytes", read, 45931053056+48963873792)
	value(t, "wbytes", written, 211814596608+217588278272)
	p, err := proc.ParsePressure(realFile(t, "p021"))
	if err != nil || p.Some == nil || p.Full == nil || p.Some.TotalMicros != 44618 || p.Full.TotalMicros != 44480 {
		t.Errorf("pressure %+v, %v", p, err)
	}
}

// The mountinfo of real machines: where each controller is found, whatever else
// is mounted.
func TestRealMountinfo(t *testing.T) {
	t.Parallel()
	const pod = "/kubepods/burstable/pod51d1885e-187c-4563-a51e-2cccf685610c/794b58c8a6dff2d8313df105c011868f33584884d6dd3384a5ebc570fd6b8b9b"
	for _, c := range []struct {
		id, version, lines, controller, dir string
	}{
		{"p053", "none", "0::/x\n", "memory", ""},
		{"p055", "none", "0::/x\n", "memory", ""},
		{"p058", "v1", "1:name=systemd:" + pod + "\n4:cpu,cpuacct:" + pod + "/y\n", "cpu", "sys/fs/cgroup/cpu,cpuacct/y"},
		{"p061", "hybrid", "4:memory:/x\n0::/y\n", "memory", "sys/fs/cgroup/memory/x"},
		{"p061", "hybrid", "4:memory:/x\n0::/y\n", "", "sys/fs/cgroup/unified/y"},
		{"p063", "v1", "4:net_cls,memory,cpu:/x\n", "cpu", "sys/fs/cgroup/cpu,cpuacct,net_cls,net_prio,hugetlb,memory/x"},
		{"p065", "v2", "0::/x\n", "memory", "sys/fs/cgroup/x"},
		{"p065", "v2", "0::/../../x\n", "memory", "testdata/docker2/sys/fs/cgroup/x"},
		{"p065", "v2", "0::/../x\n", "memory", ""},
		{"p067", "none", "0::/x\n", "memory", ""},
	} {
		h := discover(t, tree(t, map[string]string{"proc/self/mountinfo": string(realFile(t, c.id))}))
		if h.Version() != c.version {
			t.Errorf("%s: version %q, want %q", c.id, h.Version(), c.version)
		}
		m := h.Place(lines(t, c.lines))
		if got := m.Dir(c.controller); got != c.dir {
			t.Errorf("%s: %q of %q is in %q, want %q", c.id, c.controller, c.lines, got, c.dir)
		}
	}
}

func TestParseLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		limit     uint64
		limited   bool
		unlimited bool
	}{
		"max\n": {unlimited: true}, "-1\n": {unlimited: true}, "512\n": {512, true, false}, "0\n": {0, true, false},
		"9223372036854710272": {unlimited: true}, // 64 KiB pages
		"9223372036854771712": {unlimited: true}, "18446744073709551615": {unlimited: true},
		"": {}, "12x": {}, "-2": {}, "99999999999999999999999": {},
	} {
		limit, unlimited := parseLimit([]byte(text))
		if (limit != nil) != want.limited || limit != nil && *limit != want.limit || unlimited != want.unlimited {
			t.Errorf("parseLimit(%q) = %v, %t", text, limit, unlimited)
		}
	}
}

func TestParseQuota(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"50000 100000\n": 0.5, "400000 200000": 2, "25000": 0.25} {
		if cores, unlimited := parseQuota([]byte(text)); cores == nil || *cores != want || unlimited {
			t.Errorf("parseQuota(%q) = %v, %t", text, cores, unlimited)
		}
	}
	if cores, unlimited := parseQuota([]byte("max 100000\n")); cores != nil || !unlimited {
		t.Errorf("max is %v, %t", cores, unlimited)
	}
	for _, text := range []string{"", "x", "1 0", "1 x", "-5 100000"} {
		if cores, unlimited := parseQuota([]byte(text)); cores != nil || unlimited {
			t.Errorf("parseQuota(%q) = %v, %t", text, *cores, unlimited)
		}
	}
}

func TestParseCPUList(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]int{"": 0, "0\n": 1, "0-3": 4, "0-3,8,10-11\n": 7, "5": 1} {
		if n, ok := ParseCPUList(list); n != want || !ok {
			t.Errorf("ParseCPUList(%q) = %d, %t, want %d", list, n, ok, want)
		}
	}
	for _, list := range []string{"3-1", "a", "1,1", "0-", "-1", "0,,1", "0-99999999999", "4,2"} {
		if n, ok := ParseCPUList(list); ok {
			t.Errorf("ParseCPUList(%q) = %d, want nonsense", list, n)
		}
	}
}

// Any set of CPUs, written as the kernel does, is counted right.
func TestParseCPUListProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		next, total := 0, 0
		for range rapid.IntRange(0, 8).Draw(t, "ranges") {
			first := next + rapid.IntRange(0, 5).Draw(t, "gap")
			size := rapid.IntRange(1, 9).Draw(t, "size")
			if size == 1 {
				parts = append(parts, strconv.Itoa(first))
			} else {
				parts = append(parts, strconv.Itoa(first)+"-"+strconv.Itoa(first+size-1))
			}
			next, total = first+size, total+size
		}
		if n, ok := ParseCPUList(strings.Join(parts, ",")); n != total || !ok {
			t.Fatalf("%q counts %d, %t, want %d", parts, n, ok, total)
		}
	})
}

func TestSumsDoNotOverflow(t *testing.T) {
	t.Parallel()
	read, _ := parseIOStat([]byte("8:0 rbytes=18446744073709551615\n8:16 rbytes=5\n"))
	value(t, "the sum", read, math.MaxUint64)
	user, _ := parseCPUSplit([]byte("user 18446744073709551615\nsystem 1\n"))
	absent(t, "more ticks than there is time", user)
}

func FuzzFiles(f *testing.F) {
	for _, id := range []string{"p024", "p025", "p028", "p029", "p032", "p033", "p035"} {
		f.Add(realFile(f, id))
	}
	f.Add([]byte("8:0 Read 4096\n8:0 Write 1\nTotal 4097\n"))
	f.Add([]byte("max 100000\n"))
	f.Add([]byte("0-3,8\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parseCPUStat(data)
		parseCPUSplit(data)
		parseMemoryStat(data, true)
		parseMemoryStat(data, false)
		parseOOMKills(data)
		if limit, unlimited := parseLimit(data); limit != nil && (unlimited || *limit >= noLimit) {
			t.Errorf("limit %d, unlimited %t", *limit, unlimited)
		}
		if cores, _ := parseQuota(data); cores != nil && !(*cores >= 0) {
			t.Errorf("quota of %v cores", *cores)
		}
		parseIOStat(data)
		parseServiceBytes(data)
		if n, ok := ParseCPUList(string(data)); ok && (n < 0 || n > maxCPU+1) {
			t.Errorf("%d CPUs", n)
		}
	})
}

func FuzzPaths(f *testing.F) {
	f.Add("/a/b", "/a")
	f.Add("/../../system.slice/x", "/../..")
	f.Add("/docker/9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961/x", "/docker/9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961")
	f.Fuzz(func(t *testing.T, path, other string) {
		if below, ok := relativeTo(other, path); ok && (below != "" && below[0] != '/' || strings.Contains(below+"/", "/../")) {
			t.Errorf("relativeTo(%q, %q) = %q", other, path, below)
		}
		if cut, ok := cutAt(path, other); ok && !strings.HasPrefix(path+"/", strings.TrimSuffix(cut, "/")) {
			t.Errorf("cutAt(%q, %q) = %q", path, other, cut)
		}
	})
}
