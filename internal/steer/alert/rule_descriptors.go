package alert

// suspicious_fd_anomaly (R9): open files that near their limit, or leak.

import (
	"fmt"
	"strconv"
	"time"
)

const ruleDescriptors = "suspicious_fd_anomaly"

var manyDescriptors = Rule{
	Name:       ruleDescriptors,
	Severities: []Severity{Info},
	Asks:       "Does a process hold so many files open that it will fail, or does it leak them?",
	Evidence:   "1000 descriptors and more in a program that does not hold many by trade; or four fifths of its own limit; or 500 more than ten minutes ago.",
	Silent:     "Servers, databases, browsers, runtimes and engines with room left and without growth.",
	Limits:     "Each process is counted every few minutes. Without root, other users' processes are not counted on kernels before 6.2.",
	machine:    judgeDescriptors,
}

const (
	openMany   = 1000
	openGrowth = 500
	// countEvery is how many passes lie between two counts of one process.
	countEvery = 256
)

func judgeDescriptors(p *pass) []Finding {
	var out []Finding
	for i, en := range p.Engine.entries {
		if en.kernel {
			continue
		}
		if due := (p.number + uint64(p.o.Processes[i].PID)) % countEvery; due == 0 || p.number-en.born == 1 {
			s := p.subject(i)
			en.counted = s.count()
		}
		if en.counted != nil {
			out = append(out, *en.counted)
		}
	}
	return out
}

func (s *subject) count() *Finding {
	open, limit, err := s.evidence.DescriptorUse(s.p.PID)
	if err != nil || open < openMany/2 {
		return nil
	}
	grown := s.files.rise(float64(open), s.now)
	f := s.say(ruleDescriptors, Info, "%d open file descriptors", open).
		then("of what kind they are", "whether their number keeps growing")
	switch {
	case limit > 0 && float64(open) >= 0.8*float64(limit):
		return f.because(fmt.Sprintf("its limit is %s", strconv.FormatUint(limit, 10)))
	case grown >= openGrowth:
		return f.because(fmt.Sprintf("%.0f more than %s ago", grown, s.now.Sub(s.files.firstAt).Round(time.Second)))
	case open >= openMany && !s.is(server|browser|jit|containerEngine|builder):
		return f.because("it is not a program that holds many by trade")
	}
	return nil
}
