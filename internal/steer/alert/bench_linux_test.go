package alert

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"topside/internal/see/model"
)

// crowdScene is a machine with many processes of all kinds.
func crowdScene(processes int) *scene {
	s := &scene{Name: "crowd", CPUs: 64, Passes: 1, Every: 5, Uptime: 1e6}
	s.Processes = append(s.Processes, &actor{PID: 1, Name: "systemd", Exe: "/usr/lib/systemd/systemd", Age: 1e6})
	kinds := []actor{
		{Name: "postgres", Exe: "/usr/lib/postgresql/15/bin/postgres", UID: 105, Unit: "postgresql@15-main.service"},
		{Name: "bash", Exe: "/usr/bin/bash", UID: 1000, Args: []string{"-bash"}, TTY: true, Unit: "session-2.scope"},
		{Name: "java", Exe: "/opt/java/bin/java", UID: 107, Threads: 700, Container: fmt.Sprintf("%064d", 7)},
		{Name: "chrome", Exe: "/opt/google/chrome/chrome", UID: 1000, Threads: 30, FDCount: 300},
		{Name: "server", Exe: "/home/alice/server", UID: 1000, Args: []string{"./server"}, CPU: 120},
		{Name: "python3", Exe: "/usr/bin/python3.11", UID: 33, Args: []string{"python3", "/srv/web/app.py"}, Unit: "web.service"},
	}
	for i := range processes - 1 {
		a := kinds[i%len(kinds)]
		a.PID, a.PPID, a.Age = int32(100+i), 1, 5000
		if i%50 != 0 {
			a.PPID = int32(100 + i/50*50)
		}
		s.Processes = append(s.Processes, &a)
	}
	return s
}

// indexed answers like a scene, without its linear search, so that a benchmark
// measures the rules.
type indexed struct {
	sceneEvidence
	by map[int32]*actor
}

func (e *indexed) Descriptors(pid int32) ([]Descriptor, error) {
	return []Descriptor{{0, "/dev/null"}, {1, "pipe:[5]"}, {3, "socket:[9]"}}, nil
}
func (e *indexed) DescriptorUse(pid int32) (int, uint64, error) { return e.by[pid].FDCount, 1024, nil }
func (e *indexed) Credentials(pid int32) (*Credentials, error) {
	u := e.by[pid].UID
	return &Credentials{RealUID: u, EffectiveUID: u, SavedUID: u}, nil
}
func (e *indexed) Mappings(pid int32) ([]Mapping, error) { return e.by[pid].Maps, nil }
func (e *indexed) Environment(pid int32, names ...string) (map[string]string, error) {
	return nil, nil
}
func (e *indexed) Terminal(pid int32) (bool, error)           { return e.by[pid].TTY, nil }
func (e *indexed) Socket(int32, uint64) (Socket, bool)        { return Socket{}, false }
func (e *indexed) Listening() ([]Socket, error)               { return nil, nil }
func (e *indexed) File(pid int32, path string) (*File, error) { return &File{Mode: 0o755}, nil }

// BenchmarkWarm is one pass over 10,000 processes that the engine knows; ten
// of them are new in each. The work of reading is in package evidence.
func BenchmarkWarm(b *testing.B) {
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
	b.ReportAllocs()
	var spent time.Duration
	for b.Loop() {
		o = nextObservation(o)
		began := processorTime(b)
		engine.Evaluate(o, evidence)
		spent += processorTime(b) - began
	}
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// processorTime is what this process has used, on all threads: a busy machine
// makes a pass take longer, not cost more.
func processorTime(b *testing.B) time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// nextObservation is the table again, with ten processes replaced.
func nextObservation(o *model.Observation) *model.Observation {
	next := *o
	next.CapturedAt = o.CapturedAt.Add(5 * time.Second)
	next.System.Uptime += 5 * time.Second
	next.Processes = append([]model.Process(nil), o.Processes...)
	for i := 1; i <= 10; i++ {
		at := (int(next.System.Uptime/time.Second)*37 + i*911) % len(next.Processes)
		old := *next.Processes[at].Process
		facts := *old.Facts
		old.StartTicks, old.Facts = uint64(next.System.Uptime/(10*time.Millisecond)), &facts
		next.Processes[at].Process = &old
	}
	return &next
}
