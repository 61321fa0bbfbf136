// Package display makes command lines, names and labels of the observed machine
// into what may be shown: cleaned of invisible characters, with their secrets
// hidden, bounded, and with every cut told.
//
// It stands above secret and plaintext and beside the observation layers; the
// tools and the command line render through it, so that no place forgets one of
// the three. Text is cleaned first: an invisible character in a program's name or
// in a token must not hide it from the search for secrets.
package display

import (
	"strings"
	"unicode/utf8"

	"topside/internal/see/plaintext"
	"topside/internal/see/proc"
	"topside/internal/see/secret"
)

// Whole is the greatest length of a whole command line, in characters; the
// kernel's files are read so far.
const Whole = proc.MaxCmdline

// CommandLine joins arguments, at most limit characters of them; cut says that
// something was left out, and the line then ends in an ellipsis.
func CommandLine(args []string, secrets bool, limit int) (line string, cut bool) {
	shown, cut := arguments(args, secrets, limit)
	return joined(shown, limit, cut)
}

// Behind is [CommandLine] without the program, which is the first argument.
func Behind(args []string, secrets bool, limit int) (line string, cut bool) {
	if len(args) < 2 {
		return "", false
	}
	shown, cut := arguments(args, secrets, limit+utf8.RuneCountInString(args[0]))
	return joined(shown[min(1, len(shown)):], limit, cut)
}

// Text is any other text of outside on one line.
func Text(s string, secrets bool) string {
	s = plaintext.Line(s)
	if secrets {
		return s
	}
	return secret.Text(s)
}

// Label is the value of a label.
func Label(name, value string, secrets bool) string {
	value = plaintext.Line(value)
	if secrets {
		return value
	}
	return secret.Label(plaintext.Line(name), value)
}

// slack is how much more is looked at than is shown, in characters: hiding a
// secret mostly shortens the line.
const slack = 512

// arguments cleans and hides the first arguments, enough for limit characters of
// them; more says that others were left out.
func arguments(args []string, secrets bool, limit int) (shown []string, more bool) {
	more = proc.CmdlineCut(args)
	shown = make([]string, 0, min(len(args), 64))
	for length := 0; len(shown) < len(args); {
		if length > limit+slack {
			more = true
			break
		}
		arg, cut := leading(args[len(shown)], 4*(limit+slack))
		more = more || cut
		arg = plaintext.Line(arg)
		length += utf8.RuneCountInString(arg) + 1
		shown = append(shown, arg)
	}
	if !secrets {
		shown = secret.Arguments(shown)
	}
	return shown, more
}

// leading cuts a long argument behind enough bytes of it, at a space, so that no
// secret is cut in two and not known any more.
func leading(arg string, enough int) (string, bool) {
	if len(arg) <= enough {
		return arg, false
	}
	space := strings.IndexByte(arg[enough:], ' ')
	if space < 0 {
		return arg, false
	}
	return arg[:enough+space], true
}

func joined(args []string, limit int, cut bool) (string, bool) {
	line := strings.Join(args, " ")
	if cut {
		line += " …"
	}
	line, more := plaintext.Bounded(line, limit)
	return line, cut || more
}
