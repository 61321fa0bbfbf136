package alert

// process_masquerading (R3): a program that gives itself for another.

import (
	"fmt"
	"path"
	"strings"
)

const ruleMasquerade = "process_masquerading"

var masquerading = Rule{
	Name:       ruleMasquerade,
	Severities: []Severity{Critical, Warning, Info},
	Asks:       "Does a program call itself by the name of another one?",
	Evidence:   "A process that is no kernel thread has a kernel thread's name or brackets around it; a system daemon's name (sshd, systemd, cron, …) is borne by an executable of another name that no package owns; or the first argument names an installed program that the executable is not, and no package owns the executable.",
	Silent:     "Programs that packages own may call themselves and their threads what they like (Web Content, (sd-pam), postgres: writer); so may interpreters, whose name is their script's, multi-call binaries, and the files of a container's image.",
	Limits:     "A program in /usr/local or /opt that has a daemon's name is Info: administrators do build their own. A packaged program that was overwritten in place still counts as packaged. Names that differ by a letter from a daemon's convict only together with a foreign origin.",
	static:     judgeMasquerade,
}

func judgeMasquerade(s *subject) *Finding {
	if s.origin == memory && s.engineMemfd() {
		return nil
	}
	if claimsKernel(s) {
		return s.say(ruleMasquerade, Critical, "process name '%s' masquerades as kernel thread; exe: %s", claimed(s), s.title()).
			because("the kernel does not count it among its threads", s.origin.String(), s.lineage()).
			then("its executable", s.tree())
	}
	if s.executable() == "" || s.is(shell|interpreter) || s.origin == image || s.origin == packaged || s.origin == system {
		return nil
	}
	name, exeName := strings.ToLower(s.comm()), strings.ToLower(stem(s.executable()))
	if as := imitates(name); as != "" && (name != as || systemNames[as]) {
		return s.imitation(as, name, exeName)
	}
	if named := claimsInstalled(s); named != "" {
		return s.say(ruleMasquerade, s.doubt(), "name '%s' differs from exe stem '%s' (%s)", named, stem(s.executable()), s.executable()).
			because(fmt.Sprintf("its first argument names %s, which is installed and is not what runs", named), s.origin.String(), s.lineage()).
			then("its executable", s.tree())
	}
	// What runs from memory has whatever name its maker chose: suspicious_exe_path
	// says that it does.
	if s.origin.foreign() && s.origin != memory && !related(name, exeName) && !s.builtSilently() {
		return s.say(ruleMasquerade, Warning, "name '%s' differs from exe stem '%s' (%s)", s.comm(), stem(s.executable()), s.executable()).
			because(s.origin.String(), s.lineage()).
			then("its executable", s.tree())
	}
	return nil
}

// imitation judges a program with a daemon's name, or nearly one.
func (s *subject) imitation(as, name, exeName string) *Finding {
	f := s.say(ruleMasquerade, Critical, "process name '%s' masquerades as system process; exe: %s", s.comm(), s.title()).
		because(s.origin.String(), s.lineage()).
		then("its executable", "whether the real "+as+" runs as well", s.tree())
	switch {
	case s.origin == local:
		f.Severity = Info
	case name != as:
		if !s.origin.foreign() || s.builtSilently() {
			return nil
		}
		f.Severity = Warning
		f.because(fmt.Sprintf("its name is one letter away from %s", as))
	case s.origin == home && name == exeName && s.attended():
		f.Severity = Info
		f.because("it has a terminal: somebody started it by hand")
	}
	if by, ok := s.built(); ok && f.Severity == Critical && s.origin != memory && name == exeName {
		f.Severity = Info
		f.because(fmt.Sprintf("%s (%d) built it", by.comm(), by.p.PID))
	}
	return f
}

// doubt is Warning for a foreign executable and Info for a user's own.
func (s *subject) doubt() Severity {
	if s.origin.foreign() {
		return Warning
	}
	if _, hidden := hiddenPart(s.executable()); hidden {
		return Warning
	}
	return Info
}

func (s *subject) builtSilently() bool {
	return s.madeByBuild() || s.imageBuild()
}

// claimed is the name that the process shows.
func claimed(s *subject) string {
	if len(s.args()) > 0 && strings.HasPrefix(s.args()[0], "[") {
		return s.args()[0]
	}
	return s.comm()
}

// claimsKernel reports whether a process of user space looks like a kernel
// thread in lists: by a name in brackets, or by one of the kernel's names.
func claimsKernel(s *subject) bool {
	if s.kernel || s.p.Ended() {
		return false
	}
	if len(s.args()) > 0 {
		first := s.args()[0]
		if strings.HasPrefix(first, "[") && strings.HasSuffix(strings.TrimRight(first, " "), "]") && kernelName(strings.Trim(first, "[] ")) {
			return true
		}
	}
	// The names of real programs can begin like a kernel thread's, so that a
	// bare name needs an executable that nobody installed.
	return s.executable() != "" && kernelName(s.comm()) && !s.origin.trusted() && !related(s.comm(), stem(s.executable()))
}

func kernelName(name string) bool { return hasPrefix(name, kernelNames) }

// imitates returns the daemon that a name is, or is one letter away from; ""
// for other names.
func imitates(name string) string {
	if systemNames[name] {
		return name
	}
	if len(name) < 4 {
		return ""
	}
	for daemon := range systemNames {
		if len(daemon) >= 4 && daemon != "init" && daemon != "cron" && daemon != "login" && oneApart(name, daemon) {
			return daemon
		}
	}
	return ""
}

// oneApart reports whether two names differ by one letter added, left out,
// changed, or by two neighbours exchanged.
func oneApart(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 0:
		if i == len(a) {
			return false
		}
		return a[i+1:] == b[i+1:] || i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	case 1:
		return a[i:] == b[i+1:]
	}
	return false
}

// claimsInstalled returns the installed program that the first argument names
// by its whole path while another executable runs; "" when it names none.
func claimsInstalled(s *subject) string {
	if len(s.args()) == 0 {
		return ""
	}
	first, _, _ := strings.Cut(s.args()[0], " ")
	if !path.IsAbs(first) || path.Clean(first) == s.executable() || related(stem(first), stem(s.executable())) {
		return ""
	}
	if s.inContainer() || s.evidence.Packaged(first) != Owned {
		return ""
	}
	return first
}

// related reports whether a process's name can be that of its executable: one
// contains the other (the kernel cuts names at 15 bytes).
func related(name, exeName string) bool {
	name, exeName = strings.ToLower(name), strings.ToLower(exeName)
	return name == "" || exeName == "" || strings.Contains(exeName, name) || strings.Contains(name, exeName)
}
