//go:build !race

package alert

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// All rules over 10,000 processes cost at most 10 ms of processor time once
// the engine knows them (the race detector multiplies that, and is left out).
func TestCostOfTenThousandProcesses(t *testing.T) {
	s := crowdScene(10000)
	evidence := &indexed{sceneEvidence{s: s}, map[int32]*actor{}}
	for _, a := range s.Processes {
		evidence.by[a.PID] = a
	}
	engine := NewEngine(100)
	o := s.observation(0)
	for range 20 {
		engine.Evaluate(o, evidence)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var costs []time.Duration
	for range 50 {
		o = nextObservation(o)
		began := threadTime(t)
		engine.Evaluate(o, evidence)
		costs = append(costs, threadTime(t)-began)
	}
	slices.Sort(costs)
	if median := costs[len(costs)/2]; median > 10*time.Millisecond {
		t.Errorf("a pass costs %v", median)
	}
}

func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
