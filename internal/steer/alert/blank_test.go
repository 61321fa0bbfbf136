package alert

// This file looks for sentences with a hole in them.

import (
	"regexp"
	"testing"
)

// hole matches a text whose operand was blank: something follows "package owns",
// "the user" or a colon, and something stands before a process id.
var hole = regexp.MustCompile(`  |^\s|\s$|:$|^\(|[( ]\)|''|""|\b(?:by|than|owns|of user|the user|the service|started|path|is of)$|user (?:runs|traces)|unit holds|\b(?:by|than|of user|service|and) \(\d+\)|: \[`)

// command is the evidence that quotes a command, which is as it is.
var command = regexp.MustCompile(`^its command: \S`)

// blanks are what may be unknown of a process.
var blanks = map[string]func(*actor){
	"as recorded":  func(*actor) {},
	"no name":      func(a *actor) { a.Name = "" },
	"blank name":   func(a *actor) { a.Name = "  " },
	"no file":      func(a *actor) { a.Exe = "" },
	"no arguments": func(a *actor) { a.Args = nil },
	"blank arguments": func(a *actor) {
		a.Args = make([]string, len(a.Args))
	},
	"no folder":    func(a *actor) { a.Cwd = "" },
	"zombie":       func(a *actor) { a.Exe, a.Args, a.State, a.Maps, a.FDs = "", nil, "Z", nil, nil },
	"nothing else": func(a *actor) { a.Name, a.Exe, a.Args, a.Unit, a.Container = "", "", nil, "", "" },
	"nameless with threads": func(a *actor) {
		a.Name, a.Threads, a.FDCount, a.Exe = "", 5000, 5000, "/tmp/x/x"
	},
}

func TestNoSentenceHasAHole(t *testing.T) {
	t.Parallel()
	for name, blank := range blanks {
		for _, s := range loadScenes(t) {
			if name != "as recorded" {
				s.Passes = min(s.Passes, 8) // what needs longer is said the same way
			}
			for _, a := range s.Processes {
				if !a.Kernel && a.PID != 1 {
					blank(a)
				}
			}
			for _, a := range s.replay(userless) {
				for _, text := range append(append([]string{a.Message}, a.Evidence...), a.Next...) {
					if at := hole.FindString(text); at != "" && !command.MatchString(text) {
						t.Errorf("%s, %s: %s says %q (%q)", s.Name, name, a.Rule, text, at)
					}
				}
			}
		}
	}
}
