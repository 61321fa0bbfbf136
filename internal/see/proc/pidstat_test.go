package proc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseStatRows(t *testing.T) {
	t.Parallel()
	for _, row := range corpus(t, "stat.tsv") {
		var s Stat
		err := ParseStat([]byte(row["stat"]), &s)
		complete := row["rss"] != "-"
		if complete != (err == nil) {
			t.Errorf("%s (%s): error %v", row["id"], row["note"], err)
		}
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v does not wrap ErrMalformed", row["id"], err)
		}
		if err == nil && s.Fields != len(strings.Fields(row["stat"][strings.LastIndex(row["stat"], ")"):]))+1 {
			t.Errorf("%s: %d fields", row["id"], s.Fields)
		}
		for _, c := range []struct {
			column string
			field  int
			got    string
		}{
			{"comm", 2, string(s.Comm)},
			{"state", 3, string(rune(s.State))},
			{"ppid", 4, fmt.Sprint(s.PPID)},
			{"utime", 14, fmt.Sprint(s.UserTicks)},
			{"stime", 15, fmt.Sprint(s.SystemTicks)},
			{"num_threads", 20, fmt.Sprint(s.Threads)},
			{"starttime", 22, fmt.Sprint(s.StartTicks)},
			{"rss", 24, fmt.Sprint(s.RSSPages)},
		} {
			expected := row[c.column]
			if expected == "-" {
				if s.Fields >= c.field {
					t.Errorf("%s: %s is %s, but is not in the line", row["id"], c.column, c.got)
				}
				continue
			}
			if s.Fields < c.field || c.got != expected {
				t.Errorf("%s: %s is %q (of %d fields), expected %q", row["id"], c.column, c.got, s.Fields, expected)
			}
		}
	}
}

func TestParseStatEveryField(t *testing.T) {
	t.Parallel()
	line := "7 (a) S 4 5 6 -7 8 9 10 11 12 13 14 15 16 17 18 -19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52\n"
	var s Stat
	if err := ParseStat([]byte(line), &s); err != nil {
		t.Fatal(err)
	}
	comm := s.Comm
	s.Comm = nil
	expected := Stat{PID: 7, State: 'S', PPID: 4, PGRP: 5, Session: 6, TTY: -7, Flags: 9, MinorFaults: 10, MajorFaults: 12,
		UserTicks: 14, SystemTicks: 15, ChildUserTicks: 16, ChildSystemTicks: 17, Nice: -19, Threads: 20, StartTicks: 22,
		VirtualBytes: 23, RSSPages: 24, StartCode: 26, ArgStart: 48, Fields: 52}
	if string(comm) != "a" || fmt.Sprint(s) != fmt.Sprint(expected) {
		t.Errorf("%+v\nexpected %+v", s, expected)
	}
}

func TestParseStatOddNumbers(t *testing.T) {
	t.Parallel()
	const head = "1 (x) S 0 0 0 0 0 0 0 0 0 0 5 6 "
	var s Stat
	line := head + "-9223372036854775808 9223372036854775807 0 0 1 0 9 10 -3 1 1 0\n"
	if err := ParseStat([]byte(line), &s); err != nil {
		t.Fatal(err)
	}
	if s.ChildUserTicks != 0 || s.ChildSystemTicks != math.MaxInt64 || s.RSSPages != 0 || s.StartCode != 0 {
		t.Errorf("%+v", s)
	}
	for _, wrong := range []string{
		"", "x", "()", "1 ()", "1 (a) ", "1 (a) Sx 1", "99999999999 (a) S 1 ", "-1 (a) S 0 ",
		"1 (x) S 0 0 0 0 0 0 0 0 0 0 18446744073709551616 6 0 0 0 0 1 0 9 10 3\n",
		"1 (x) S 0 0 0 0 0 0 0 0 0 0 -5 6 0 0 0 0 1 0 9 10 3\n",
		"1 (x) S 0 0 0 0 0 0 0 0 0 0 5x 6 0 0 0 0 1 0 9 10 3\n",
		"1 (x) S 0 0 0 0 0 0 0 0 0 0 5 6 0 0 0 0 1 0 9 10 3",
	} {
		if err := ParseStat([]byte(wrong), &s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: error %v, stat %+v", wrong, err, s)
		}
	}
}

// statLine draws a line as the kernel writes it, and its numbers by field.
func statLine(t *rapid.T) (line []byte, comm []byte, fields [53]int64) {
	comm = rapid.SliceOfN(rapid.SampledFrom([]byte("ab )(\n\t\xff0 1")), 0, 16).Draw(t, "comm")
	var b bytes.Buffer
	fields[1] = int64(rapid.Int32Range(1, math.MaxInt32).Draw(t, "pid"))
	fmt.Fprintf(&b, "%d (%s) R", fields[1], comm)
	for f := 4; f <= 52; f++ {
		var v int64
		switch f {
		case 4, 5, 6, 20:
			v = int64(rapid.Int32Range(0, math.MaxInt32).Draw(t, "id"))
		case 7, 8, 18, 19:
			v = int64(rapid.Int32Range(-math.MaxInt32, math.MaxInt32).Draw(t, "signed"))
		default:
			v = rapid.OneOf(rapid.Int64Range(2, 200), rapid.Int64Range(2, math.MaxInt64)).Draw(t, "count")
		}
		fields[f] = v
		b.WriteByte(' ')
		b.WriteString(strconv.FormatInt(v, 10))
	}
	b.WriteByte('\n')
	return b.Bytes(), comm, fields
}

