package proc

// This file parses proc/PID/stat, the one file that is read of every process
// in every sample. The parser is written by hand and allocates nothing.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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
	end := lastParenthesis(line, open)
	if end < 0 {
		return statError(line, s)
	}
	s.Comm, s.Fields = line[open+1:end], 2
	if usualStatFields(line[end+1:], s) {
		return nil
	}
	*s = Stat{PID: s.PID, Comm: s.Comm, Fields: s.Fields}
	if !parseStatFields(line[end+1:], s) {
		return statError(line, s)
	}
	return nil
}

func statError(line []byte, s *Stat) error {
	return fmt.Errorf("field %d: %w", s.Fields+1, malformed("PID/stat", line))
}

// lastParenthesis finds the last ')' after a position. Searching forwards takes
// two quick looks for nearly every name; bytes.LastIndexByte would walk over
// all the numbers.
func lastParenthesis(line []byte, from int) int {
	last := -1
	for at := from; ; at++ {
		next := bytes.IndexByte(line[at:], ')')
		if next < 0 {
			return last
		}
		at += next
		last = at
	}
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

// usualStatFields reads the fields after the name as every kernel since 3.5
// writes them: 50, parted by one blank each. It is the path of nearly every
// line and the reason why parsing costs next to nothing beside the system
// calls; it gives up on anything else, which parseStatFields then reads.
func usualStatFields(b []byte, s *Stat) bool {
	const blanks, shortest = 50, 2 * 50
	if len(b) < shortest || b[0] != ' ' || !isLetter(b[1]) || b[2] != ' ' || bytes.Count(b, oneBlank) != blanks {
		return false
	}
	// A fault puts i at the end of b, where every later call fails too.
	var v, w, x, y uint64
	i := len(" S ")
	v, i = take(b, i)
	w, i = take(b, i)
	x, i = take(b, i)
	y, i = take(b, i)
	if v|w|x|y > math.MaxInt32 {
		return false
	}
	s.State = b[1]
	s.PPID, s.PGRP, s.Session, s.TTY = int32(v), int32(w), int32(x), int32(y)
	i = pass(b, i)
	s.Flags, i = take(b, i)
	s.MinorFaults, i = take(b, i)
	i = pass(b, i)
	s.MajorFaults, i = take(b, i)
	i = pass(b, i)
	s.UserTicks, i = take(b, i)
	s.SystemTicks, i = take(b, i)
	s.ChildUserTicks, i = take(b, i)
	s.ChildSystemTicks, i = take(b, i)
	i = pass(b, i)
	negative := i < len(b) && b[i] == '-'
	if negative {
		i++
	}
	v, i = take(b, i)
	w, i = take(b, i)
	if v|w > math.MaxInt32 {
		return false
	}
	s.Nice, s.Threads = int32(v), int32(w)
	if negative {
		s.Nice = -s.Nice
	}
	i = pass(b, i)
	s.StartTicks, i = take(b, i)
	s.VirtualBytes, i = take(b, i)
	s.RSSPages, i = take(b, i)
	i = pass(b, i)
	s.StartCode, i = take(b, i)
	if s.StartCode == 1 {
		s.StartCode = 0 // see parseStatFields
	}
	if i == len(b) {
		return false
	}
	s.Fields = blanks + 2
	if s.StartCode == 0 {
		return true // the other addresses are as unknown
	}
	// The arguments' address is the fifth field from the end.
	end := len(b)
	for range s.Fields - fieldArgStart + 1 {
		for end--; b[end] != ' '; end-- {
		}
	}
	s.ArgStart, i = take(b, end+1)
	return i < len(b)
}

var oneBlank = []byte{' '}

// take reads the number at i, which one blank must end, and returns where the
// next field begins. On any fault, and near the end of b, that is len(b).
func take(b []byte, i int) (v uint64, next int) {
	if i+8 > len(b) {
		return 0, len(b)
	}
	if b[i+1] == ' ' && isDigit(b[i]) {
		return uint64(b[i] - '0'), i + 2
	}
	v, end := digits(b, i)
	const alwaysFit = 19 // digits
	if n := end - i; n == 0 || n > alwaysFit || end >= len(b) || b[end] != ' ' {
		return 0, len(b)
	}
	return v, end + 1
}

// pass returns where the field behind the one at i begins, and len(b) where no
// field does.
func pass(b []byte, i int) int {
	for end := i; end < len(b); end++ {
		if b[end] <= ' ' {
			if end == i || b[end] != ' ' {
				break
			}
			return end + 1
		}
	}
	return len(b)
}

// parseStatFields reads the fields after the name and reports whether those up
// to the resident size are there.
func parseStatFields(b []byte, s *Stat) bool {
	at := skipBlanks(b, 0)
	if at >= len(b) || !isLetter(b[at]) || (at+1 < len(b) && b[at+1] > ' ') {
		return false
	}
	s.State = b[at]
	r := fieldReader{b: b, at: at + 1, field: fieldState}
	s.PPID = r.int32()
	s.PGRP = r.int32()
	s.Session = r.int32()
	s.TTY = r.int32()
	r.skip(1) // the terminal's foreground process group
	s.Flags = r.uint64()
	s.MinorFaults = r.uint64()
	r.skip(1) // minor faults of waited-for children
	s.MajorFaults = r.uint64()
	r.skip(1) // major faults of waited-for children
	s.UserTicks = r.uint64()
	s.SystemTicks = r.uint64()
	s.ChildUserTicks = r.clamped()
	s.ChildSystemTicks = r.clamped()
	r.skip(1) // the priority, which follows from nice and the policy
	s.Nice = r.int32()
	s.Threads = r.int32()
	r.skip(1) // an interval timer, 0 since 2.6.17
	s.StartTicks = r.uint64()
	s.VirtualBytes = r.uint64()
	s.RSSPages = r.clamped()
	s.Fields = r.field
	if r.failed {
		return false
	}
	// What follows is extra: old kernels, emulations and OpenVZ (which appends
	// UUIDs) differ here, and nothing of it makes the line wrong.
	r.skip(fieldStartCode - fieldRSS - 1)
	s.StartCode = r.uint64()
	if s.StartCode == 1 {
		s.StartCode = 0 // 1 stands for an address that the reader may not know
	}
	r.resume()
	r.skip(fieldArgStart - fieldStartCode - 1)
	if r.field == fieldArgStart-1 {
		s.ArgStart = r.uint64()
	}
	r.resume()
	r.skip(len(b))
	s.Fields = r.field
	return true
}

// A fieldReader goes through blank-separated fields. After the first fault it
// stays where it is and gives zeros.
type fieldReader struct {
	b      []byte
	at     int // just behind the last field
	field  int // the number of the last field
	failed bool
}

// uint64 reads a number that may not be negative.
func (r *fieldReader) uint64() uint64 {
	v, negative := r.number()
	if negative {
		r.fail()
		return 0
	}
	return v
}

// clamped reads one of the counts that the kernel prints signed. They dip
// below zero in races and in broken emulations, and are 0 then.
func (r *fieldReader) clamped() uint64 {
	v, negative := r.number()
	if negative {
		return 0
	}
	return v
}

func (r *fieldReader) int32() int32 {
	v, negative := r.number()
	if v > math.MaxInt32 {
		r.fail()
		return 0
	}
	if negative {
		return -int32(v)
	}
	return int32(v)
}

// fail takes back the field just read.
func (r *fieldReader) fail() {
	if !r.failed {
		r.failed = true
		r.field--
	}
}

// resume goes on after a fault that does not matter, behind the field at fault.
func (r *fieldReader) resume() {
	if r.failed {
		r.failed = false
		for r.at < len(r.b) && r.b[r.at] > ' ' {
			r.at++
		}
		r.field++
	}
}

// number reads a decimal number that fits 64 bits and ends at a blank or a
// newline; the end of the line alone would not tell whether digits are missing.
func (r *fieldReader) number() (v uint64, negative bool) {
	if r.failed {
		return 0, false
	}
	b, i := r.b, skipBlanks(r.b, r.at)
	if i+1 < len(b) && b[i+1] <= ' ' && isDigit(b[i]) {
		// Half of the fields are a lone digit, mostly 0.
		r.at = i + 1
		r.field++
		return uint64(b[i] - '0'), false
	}
	if i < len(b) && b[i] == '-' {
		negative = true
		i++
	}
	first := i
	v, i = digits(b, i)
	const alwaysFit = 19 // digits
	good := i > first && i < len(b) && b[i] <= ' '
	if good && i-first > alwaysFit {
		v, good = parseUint(b[first:i])
	}
	r.at = i
	if !good {
		r.failed = true
		return 0, false
	}
	r.field++
	return v, negative
}

// digits reads the decimal digits from a position on and returns where they
// end; more than 19 may overflow. It takes up to eight at once, without a
// branch for each: numbers of changing length are what a processor guesses
// worst, and there are twenty in every line.
func digits(b []byte, i int) (v uint64, end int) {
	const ones = 0x0101010101010101
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:]) ^ '0'*ones
		// The lowest high bit is that of the first byte above 9.
		other := (x + 0x76*ones | x) & (0x80 * ones)
		n := bits.TrailingZeros64(other) >> 3
		// The digits before it move to the end of the word, behind zeros.
		x <<= uint(64 - 8*n)
		x = x*10 + x>>8
		const two = 0x000000ff000000ff
		x = (x&two*(100+1000000<<32) + x>>16&two*(1+10000<<32)) >> 32
		v = v*powersOfTen[n] + x
		i += n
		if n < 8 {
			return v, i
		}
	}
	for i < len(b) && isDigit(b[i]) {
		v = v*10 + uint64(b[i]-'0')
		i++
	}
	return v, i
}

