// Package policy decides which actions are allowed, which are denied, and which
// a person must confirm first.
//
// A policy is a file that an administrator writes by hand, one rule a line
// (docs/policy.md). The first rule that matches decides. Package action asks
// it for every action; it knows nothing of processes but what a [Request]
// says.
package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"topside/internal/steer/keptfile"
)

// A Verdict is what a policy says of an action.
type Verdict string

// The verdicts.
const (
	Allow   Verdict = "allow"
	Deny    Verdict = "deny"
	Confirm Verdict = "confirm"
)

// A Request is an action as a policy sees it. Fields that are not known are
// empty and match no pattern but "*".
type Request struct {
	Tool       string // process_kill
	User       string // whom the process belongs to: name
	UID        string // and number
	Unit       string // systemd unit
	Container  string // name or id
	Name       string // of the process
	Executable string
	Signal     string // TERM, KILL, …
	Host       string // "local" for this machine
}

// A Decision is a verdict with its reason.
type Decision struct {
	Verdict Verdict
	// Line is that of the rule which decided; 0 for the default.
	Line   int
	Reason string
}

// A Policy is the rules of one file.
type Policy struct {
	rules    []rule
	fallback Decision
	broken   bool // nobody can tell what it says
}

type rule struct {
	verdict Verdict
	line    int
	reason  string
	matches []match
}

// A match is one key=pattern,pattern of a rule.
type match struct {
	key      string
	patterns []string
}

// keys are what a rule can ask about.
var keys = []string{"tool", "user", "unit", "container", "name", "executable", "signal", "host"}

// values are the conditions that can only be one of a few things. A pattern that
// matches none of them is a slip of the pen, and a rule that never applies.
var values = map[string][]string{
	"tool":   {"process_kill"},
	"signal": {"TERM", "KILL", "INT", "HUP", "STOP", "CONT", "USR1", "USR2"},
}

// possible refuses patterns that nothing can match.
func (m match) possible(known []string) error {
	if known == nil {
		return nil
	}
	for _, pattern := range m.patterns {
		if !slices.ContainsFunc(known, func(v string) bool { return Request{Tool: v, Signal: v}.has(m.key, pattern) }) {
			return fmt.Errorf("%s=%s matches nothing; it can be %s, or a pattern of those", m.key, pattern, strings.Join(known, ", "))
		}
	}
	return nil
}

// Default allows everything that topside itself does not refuse.
func Default() *Policy { return &Policy{fallback: Decision{Verdict: Allow}} }

// A SyntaxError is a line that is not a rule.
type SyntaxError struct {
	Line int
	Text string // what is wrong, and what is accepted
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("policy, line %d: %s", e.Line, e.Text) }

// The bounds of a policy.
const (
	longestFile = 1 << 20
	mostRules   = 10000
)

// Parse reads a policy. The error is a *[SyntaxError].
func Parse(text string) (*Policy, error) {
	p := Default()
	decided := 0
	number := 0
	for line := range strings.Lines(text) {
		number++
		words, err := split(line)
		if err != nil {
			return nil, &SyntaxError{number, err.Error()}
		}
		if len(words) == 0 {
			continue
		}
		if words[0].text == "default" {
			if decided > 0 {
				return nil, &SyntaxError{number, fmt.Sprintf("line %d gives a default already", decided)}
			}
			if p.fallback, err = parseDefault(words, number); err != nil {
				return nil, &SyntaxError{number, err.Error()}
			}
			decided = number
			continue
		}
		r, err := parseRule(words, number)
		if err != nil {
			return nil, &SyntaxError{number, err.Error()}
		}
		if p.rules = append(p.rules, r); len(p.rules) > mostRules {
			return nil, &SyntaxError{number, fmt.Sprintf("there are more than %d rules", mostRules)}
		}
	}
	return p, nil
}

func verdictOf(word string) (Verdict, error) {
	switch v := Verdict(word); v {
	case Allow, Deny, Confirm:
		return v, nil
	}
	return "", fmt.Errorf("%q is not a verdict; a rule begins with allow, deny or confirm, and one line may say default", word)
}

func parseDefault(words []word, line int) (Decision, error) {
	if len(words) != 2 {
		return Decision{}, errors.New("default takes one verdict: allow, deny or confirm")
	}
	v, err := verdictOf(words[1].text)
	return Decision{Verdict: v, Line: line}, err
}

func parseRule(words []word, line int) (rule, error) {
	verdict, err := verdictOf(words[0].text)
	if err != nil {
		return rule{}, err
	}
	r := rule{verdict: verdict, line: line}
	for i := 1; i < len(words); i++ {
		key, value, ok := strings.Cut(words[i].text, "=")
		switch {
		case words[i].text == "because" && i+2 == len(words):
			r.reason = words[i+1].text
			return r, r.possible()
		case !ok:
			return rule{}, fmt.Errorf("%q is not key=pattern; the keys are %s and because", words[i].text, strings.Join(keys, ", "))
		case key == "because":
			r.reason = value
		case !slices.Contains(keys, key):
			return rule{}, fmt.Errorf("there is no key %q; the keys are %s and because", key, strings.Join(keys, ", "))
		case value == "":
			return rule{}, fmt.Errorf("%s has no pattern; \"*\" stands for all", key)
		case slices.ContainsFunc(r.matches, func(m match) bool { return m.key == key }):
			return rule{}, fmt.Errorf("%s is given twice; write %s=one,two", key, key)
		default:
			m := match{key: key, patterns: strings.Split(value, ",")}
			if slices.Contains(m.patterns, "") {
				return rule{}, fmt.Errorf("%s has an empty pattern between its commas", key)
			}
			r.matches = append(r.matches, m)
		}
	}
	return r, r.possible()
}

