package alert

// This file explains programs in temporary folders. What builds and tests make
// lies there, and so does what an attacker drops, also one whose orders reach an
// assistant that talks to topside. An explanation is of the file (a compiler wrote
// it) or of the process (a build runs it), and never of what the process does: one
// that is connected to another machine is a build's own only below that build.

import (
	"fmt"
	"strings"
	"time"
)

// compilerNames are programs that write executables.
var compilerNames = set("gcc g++ cc c++ cc1 cc1plus collect2 ld ld.bfd ld.gold ld.lld lld mold clang clang++ tcc rustc cargo go compile link ghc ocamlc ocamlopt ocamlfind dune gfortran zig nim fpc dmd ldc2 gnat swiftc kotlinc-native nvcc make gmake ninja cmake musl-gcc gccgo crystal")

// compilerOf is a program's name without target and version:
// x86_64-linux-gnu-gcc-12 is gcc.
func compilerOf(name string) bool {
	if compilerNames[name] {
		return true
	}
	name = strings.TrimRight(name, "0123456789.-")
	return compilerNames[name] || compilerNames[name[strings.LastIndexByte(name, '-')+1:]]
}

// A compilation is a time in which a user's compiler ran.
type compilation struct {
	uid      uint32
	from, to time.Time
}

const (
	// mostCompilations bounds what is remembered.
	mostCompilations = 256
	// compileSlack is how much earlier than it was seen, and how much later than
	// its start, a compiler may have written its file.
	compileSlack, compileTime = 10 * time.Second, 2 * time.Minute
)

// noteCompilers remembers when compilers ran, of those that are new.
func (p *pass) noteCompilers() {
	for i, en := range p.Engine.entries {
		if !en.dirty || en.born != p.number || !en.is(builder) || en.origin.foreign() {
			continue
		}
		facts := p.o.Processes[i].Facts
		if !facts.UIDKnown || !compilerOf(stem(facts.Executable)) {
			continue
		}
		started := p.now.Add(-p.ageOf(&p.o.Processes[i]))
		if len(p.compilations) >= mostCompilations {
			p.compilations = append(p.compilations[:0], p.compilations[mostCompilations/2:]...)
		}
		p.compilations = append(p.compilations, compilation{facts.UID, started.Add(-compileSlack), started.Add(compileTime)})
	}
}

// compiled tells why the executable is one that somebody compiled here; "" when
// nothing says so.
func (s *subject) compiled() string {
	why := ""
	s.ancestors(func(a *subject) bool {
		if a.is(shell) {
			for word := range strings.FieldsFuncSeq(unquoted(commandOf(a.args())), func(r rune) bool { return strings.ContainsRune(" \t\n;&|()", r) }) {
				if compilerOf(stem(word)) {
					why = fmt.Sprintf("the same command of %s (%d) runs %s", a.comm(), a.p.PID, cut(stem(word), 40))
					return false
				}
			}
		}
		return !s.clients[a.p.PID]
	})
	if why != "" {
		return why
	}
	file, err := s.evidence.File(s.p.PID, s.executable())
	if err != nil || file.Changed.IsZero() {
		return ""
	}
	for _, c := range s.compilations {
		if c.uid == s.p.Facts.UID && file.UID == c.uid && file.Changed.After(c.from) && file.Changed.Before(c.to) {
			return "a compiler of the same user ran when the file was written"
		}
	}
	return ""
}

// unattended reports whether only topside's client, a build that is over, or a
// compiler of the same user stands for a program in a temporary folder: what it does
// decides then, and is looked at again and again.
func (s *subject) unattended() bool {
	if s.origin != temporary || s.inContainer() {
		return false
	}
	if _, ok := s.built(); ok {
		return false
	}
	return s.madeByBuild() || !s.attended() && (s.ofClient() != nil || s.compiled() != "")
}

// judgeDropped judges such a program.
func judgeDropped(s *subject) *Finding {
	const youth, every = 12, 8
	if s.number-s.born > youth && (s.number+uint64(s.p.PID))%every != 0 {
		return s.dropped
	}
	s.dropped = s.drop()
	return s.dropped
}

func (s *subject) drop() *Finding {
	remotes := s.remotes()
	by := s.ofClient()
	if by == nil && len(remotes) == 0 {
		return nil // what a build or a compiler left behind keeps to this machine
	}
	f := s.say(rulePath, Warning, "executable runs from suspicious path: %s", s.title()).
		because(s.origin.String()).
		then("who wrote the file, and when", s.tree())
	if by != nil {
		f.because(fmt.Sprintf("topside's own client started it: %s (%d)", by.comm(), by.p.PID))
	} else if why := s.compiled(); why != "" && !s.madeByBuild() {
		f.because(why)
	} else {
		f.because("a build or a test run made it, and is gone")
	}
	if len(remotes) > 0 {
		f.Severity = Critical
		f.because("it is connected to " + remotes[0].Remote.String())
	} else if why := s.compiled(); why != "" {
		f.Severity = Info
		f.because(why)
	}
	return f.because(s.lineage())
}
