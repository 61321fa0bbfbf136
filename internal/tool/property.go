package tool

// This file holds what follows from the declaration of one argument: which
// values it admits, and how that is put into words.

import (
	"fmt"
	"slices"
	"strings"
)

// admits reports whether a value of the right type is within the limits.
func (p *Property) admits(v any) bool {
	switch v := v.(type) {
	case string:
		return p.admitsText(v)
	case []string:
		return (p.MaxItems == 0 || len(v) <= p.MaxItems) && !slices.ContainsFunc(v, func(s string) bool { return !p.admitsText(s) })
	case Whole:
		return v.within(p.Minimum, p.Maximum)
	case float64:
		return (p.Minimum == nil || v >= float64(*p.Minimum)) && (p.Maximum == nil || v <= float64(*p.Maximum))
	}
	return true
}

func (p *Property) admitsText(s string) bool {
	return p.admitsLength(s) && (p.Enum == nil || slices.Contains(p.Enum, s))
}

func (p *Property) admitsLength(s string) bool {
	if p.MinLength == 0 && p.MaxLength == 0 {
		return true
	}
	n := length(s)
	return n >= p.MinLength && (p.MaxLength == 0 || n <= p.MaxLength)
}

// accepted says in words which values the argument takes.
func (p *Property) accepted() string {
	switch {
	case len(p.Enum) > 0 && p.Type == Array:
		return "an array of " + strings.Join(p.Enum, ", ")
	case len(p.Enum) > 0:
		return "one of " + strings.Join(p.Enum, ", ")
	}
	switch p.Type {
	case Integer, Number:
		return p.article() + p.limits()
	case String:
		return "a " + p.lengths("string")
	case Array:
		s := "an array of " + p.lengths("strings")
		if p.MaxItems > 0 {
			s += fmt.Sprintf(", at most %d of them", p.MaxItems)
		}
		return s
	case Boolean:
		return "true or false"
	}
	return "an object"
}

func (p *Property) article() string {
	if p.Type == Integer {
		return "an integer"
	}
	return "a number"
}

func (p *Property) limits() string {
	switch {
	case p.Minimum != nil && p.Maximum != nil:
		return fmt.Sprintf(" from %d to %d", *p.Minimum, *p.Maximum)
	case p.Minimum != nil:
		return fmt.Sprintf(" of at least %d", *p.Minimum)
	case p.Maximum != nil:
		return fmt.Sprintf(" of at most %d", *p.Maximum)
	}
	return ""
}

func (p *Property) lengths(noun string) string {
	switch {
	case p.MinLength > 0 && p.MaxLength > 0:
		return fmt.Sprintf("%s of %d to %d characters", noun, p.MinLength, p.MaxLength)
	case p.MaxLength > 0:
		return fmt.Sprintf("%s of at most %d characters", noun, p.MaxLength)
	case p.MinLength > 1:
		return fmt.Sprintf("%s of at least %d characters", noun, p.MinLength)
	case p.MinLength == 1:
		return noun + " that is not empty"
	}
	return noun
}

// nearest returns the argument whose name was most likely meant, or "".
func (t *Tool) nearest(name string) string {
	if len(name) > 64 || name == "" {
		return ""
	}
	best, least := "", len(name)/2+1
	lower := strings.ToLower(name)
	for _, p := range t.Input {
		d := distance(lower, p.Name)
		if len(lower) > 2 && (strings.Contains(p.Name, lower) || strings.Contains(lower, p.Name)) {
			d = min(d, 1)
		}
		if d < least {
			best, least = p.Name, d
		}
	}
	return best
}

// distance is how many characters must be put in, left out or exchanged to
// turn one into the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
