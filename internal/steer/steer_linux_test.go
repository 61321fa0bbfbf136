package steer

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/see"
	"topside/internal/steer/action"
	"topside/internal/steer/alert"
	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newAdvisor(t *testing.T, change func(*Options)) *Advisor {
	t.Helper()
	observer, err := see.New(see.Options{WithoutEngines: true, Interval: see.MinInterval})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	o := Options{Observer: observer, Config: filepath.Join(folder, "config.json"), Audit: filepath.Join(folder, "audit.log"), Interval: 200 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := observer.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return c
}

// sleeper is a process of our own.
func sleeper(t *testing.T) int32 {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return int32(cmd.Process.Pid)
}

// Alerts exist from the first call on, and one engine serves many callers.
func TestAnswersFromTheFirstCall(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := a.Status(ctx(t))
			if err != nil || s.Passes == 0 || s.Total != s.Critical+s.Warning+s.Info || s.Total != len(s.Alerts) {
				t.Errorf("%+v, %v", s, err)
			}
			for i := 1; i < len(s.Alerts); i++ {
				if s.Alerts[i].Severity.Rank() < s.Alerts[i-1].Severity.Rank() {
					t.Error("the most severe are not first")
				}
			}
		})
	}
	wg.Wait()
	states, err := a.Thresholds(ctx(t))
	if err != nil || len(states) != len(threshold.Metrics) || !states[1].Known {
		t.Errorf("%+v, %v", states, err)
	}
}

func TestEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, nil)
	a.Begin()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	b := newAdvisor(t, nil)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Status(ctx(t)); err == nil {
		t.Error("a closed advisor answers")
	}
	c := newAdvisor(t, nil)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Alerts(cancelled, alert.View{}); err == nil {
		select {
		case <-c.firstly: // it was quick
		default:
			t.Error("a cancelled caller waits")
		}
	}
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, nil)
	ms, theme, none := int64(2000), "tokio", "seul"
	changed, err := a.Change(Change{IntervalMS: &ms, Theme: &theme, Layout: &none})
	if err != nil || !changed.Interval || !changed.Theme || changed.Layout || changed.Unsaved != nil {
		t.Errorf("%+v, %v", changed, err)
	}
	if c := a.Config(); c.Interval != 2*time.Second || c.Theme != "tokio" {
		t.Errorf("%+v", c)
	}
	// Another view of the same user sees it at its next look.
	if other, err := config.Open(a.Store().Path()); err != nil || other.Get().Theme != "tokio" {
		t.Errorf("another view: %v", err)
	}
	negative := int64(-1)
	if _, err := a.Change(Change{IntervalMS: &negative, Theme: &theme}); !errors.Is(err, config.ErrInvalid) {
		t.Errorf("a negative interval: %v", err)
	}
	if _, err := a.SetThresholds(map[threshold.Metric]float64{threshold.CPU: 101}); !errors.Is(err, threshold.ErrInvalid) {
		t.Errorf("101: %v", err)
	}
	if _, err := a.SetThresholds(map[threshold.Metric]float64{threshold.CPU: 85, threshold.Memory: 80, threshold.Disk: 92.5}); err != nil || a.Limits().Of(threshold.Disk).Limit != 92.5 {
		t.Errorf("%v: %v", a.Limits(), err)
	}
	if err := os.WriteFile(a.Store().Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a.ConfigError() == nil || a.Config().Theme != "tokio" {
		t.Errorf("a broken file: %v, %s", a.ConfigError(), a.Config().Theme)
	}
	if changed, err := a.Change(Change{IntervalMS: &ms}); err != nil || changed.Unsaved == nil || !changed.Interval {
		t.Errorf("a change that cannot be saved: %+v, %v", changed, err)
	}
}

