package alert

// suspicious_exe_path (contract section 3, R1): an executable in a place where
// nobody installs programs.

import (
	"fmt"
	"path"
	"strings"
)

const rulePath = "suspicious_exe_path"

var suspiciousPath = Rule{
	Name:       rulePath,
	Severities: []Severity{Critical, Warning, Info},
	Asks:       "Does a program run from a folder for temporary files, from memory, or from a file that was removed behind it?",
	Evidence:   "The executable lies in a folder that everybody may write to (/tmp, /var/tmp, /dev/shm, /dev/mqueue, /run/user, …), is a memfd, or was removed and no package knows it; and nothing explains it.",
	Silent:     "A build, a test run, a package manager or a CI runner among its ancestors (whose own executable is not of such a place), or among those of another process of the same file in the last half hour; an AppImage's mount; a container engine's own memfd; a program that somebody started at a terminal; one that a compiler wrote (the command that runs it names one, or one ran as the same user when the file was written); one that topside's own client started is a Warning where no compiler wrote it; and one that a package owned before an upgrade replaced it. The explained ones are Info or nothing. Nothing explains a file that is hidden, removed or in shared memory, a memfd, or a program that topside's client, a script or a build that is over left alone with a connection to another machine.",
	Limits:     "An attacker who runs the payload below a real build tool is explained by it while that runs, unless the file is hidden, deleted or in shared memory. Scripts are judged by their interpreter. Without the right to read the executable's link the rule is silent.",
	static:     judgePath,
	watches:    func(s *subject) bool { return s.unattended() },
	dynamic:    judgeDropped,
}

func judgePath(s *subject) *Finding {
	switch {
	case s.origin == memory:
		return judgeMemory(s)
	case s.origin == temporary:
		return judgeTemporary(s)
	case s.p.Facts.Deleted && s.origin >= home:
		return judgeDeleted(s)
	}
	return nil
}

// judgeMemory judges an executable that never had a file. Container engines
// run themselves from one, so that a container cannot write to their file.
func judgeMemory(s *subject) *Finding {
	if s.engineMemfd() {
		return nil
	}
	return s.say(rulePath, Critical, "executable runs from suspicious path: %s", s.title()).
		because(s.origin.String(), s.lineage()).
		then("what wrote the memfd: "+s.tree(), "its executable, which can still be read through its exe link")
}

// engineMemfd reports whether the process is a container engine's copy of
// itself.
func (s *subject) engineMemfd() bool {
	if !strings.HasPrefix(s.executable(), "/memfd:runc_cloned") && !strings.HasPrefix(s.executable(), "/memfd:crun") {
		return false
	}
	return s.below(containerEngine) != nil
}

func judgeTemporary(s *subject) *Finding {
	exe := s.executable()
	if strings.HasPrefix(exe, "/tmp/.mount_") && !s.p.Facts.Deleted {
		return nil // an AppImage's mount
	}
	f := s.say(rulePath, Critical, "executable runs from suspicious path: %s", s.title()).
		because(s.origin.String()).
		then("who wrote the file, and when", s.tree())
	worse := hides(s)
	f.because(worse...)
	if len(worse) > 0 {
		return f.because(s.lineage())
	}
	if s.madeByBuild() {
		return nil
	}
	if s.imageBuild() || s.inContainer() && s.origin == image {
		return nil
	}
	if s.attended() {
		f.Severity = Info
		return f.because("it has a terminal: somebody started it by hand")
	}
	if s.unattended() {
		return nil // see judgeDropped
	}
	return f.because(s.lineage())
}

// shared reports whether a path is in memory that processes share, where no
// build puts anything.
func shared(exe string) bool {
	return hasPrefix(exe, []string{"/dev/shm/", "/dev/mqueue/", "/run/shm/"})
}

// hides lists what speaks against every innocent explanation.
func hides(s *subject) []string {
	var out []string
	exe := s.executable()
	if part, ok := hiddenPart(exe); ok {
		out = append(out, "its path is hidden: "+part)
	}
	if s.p.Facts.Deleted && !s.madeByBuild() {
		out = append(out, "its file was removed while it runs")
	}
	if shared(exe) {
		out = append(out, "it lies in shared memory")
	}
	if by := s.below(server); by != nil && !by.is(builder) && !s.inContainer() {
		out = append(out, fmt.Sprintf("the service %s (%d) started it", by.comm(), by.p.PID))
	}
	if claimsKernel(s) {
		out = append(out, "it calls itself a kernel thread")
	}
	return out
}

// judgeDeleted judges a program that no package knows and whose file is gone.
// A developer's rebuilt server is one, and so is a payload that wiped itself.
func judgeDeleted(s *subject) *Finding {
	exe := s.executable()
	if s.inContainer() && s.origin == image {
		return nil
	}
	if _, err := s.evidence.File(s.p.PID, exe); err == nil {
		return nil // replaced by a newer one
	}
	if s.madeByBuild() || s.attended() {
		return nil
	}
	f := s.say(rulePath, Info, "executable runs from suspicious path: %s", s.title()).
		because("its file was removed while it runs", s.origin.String(), s.lineage()).
		then("its executable, which can still be read through its exe link", s.tree())
	_, hidden := hiddenPart(exe)
	adopted, _ := s.adopted()
	if s.origin == stray || hidden || adopted && !s.service() {
		f.Severity = Critical
		if adopted {
			f.because("its parent ended and init adopted it")
		}
	}
	return f
}

// scriptOf returns the script that a shell or an interpreter runs, and "" when
// it was given none.
func scriptOf(args []string) string {
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-" || a == "--":
			continue
		case a == "-c" || a == "-e" || a == "-m" || a == "-s":
			return ""
		case strings.HasPrefix(a, "-") || strings.HasPrefix(a, "+"):
			if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.ContainsAny(a, "cs") {
				return ""
			}
			continue
		}
		return path.Clean(a)
	}
	return ""
}
