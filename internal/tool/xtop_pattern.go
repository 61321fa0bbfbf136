package tool

// This file finds what the regular expressions of the xtop contract (section 1.5)
// can say and Go's cannot, where Go would take it for something else without a
// word: operations on classes, word boundaries in words, and the like.

import (
	"fmt"
	"strings"
)

// foreignSyntax is why a pattern would not mean what its writer meant; nil when
// nothing speaks against it.
func foreignSyntax(pattern string) error {
	inside, since := false, 0 // a class, and where it began
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case rest[0] == '\\':
			if why := foreignEscape(rest, inside); why != "" {
				return fmt.Errorf("%s", why)
			}
			i++
		case !inside && rest[0] == '[':
			inside, since = true, i
			for _, first := range []string{"[^]", "[]", "[^"} {
				if strings.HasPrefix(rest, first) {
					i += len(first) - 1
					break
				}
			}
		case inside && strings.HasPrefix(rest, "[:") && strings.Contains(rest, ":]"):
			i += strings.Index(rest, ":]") + 1
		case inside && rest[0] == '[':
			return fmt.Errorf("a class inside a class, at %s: classes are not nested here; write \\[ for the bracket, and join classes with | outside", cutPattern(pattern[since:]))
		case inside && rest[0] == ']':
			inside = false
		case inside && (strings.HasPrefix(rest, "&&") || strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "~~")):
			return fmt.Errorf("%s in a class, at %s: operations on classes are not there; write out what the class holds, or \\%c for the sign itself", rest[:2], cutPattern(pattern[since:]), rest[0])
		case !inside && strings.HasPrefix(rest, "{,"):
			return fmt.Errorf("a repetition without a least number, at %s: write {0,…}", cutPattern(rest))
		}
	}
	return nil
}

// foreignEscape judges what a backslash begins.
func foreignEscape(rest string, inside bool) string {
	switch {
	case inside || len(rest) < 2:
	case strings.HasPrefix(rest, `\b{`), strings.HasPrefix(rest, `\B{`):
		return rest[:2] + "{…} is not there: a word's start or end is " + rest[:2] + " before or after \\w"
	case rest[1] == '<', rest[1] == '>':
		return rest[:2] + " is not there: a word's start or end is \\b before or after \\w"
	case rest[1] == 'Q':
		return `\Q…\E is not there: escape each sign with a backslash`
	}
	return ""
}

// cutPattern shows where in a pattern something is.
func cutPattern(at string) string {
	const enough = 24
	if length(at) > enough {
		at = string([]rune(at)[:enough]) + "…"
	}
	return fmt.Sprintf("%q", at)
}
