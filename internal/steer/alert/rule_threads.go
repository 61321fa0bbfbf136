package alert

// high_thread_anomaly (R8): threads beyond what a program has had so far.

import (
	"fmt"
	"time"
)

const ruleThreads = "high_thread_anomaly"

var highThreads = Rule{
	Name:       ruleThreads,
	Severities: []Severity{Critical, Warning, Info},
	Asks:       "Does a program have far more threads than it is known to have?",
	Evidence:   "500 threads and more of a program that nobody installed, or a number that grew by half and by 300 at least within ten minutes of watching. Critical above 1000 threads, or with more than two busy cores.",
	Silent:     "Programs of packages, containers and administrators whose number of threads is steady (databases, JVMs, virtual machines), and those that make threads by trade. One alert for a process, however many threads.",
	Limits:     "The first snapshot of a trusted program is its baseline, so that one that had gone wrong before is Info only.",
	machine:    judgeAllThreads,
}

const (
	manyThreads     = 500
	tooManyThreads  = 1000
	busyCPU         = 200 // percent of one core
	threadGrowth    = 300
	baselineRenewal = 10 * time.Minute
)

func judgeAllThreads(p *pass) []Finding {
	var out []Finding
	for i := range p.o.Processes {
		if p.o.Processes[i].Threads < manyThreads {
			continue
		}
		if f := judgeThreads(p.subject(i)); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

func judgeThreads(s *subject) *Finding {
	n := float64(s.p.Threads)
	grown := s.entry.threads.rise(n, s.now)
	growing := grown >= threadGrowth && grown >= (n-grown)/2
	if s.usual(n, growing) {
		return nil
	}
	untrusted := !s.origin.trusted() && s.origin != unreadable && !s.is(jit|interpreter|browser|builder|server|containerEngine)
	if !growing && !untrusted && s.p.Threads < 2*tooManyThreads {
		return nil
	}
	cpu := s.p.CPU.Or(0) * float64(max(s.o.CPUs, 1))
	f := s.say(ruleThreads, Warning, "%d threads (CPU: %.1f%%)", s.p.Threads, cpu).
		then("what its threads wait for", "the limit of its unit or container (pids.max)")
	if n > tooManyThreads || cpu > busyCPU {
		f.Severity = Critical
	}
	switch {
	case growing:
		return f.because(fmt.Sprintf("it has %.0f threads more than %s ago", grown, s.now.Sub(s.entry.threads.firstAt).Round(time.Second)), s.origin.String())
	case untrusted:
		return f.because(s.origin.String(), "it is not a program that makes threads by trade")
	}
	f.Severity = Info
	return f.because("the number is steady")
}

// A profile is what is ordinary for an executable.
type profile struct {
	threads float64 // the most that one of its processes had steadily
}

// mostProfiles bounds the executables that are remembered.
const mostProfiles = 4096

// usual reports whether other processes of the executable have had as many
// threads for a long time, and learns from this one when it is steady.
func (s *subject) usual(n float64, growing bool) bool {
	known := s.profiles[s.executable()]
	if known != nil && n <= 1.5*known.threads {
		return true
	}
	steady := s.now.Sub(s.seen) > baselineRenewal && !growing && s.origin.trusted()
	if steady && s.executable() != "" && len(s.profiles) < mostProfiles {
		if known == nil {
			known = new(profile)
			s.profiles[s.executable()] = known
		}
		known.threads = max(known.threads, n)
	}
	return false
}

// rise returns how much a figure rose since its baseline, which is renewed
// when it is old or when the figure falls below it.
func (g *gauge) rise(value float64, now time.Time) float64 {
	if g.firstAt.IsZero() || value < g.first || now.Sub(g.firstAt) > baselineRenewal {
		g.first, g.firstAt = value, now
	}
	return value - g.first
}