// A limit of 0 is crossed by what a machine always uses: it becomes an alert,
// is suppressed, and comes back.
func TestThresholdAlert(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, nil)
	_, err := a.Store().Update(func(c *config.Config) error {
		c.Thresholds[threshold.Memory] = threshold.Setting{Limit: 0}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	find := func(v alert.View) *alert.Alert {
		alerts, err := a.Alerts(ctx(t), v)
		if err != nil {
			t.Fatal(err)
		}
		for i := range alerts {
			if alerts[i].Rule == "threshold_mem" {
				return &alerts[i]
			}
		}
		return nil
	}
	found := find(alert.View{})
	if found == nil || found.Peak == nil || *found.Peak <= 0 || !found.Active() {
		t.Fatalf("%+v", found)
	}
	if err := a.Suppress(config.Suppression{}); err == nil {
		t.Error("a suppression of everything is taken")
	}
	hide := config.Suppression{Rule: "threshold_mem", Reason: "known"}
	if err := a.Suppress(hide); err != nil || find(alert.View{}) != nil || find(alert.View{Suppressed: true}) == nil {
		t.Errorf("suppressed: %v", err)
	}
	if err := a.Unsuppress(hide); err != nil || find(alert.View{}) == nil {
		t.Errorf("not suppressed any more: %v", err)
	}
	if err := a.Acknowledge(found.ID, "seen"); err != nil || find(alert.View{}) != nil || find(alert.View{Acknowledged: true}).Note != "seen" {
		t.Errorf("acknowledged: %v", err)
	}
	if err := a.Acknowledge("none", ""); !errors.Is(err, alert.ErrNoAlert) {
		t.Errorf("an unknown alert: %v", err)
	}
}

func TestActsOnAProcessOfASnapshot(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, nil)
	pid := sleeper(t)
	fresh := time.Duration(0)
	snapshot, err := a.o.Observer.Select(ctx(t), see.Selector{MaxAge: &fresh})
	if err != nil {
		t.Fatal(err)
	}
	row, ok := snapshot.Catalogue().ByPID(pid)
	if !ok {
		t.Fatal("our own child is not in the snapshot")
	}
	target, err := a.TargetOf(row)
	if err != nil || target.StartTicks == 0 || target.BootID == "" {
		t.Fatalf("%+v, %v", target, err)
	}
	request := action.Request{Tool: "process_kill", Target: target, DryRun: true}
	result, err := a.Act(ctx(t), request)
	if err != nil || result.Outcome != action.WouldSignal || result.Surroundings == nil || !result.Surroundings.ListeningKnown {
		t.Errorf("dry: %+v, %v", result, err)
	}
	request.DryRun, request.Wait = false, 10*time.Second
	if result, err = a.Act(ctx(t), request); err != nil || result.Outcome != action.Exited {
		t.Errorf("%+v, %v", result, err)
	}
	// A policy that appears is in force at once.
	if err := os.WriteFile(a.Store().PolicyPath(), []byte("default deny"), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err = a.Act(ctx(t), action.Request{Tool: "process_kill", Target: action.Identity{PID: sleeper(t)}})
	if err != nil || result.Outcome != action.Denied || !strings.Contains(result.Reason, "policy") {
		t.Errorf("under a policy: %+v, %v", result, err)
	}
}

// Whoever is above us, and what surrounds a process with children.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, nil)
	pid := sleeper(t)
	around := a.surroundings(ctx(t), int32(os.Getpid()))
	if around == nil {
		t.Fatal("nothing around us")
	}
	for _, child := range around.ChildPIDs {
		if child == pid {
			return
		}
	}
	t.Errorf("our child %d is not among %v", pid, around.ChildPIDs)
}

// A dry run tells of children that are younger than the latest snapshot.
func TestSurroundingsAreOfNow(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, nil)
	fresh := time.Duration(0)
	if _, err := a.o.Observer.Select(ctx(t), see.Selector{MaxAge: &fresh}); err != nil {
		t.Fatal(err)
	}
	pid := sleeper(t)
	if around := a.surroundings(ctx(t), int32(os.Getpid())); !slices.Contains(around.ChildPIDs, pid) {
		t.Errorf("our child %d is not among %v", pid, around.ChildPIDs)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	a := newAdvisor(t, nil)
	fresh := time.Duration(0)
	snapshot, err := a.o.Observer.Select(ctx(t), see.Selector{MaxAge: &fresh})
	if err != nil {
		t.Fatal(err)
	}
	row, ok := snapshot.Catalogue().ByPID(int32(os.Getpid()))
	if !ok {
		t.Fatal("we are not in the snapshot")
	}
	fs := a.o.Observer.FS()
	r := RecordOf(snapshot.Observation(), row.Proc, fs.ClockTicks())
	RealUser(fs, &r)
	exe, _ := os.Executable()
	if r.PID != int32(os.Getpid()) || r.Exe != exe || r.User == "?" || r.Threads < 1 || r.RunTime < 0 || r.RunTime > 600 || r.Cmd != os.Args[0] || r.State == "" {
		t.Errorf("%+v", r)
	}
	for letter, word := range map[byte]string{'R': "Run", 'D': "UninterruptibleDiskSleep", 't': "Tracing", 'Z': "Zombie", '?': "Unknown(63)"} {
		if got := StateWord(letter); got != word {
			t.Errorf("%c is %s", letter, got)
		}
	}
}
