package cli

// This file walks the arguments of a hand-parsed command line.

import (
	"fmt"
	"strconv"
	"strings"
)

// arguments iterates over the options of a command line. The first mistake
// ends the walk and stays in err.
type arguments struct {
	rest   []string
	usage  string // the hint beside a refusal
	joined bool   // whether --option=value is accepted

	option string // the current one
	given  *string
	err    error
}

// next moves to the next option; it is false at the end and after a mistake.
func (a *arguments) next() bool {
	if a.err == nil && a.given != nil {
		a.refuse("%s takes no value", a.option)
	}
	if a.err != nil || len(a.rest) == 0 {
		return false
	}
	a.option, a.rest = a.rest[0], a.rest[1:]
	if name, value, ok := strings.Cut(a.option, "="); a.joined && ok && strings.HasPrefix(name, "--") {
		a.option, a.given = name, &value
	}
	return true
}

// refuse records a mistake.
func (a *arguments) refuse(format string, args ...any) {
	if a.err == nil {
		a.err = badUsage(a.usage, "%s", fmt.Sprintf(format, args...))
	}
}

// value takes the option's value.
func (a *arguments) value() string {
	if a.given != nil {
		value := *a.given
		a.given = nil
		return value
	}
	if len(a.rest) == 0 {
		a.refuse("%s needs a value", a.option)
		return ""
	}
	value := a.rest[0]
	a.rest = a.rest[1:]
	return value
}

// filled takes a value that may not be empty.
func (a *arguments) filled() string {
	value := a.value()
	if value == "" {
		a.refuse("%s needs a value that is not empty", a.option)
	}
	return value
}

// integer takes a whole number that is not negative.
func (a *arguments) integer() int64 {
	value := a.value()
	if a.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		a.refuse("%s must be a whole number, not %q", a.option, value)
	}
	return n
}

// choice takes one of some words.
func (a *arguments) choice(words ...string) string {
	value := a.value()
	for _, word := range words {
		if value == word {
			return value
		}
	}
	a.refuse("%s must be %s, not %q", a.option, strings.Join(words, " or "), value)
	return ""
}
