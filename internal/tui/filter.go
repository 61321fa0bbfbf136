package tui

// This file holds the filter of the process table: words that must all match.

import (
	"regexp"
	"strconv"
	"strings"

	"topside/internal/see/model"
)

// A term is one word of a filter.
type term struct {
	field string // "" matches the name and the command line
	text  string // lower case
	re    *regexp.Regexp
}

// filterFields are the words before a colon that mean something.
var filterFields = []string{"name", "user", "container", "unit", "pid", "state"}

// longestFilter bounds what is typed, in bytes.
const longestFilter = 256

// parseFilter reads a filter: "nginx", "user:www unit:web", "/^kworker/". A
// regular expression that makes no sense matches literally.
func parseFilter(s string) []term {
	var terms []term
	for _, word := range strings.Fields(s) {
		var t term
		if field, rest, ok := strings.Cut(word, ":"); ok {
			for _, known := range filterFields {
				if field == known || field == known[:1] && len(rest) > 0 {
					t.field, word = known, rest
					break
				}
			}
		}
		if word == "" {
			continue
		}
		if len(word) > 2 && word[0] == '/' && word[len(word)-1] == '/' {
			if re, err := regexp.Compile("(?i)" + word[1:len(word)-1]); err == nil {
				t.re = re
			}
		}
		t.text = strings.ToLower(word)
		terms = append(terms, t)
	}
	return terms
}

// keeps reports whether a process satisfies every term.
func (t *table) keeps(p *model.Process, name string) bool {
	for i := range t.terms {
		if !t.satisfies(&t.terms[i], p, name) {
			return false
		}
	}
	return true
}

func (t *table) satisfies(w *term, p *model.Process, name string) bool {
	switch w.field {
	case "user":
		return p.Facts.UIDKnown && (w.re == nil && strings.EqualFold(p.Facts.User, w.text) ||
			w.is(p.Facts.User) || strconv.FormatUint(uint64(p.Facts.UID), 10) == w.text)
	case "container":
		return w.is(t.placeOf(p).container)
	case "unit":
		return w.is(t.placeOf(p).unit)
	case "pid":
		return strconv.Itoa(int(p.PID)) == w.text
	case "state":
		return strings.EqualFold(string(rune(p.State)), w.text)
	case "name":
		return w.is(name) || w.is(p.Facts.Comm)
	}
	if w.is(name) || w.is(p.Facts.Comm) {
		return true
	}
	for _, arg := range p.Facts.Args {
		if w.is(arg) {
			return true
		}
	}
	return false
}

// is reports whether text holds the term, whatever the case.
func (w *term) is(text string) bool {
	if w.re != nil {
		return w.re.MatchString(text)
	}
	return containsFold(text, w.text)
}

// containsFold is strings.Contains without regard to the case of ASCII letters
// in text; lower must be in lower case.
func containsFold(text, lower string) bool {
	for i := 0; i+len(lower) <= len(text); i++ {
		j := 0
		for j < len(lower) && lowerByte(text[i+j]) == lower[j] {
			j++
		}
		if j == len(lower) {
			return true
		}
	}
	return false
}

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