// A word is one word of a line; quotes are gone.
type word struct{ text string }

// split cuts a line into words. Double quotes hold blanks together, a # that
// begins a word begins a comment.
func split(line string) ([]word, error) {
	var words []word
	var current strings.Builder
	inWord, quoted := false, false
	flush := func() {
		if inWord {
			words = append(words, word{current.String()})
		}
		current.Reset()
		inWord = false
	}
	for _, c := range line {
		switch {
		case c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f:
			return nil, fmt.Errorf("there is a control character in it (%q), which no pattern can match", c)
		case quoted && c == '"':
			quoted = false
		case quoted && c != '\n':
			current.WriteRune(c)
		case quoted:
			return nil, errors.New("a quote is not closed")
		case c == '"':
			quoted, inWord = true, true
		case c == '#' && !inWord:
			return words, nil
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			flush()
		default:
			inWord = true
			current.WriteRune(c)
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	flush()
	return words, nil
}

// Decide says what becomes of an action.
func (p *Policy) Decide(r Request) Decision {
	for i := range p.rules {
		if p.rules[i].applies(r) {
			return Decision{Verdict: p.rules[i].verdict, Line: p.rules[i].line, Reason: p.rules[i].reason}
		}
	}
	return p.fallback
}

func (r *rule) applies(request Request) bool {
	for _, m := range r.matches {
		if !slices.ContainsFunc(m.patterns, func(pattern string) bool { return request.has(m.key, pattern) }) {
			return false
		}
	}
	return true
}

func (r Request) has(key, pattern string) bool {
	switch key {
	case "tool":
		return Glob(pattern, r.Tool)
	case "user":
		return Glob(pattern, r.User) || r.UID != "" && pattern == r.UID
	case "unit":
		return Glob(pattern, r.Unit)
	case "container":
		return Glob(pattern, r.Container) || len(pattern) >= 12 && strings.HasPrefix(r.Container, pattern)
	case "name":
		return Glob(pattern, r.Name)
	case "executable":
		return Glob(pattern, r.Executable)
	case "signal":
		return Glob(strings.TrimPrefix(strings.ToUpper(pattern), "SIG"), r.Signal)
	case "host":
		return Glob(pattern, r.Host)
	}
	return false
}

// Glob matches a whole text: * stands for any characters, ? for one.
func Glob(pattern, text string) bool {
	// The classic two-pointer match: linear but for the last star.
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(text) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == text[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(pattern) && pattern[i] == '*' {
		i++
	}
	return i == len(pattern)
}

// A File is a policy file that is read again when it changes. It is safe for
// concurrent use.
type File struct {
	path func() Source

	mu      sync.Mutex
	read    Source // what was read
	stamp   keptfile.Stamp
	current *Policy
	err     error
}

// A Source says where a policy is.
type Source struct {
	Path string // "" is no policy
	// Named is true when somebody chose the path: a file that is missing there
	// is a fault, not a policy that nobody wrote.
	Named bool
	// Unknown is why nobody can tell where the policy is; "" when one can.
	Unknown string
}

// NewFile returns the policy at the place that path returns, which may change
// with the configuration.
func NewFile(path func() Source) *File { return &File{path: path} }

// Current returns the policy in force. A file that nobody named and that is
// missing is [Default]. One that cannot be found, read or understood denies
// everything, and the error says what is wrong: an administrator who wrote rules
// does not want none.
func (f *File) Current() (*Policy, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := f.path()
	var now keptfile.Stamp
	if path.Path != "" {
		now = keptfile.StampOf(path.Path)
	}
	if f.current == nil || path != f.read || !now.Same(f.stamp) {
		f.read, f.stamp = path, now
		f.current, f.err = load(path)
	}
	return f.current, f.err
}

func load(source Source) (*Policy, error) {
	path := source.Path
	if source.Unknown != "" {
		return closed(fmt.Errorf("nobody can tell what the policy is, so that every action is denied: %s", source.Unknown))
	}
	if path == "" {
		return Default(), nil
	}
	text, err := keptfile.Read(path, longestFile)
	if errors.Is(err, fs.ErrNotExist) && !source.Named {
		return Default(), nil
	}
	if err == nil {
		err = guarded(path)
	}
	if err == nil {
		var p *Policy
		if p, err = Parse(string(text)); err == nil {
			return p, nil
		}
	}
	return closed(fmt.Errorf("the policy %s cannot be used, so that every action is denied until it is mended: %w", path, err))
}

// closed denies everything.
func closed(err error) (*Policy, error) {
	return &Policy{fallback: Decision{Verdict: Deny, Reason: err.Error()}, broken: true}, err
}
