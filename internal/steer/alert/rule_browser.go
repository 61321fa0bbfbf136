package alert

// suspicious_child_of_browser (R5): what a browser has no business to start.

import (
	"strings"
)

const ruleBrowser = "suspicious_child_of_browser"

var browserChild = Rule{
	Name:       ruleBrowser,
	Severities: []Severity{Warning},
	Asks:       "Did a browser, or something it started, run a shell, an interpreter, a downloader, a terminal or a file that nobody installed?",
	Evidence:   "An ancestor is a browser by its executable, and the process is a shell, an interpreter, a terminal emulator, a downloader or a network cat, or its executable lies in a temporary or a download folder.",
	Silent:     "Children of the browser's own executable or folder (zygotes, renderers, content processes, crash handlers), native-messaging hosts, packaged scripts (xdg-open), and browsers under automation.",
	Limits:     "A payload inside the browser's own processes starts nothing. A native-messaging host is believed to be one by the arguments that browsers give it.",
	static:     judgeBrowserChild,
}

func judgeBrowserChild(s *subject) *Finding {
	if s.is(browser) && !s.origin.foreign() {
		return nil
	}
	what := s.unlikelyForBrowser()
	if what == "" {
		return nil
	}
	from, chain := s.browserAbove()
	if from == nil || s.executable() == from.executable() || strings.HasPrefix(s.executable(), folderOf(from.executable())) {
		return nil
	}
	if nativeHost(s.args()) || s.packagedScript() {
		return nil
	}
	for _, between := range chain {
		if nativeHost(between.args()) || between.packagedScript() {
			return nil
		}
	}
	return s.say(ruleBrowser, Warning, "browser '%s' spawned unknown child '%s'", from.comm(), s.comm()).
		because(what, s.lineage()).
		then("what the browser had opened or downloaded", s.tree())
}

func (s *subject) unlikelyForBrowser() string {
	switch {
	case s.origin == temporary, s.origin == memory, s.origin == stray, s.origin == drifted:
		return s.origin.String()
	case strings.Contains(s.executable(), "/Downloads/"):
		return "its executable lies in a folder of downloads"
	case s.is(shell):
		return "it is a shell"
	case s.is(interpreter):
		return "it is an interpreter"
	case s.is(downloader | netcat):
		return "it fetches from the network"
	case s.is(terminal):
		return "it is a terminal"
	}
	return ""
}

// browserAbove finds the browser above a process, and what is between them.
// A shell that a person uses inside an IDE or a terminal is not below one.
func (s *subject) browserAbove() (*subject, []*subject) {
	var found *subject
	var between []*subject
	s.ancestors(func(a *subject) bool {
		if a.is(browser) && !a.origin.foreign() {
			found = a
			return false
		}
		between = append(between, a)
		return len(between) < 8
	})
	return found, between
}

func folderOf(executable string) string {
	i := strings.LastIndexByte(executable, '/')
	if i <= len("/usr/local/bin") && (strings.HasSuffix(executable[:i+1], "/bin/") || strings.HasSuffix(executable[:i+1], "/sbin/")) {
		return executable // a folder of all programs is nobody's own
	}
	return executable[:i+1]
}

// nativeHost reports whether the arguments are those that a browser gives to
// the program at the other end of an extension.
func nativeHost(args []string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, "chrome-extension://") || strings.Contains(strings.ToLower(a), "native-messaging-hosts/") || strings.Contains(a, "NativeMessagingHosts/") {
			return true
		}
	}
	return false
}

// packagedScript reports whether a shell or interpreter runs a script that a
// package owns.
func (s *subject) packagedScript() bool {
	if !s.is(shell | interpreter) {
		return false
	}
	script := scriptOf(s.args())
	return script != "" && (s.evidence.Packaged(script) == Owned || script == "/usr/bin/xdg-open")
}
