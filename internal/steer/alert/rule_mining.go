package alert

// mining_behaviour: what a miner does, whatever it is called.

import (
	"fmt"
	"time"
)

const ruleMining = "mining_behaviour"

var miningBehaviour = Rule{
	Name:       ruleMining,
	Severities: []Severity{Critical, Warning, Info},
	New:        true,
	Asks:       "Does a program compute without a pause while it keeps one connection to another machine?",
	Evidence:   "For five minutes at least it used nine tenths of a core and more (on a machine whose CPUs are all busy, three tenths: others take the rest), and kept the same connection to another machine, of three at most. Critical when the connection goes to a port that pools use, or when the executable is foreign (temporary folder, memory, stray, hidden); Warning when nothing holds the process (no unit, session or build).",
	Silent:     "Programs of packages and administrators that connect to other ports; builds that connect to other ports (Info for what they made in temporary folders); programs with many connections, which are servers; programs that pause.",
	Limits:     "A miner that throttles itself below nine tenths of a core, or that connects through a local proxy, is not seen. Training of models on a user's own program looks alike and is Info.",
	machine:    judgeMining,
}

const (
	miningCPU  = 90 // percent of one core
	miningTime = 5 * time.Minute
	// squeezedCPU is enough while the CPUs have next to nothing left
	// (crowdedCPU, percent of the machine): who computes without a pause gets a
	// share then.
	squeezedCPU = 30
	crowdedCPU  = 97
)

// A miningWatch remembers a process that computes without a pause.
type miningWatch struct {
	since     time.Time // of the computing
	lookedAt  time.Time
	inode     uint64 // of the connection that is watched
	connected time.Time
	remote    Socket
	few       bool
	squeezed  bool // it got less than miningCPU at times, as others computed too
	found     *Finding
}

func judgeMining(p *pass) []Finding {
	var out []Finding
	cpus := float64(max(p.o.CPUs, 1))
	enough := float64(miningCPU)
	if p.o.System.Busy.Or(0)+p.o.System.Modes.Steal.Or(0) >= crowdedCPU {
		enough = squeezedCPU
	}
	for i := range p.o.Processes {
		row, en := &p.o.Processes[i], p.Engine.entries[i]
		if !row.CPU.Known {
			continue
		}
		if row.CPU.Value*cpus < enough {
			if !en.mining.since.IsZero() {
				en.mining = miningWatch{}
			}
			continue
		}
		if en.kernel {
			continue
		}
		en.mining.squeezed = en.mining.squeezed || row.CPU.Value*cpus < miningCPU
		if f := p.subject(i).mines(); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// mines follows one process that computes. Its descriptors are read twice a
// minute.
func (s *subject) mines() *Finding {
	m := &s.entry.mining
	if m.since.IsZero() {
		m.since = s.now
	}
	if s.now.Sub(m.lookedAt) < 30*time.Second {
		return m.found
	}
	m.lookedAt = s.now
	remotes := s.remotes()
	m.few = len(remotes) > 0 && len(remotes) <= 3
	kept := false
	for _, r := range remotes {
		kept = kept || r.Inode == m.inode
	}
	if !kept {
		m.inode, m.found = 0, nil
		if m.few {
			m.inode, m.connected, m.remote = remotes[0].Inode, s.now, remotes[0]
		}
		return nil
	}
	m.found = nil
	if m.few && s.now.Sub(m.since) >= miningTime && s.now.Sub(m.connected) >= miningTime-30*time.Second {
		m.found = s.mining(m)
	}
	return m.found
}

func (s *subject) mining(m *miningWatch) *Finding {
	_, hidden := hiddenPart(s.executable())
	_, built := s.built()
	pool := poolPorts[m.remote.Remote.Port()]
	suspect := s.origin.foreign() || hidden && s.origin == home
	if s.is(browser|builder) && !pool || built && !pool && !suspect || s.origin.trusted() && !pool && !suspect {
		return nil
	}
	used := "nine tenths of a core and more"
	if m.squeezed {
		used = "all that the other programs left of a core"
	}
	f := s.say(ruleMining, Info, "computes without a pause and keeps a connection to %s", m.remote.Remote).
		because(fmt.Sprintf("for %s it has used %s (now %.0f%%)", s.now.Sub(m.since).Round(time.Second), used, s.p.CPU.Or(0)*float64(max(s.o.CPUs, 1))),
			fmt.Sprintf("it has kept the connection to %s for %s", m.remote.Remote, s.now.Sub(m.connected).Round(time.Second)),
			s.origin.String(), s.lineage()).
		then("what is at "+m.remote.Remote.Addr().String(), "who wrote the executable", s.tree())
	adopted, _ := s.adopted()
	switch {
	case built && !pool:
		f.because("a build or a test run started it")
	case suspect, pool && !s.origin.trusted():
		f.Severity = Critical
	case pool, adopted && !s.service() && !s.inContainer():
		f.Severity = Warning
	}
	if pool {
		f.because(fmt.Sprintf("pools listen at port %d", m.remote.Remote.Port()))
	}
	return f
}