func statNumbers(s *Stat) map[int]int64 {
	return map[int]int64{
		1: int64(s.PID), 4: int64(s.PPID), 5: int64(s.PGRP), 6: int64(s.Session), 7: int64(s.TTY), 9: int64(s.Flags),
		10: int64(s.MinorFaults), 12: int64(s.MajorFaults), 14: int64(s.UserTicks), 15: int64(s.SystemTicks),
		16: int64(s.ChildUserTicks), 17: int64(s.ChildSystemTicks), 19: int64(s.Nice), 20: int64(s.Threads),
		22: int64(s.StartTicks), 23: int64(s.VirtualBytes), 24: int64(s.RSSPages), 26: int64(s.StartCode), 48: int64(s.ArgStart),
	}
}

// A line that is cut anywhere gives the figures before the cut and an error,
// never a figure that the whole line does not hold.
func TestParseStatNeverWrong(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line, comm, fields := statLine(t)
		var s Stat
		if err := ParseStat(line, &s); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if !bytes.Equal(s.Comm, comm) || s.Fields != 52 {
			t.Fatalf("%q: name %q, %d fields", line, s.Comm, s.Fields)
		}
		for f, v := range statNumbers(&s) {
			if v != fields[f] {
				t.Fatalf("%q: field %d is %d, expected %d", line, f, v, fields[f])
			}
		}
		after := bytes.LastIndexByte(line, ')') + 1
		cut := rapid.IntRange(after, len(line)).Draw(t, "cut")
		err := ParseStat(line[:cut], &s)
		if (err == nil) != (s.Fields >= fieldRSS) {
			t.Fatalf("%q: %d fields and %v", line[:cut], s.Fields, err)
		}
		for f, v := range statNumbers(&s) {
			if v != fields[f] && (f <= min(s.Fields, fieldRSS) || v != 0) {
				t.Fatalf("%q: field %d is %d, expected %d", line[:cut], f, v, fields[f])
			}
		}
	})
}

// The quick path and the careful one read the same.
func TestParseStatPathsAgree(t *testing.T) {
	t.Parallel()
	quick := 0
	for _, row := range corpus(t, "stat.tsv") {
		line := []byte(row["stat"])
		end := bytes.LastIndexByte(line, ')')
		if end < 0 {
			continue
		}
		var a, b Stat
		if !usualStatFields(line[end+1:], &a) {
			continue
		}
		quick++
		if !parseStatFields(line[end+1:], &b) || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s: %+v\nand %+v", row["id"], a, b)
		}
	}
	if quick < 20 {
		t.Errorf("only %d rows take the quick path", quick)
	}
	rapid.Check(t, func(t *rapid.T) {
		line, _, _ := statLine(t)
		fields := line[bytes.LastIndexByte(line, ')')+1:]
		// Spoil a byte now and then.
		if rapid.Bool().Draw(t, "spoil") {
			fields[rapid.IntRange(0, len(fields)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0- \nx:")).Draw(t, "byte")
		}
		var a, b Stat
		if usualStatFields(fields, &a) {
			if !parseStatFields(fields, &b) || statKey(&a) != statKey(&b) {
				t.Fatalf("%q: %+v\nand %+v", fields, a, b)
			}
		}
	})
}

// statKey is all of a row but what a spoiled tail may change: the addresses
// are told apart only by their position.
func statKey(s *Stat) string {
	c := *s
	c.StartCode, c.ArgStart, c.Fields = 0, 0, 0
	return fmt.Sprintf("%+v", c)
}

func TestParseStatAllocatesNothing(t *testing.T) {
	line := []byte(corpus(t, "stat.tsv")[0]["stat"])
	var s Stat
	if n := testing.AllocsPerRun(100, func() { ParseStat(line, &s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseStat(f *testing.F) {
	for _, row := range corpus(f, "stat.tsv") {
		f.Add([]byte(row["stat"]))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var s Stat
		err := ParseStat(line, &s)
		if err == nil {
			// The plain way must find the same.
			words := bytes.FieldsFunc(line[bytes.LastIndexByte(line, ')')+1:], func(r rune) bool { return r <= ' ' })
			for f, v := range statNumbers(&s) {
				if f < 4 || f > len(words)+2 || f > fieldRSS {
					continue
				}
				word := string(words[f-3])
				signed, err := strconv.ParseInt(word, 10, 64)
				unsigned, err2 := strconv.ParseUint(word, 10, 64)
				if err != nil && err2 != nil || v != signed && uint64(v) != unsigned && !(signed < 0 && v == 0) {
					t.Fatalf("%q: field %d is %d, not %s", line, f, v, word)
				}
			}
		}
	})
}

func BenchmarkParseStat(b *testing.B) {
	line := []byte(corpus(b, "stat.tsv")[5]["stat"])
	var s Stat
	for b.Loop() {
		ParseStat(line, &s)
	}
}
