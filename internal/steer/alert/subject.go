package alert

// This file holds a process as a rule sees it, with what it may ask about it.

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"topside/internal/see/model"
)

// A subject is one process in one pass.
type subject struct {
	*entry
	*pass
	p *model.Process
}

// comm is the kernel's name of the process; "?" for one that took its name away.
func (s *subject) comm() string { return orUnknown(s.p.Facts.Comm) }

// user is whom the process belongs to, for messages.
func (s *subject) user() string { return orUnknown(s.p.Facts.User) }

// orUnknown is what a message says of a blank: it must not read as if something
// had been left out by accident.
func orUnknown(text string) string {
	if strings.TrimSpace(text) == "" {
		return "?"
	}
	return text
}

func (s *subject) args() []string { return s.p.Facts.Args }

func (s *subject) executable() string { return s.p.Facts.Executable }

// title is the executable for messages.
func (s *subject) title() string {
	if s.executable() == "" {
		return "?"
	}
	if s.p.Facts.Deleted {
		return s.executable() + " (deleted)"
	}
	return s.executable()
}

// is reports whether the program is of one of those classes.
func (en *entry) is(c class) bool { return en.class&c != 0 }

func (s *subject) inContainer() bool { return s.p.Facts.Placement.InContainer() }

// service reports whether the process belongs to a unit that systemd started
// as a service, not to somebody's login.
func (s *subject) service() bool {
	return strings.HasSuffix(s.p.Facts.Placement.Unit, ".service") && !strings.HasPrefix(s.p.Facts.Placement.Unit, "user@")
}

// age is how long ago the process started.
func (s *subject) age() time.Duration { return s.ageOf(s.p) }

// parent returns the process that started this one or took it over; nil when
// it is not in the snapshot.
func (s *subject) parent() *subject { return s.at(s.p.PPID) }

// ancestors calls visit with parent, grandparent and so on, until it returns
// false. A snapshot can hold a loop of parents: it ends.
func (s *subject) ancestors(visit func(*subject) bool) {
	const deepest = 64
	above := s.parent()
	for hops := 0; above != nil && hops < deepest; hops++ {
		if !visit(above) || above.p.PPID == above.p.PID {
			return
		}
		above = above.parent()
	}
}

// below returns the nearest ancestor of one of those classes that nobody can
// have put into place to be taken for it; nil when there is none.
func (s *subject) below(c class) *subject {
	var found *subject
	s.ancestors(func(a *subject) bool {
		if a.is(c) && !a.origin.foreign() {
			found = a
		}
		return found == nil
	})
	return found
}

// built reports whether a build, a test run, a package manager or a CI runner
// started the process, directly or not.
func (s *subject) built() (*subject, bool) {
	found := s.below(builder)
	return found, found != nil
}

// ofClient returns the client of topside that started the process, directly or
// not; nil when none did.
func (s *subject) ofClient() *subject {
	if s.self == 0 {
		return nil
	}
	if s.clients == nil {
		s.pass.clients = s.findClients()
	}
	var found *subject
	s.ancestors(func(a *subject) bool {
		if s.clients[a.p.PID] {
			found = a
		}
		return found == nil
	})
	return found
}

// findClients lists the processes above topside, up to what starts programs
// for everybody.
func (p *pass) findClients() map[int32]bool {
	out := map[int32]bool{}
	own := p.at(p.self)
	if own == nil {
		return out
	}
	own.ancestors(func(a *subject) bool {
		if a.p.PID == 1 || a.is(scheduler|elevator|terminal|containerEngine) || stem(a.executable()) == "systemd" {
			return false
		}
		out[a.p.PID] = true
		return true
	})
	return out
}

// madeByBuild reports whether a build or a test run started the process, or, not
// long ago, another process of the same file: tests start daemons that cut
// themselves loose.
func (s *subject) madeByBuild() bool {
	const memory = 30 * time.Minute
	if _, ok := s.built(); ok {
		return true
	}
	at, ok := s.made[s.executable()]
	return ok && s.origin == temporary && s.now.Sub(at) < memory
}

// imageBuild reports whether a container engine's build runs the process.
func (s *subject) imageBuild() bool {
	for _, line := range s.p.Facts.Cgroups {
		if strings.Contains(line.Path, "buildkit") {
			return true
		}
	}
	return false
}

