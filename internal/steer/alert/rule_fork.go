package alert

// fork_bomb: processes that multiply.

import (
	"fmt"
	"time"

	"topside/internal/see/sample"
)

const ruleFork = "fork_bomb"

var forkBomb = Rule{
	Name:       ruleFork,
	Severities: []Severity{Critical},
	New:        true,
	Asks:       "Do processes of one program multiply?",
	Evidence:   "More than 200 live processes of one executable and one session, or unit, that grew by more than 100 within 15 seconds, and are not children of one process that forks workers.",
	Silent:     "Builds and test runs with their ancestors alive, and servers that fork workers, which have one parent.",
	Limits:     "A limit on tasks (pids.max, ulimit -u) below 200 keeps a fork bomb below the rule.",
	machine:    judgeForks,
}

const (
	crowdSize   = 200
	crowdGrowth = 100
	crowdWindow = 15 * time.Second
	forkRate    = 1000 // per second
)

type crowdKey struct {
	executable, unit string
	session          int32
}

type crowdHistory struct {
	before []crowdCount // oldest first, within crowdWindow
}

type crowdCount struct {
	at     time.Time
	counts map[crowdKey]int
}

func judgeForks(p *pass) []Finding {
	rate := p.o.System.Forks.Or(0)
	n := len(p.o.Processes)
	if n < crowdSize {
		p.crowds.before = nil
		return nil
	}
	// Counting by executable costs a map; it is done only while the number of
	// processes changes or much is forked.
	if p.births < 20 && rate < forkRate && len(p.crowds.before) > 0 {
		return nil
	}
	counts := p.crowd()
	var out []Finding
	for key, count := range counts {
		if count <= crowdSize {
			continue
		}
		least, have := count, false
		for _, b := range p.crowds.before {
			if p.now.Sub(b.at) <= crowdWindow {
				least, have = min(least, b.counts[key]), true
			}
		}
		if !have || count-least <= crowdGrowth {
			continue
		}
		if f := p.multiplies(key, count, count-least, rate); f != nil {
			out = append(out, *f)
		}
	}
	p.crowds.remember(p.now, counts)
	return out
}

// crowd counts the processes of each executable and session. Only executables
// with new processes can be a crowd that grows.
func (p *pass) crowd() map[crowdKey]int {
	counts := map[crowdKey]int{}
	for i, en := range p.Engine.entries {
		if en.kernel {
			continue
		}
		counts[keyOf(p.o.Processes[i].Facts, p.o.Processes[i].Session)]++
	}
	for key, count := range counts {
		if count < crowdSize/4 {
			delete(counts, key)
		}
	}
	return counts
}

func keyOf(f *sample.Facts, session int32) crowdKey {
	executable := f.Executable
	if executable == "" {
		executable = f.Comm
	}
	return crowdKey{executable: executable, unit: f.Placement.UnitPath, session: session}
}

func (h *crowdHistory) remember(now time.Time, counts map[crowdKey]int) {
	kept := h.before[:0]
	for _, b := range h.before {
		if now.Sub(b.at) <= crowdWindow {
			kept = append(kept, b)
		}
	}
	h.before = append(kept, crowdCount{now, counts})
}

// multiplies judges a crowd that grows: by who started its members.
func (p *pass) multiplies(key crowdKey, count, grown int, rate float64) *Finding {
	var newest *subject
	parents := map[int32]int{}
	members, explained := 0, 0
	p.all(func(s *subject) {
		if keyOf(s.p.Facts, s.p.Session) != key {
			return
		}
		members++
		parents[s.p.PPID]++
		if newest == nil || s.p.StartTicks >= newest.p.StartTicks {
			newest = s
		}
		if _, ok := s.built(); ok {
			explained++
		}
	})
	if newest == nil || explained*2 > members {
		return nil
	}
	for pid, children := range parents {
		if pid != 1 && children*10 > members*9 {
			return nil // workers of one parent
		}
	}
	f := newest.say(ruleFork, Critical, "%d processes of %s, %d more than %d s before", count, key.executable, grown, int(crowdWindow/time.Second)).
		because(fmt.Sprintf("%d of them are new, and %d processes are their parents", grown, len(parents)))
	if rate > 0 {
		f.because(fmt.Sprintf("the machine forks %.0f times a second", rate))
	}
	return f.because(newest.lineage()).
		then("stop them all before killing any (a killed one is replaced): process_kill with STOP, or the limit of their unit", newest.tree())
}
