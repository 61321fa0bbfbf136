package alert

// hidden_pid: a process that answers, and is in no list.

const ruleHidden = "hidden_pid"

var hiddenPID = Rule{
	Name:       ruleHidden,
	Severities: []Severity{Critical},
	New:        true,
	Asks:       "Is there a process that the list of processes does not show?",
	Evidence:   "A process id that has a directory of its own under proc and leads its threads, in two passes one after the other, while the list of proc never showed it.",
	Silent:     "Threads, whose directories are never listed; processes that start or end meanwhile; a proc that is mounted with hidepid, when topside has no right to see through it.",
	Limits:     "The space of ids is probed part by part, so that a whole round takes minutes, and hours where pid_max is raised to millions. A rootkit that hides from both ways is not seen from inside the machine.",
	machine:    judgeHidden,
}

func judgeHidden(p *pass) []Finding {
	unlisted, err := p.evidence.Unlisted(func(pid int32) bool { return p.at(pid) != nil })
	if err != nil {
		return nil
	}
	seen := make(map[int32]uint64, len(unlisted))
	var out []Finding
	for _, pid := range unlisted {
		seen[pid] = p.number
		if before, ok := p.suspects[pid]; !ok || before+1 != p.number {
			continue
		}
		f := Finding{Rule: ruleHidden, Severity: Critical, PID: pid, Process: "?", Cause: ruleHidden + "\x00" + pidText(pid), Message: "process " + pidText(pid) + " exists and is in no list"}
		out = append(out, *f.because("proc answers for it by its number, twice, and does not list it").
			then("modules of the kernel and libraries of ld.so.preload", "look from outside the machine: programs on it may lie"))
	}
	p.suspects = seen
	return out
}
