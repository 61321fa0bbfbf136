package alert

// This file measures the rules on the corpus.

import (
	"slices"
	"testing"
)

// A score counts what a rule said against what it should have said. Only
// alerts above Info count against a rule: Info is for the curious.
type score struct{ hits, misses, falseAlarms int }

func (s score) precision() float64 { return share(s.hits, s.hits+s.falseAlarms) }

func (s score) recall() float64 { return share(s.hits, s.hits+s.misses) }

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// judgeScene compares the alerts of a scene with what is expected of it.
func judgeScene(s *scene, alerts []Alert, scores map[string]*score, complain func(string, ...any)) {
	at := func(rule string) *score {
		if scores[rule] == nil {
			scores[rule] = new(score)
		}
		return scores[rule]
	}
	met := map[string]bool{}
	for _, want := range s.Expect {
		i := slices.IndexFunc(alerts, func(a Alert) bool { return want.matches(a) })
		if i < 0 {
			at(want.Rule).misses++
			complain("%s: no %s alert of %s about %d", s.Name, want.Severity, want.Rule, want.PID)
			continue
		}
		at(want.Rule).hits++
		met[alerts[i].Cause] = true
		if len(alerts[i].Evidence) == 0 || len(alerts[i].Next) == 0 || alerts[i].Message == "" {
			complain("%s: the alert of %s has no evidence or no next step: %+v", s.Name, want.Rule, alerts[i])
		}
	}
	for _, a := range alerts {
		if a.Severity != Info && !met[a.Cause] {
			at(a.Rule).falseAlarms++
			complain("%s: %s alert of %s about %d (%s) is not expected: %s %q", s.Name, a.Severity, a.Rule, a.PID, a.Process, a.Message, a.Evidence)
		}
	}
}

func (e expected) matches(a Alert) bool {
	return a.Rule == e.Rule && a.Severity == e.Severity &&
		(e.PID == 0 || slices.ContainsFunc(a.Processes, func(id Identity) bool { return id.PID == e.PID }))
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range loadScenes(t) {
		if names[s.Name] {
			t.Errorf("two scenes are called %s", s.Name)
		}
		names[s.Name] = true
		if s.Kind == "benign" && len(s.Expect) > 0 || s.Kind == "hostile" && len(s.Expect) == 0 {
			t.Errorf("%s is %s and expects %d alerts", s.Name, s.Kind, len(s.Expect))
		}
		judgeScene(s, s.replay(), map[string]*score{}, t.Errorf)
	}
}