var powersOfTen = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// skip passes over n fields.
func (r *fieldReader) skip(n int) {
	if r.failed {
		return
	}
	b := r.b
	const wide = 8 // worth the trouble of eight bytes at a time
	if n > wide {
		n -= r.skipWide(n)
	}
	for ; n > 0; n-- {
		i := skipBlanks(b, r.at)
		first := i
		for i < len(b) && b[i] > ' ' {
			i++
		}
		r.at = i
		if i == first || (i == len(b) && r.field < fieldRSS) {
			r.failed = r.field < fieldRSS
			return
		}
		r.field++
	}
}

// skipWide passes over at most n fields, each behind a single blank, eight
// bytes at a time. It returns how many it passed: fewer at the line's end or
// where blanks come in twos.
func (r *fieldReader) skipWide(n int) int {
	const ones = 0x0101010101010101
	passed, before := 0, uint64(0)
	at := r.at
	for at+8 <= len(r.b) {
		x := binary.LittleEndian.Uint64(r.b[at:]) ^ ' '*ones
		// The high bit of every byte that was a blank.
		blanks := ^((x&(0x7f*ones) + 0x7f*ones) | x | 0x7f*ones)
		if blanks&(blanks<<8|before) != 0 {
			break
		}
		count := bits.OnesCount64(blanks)
		if passed+count > n {
			break
		}
		passed += count
		before = blanks >> 56
		at += 8
	}
	if passed > 0 && r.b[at-1] == ' ' && (at == len(r.b) || r.b[at] <= ' ') {
		passed-- // its blank is here, but the field is not
		at--
	}
	if passed == 0 {
		return 0
	}
	// The last of them may be passed in part only.
	for at < len(r.b) && r.b[at] > ' ' {
		at++
	}
	r.at = at
	r.field += passed
	return passed
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func skipBlanks(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// Stat reads the stat line of one process; its Comm is the caller's to keep. A
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
