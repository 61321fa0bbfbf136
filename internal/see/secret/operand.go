package secret

// This file finds secrets by their place: programs that take a password as a word
// of its own, as "htpasswd -b FILE USER PASSWORD" does.

import "strings"

// A placed remembers where a walk is among the words of a program that are no
// options.
type placed struct {
	number int    // of those words so far, from the verb on
	from   int    // the first that is a secret, by the verb; 0 by the program
	before string // the word before
	given  string // the letters of the options so far
	value  bool   // the next word is an option's
}

// operand reports whether a word is a secret by its place.
func (w *walk) operand(arg string) bool {
	if w.program == nil {
		return false
	}
	o, at := &w.program.operands, &w.place
	if o.from == 0 && o.verbs == nil && o.after == "" {
		return false
	}
	if len(arg) > 1 && arg[0] == '-' {
		if arg[1] != '-' {
			at.given += arg[1:]
			at.value = strings.ContainsRune(o.values, rune(arg[len(arg)-1]))
		}
		return false
	}
	if isShellSign(arg) {
		w.program, *at = nil, placed{}
		return false
	}
	if at.value {
		at.value = false
		return false
	}
	before := at.before
	at.before = arg
	if first, ok := o.verbs[arg]; ok && at.from == 0 {
		at.from, at.number = first, 0
		return false
	}
	at.number++
	if o.after != "" && before == o.after {
		return true
	}
	from := o.from
	if at.from != 0 {
		from = at.from
	}
	if o.sooner != "" && strings.Contains(at.given, o.sooner) {
		from--
	}
	return from > 0 && at.number >= from && (o.most == 0 || at.number < from+o.most) && (o.given == "" || strings.Contains(at.given, o.given))
}

// isShellSign says that a word ends a command of a shell.
func isShellSign(arg string) bool {
	switch arg {
	case "|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1":
		return true
	}
	return false
}
