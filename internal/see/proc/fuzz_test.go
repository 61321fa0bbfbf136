package proc

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func FuzzParseSystemFiles(f *testing.F) {
	for _, row := range corpus(f, "proc_files.tsv") {
		f.Add([]byte(row["content"]))
	}
	f.Add([]byte("350735.47 234388.90\n"))
	f.Add([]byte("0.02 0.04 0.05 1/497 11947\n"))
	f.Add([]byte("0-3,8,10-11\n"))
	f.Add([]byte("root:x:0:0:root:/root:/bin/sh\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(what string, value bool, err error) {
			if value == (err != nil) || err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: value %v and error %v", what, value, err)
			}
		}
		k, err := ParseKernelStat(data)
		check("stat", k != nil, err)
		m, err := ParseMemory(data)
		check("meminfo", m != nil, err)
		if m != nil {
			if used := m.SwapUsed(); used != nil && *used > 0 && *used > *m.SwapTotal {
				t.Errorf("%d of %d bytes of swap are used", *used, *m.SwapTotal)
			}
			if m.AvailableEstimated && m.Total != nil && *m.Available > *m.Total {
				t.Error("more is available than there is")
			}
		}
		a, err := ParseARC(data)
		check("arcstats", a != nil, err)
		p, err := ParsePressure(data)
		check("pressure", p != nil, err)
		l, err := ParseLoad(data)
		check("loadavg", l != nil, err)
		for _, d := range must(ParseDisks(data)) {
			if d.Name == "" {
				t.Error("a disk without a name")
			}
		}
		for _, i := range must(ParseInterfaces(data)) {
			if i.Name == "" || !i.TxKnown && i.TxBytes != 0 {
				t.Errorf("%+v", i)
			}
		}
		for _, m := range must(ParseMounts(data)) {
			if m.Type == "" {
				t.Errorf("%+v", m)
			}
		}
		if up, err := ParseUptime(data); up < 0 || err != nil && up != 0 {
			t.Error(up, err)
		}
		if n, err := ParseCPUList(data); n < 0 || err != nil && n != 0 {
			t.Error(n, err)
		}
		ParseUsers(data)
		ParseAuxv(data, auxClockTicks)
	})
}

// must drops an error that the caller does not look at.
func must[T any](v T, _ error) T { return v }

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
