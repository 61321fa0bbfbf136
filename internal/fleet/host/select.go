package host

import (
	"fmt"
	"slices"
	"strings"
)

// UnknownError is a host, or a tag, that is not known. It wraps [ErrUnknown].
type UnknownError struct {
	Name  string
	Tag   bool     // Name is a tag
	Known []string // what there is, for the message
}

func (e *UnknownError) Error() string {
	what := "host"
	if e.Tag {
		what = "tag"
	}
	text := fmt.Sprintf("unknown %s %q", what, e.Name)
	if len(e.Known) == 0 {
		return text + ": none is known"
	}
	return text + "; known are " + strings.Join(e.Known, ", ")
}

// Unwrap returns ErrUnknown.
func (e *UnknownError) Unwrap() error { return ErrUnknown }

// TagPrefix marks a tag in a selection: "tag:web".
const TagPrefix = "tag:"

// All in a selection stands for this machine and every known host.
const All = "*"

// Select returns the names that a selection stands for: names, "*" (this machine
// and all hosts) and "tag:NAME", in the order given, each once. Within "*" and a
// tag hosts come in the order of known; "local" is first in "*". An unknown name or
// tag is an *UnknownError, an empty selection an *InvalidError.
func Select(selection []string, known []Entry) ([]string, error) {
	if len(selection) == 0 {
		return nil, &InvalidError{"hosts", `hosts must name at least one host: names, "tag:NAME" or "*"`}
	}
	var out []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	for _, s := range selection {
		switch tag, isTag := strings.CutPrefix(s, TagPrefix); {
		case s == All:
			add(Local)
			for _, e := range known {
				add(e.Name)
			}
		case isTag:
			found := false
			for _, e := range known {
				if slices.Contains(e.Tags, tag) {
					found = true
					add(e.Name)
				}
			}
			if !found {
				return nil, &UnknownError{Name: tag, Tag: true, Known: tags(known)}
			}
		case s == Local:
			add(Local)
		default:
			if err := CheckName(s); err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(known, func(e Entry) bool { return e.Name == s }) {
				return nil, &UnknownError{Name: s, Known: names(known)}
			}
			add(s)
		}
	}
	return out, nil
}

func names(known []Entry) []string {
	out := make([]string, len(known))
	for i, e := range known {
		out[i] = e.Name
	}
	return out
}

func tags(known []Entry) []string {
	var out []string
	for _, e := range known {
		out = append(out, e.Tags...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
