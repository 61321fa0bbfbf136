// Package secret hides passwords, tokens, keys and credentials in command lines
// and labels before they are shown.
//
// It stands beside the observation layers and imports none of them; the tools
// apply it where they render arguments, unless the user asked to see secrets.
// It works by names ("--password x", "TOKEN=x"), by programs whose short
// options carry secrets ("mysql -px"), and by the look of a value (a URL with
// credentials, a cloud provider's key). It cannot know every secret; where in
// doubt it hides, since a hidden word costs less than a shown password.
package secret

import "strings"

// Mark stands where a secret was.
const Mark = "[redacted]"

// CommandLine returns the arguments joined by spaces, with the secrets among
// them replaced by [Mark].
func CommandLine(args []string) string { return strings.Join(Arguments(args), " ") }

// Arguments returns the arguments with the secrets in them replaced by [Mark].
// Each is judged by itself and by the option before it; what is hidden never
// reaches from one argument into the next. Without a secret the same slice is
// returned.
func Arguments(args []string) []string {
	var w walk
	var shown []string // nil as long as nothing had to be hidden
	for i, arg := range args {
		as := w.argument(arg)
		if shown == nil && as != arg {
			shown = append(make([]string, 0, len(args)), args[:i]...)
		}
		if shown != nil {
			shown = append(shown, as)
		}
	}
	if shown == nil {
		return args
	}
	return shown
}

// Text returns s, a command line or any other text, with the secrets in it
// replaced by [Mark].
func Text(s string) string {
	return text(s, 0)
}

// deepest is how far quoted command lines within command lines are followed.
const deepest = 4

func text(s string, depth int) string {
	if depth < deepest {
		s = (&walk{depth: depth}).words(s)
	}
	return patterns(s)
}

// Label returns the value of a label or variable, or [Mark] where its name
// says that it is a secret.
func Label(name, value string) string {
	if hides(name, value) {
		return Mark
	}
	return Text(value)
}

// A walk goes along a command line and remembers whose options it is at.
type walk struct {
	program *program
	// what the next argument holds, by the option before it
	expected expectation
	name     string // the option's name, for named
	place    placed // among the words that are no options
	depth    int    // of texts within texts
}

type expectation int

const (
	nothing expectation = iota
	named               // the value of an option with a telling name
	sign                // "=" or ":" behind a telling word
	whole               // a secret
	pair                // user and secret
	login               // perhaps user and secret, of a program that is not known
	header              // the rest of a header: a scheme, or the secret
	crumbs              // the rest of a cookie header
	script              // a command line in one argument, as after "sh -c"
)