// attended reports whether somebody sits at the terminal of the process.
func (s *subject) attended() bool {
	tty, err := s.evidence.Terminal(s.p.PID)
	return err == nil && tty
}

// adopted reports whether the process was taken over by init or by another
// reaper after its own parent ended. seen is true when that happened before
// our eyes.
func (s *subject) adopted() (yes, seen bool) {
	if s.bornTo != s.p.PPID && s.bornTo != 0 {
		return true, true
	}
	return s.p.PPID == 1, false
}

// descriptors lists the open files, read once per pass; nil when unknown.
func (s *subject) descriptors() []Descriptor {
	if s.opened == nil {
		list, err := s.evidence.Descriptors(s.p.PID)
		if err != nil {
			list = []Descriptor{}
		}
		s.opened = list
		s.openedIn = s.number
	}
	return s.opened
}

// descriptor returns what a number stands for; "" when it is not open.
func (s *subject) descriptor(number int) string {
	for _, d := range s.descriptors() {
		if d.Number == number {
			return d.Target
		}
	}
	return ""
}

// socketOf returns the internet socket behind a descriptor's target.
func (s *subject) socketOf(target string) (Socket, bool) {
	inode, ok := inodeOf(target, "socket:[")
	if !ok {
		return Socket{}, false
	}
	return s.evidence.Socket(s.p.PID, inode)
}

func inodeOf(target, kind string) (uint64, bool) {
	rest, ok := strings.CutPrefix(target, kind)
	if !ok {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64)
	return inode, err == nil
}

// remotes lists the connections to other machines that the process has open.
func (s *subject) remotes() []Socket {
	var out []Socket
	for _, d := range s.descriptors() {
		if socket, ok := s.socketOf(d.Target); ok && socket.Established && !near(socket) {
			out = append(out, socket)
		}
	}
	return out
}

// near reports whether a socket's other end is this machine.
func near(s Socket) bool {
	remote := s.Remote.Addr().Unmap()
	return !remote.IsValid() || remote.IsLoopback() || remote.IsUnspecified() || remote == s.Local.Addr().Unmap()
}

// say makes a finding about the process. The cause is the rule with the
// executable, the user and where it runs, so that a program started many times
// is one alert.
func (s *subject) say(rule string, severity Severity, format string, args ...any) *Finding {
	f := &Finding{
		Rule: rule, Severity: severity, PID: s.p.PID, StartTicks: s.p.StartTicks,
		Process: s.comm(), Executable: s.executable(), User: s.p.Facts.User,
		Unit: s.p.Facts.Placement.Unit, Container: s.p.Facts.Placement.ContainerID,
		Message: fmt.Sprintf(format, args...),
	}
	f.Cause = f.place()
	if f.Executable == "" {
		f.Cause += "\x00" + s.comm()
	}
	return f
}

func (f *Finding) place() string {
	where := f.Container
	if where == "" {
		where = f.Unit
	}
	return strings.Join([]string{f.Rule, f.Executable, f.User, where}, "\x00")
}

// because adds evidence; empty texts are left out.
func (f *Finding) because(evidence ...string) *Finding {
	for _, e := range evidence {
		if e != "" {
			f.Evidence = append(f.Evidence, e)
		}
	}
	return f
}

// then says what to look at next.
func (f *Finding) then(next ...string) *Finding {
	f.Next = append(f.Next, next...)
	return f
}

// lineage describes who started the process.
func (s *subject) lineage() string {
	var names []string
	s.ancestors(func(a *subject) bool {
		names = append(names, fmt.Sprintf("%s (%d)", a.comm(), a.p.PID))
		return len(names) < 4
	})
	if len(names) == 0 {
		return fmt.Sprintf("its parent %d is not to be seen", s.p.PPID)
	}
	return "started by " + strings.Join(names, ", started by ")
}

// stem is the name of an executable's file.
func stem(executable string) string { return path.Base(executable) }

// tree is the usual next step for a process.
func (s *subject) tree() string {
	return fmt.Sprintf("the process tree around %d and what it holds open", s.p.PID)
}
