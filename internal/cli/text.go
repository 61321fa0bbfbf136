package cli

// This file makes text of outside safe for a terminal and for reports.

import (
	"topside/internal/see/display"
	"topside/internal/see/plaintext"
)

// clean is text that processes, containers and files chose, as it may be shown.
func clean(s string) string { return plaintext.Line(s) }

// commandLine joins arguments, with the secrets among them hidden unless they
// are to be shown; cut says that there are more than are known.
func commandLine(args []string, showSecrets bool) (line string, cut bool) {
	return display.CommandLine(args, showSecrets, display.Whole)
}

// brief is clean text of at most so many characters, for a column of a table.
func brief(s string, characters int) string {
	short, _ := plaintext.Bounded(s, characters)
	return short
}
