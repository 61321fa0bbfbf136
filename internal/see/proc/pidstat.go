package proc

// This file parses proc/PID/stat, the one file that is read of every process
// in every sample. The parser is written by hand and allocates nothing.

import (
	"bytes"
	"fmt"
	"math"
)

// Positions of fields in proc/PID/stat, counted from 1 as proc_pid_stat(5) does.
const (
	fieldState     = 3
	fieldRSS       = 24
	fieldStartCode = 26
	fieldArgStart  = 48
)

// ParseStat reads one line of proc/PID/stat into s, whose Comm then aliases
// the line. The name lies between the first '(' and the last ')', so that no
// name can imitate fields.
//
// A line that ends before its resident size (field 24), or whose fields are
// not numbers, gives an error that wraps [ErrMalformed]. The fields before the
// fault are filled all the same and s.Fields says how many there are; the rest
// is zero and means nothing. A last number without its end (a blank or a
// newline) counts as cut off.
func ParseStat(line []byte, s *Stat) error {
	*s = Stat{}
	open := bytes.IndexByte(line, '(')
	if open < 0 {
		return statError(line, s)
	}
	pid, ok := parsePID(bytes.TrimSpace(line[:open]))
	if !ok {
		return statError(line, s)
	}
	s.PID, s.Fields = pid, 1
	end := bytes.LastIndexByte(line, ')')
	if end < open {
		return statError(line, s)
	}
	s.Comm, s.Fields = line[open+1:end], 2
	if !parseStatFields(line[end+1:], s) {
		return statError(line, s)
	}
	return nil
}

func statError(line []byte, s *Stat) error {
	return fmt.Errorf("field %d: %w", s.Fields+1, malformed("PID/stat", line))
}

func parsePID(b []byte) (int32, bool) {
	if len(b) == 0 {
		return 0, false
	}
	v, rest, ok := leadingUint(b)
	if !ok || len(rest) > 0 || v > math.MaxInt32 {
		return 0, false
	}
	return int32(v), true
}

// parseStatFields reads the fields after the name and reports whether those up
// to the resident size are there.
func parseStatFields(b []byte, s *Stat) bool {
	i := skipBlanks(b, 0)
	if i >= len(b) || (i+1 < len(b) && b[i+1] > ' ') {
		return false
	}
	s.State, s.Fields = b[i], fieldState
	i++
	for {
		i = skipBlanks(b, i)
		if i >= len(b) {
			break
		}
		field := s.Fields + 1
		start := i
		negative := b[i] == '-'
		if negative {
			i++
		}
		var v uint64
		numeric, overflow := false, false
		for ; i < len(b) && b[i] > ' '; i++ {
			d := uint64(b[i] - '0')
			if d > 9 {
				numeric = false
				break
			}
			numeric = true
			if v > (math.MaxUint64-d)/10 {
				overflow = true
			}
			v = v*10 + d
		}
		if i < len(b) && b[i] > ' ' {
			numeric = false
			for i < len(b) && b[i] > ' ' {
				i++
			}
		}
		whole := i < len(b)
		if field > fieldArgStart || !used(field) {
			// Kernels append what they like (OpenVZ: UUIDs), and old ones
			// leave addresses that nobody needs.
			if field <= fieldRSS && !whole {
				return false
			}
			s.Fields = field
			continue
		}
		good := numeric && !overflow && whole && i > start && s.set(field, v, negative)
		if !good && field <= fieldRSS {
			return false
		}
		s.Fields = field
	}
	return s.Fields >= fieldRSS
}

// used tells the fields that Stat keeps. The others are the terminal's process
// group (8), the faults of waited-for children (11, 13), the priority (18),
// the interval timer (21), the resident limit (25) and what follows the code's
// start except the arguments'.
func used(field int) bool {
	const kept uint64 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<9 | 1<<10 | 1<<12 | 1<<14 | 1<<15 |
		1<<16 | 1<<17 | 1<<19 | 1<<20 | 1<<22 | 1<<23 | 1<<24 | 1<<26 | 1<<48
	return kept>>field&1 == 1
}

// set stores one field and reports whether its value is in range.
func (s *Stat) set(field int, v uint64, negative bool) bool {
	switch field {
	case 4:
		return setSigned(&s.PPID, v, negative)
	case 5:
		return setSigned(&s.PGRP, v, negative)
	case 6:
		return setSigned(&s.Session, v, negative)
	case 7:
		return setSigned(&s.TTY, v, negative)
	case 19:
		return setSigned(&s.Nice, v, negative)
	case 20:
		return setSigned(&s.Threads, v, negative)
	case 16:
		s.ChildUserTicks = clamped(v, negative)
		return true
	case 17:
		s.ChildSystemTicks = clamped(v, negative)
		return true
	case fieldRSS:
		s.RSSPages = clamped(v, negative)
		return true
	}
	if negative {
		return false
	}
	switch field {
	case 9:
		s.Flags = v
	case 10:
		s.MinorFaults = v
	case 12:
		s.MajorFaults = v
	case 14:
		s.UserTicks = v
	case 15:
		s.SystemTicks = v
	case 22:
		s.StartTicks = v
	case 23:
		s.VirtualBytes = v
	case fieldStartCode:
		// 1 stands for an address that the reader may not know.
		if v != 1 {
			s.StartCode = v
		}
	case fieldArgStart:
		s.ArgStart = v
	}
	return true
}

func setSigned(into *int32, v uint64, negative bool) bool {
	if v > math.MaxInt32 {
		return false
	}
	*into = int32(v)
	if negative {
		*into = -*into
	}
	return true
}

// clamped is for the fields that the kernel prints signed although they count:
// they dip below zero in races and in broken emulations.
func clamped(v uint64, negative bool) uint64 {
	if negative {
		return 0
	}
	return v
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// Stat reads the stat line of one process; Comm is the caller's to keep. A
// table of all of them is read faster by a [Scanner].
func (f FS) Stat(pid int32) (*Stat, error) {
	line, err := f.Read(ofPID(pid, "stat"))
	if err != nil {
		return nil, err
	}
	s := new(Stat)
	err = ParseStat(line, s)
	s.PID = pid
	return s, err
}
