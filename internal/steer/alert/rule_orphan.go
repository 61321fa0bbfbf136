package alert

// orphan_process (R2): a process that cut itself loose from whoever started it.

import (
	"fmt"
	"path"
	"strings"
	"time"
)

const ruleOrphan = "orphan_process"

var orphan = Rule{
	Name:       ruleOrphan,
	Severities: []Severity{Critical, Warning},
	Asks:       "Did a process cut its ties to whoever started it, so that nothing accounts for it any more?",
	Evidence:   "Init, or another reaper, is its parent; no service unit, container or terminal holds it; and its executable is one that nobody installed: in a temporary folder, in memory, removed, a stray file in a system folder, hidden, or (with a connection to another machine) a user's own. An interpreter counts by its script. Critical in the first minute of its life, Warning after.",
	Silent:     "What suspicious_exe_path reports already, which then says that it is an orphan too. Daemons that init started, which is every service: packaged programs, programs that an administrator installed, members of a service unit, everything in a container, and programs that detached from a login without any of these traits (tmux, agents, a user's nohup).",
	Limits:     "A payload that is started as a unit or through cron is held by that unit. A process that a subreaper adopted counts only when that happened between two snapshots.",
	static:     judgeOrphan,
}

// orphanYouth is the age below which an orphan is Critical (contract, R2).
const orphanYouth = time.Minute

func judgeOrphan(s *subject) *Finding {
	yes, seen := s.adopted()
	if !yes || s.p.PID == 1 || s.inContainer() || s.service() {
		return nil
	}
	why := s.homeless()
	if why == "" || s.attended() {
		return nil
	}
	if of := s.finding(rulePath); of != nil && of.Severity == Critical {
		of.because("init adopted it: no service unit, container or terminal holds it")
		return nil // one cause, one alert
	}
	if s.madeByBuild() && (s.origin == temporary || len(s.remotes()) == 0) {
		return nil // in a temporary folder, suspicious_exe_path watches it
	}
	severity := Warning
	if s.age() < orphanYouth {
		severity = Critical
	}
	f := s.say(ruleOrphan, severity, "orphan process (PPID=%d), running for %ds, exe: %s", s.p.PPID, int64(s.age()/time.Second), s.title()).
		because(why, "no service unit, container or terminal holds it")
	if seen {
		f.because(fmt.Sprintf("its parent %d ended and %d adopted it while topside watched", s.bornTo, s.p.PPID))
	}
	for _, r := range s.remotes() {
		f.because("it is connected to " + r.Remote.String())
	}
	return f.then("what started it: the shells and services of the user "+s.user(), s.tree())
}

// homeless tells why nothing accounts for the program; "" when something does.
func (s *subject) homeless() string {
	switch {
	case s.origin.foreign():
		return s.origin.String()
	case s.p.Facts.Deleted && s.origin == home:
		if _, err := s.evidence.File(s.p.PID, s.executable()); err != nil {
			return "its file was removed while it runs, and no package owned it"
		}
	}
	what := s.executable()
	if s.is(shell | interpreter) {
		script := scriptOf(s.args())
		if script != "" && !path.IsAbs(script) {
			script = path.Join(s.p.Facts.Directory, script)
		}
		if script == "" || strings.HasPrefix(script, "/dev/fd/") {
			return ""
		}
		if hasPrefix(script, temporaryFolders) {
			return "it runs the script " + script + ", in a folder for temporary files"
		}
		what = script
	} else if s.origin != home {
		return ""
	}
	if part, hidden := hiddenPart(what); hidden && (s.origin == home || s.is(shell|interpreter)) {
		return fmt.Sprintf("%s is hidden (%s)", what, part)
	}
	if s.origin == home && len(s.remotes()) > 0 && !s.ownFolder() {
		return s.origin.String() + ", and it is connected to another machine"
	}
	return ""
}

// ownFolder reports whether the executable lies where people keep programs of
// their own and such programs run as themselves.
func (s *subject) ownFolder() bool {
	return hasPrefix(s.executable(), []string{"/home/", "/root/", "/Users/"})
}
