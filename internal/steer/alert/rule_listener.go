package alert

// unpackaged_listener: a program that nobody installed waits for connections.

import (
	"fmt"
)

const ruleListener = "unpackaged_listener"

var unpackagedListener = Rule{
	Name:       ruleListener,
	Severities: []Severity{Critical, Warning, Info},
	New:        true,
	Asks:       "Does a program that nobody installed wait for connections from other machines?",
	Evidence:   "A listening TCP socket that is not bound to the loopback, held by an executable in a temporary folder, in memory, removed, or stray in a system folder (Critical), or by a user's own program outside of every session, service and build (Warning).",
	Silent:     "Sockets on the loopback, a developer's server at a terminal or below a build, service units, containers (their namespaces are their own), and programs that packages or administrators installed.",
	Limits:     "UDP and raw sockets are not looked at. A packaged interpreter that runs a user's script counts as packaged. A socket whose holder cannot be found for lack of rights is left out.",
	machine:    judgeListeners,
}

// judgeListeners looks for the holders of listening sockets that are new, only
// among processes that could be guilty. A socket is judged once.
func judgeListeners(p *pass) []Finding {
	sockets, err := p.evidence.Listening()
	if err != nil {
		return nil
	}
	known := make(map[uint64]*Finding, len(sockets))
	fresh := map[uint64]Socket{}
	for _, socket := range sockets {
		if socket.UDP || socket.Inode == 0 || socket.Local.Addr().Unmap().IsLoopback() {
			continue
		}
		if f, ok := p.listeners[socket.Inode]; ok {
			if f == nil || p.holds(f) {
				known[socket.Inode] = f
			}
			continue
		}
		fresh[socket.Inode] = socket
	}
	if len(fresh) > 0 {
		p.attribute(fresh, known)
	}
	p.listeners = known
	var out []Finding
	for _, f := range known {
		if f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// holds reports whether the process of a finding is still there.
func (p *pass) holds(f *Finding) bool {
	s := p.at(f.PID)
	return s != nil && s.p.StartTicks == f.StartTicks
}

func (p *pass) attribute(fresh map[uint64]Socket, known map[uint64]*Finding) {
	for inode := range fresh {
		known[inode] = nil
	}
	p.all(func(s *subject) {
		if s.origin.trusted() || s.origin == unreadable || s.inContainer() {
			return
		}
		for _, d := range s.descriptors() {
			inode, ok := inodeOf(d.Target, "socket:[")
			if socket, isFresh := fresh[inode]; ok && isFresh && known[inode] == nil {
				known[inode] = s.listens(socket)
			}
		}
	})
}

func (s *subject) listens(socket Socket) *Finding {
	f := s.say(ruleListener, Warning, "unpackaged program listens on %s", socket.Local).
		because(s.origin.String(), s.lineage()).
		then("who connects to "+socket.Local.String(), "who wrote the executable", s.tree())
	_, hidden := hiddenPart(s.executable())
	by, built := s.built()
	switch {
	case s.origin == memory, hidden && s.origin.foreign(), shared(s.executable()):
		f.Severity = Critical
	case built:
		f.Severity = Info
		f.because(fmt.Sprintf("%s (%d) built it", by.comm(), by.p.PID))
	case s.attended():
		f.Severity = Info
		f.because("it has a terminal: somebody started it by hand")
	case s.origin.foreign():
		f.Severity = Critical
	case s.service():
		f.Severity = Info
		f.because("the unit " + s.p.Facts.Placement.Unit + " holds it")
	default:
		if adopted, _ := s.adopted(); !adopted {
			f.Severity = Info
		} else {
			f.because("its parent ended, and no unit or terminal holds it")
		}
	}
	return f
}