// words returns a text word by word. Words are runs of anything but white
// space, quoted parts included; what is between them stays as it is.
func (w *walk) words(s string) string {
	var b strings.Builder
	done := 0
	for begin := 0; begin < len(s); {
		if isBlank(s[begin]) {
			begin++
			continue
		}
		end := wordEnd(s, begin)
		if shown := w.word(s[begin:end]); shown != s[begin:end] {
			b.WriteString(s[done:begin])
			b.WriteString(shown)
			done = end
		}
		begin = end
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// wordEnd is where the word ends that begins there. A quote that is not closed
// reaches to the end.
func wordEnd(s string, at int) int {
	for at < len(s) && !isBlank(s[at]) {
		if c := s[at]; c == '"' || c == '\'' {
			closing := strings.IndexByte(s[at+1:], c)
			if closing < 0 {
				return len(s)
			}
			at += closing + 1
		}
		at++
	}
	return at
}

// word returns a word of a text, in which quotes are still part of it.
func (w *walk) word(s string) string {
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[:1] + w.next(s[1:len(s)-1]) + s[:1]
	}
	if shown, ok := w.awaited(s); ok {
		return shown
	}
	return w.option(s)
}

// argument returns an argument of an argument list as it may be shown.
func (w *walk) argument(arg string) string {
	shown := w.next(arg)
	if shown == Mark {
		return shown
	}
	if shown == arg {
		shown = hideHeader(shown)
	}
	return patterns(shown)
}

// next returns the argument as it may be shown.
func (w *walk) next(arg string) string {
	if shown, ok := w.awaited(arg); ok {
		return shown
	}
	if strings.ContainsAny(arg, " \t\n") {
		return w.sentence(arg)
	}
	return w.option(arg)
}

// awaited handles what the option before announced; ok is false when it
// announced nothing that concerns this argument.
func (w *walk) awaited(arg string) (shown string, ok bool) {
	expected := w.expected
	w.expected = nothing
	switch {
	case (expected == named || expected == sign) && isSign(arg):
		w.expected = named
		return arg, true
	case expected == whole && !w.program.keeps(arg):
		return Mark, true
	case expected == pair:
		return w.program.hidePair(arg), true
	case expected == login && hideLogin(arg) != arg:
		return hideLogin(arg), true
	case expected == login && !strings.HasPrefix(arg, "-") && hides(w.name, arg):
		return Mark, true
	case expected == header && isScheme(arg):
		w.expected = header
		return arg, true
	case expected == header && !strings.HasPrefix(arg, "-"):
		return Mark, true
	case expected == crumbs && strings.ContainsRune(arg, '='):
		if strings.HasSuffix(arg, ";") {
			w.expected = crumbs
		}
		return Mark, true
	case expected == named && !strings.HasPrefix(arg, "-") && hides(w.name, arg):
		return hideValue(w.name, arg), true
	case expected == script:
		return text(arg, w.depth+1), true
	}
	return "", false
}

// isSign says that an argument is what stands between a name and its value.
func isSign(arg string) bool { return arg == "=" || arg == ":" }

// sentence handles an argument with spaces: an assignment hides all of its
// value, anything else is a text of its own.
func (w *walk) sentence(arg string) string {
	name, value, assigned := strings.Cut(arg, "=")
	if assigned && !strings.ContainsAny(name, " \t\n") && hides(name, value) {
		return name + "=" + hideValue(name, value)
	}
	if shown := hideHeader(arg); shown != arg {
		return shown
	}
	return text(arg, w.depth+1)
}

// option handles an argument without spaces: a program's name, an option, an
// assignment, or a plain word.
func (w *walk) option(arg string) string {
	if arg == "-c" {
		w.expected = script
		return arg
	}
	if p, ok := programNamed(arg); ok {
		w.program, w.place = p, placed{}
		return arg
	}
	if w.operand(arg) {
		return Mark
	}
	if w.program != nil && w.program.word != nil && arg != "" && arg[0] != '-' {
		if shown := w.program.word(arg); shown != arg {
			return shown
		}
	}
	if shown, ok := w.shortOption(arg); ok {
		return shown
	}
	return w.longOption(arg)
}

// shortOption handles an option of one letter that carries a secret for the
// current program; ok is false for anything else.
func (w *walk) shortOption(arg string) (shown string, ok bool) {
	if w.program == nil || len(arg) < 2 || arg[0] != '-' || arg[1] == '-' {
		return "", false
	}
	option, value := arg[:2], arg[2:]
	switch letter := option[1:]; {
	case strings.Contains(w.program.pairs, letter):
		if value == "" {
			w.expected = pair
			return arg, true
		}
		return option + w.program.hidePair(value), true
	case value == "" && strings.Contains(w.program.separate, letter):
		w.expected = whole
		return arg, true
	case value != "" && strings.Contains(w.program.attached, letter):
		return option + Mark, true
	}
	return "", false
}

// longOption handles an option or an assignment with a telling name.
func (w *walk) longOption(arg string) string {
	name, value, assigned := strings.Cut(arg, "=")
	if assigned && strings.Contains(name, "?") {
		return arg // a URL, whose parameters are found by their pattern
	}
	bare := strings.TrimLeft(name, "-")
	option := bare != name
	if assigned && value == "" || !assigned && strings.HasSuffix(name, ":") && !option {
		w.announce(strings.TrimSuffix(bare, ":"))
		return arg
	}
	switch {
	case assigned && w.program != nil && option && w.program.isPair(bare):
		return name + "=" + w.program.hidePair(value)
	case assigned && option && isLogin(bare) && !w.program.groups() && hideLogin(value) != value:
		return name + "=" + hideLogin(value)
	case assigned && hides(name, value):
		return name + "=" + hideValue(name, value)
	case assigned:
		return arg
	case strings.EqualFold(bare, "bearer"):
		w.expected = header
	case !option:
		if isSecretName(bare) {
			w.expected, w.name = sign, bare
		}
	case w.program != nil && w.program.isPair(bare):
		w.expected = pair
	case isLogin(bare) && !w.program.groups():
		w.expected, w.name = login, bare
	case isSecretName(bare) && !isSwitch(bare):
		w.expected, w.name = named, bare
	}
	return arg
}

// announce expects the value of a name that an argument ends with.
func (w *walk) announce(name string) {
	switch {
	case strings.EqualFold(name, "cookie"), strings.EqualFold(name, "set-cookie"):
		w.expected = crumbs
	case isHeader(name):
		w.expected = header
	case isSecretName(name):
		w.expected, w.name = named, name
	}
}
