package alert

// new_setuid_file: a setuid file that no package ships, in use.

import (
	"fmt"
	"time"
)

const ruleSetuid = "new_setuid_file"

var newSetuid = Rule{
	Name:       ruleSetuid,
	Severities: []Severity{Critical, Warning},
	New:        true,
	Asks:       "Does somebody use a setuid file that no package ships as one?",
	Evidence:   "The executable of a running process is setuid root, and no package owns it; or a shell, an interpreter or a tool that reads and writes files is setuid, whoever owns it. Critical when it lies outside of where administrators install programs.",
	Silent:     "The setuid programs of packages; setuid files of other users than root; containers.",
	Limits:     "A file is looked at while a process runs it. File capabilities are left to privilege_escalation, which also judges the process that such a file has raised: one alert is of the file, the other of who gained by it.",
	static:     judgeSetuid,
}

func judgeSetuid(s *subject) *Finding {
	if s.executable() == "" || s.inContainer() || s.p.Facts.Deleted || s.origin == memory {
		return nil
	}
	armed := s.is(shell | interpreter | downloader | netcat | textTool)
	if s.origin.trusted() && s.origin != local && !armed {
		return nil
	}
	if armed && s.origin.trusted() && !s.raised() {
		return nil // looked at only where somebody gains by it
	}
	file, err := s.evidence.File(s.p.PID, s.executable())
	if err != nil || !file.Setuid() || file.UID != 0 {
		return nil
	}
	if s.origin.trusted() && setuidNames[stem(s.executable())] {
		return nil
	}
	f := s.say(ruleSetuid, Critical, "setuid file that no package ships: %s", s.executable()).
		because(fmt.Sprintf("its mode is %04o and its owner is root", file.Mode), s.origin.String(), s.lineage()).
		then("who made it setuid, and who ran it", s.tree())
	if !file.Changed.IsZero() && s.now.Sub(file.Changed) >= 0 {
		f.because(fmt.Sprintf("it was last changed %s ago", s.now.Sub(file.Changed).Round(time.Second)))
	}
	if s.origin == local && !armed {
		f.Severity = Warning
	}
	return f
}

// raised reports whether the process has more rights than its parent.
func (s *subject) raised() bool {
	if n := s.inspection; n != nil && n.rights != nil && n.rights.RealUID != n.rights.EffectiveUID {
		return true
	}
	parent := s.parent()
	return s.p.Facts.UIDKnown && s.p.Facts.UID == 0 && parent != nil && parent.p.Facts.UIDKnown && parent.p.Facts.UID != 0
}
