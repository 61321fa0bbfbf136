package tui

// This file writes figures as people read them: short, aligned, with a unit,
// and a dash where nothing is known.

import (
	"math"
	"strconv"
	"strings"
	"time"

	"topside/internal/see/model"
)

// unknown stands for a figure that could not be read.
const unknown = "–"

var unitLetters = [...]string{"B", "K", "M", "G", "T", "P", "E"}

// size writes bytes in at most five columns: "0B", "999B", "1.5K", "12.3G".
func size(v float64) string {
	if math.IsNaN(v) || v < 0 {
		return unknown
	}
	unit := 0
	for v >= 999.5 && unit < len(unitLetters)-1 {
		v /= 1024
		unit++
	}
	decimals := 1
	if unit == 0 || v >= 99.95 {
		decimals = 0
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + unitLetters[unit]
}

func sizeOf(p *uint64) string {
	if p == nil {
		return unknown
	}
	return size(float64(*p))
}

// speed writes bytes per second. Nothing moving is a dot, so that what moves
// stands out.
func speed(f model.Figure) string {
	switch {
	case !f.Known:
		return unknown
	case f.Value < 0.5:
		return "·"
	}
	return size(f.Value)
}

// decimal writes a number with one decimal below 100 and none above.
func decimal(v float64) string {
	if math.IsNaN(v) {
		return unknown
	}
	if v >= 99.95 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

func percent(f model.Figure) string {
	if !f.Known {
		return unknown
	}
	return decimal(f.Value) + "%"
}

// count writes a whole number in at most five columns.
func count(v float64) string {
	switch {
	case math.IsNaN(v) || v < 0:
		return unknown
	case v < 99999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 999.5e3:
		return strconv.FormatFloat(v/1e3, 'f', 0, 64) + "k"
	}
	return strconv.FormatFloat(v/1e6, 'f', 1, 64) + "M"
}

// span writes a duration in its two largest units: "3d 4h", "12m 5s".
func span(d time.Duration) string {
	if d < 0 {
		return unknown
	}
	s := int64(d / time.Second)
	two := func(a int64, unitA string, b int64, unitB string) string {
		return strconv.FormatInt(a, 10) + unitA + " " + strconv.FormatInt(b, 10) + unitB
	}
	switch {
	case s >= 86400:
		return two(s/86400, "d", s%86400/3600, "h")
	case s >= 3600:
		return two(s/3600, "h", s%3600/60, "m")
	case s >= 60:
		return two(s/60, "m", s%60, "s")
	}
	return strconv.FormatInt(s, 10) + "s"
}

// cpuTime writes seconds as top does: minutes:seconds.hundredths, or hours.
func cpuTime(seconds float64) string {
	if math.IsNaN(seconds) || seconds < 0 {
		return unknown
	}
	minutes := int64(seconds) / 60
	rest := seconds - float64(minutes*60)
	switch {
	case minutes >= 6000:
		return strconv.FormatInt(minutes/60, 10) + "h"
	case minutes >= 100:
		return strconv.FormatInt(minutes/60, 10) + "h" + pad2(minutes%60) + "m"
	}
	hundredths := int64(rest * 100)
	return strconv.FormatInt(minutes, 10) + ":" + pad2(hundredths/100) + "." + pad2(hundredths%100)
}

func pad2(n int64) string {
	if n < 10 {
		return "0" + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// pause writes an interval without parts that are zero: "1s", "2m", "100ms".
func pause(d time.Duration) string {
	s := d.String()
	if rest, ok := strings.CutSuffix(s, "m0s"); ok {
		s = rest + "m"
	}
	if rest, ok := strings.CutSuffix(s, "h0m"); ok {
		s = rest + "h"
	}
	return s
}
