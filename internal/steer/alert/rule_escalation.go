package alert

// privilege_escalation (R4): rights that a process cannot have by right.

import (
	"fmt"
	"strings"
)

const ruleEscalation = "privilege_escalation"

var escalation = Rule{
	Name:       ruleEscalation,
	Severities: []Severity{Critical, Warning},
	Asks:       "Does a process have rights that neither its parent nor a setuid program gave it?",
	Evidence:   "A process of root whose parent is another user's, though its executable is not a setuid program of a package and no such program left its mark in the environment; a process that became root between two snapshots without running another executable; real and effective users that differ, in a program that no package ships setuid; wide capabilities of a user's own program whose parent has none.",
	Silent:     "sudo, su, doas, pkexec, fusermount, ssh-keysign, unix_chkpwd, sandboxes and every other setuid program that a package owns, and what they run (SUDO_UID, DOAS_USER, PKEXEC_UID); services that change their effective user under a parent of root; containers and user namespaces.",
	Limits:     "The variables of sudo, doas and pkexec can be forged by whoever already is root. A change of the user that is undone between two snapshots is not seen. Without root, the executables of other users cannot be read, and a process whose executable is unknown convicts nobody.",
	static:     judgeEscalation,
}

func judgeEscalation(s *subject) *Finding {
	if !s.p.Facts.UIDKnown || s.executable() == "" || s.inContainer() {
		return nil
	}
	if f := s.grewInPlace(); f != nil {
		return f
	}
	if f := s.aboveParent(); f != nil {
		return f
	}
	if f := s.split(); f != nil {
		return f
	}
	return s.capable()
}

// shippedSetuid reports whether the program is one that packages ship setuid.
func (s *subject) shippedSetuid() bool {
	return s.origin.trusted() && (setuidNames[stem(s.executable())] || s.is(elevator))
}

// grewInPlace finds a process that became root without a new executable.
func (s *subject) grewInPlace() *Finding {
	c := s.changed
	if !c.known || c.uid == 0 || s.p.Facts.UID != 0 || c.executable != s.executable() || s.shippedSetuid() {
		return nil
	}
	if parent := s.parent(); parent == nil || parent.p.Facts.UID == 0 && s.origin.trusted() {
		return nil // a service that lowers its effective user now and again
	}
	return s.say(ruleEscalation, Critical, "EUID (0) != UID (%d), exe: %s", c.uid, s.title()).
		because(fmt.Sprintf("it ran as user %d and became root without running another executable", c.uid), s.origin.String(), s.lineage()).
		then("what the user "+s.user()+" runs", "the kernel's version against known faults", s.tree())
}

// aboveParent finds a process of root below one of another user.
func (s *subject) aboveParent() *Finding {
	parent := s.parent()
	if s.p.Facts.UID != 0 || parent == nil || !parent.p.Facts.UIDKnown || parent.p.Facts.UID == 0 || parent.kernel {
		return nil
	}
	if s.shippedSetuid() || parent.shippedSetuid() {
		return nil
	}
	file, err := s.evidence.File(s.p.PID, s.executable())
	if err == nil && file.Setuid() {
		return nil // what setuid files do; new_setuid_file judges the file
	}
	if by := s.elevated(); by != "" {
		return nil
	}
	if err != nil && s.origin.trusted() && !s.p.Facts.Deleted {
		return nil
	}
	return s.say(ruleEscalation, Critical, "EUID (0) != UID (%d), exe: %s", parent.p.Facts.UID, s.title()).
		because(fmt.Sprintf("it is root's, and its parent %s (%d) is of user %s", parent.comm(), parent.p.PID, parent.user()),
			"its executable is not setuid, and no sudo, su, doas or pkexec is above it", s.origin.String()).
		then("what the user "+parent.user()+" runs", s.tree())
}

// elevated names the program that changed the user and then became this one.
func (s *subject) elevated() string {
	set, err := s.evidence.Environment(s.p.PID, "SUDO_UID", "DOAS_USER", "PKEXEC_UID", "SUDO_COMMAND")
	if err != nil {
		return ""
	}
	for key := range set {
		return strings.ToLower(strings.SplitN(key, "_", 2)[0])
	}
	return ""
}

// split finds real and effective users that differ in a program that is not
// shipped so.
func (s *subject) split() *Finding {
	n := s.inspection
	if n == nil || n.rights == nil || n.rights.RealUID == n.rights.EffectiveUID || s.shippedSetuid() {
		return nil
	}
	r, parent := n.rights, s.parent()
	if r.RealUID == 0 && s.origin.trusted() || parent != nil && parent.shippedSetuid() {
		return nil // a service that lowered its rights
	}
	if parent != nil && parent.inspection != nil && parent.inspection.rights != nil &&
		parent.inspection.rights.RealUID == r.RealUID && parent.inspection.rights.EffectiveUID == r.EffectiveUID {
		return nil // inherited: the parent is the cause
	}
	if s.origin == packaged && r.EffectiveUID != 0 {
		return nil
	}
	if file, err := s.evidence.File(s.p.PID, s.executable()); err == nil && file.Setuid() && s.origin == packaged && !s.is(shell|interpreter|textTool|downloader|netcat) {
		return nil
	}
	severity := Warning
	if r.EffectiveUID == 0 {
		severity = Critical
	}
	return s.say(ruleEscalation, severity, "EUID (%d) != UID (%d), exe: %s", r.EffectiveUID, r.RealUID, s.title()).
		because("no package ships this program setuid", s.origin.String(), s.lineage()).
		then("the mode and owner of its executable", s.tree())
}

// The capabilities that amount to root: dac_override, setuid, sys_module,
// sys_rawio, sys_ptrace, sys_admin (capability.h).
const rootlike = 1<<1 | 1<<7 | 1<<16 | 1<<17 | 1<<19 | 1<<21

// capable finds capabilities that amount to root in a user's own program.
func (s *subject) capable() *Finding {
	n := s.inspection
	if n == nil || n.rights == nil || !n.rights.CapabilitiesKnown || n.rights.EffectiveUID == 0 || s.origin.trusted() || s.service() {
		return nil
	}
	parent := s.parent()
	if n.rights.Capabilities&rootlike == 0 || parent == nil || parent.inspection == nil || parent.inspection.rights == nil {
		return nil
	}
	if parent.inspection.rights.Capabilities&rootlike != 0 || parent.p.Facts.UID == 0 {
		return nil
	}
	return s.say(ruleEscalation, Warning, "EUID (%d) != UID (%d), exe: %s", n.rights.EffectiveUID, n.rights.RealUID, s.title()).
		because(fmt.Sprintf("it has capabilities that amount to root (%#x), and its parent has none of them", n.rights.Capabilities&rootlike), s.origin.String()).
		then("the capabilities of its executable (getcap)", s.tree())
}
