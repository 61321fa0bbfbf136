package alert

// ptrace_injection: a process under another's control.

import (
	"fmt"
)

const rulePtrace = "ptrace_injection"

var ptraceInjection = Rule{
	Name:       rulePtrace,
	Severities: []Severity{Critical, Warning, Info},
	New:        true,
	Asks:       "Does one process control another that is not its to debug?",
	Evidence:   "The kernel names a tracer. Critical when the tracer is an executable that nobody installed (Warning where somebody started it at a terminal), or when what it traces keeps secrets (sshd, sudo, an agent, a password manager, init).",
	Silent:     "Debuggers and tracers that packages or administrators installed, on other programs; a program that traces its own child, or another program of the same build or test run; crash handlers and sandboxes of a browser.",
	Limits:     "A tracer that attaches, writes and detaches between two looks is not seen. Writing with process_vm_writev or through proc/PID/mem needs no lasting trace.",
	static:     judgePtrace,
}

var keepers = set("sshd sshd-session ssh-agent gpg-agent sudo su login passwd systemd systemd-logind sssd krb5kdc gnome-keyring-daemon keepassxc polkitd vault pass")

func judgePtrace(s *subject) *Finding {
	if s.inspection == nil || s.inspection.rights == nil || s.inspection.rights.Tracer == 0 {
		return nil
	}
	tracer := s.at(s.inspection.rights.Tracer)
	if tracer == nil {
		return nil
	}
	f := s.say(rulePtrace, Warning, "process is controlled by %s (%d)", tracer.comm(), tracer.p.PID).
		because(fmt.Sprintf("%s (%d) of user %s traces it", tracer.comm(), tracer.p.PID, tracer.user()), "of the tracer: "+tracer.origin.String(), tracer.lineage()).
		then("what the tracer is", tracer.tree())
	secret := keepers[stem(s.executable())] || keepers[s.comm()]
	_, built := tracer.built()
	ownChild := s.p.PPID == tracer.p.PID || s.executable() == tracer.executable() && s.executable() != ""
	switch {
	case tracer.origin.foreign() && !ownChild && !s.sameBuild(tracer):
		f.Severity = Critical
		if tracer.attended() && !built {
			f.Severity = Warning
			f.because("the tracer has a terminal: somebody started it by hand")
		}
	case secret && !ownChild:
		f.Severity = Critical
		f.because(s.comm() + " keeps secrets")
	case tracer.is(debugger | browser), tracer.origin.trusted(), built, ownChild, tracer.inContainer():
		f.Severity = Info
	case tracer.attended():
		f.Severity = Info
	}
	if f.Severity == Info && (ownChild || built || tracer.is(browser)) {
		return nil
	}
	return f
}

// sameBuild reports whether one build or test run started both.
func (s *subject) sameBuild(other *subject) bool {
	mine, ok := s.built()
	theirs, ok2 := other.built()
	if !ok || !ok2 {
		return false
	}
	if mine.p.PID == theirs.p.PID {
		return true
	}
	outermost := func(of *subject) (pid int32) {
		of.ancestors(func(a *subject) bool {
			if a.is(builder) && !a.origin.foreign() {
				pid = a.p.PID
			}
			return true
		})
		return pid
	}
	return outermost(s) == outermost(other)
}
