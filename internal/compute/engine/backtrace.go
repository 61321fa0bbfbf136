package engine

import (
	"regexp"
	"strconv"
)

// frameLine matches one frame of an OCaml backtrace: "Called from f in file "<eval>", line 1, characters 4-9",
// and, from 4.12, "lines 1-2".
var frameLine = regexp.MustCompile(`file "([^"\n]*)"(?: \(inlined\))?, lines? (\d+)(?:-(\d+))?, characters (\d+)-(\d+)`)

// maxFrames bounds a backtrace: a stack overflow prints a thousand frames that say one thing.
const maxFrames = 40

// ParseBacktrace reads the places out of a printed OCaml backtrace, innermost first, at most 40.
func ParseBacktrace(text string) []Location {
	var places []Location
	for _, m := range frameLine.FindAllStringSubmatch(text, maxFrames) {
		line, _ := strconv.Atoi(m[2])
		end := line
		if m[3] != "" {
			end, _ = strconv.Atoi(m[3])
		}
		a, _ := strconv.Atoi(m[4])
		z, _ := strconv.Atoi(m[5])
		places = append(places, Location{File: m[1], Line: line, ColStart: a, LineEnd: end, ColEnd: z})
	}
	return places
}
