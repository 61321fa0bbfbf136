package alert

// preloaded_library: a library that is forced into programs.

import (
	"strings"
)

const rulePreload = "preloaded_library"

var preloadedLibrary = Rule{
	Name:       rulePreload,
	Severities: []Severity{Critical, Warning, Info},
	New:        true,
	Asks:       "Is a library that nobody installed forced into a program, or into all of them?",
	Evidence:   "A library in etc/ld.so.preload that no package owns, or that is not there (Critical: it is loaded into every program). LD_PRELOAD or LD_AUDIT with a library in a temporary folder, a hidden one, one that is gone, or one of a user in a process of root.",
	Silent:     "Libraries that packages own (jemalloc, fakeroot, libfaketime, snap's), builds and test runs (unless the library is hidden or in shared memory), and a user's own library in that user's own program, which is Info.",
	Limits:     "The environment is that of the program's start: a process can overwrite it. A library that is loaded in other ways is not preloaded.",
	static:     judgePreloaded,
	machine:    judgePreloadFile,
}

// A preloadFile remembers what etc/ld.so.preload said.
type preloadFile struct {
	checked uint64 // the pass
	found   []Finding
}

// judgePreloadFile reads etc/ld.so.preload now and again.
func judgePreloadFile(p *pass) []Finding {
	const every = 12
	if p.preload.checked != 0 && p.number-p.preload.checked < every {
		return p.preload.found
	}
	p.preload = preloadFile{checked: p.number}
	libraries, err := p.evidence.Preload()
	if err != nil {
		return nil
	}
	for _, library := range libraries {
		if p.evidence.Packaged(library) == Owned {
			continue
		}
		f := Finding{
			Rule: rulePreload, Severity: Critical, Process: "ld.so.preload", Executable: library, Cause: rulePreload + "\x00" + library,
			Message: "library is preloaded into every program: " + library,
		}
		f.because("etc/ld.so.preload names it", "no package owns it")
		if hasPrefix(library, localFolders) {
			f.Severity = Warning
			f.because("it lies where administrators install programs")
		}
		p.preload.found = append(p.preload.found, *f.then("who wrote the file and the library, and when", "other programs may lie about both: look from outside the machine"))
	}
	return p.preload.found
}

func judgePreloaded(s *subject) *Finding {
	if s.inspection == nil {
		return nil
	}
	for _, variable := range []string{"LD_PRELOAD", "LD_AUDIT"} {
		for _, library := range strings.FieldsFunc(s.inspection.preloaded[variable], func(r rune) bool { return r == ':' || r == ' ' }) {
			if f := s.preloaded(variable, library); f != nil {
				return f
			}
		}
	}
	return nil
}

func (s *subject) preloaded(variable, library string) *Finding {
	if !strings.HasPrefix(library, "/") {
		return nil // looked up among the system's libraries
	}
	resolved := strings.NewReplacer("/$LIB/", "/lib/x86_64-linux-gnu/", "/${LIB}/", "/lib/x86_64-linux-gnu/").Replace(library)
	if s.evidence.Packaged(resolved) == Owned {
		return nil
	}
	_, hidden := hiddenPart(library)
	if _, ok := s.built(); (ok || s.imageBuild()) && !hidden && !shared(library) {
		return nil
	}
	f := s.say(rulePreload, Warning, "library is preloaded: %s", library).
		because(variable+" names it").
		then("who wrote the library, and when", "the other programs that load it", s.tree())
	_, err := s.evidence.File(s.p.PID, resolved)
	switch {
	case hasPrefix(library, temporaryFolders):
		f.Severity = Critical
		if s.attended() {
			f.Severity = Info
		}
		return f.because("it lies in a folder for temporary files", s.lineage())
	case hidden:
		return f.because("its path is hidden", s.lineage())
	case err != nil && s.evidence.Packaged(resolved) == NotOwned && !s.inContainer():
		f.Severity = Info
		return f.because("it is not there (any more)")
	case s.inContainer(), hasPrefix(library, localFolders):
		return nil
	case s.p.Facts.UID == 0 && hasPrefix(library, []string{"/home/"}):
		return f.because("it is a user's, and the process is root's", s.lineage())
	}
	f.Severity = Info
	return f.because("no package owns it")
}
