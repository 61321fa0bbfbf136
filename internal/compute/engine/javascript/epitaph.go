package javascript

import (
	"regexp"
	"strings"
)

// fatal matches what Go's runtime writes when it ends the process: lines of its own, the reason, and the goroutines.
var fatal = regexp.MustCompile(`(?m)^(?:runtime: .*\n(?:.+\n){0,3}?)?(?:fatal error|panic): (.*)\n(?:.*\n){0,3}?(?:runtime stack:|goroutine \d+ )`)

// Epitaph finds the last words of the child's own runtime, which name functions of this program and nothing of the
// session's.
func (l *Language) Epitaph(stderr string) (message string, begins int) {
	at := fatal.FindStringSubmatchIndex(stderr)
	if at == nil {
		return "", 0
	}
	reason := stderr[at[2]:at[3]]
	if strings.Contains(stderr[at[0]:at[1]], "cannot allocate") || strings.Contains(reason, "out of memory") || strings.Contains(reason, "address space") {
		reason = "out of memory"
	}
	return "the engine's process ended: " + reason, at[0]
}
