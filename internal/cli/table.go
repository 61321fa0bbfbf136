package cli

// This file renders tables and quantities for people.

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"topside/internal/see/model"
)

// unknown is what a table shows for a figure that could not be read.
const unknown = "-"

// A table aligns columns: a heading that begins with ">" is of a column of
// numbers, aligned to the right. The last column is as long as it is, up to the
// width of the terminal.
type table struct {
	headings []string
	rows     [][]string
	right    []bool
}

func newTable(headings ...string) *table {
	t := &table{headings: make([]string, len(headings)), right: make([]bool, len(headings))}
	for i, h := range headings {
		t.headings[i], t.right[i] = strings.TrimPrefix(h, ">"), strings.HasPrefix(h, ">")
	}
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write renders the table with an indent; columns of 0 cut nothing.
func (t *table) write(w io.Writer, p palette, indent string, columns int) {
	widths := t.widths()
	fmt.Fprintln(w, p.strong(t.line(t.headings, widths, indent, columns)))
	for _, row := range t.rows {
		fmt.Fprintln(w, t.line(row, widths, indent, columns))
	}
}

// writeRows renders the table without its headings.
func (t *table) writeRows(w io.Writer, columns int) {
	widths := t.widths()
	for _, row := range t.rows {
		fmt.Fprintln(w, t.line(row, widths, "", columns))
	}
}

func (t *table) widths() []int {
	widths := make([]int, len(t.headings))
	for i, h := range t.headings {
		widths[i] = ansi.StringWidth(h)
		for _, row := range t.rows {
			widths[i] = max(widths[i], ansi.StringWidth(row[i]))
		}
	}
	return widths
}

func (t *table) line(cells []string, widths []int, indent string, columns int) string {
	var b strings.Builder
	b.WriteString(indent)
	for i, cell := range cells {
		padding := strings.Repeat(" ", max(widths[i]-ansi.StringWidth(cell), 0))
		if t.right[i] {
			b.WriteString(padding + cell)
		} else {
			b.WriteString(cell + padding)
		}
		b.WriteString("  ")
	}
	line := strings.TrimRight(b.String(), " ")
	if columns > 0 {
		line = ansi.Truncate(line, columns, "…")
	}
	return line
}

// size writes a number of bytes in binary units, three digits of it.
func size(bytes float64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%.0f B", bytes)
	}
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	unit := -1
	for bytes >= 1024 && unit < len(units)-1 {
		bytes /= 1024
		unit++
	}
	if bytes < 10 {
		return fmt.Sprintf("%.1f %s", bytes, units[unit])
	}
	return fmt.Sprintf("%.0f %s", bytes, units[unit])
}

func sizeOf(f model.Figure) string {
	if !f.Known {
		return unknown
	}
	return size(f.Value)
}

func sizeAt(bytes *uint64) string {
	if bytes == nil {
		return unknown
	}
	return size(float64(*bytes))
}

func rateOf(f model.Figure) string {
	if !f.Known {
		return unknown
	}
	return size(f.Value) + "/s"
}

func number(f model.Figure, decimals int) string {
	if !f.Known || math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
		return unknown
	}
	return fmt.Sprintf("%.*f", decimals, f.Value)
}

func percent(f model.Figure) string {
	if n := number(f, 1); n != unknown {
		return n + " %"
	}
	return unknown
}

// duration writes a time span by its two largest units.
func duration(d time.Duration) string {
	day := 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm %ds", d/time.Minute, d%time.Minute/time.Second)
	default:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
}

// clock writes CPU time as top does, in minutes, seconds and hundredths.
func clock(f model.Figure) string {
	if !f.Known {
		return unknown
	}
	hundredths := int64(math.Round(f.Value * 100))
	return fmt.Sprintf("%d:%02d.%02d", hundredths/6000, hundredths/100%60, hundredths%100)
}
