package threshold

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"topside/internal/see/model"
	"topside/internal/see/proc"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s  Setting
		m  Metric
		ok bool
	}{
		{Setting{Limit: 0}, CPU, true}, {Setting{Limit: 100, Slack: 100}, Disk, true}, {Setting{Limit: 101}, CPU, false},
		{Setting{Limit: -0.001}, CPU, false}, {Setting{Limit: math.NaN()}, CPU, false}, {Setting{Limit: math.Inf(1)}, CPU, false},
		{Setting{Limit: 50, Slack: math.NaN()}, CPU, false}, {Setting{Limit: 50, Slack: -1}, CPU, false},
		{Setting{Limit: 50, Hold: -1}, CPU, false}, {Setting{Limit: 50, Hold: 2 * LongestHold}, CPU, false}, {Setting{Limit: 50}, "gpu", false},
	} {
		if err := c.s.Validate(c.m); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%v of %s: %v", c.s, c.m, err)
		}
	}
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
	if err := (Settings{CPU: {Limit: 90}, "gpu": {Limit: 1}}).Validate(); err == nil {
		t.Error("a metric that does not exist is valid")
	}
}

// A crossing begins no sooner than its hold, has the peak of what was seen in
// it, and ends at the first reading below the limit by the slack.
func TestCrossingsHoldWhatTheyPromise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Setting{
			Limit: float64(rapid.IntRange(0, 100).Draw(t, "limit")),
			Slack: float64(rapid.IntRange(0, 30).Draw(t, "slack")),
			Hold:  time.Duration(rapid.IntRange(0, 30).Draw(t, "hold")) * time.Second,
		}
		w := NewWatch(Settings{CPU: s})
		now := epoch
		var above time.Time // since when all readings were above the limit
		peak, active := math.Inf(-1), false
		for range rapid.IntRange(1, 60).Draw(t, "readings") {
			now = now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "step")) * time.Second)
			v := float64(rapid.IntRange(0, 100).Draw(t, "value"))
			known := rapid.IntRange(0, 9).Draw(t, "known") > 0
			changed := w.Observe(now, []Reading{{Metric: CPU, Value: v, Known: known}})
			state := w.States()[0]
			if !known {
				if len(changed) != 0 || (state.Level == Crossed) != active || state.Known {
					t.Fatalf("an unknown reading changed %+v", changed)
				}
				continue
			}
			if !active {
				if v <= s.Limit {
					above, peak = time.Time{}, math.Inf(-1)
				} else {
					if above.IsZero() {
						above = now
					}
					peak = max(peak, v)
				}
				begin := !above.IsZero() && now.Sub(above) >= s.Hold
				if begin != (len(changed) == 1) {
					t.Fatalf("begin is %v, and %+v", begin, changed)
				}
				if begin {
					active = true
					if c := changed[0]; !c.Active() || !c.Began.Equal(above) || c.Peak != peak || state.Level != Crossed {
						t.Fatalf("it began as %+v in %+v", c, state)
					}
				}
				continue
			}
			end := v <= max(s.Limit-s.Slack, 0)
			if !end {
				peak = max(peak, v)
			}
			if end != (len(changed) == 1) {
				t.Fatalf("end is %v, and %+v", end, changed)
			}
			if end {
				if c := changed[0]; c.Active() || c.Peak != peak || !c.Ended.Equal(now) || c.Began.After(c.Ended) {
					t.Fatalf("it ended as %+v", c)
				}
				active, above, peak = false, time.Time{}, math.Inf(-1)
			}
		}
	})
}

func TestStates(t *testing.T) {
	t.Parallel()
	w := NewWatch(nil)
	states := w.States()
	if len(states) != len(Metrics) || states[0].Level != Unknown {
		t.Fatalf("before the first reading: %+v", states)
	}
	w.Observe(epoch, []Reading{{Metric: Disk, Value: 95, Known: true, Subject: "/var"}, {Metric: "gpu", Value: 1, Known: true}, {Metric: CPU, Value: math.NaN(), Known: true}, {Metric: Memory, Value: 91, Known: true}})
	for _, s := range w.States() {
		want := map[Metric]Level{Disk: Crossed, Memory: Rising}[s.Metric]
		if want == "" {
			want = Unknown
		}
		if s.Level != want {
			t.Errorf("%s is %s, want %s", s.Metric, s.Level, want)
		}
		if s.Metric == Disk && s.Crossing.Subject != "/var" {
			t.Errorf("the disk is %q", s.Crossing.Subject)
		}
	}
	// A new limit is judged at the next reading.
	w.Set(Settings{Disk: {Limit: 99}})
	if changed := w.Observe(epoch.Add(time.Second), []Reading{{Metric: Disk, Value: 95, Known: true}}); len(changed) != 1 || changed[0].Active() {
		t.Errorf("after a raised limit: %+v", changed)
	}
}

func TestReadings(t *testing.T) {
	t.Parallel()
	u := func(v uint64) *uint64 { return &v }
	o := &model.Observation{}
	o.System.Busy = model.Known(42)
	o.System.Memory = &proc.Memory{Total: u(1000), Available: u(250), SwapTotal: u(0), SwapFree: u(0)}
	o.System.Pressure = map[string]*proc.Pressure{"io": {Some: &proc.PressureLine{Avg10: 7}}}
	o.System.Filesystems = []proc.Usage{
		{Mount: proc.Mount{Point: "/", Type: "ext4"}, Total: u(100), Free: u(50), Available: u(40), Inodes: u(10), InodesFree: u(1)},
		{Mount: proc.Mount{Point: "/snap", Type: "squashfs"}, Total: u(100), Free: u(0), Available: u(0)},
		{Mount: proc.Mount{Point: "/dead", Type: "nfs"}, Reason: proc.TimedOut},
	}
	fs, err := proc.NewFS(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[Metric]float64{CPU: 42, Memory: 75, Swap: 0, PressureIO: 7, Disk: 50.0 / 90 * 100, Inodes: 90, Descriptors: 2.5, Temperature: 61.5}
	for _, r := range ReadingsOf(o, fs) {
		v, ok := want[r.Metric]
		if r.Known != ok || ok && math.Abs(r.Value-v) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", r.Metric, r.Value, r.Known, v)
		}
		if r.Metric == Temperature && r.Subject != "x86_pkg_temp" {
			t.Errorf("the hottest is %q", r.Subject)
		}
	}
}
