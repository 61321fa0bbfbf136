package proc

// This file holds the few ways in which the kernel's text files are cut into
// lines, words and numbers. They work on bytes and do not allocate.

import (
	"bytes"
	"math"
	"strconv"
)

// nextLine returns the first line without its newline, and the rest.
func nextLine(data []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(data, newline)
	return line, rest
}

var newline = []byte{'\n'}

// nextWord returns the first word of a line and what follows it. Words are
// parted by one or more blanks.
func nextWord(line []byte) (word, rest []byte) {
	i := 0
	for i < len(line) && blank(line[i]) {
		i++
	}
	end := i
	for end < len(line) && !blank(line[end]) {
		end++
	}
	return line[i:end], line[end:]
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// leadingUint reads the decimal digits that b starts with. It is false when
// there are none or when they exceed 64 bits.
func leadingUint(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b); i++ {
		d := uint64(b[i] - '0')
		if d > 9 {
			break
		}
		if v > (math.MaxUint64-d)/10 {
			return 0, b, false
		}
		v = v*10 + d
	}
	return v, b[i:], i > 0
}

// parseUint reads a word that is one unsigned decimal number.
func parseUint(word []byte) (uint64, bool) {
	v, rest, ok := leadingUint(word)
	return v, ok && len(rest) == 0
}

// parseUints fills into with the numbers of a line and returns how many there
// were before the line ended or something else came.
func parseUints(line []byte, into []uint64) int {
	for n := range into {
		var word []byte
		word, line = nextWord(line)
		v, ok := parseUint(word)
		if !ok {
			return n
		}
		into[n] = v
	}
	return len(into)
}

// parseDecimal reads the kernel's fixed-point numbers (load averages,
// pressure). Only digits and one point are accepted: no NaN, no exponent.
func parseDecimal(word []byte) (float64, bool) {
	for _, c := range word {
		if c != '.' && (c < '0' || c > '9') {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(string(word), 64)
	return v, err == nil
}
