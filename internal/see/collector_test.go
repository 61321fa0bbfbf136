package see

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"topside/internal/see/sample"
)

// clockSampler takes passes that hold nothing but the time, each after took.
type clockSampler struct {
	took  time.Duration
	taken int
	fail  error
	dead  bool
}

func (s *clockSampler) Take(ctx context.Context) (*sample.Pass, error) {
	if err := sleep(ctx, s.took); err != nil {
		return nil, err
	}
	if s.fail != nil {
		return nil, s.fail
	}
	s.taken++
	now := time.Now()
	return &sample.Pass{Began: now, Ended: now, BootID: "boot", Live: true, ClockTicks: 100}, nil
}

func (s *clockSampler) Live() bool   { return !s.dead }
func (s *clockSampler) Close() error { return nil }

// window collects once and returns how long that took and what window it covers.
func collectOnce(t *testing.T, c *collector) (waited, covered time.Duration) {
	t.Helper()
	start := time.Now()
	o, err := c.collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(start), o.Window
}

func TestCollectionUsesABaselineOfAGoodAge(t *testing.T) {
	t.Parallel()
	const interval = 3 * time.Second
	for _, test := range []struct {
		why             string
		idle            time.Duration // since the baseline
		waited, covered time.Duration
	}{
		{"too young: waits until half a second has passed", 0, 500 * time.Millisecond, 500 * time.Millisecond},
		{"still too young", 400 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond},
		{"just old enough: at once", 500 * time.Millisecond, 0, 500 * time.Millisecond},
		{"of the interval's age: at once", interval, 0, interval},
		{"as old as may be: at once, over its true window", 2 * interval, 0, 2 * interval},
		{"too old: a new one", 2*interval + 1, interval, interval},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCollector(&clockSampler{}, interval)
				c.start(t.Context())
				defer c.close()
				synctest.Wait()
				time.Sleep(test.idle)
				if waited, covered := collectOnce(t, c); waited != test.waited || covered != test.covered {
					t.Errorf("waited %v for a window of %v, want %v and %v", waited, covered, test.waited, test.covered)
				}
			})
		})
	}
}

// Forced collections in a row each answer at once, over the oldest baseline
// that is still good, not over slivers.
// Who accepts a longer window has one pass made, compared with the last one; the
// others are not concerned.
func TestALongerWindowSparesAPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &clockSampler{}
		c := newCollector(s, 700*time.Millisecond)
		long := context.WithValue(t.Context(), windowKey{}, 12*time.Second)
		if _, err := c.collect(long); err != nil || s.taken != 2 {
			t.Fatalf("the first took %d passes, %v", s.taken, err)
		}
		for range 3 {
			time.Sleep(5 * time.Second)
			before := s.taken
			o, err := c.collect(long)
			if err != nil || s.taken != before+1 || o.Window != 5*time.Second {
				t.Errorf("%d passes for a window of %v, %v", s.taken-before, o.Window, err)
			}
		}
		time.Sleep(5 * time.Second)
		if waited, covered := collectOnce(t, c); waited != 700*time.Millisecond || covered != waited {
			t.Errorf("without it: waited %v for a window of %v", waited, covered)
		}
		time.Sleep(13 * time.Second)
		before := s.taken
		if _, err := c.collect(long); err != nil || s.taken != before+2 {
			t.Errorf("after a longer pause it took %d passes, %v", s.taken-before, err)
		}
	})
}

func TestForcedCollectionsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &clockSampler{}
		c := newCollector(s, 3*time.Second)
		c.start(t.Context())
		defer c.close()
		time.Sleep(2 * time.Second)
		for i := range 5 {
			waited, covered := collectOnce(t, c)
			if want := 2*time.Second + time.Duration(i)*50*time.Millisecond; waited != 0 || covered != want {
				t.Errorf("collection %d waited %v for %v, want 0 and %v", i, waited, covered, want)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if len(c.baselines) > keptBaselines {
			t.Errorf("%d baselines are kept", len(c.baselines))
		}
	})
}

func TestAShortIntervalIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(&clockSampler{}, 100*time.Millisecond)
		c.start(t.Context())
		defer c.close()
		synctest.Wait()
		if waited, covered := collectOnce(t, c); waited != 100*time.Millisecond || covered != waited {
			t.Errorf("waited %v for %v", waited, covered)
		}
	})
}

func TestACollectionStopsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(&clockSampler{took: 10 * time.Second}, 3*time.Second)
		c.start(t.Context())
		defer c.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := c.collect(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestARecordedTreeIsReadOnceWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &clockSampler{dead: true}
		c := newCollector(s, 3*time.Second)
		c.start(t.Context())
		defer c.close()
		if waited, covered := collectOnce(t, c); waited != 0 || covered != 0 || s.taken != 1 {
			t.Errorf("waited %v for %v, %d passes", waited, covered, s.taken)
		}
	})
}

func TestAFailedPassIsReportedAndTheNextOneWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &clockSampler{fail: errors.New("no table")}
		c := newCollector(s, time.Second)
		c.start(t.Context())
		defer c.close()
		synctest.Wait()
		if _, err := c.collect(t.Context()); !errors.Is(err, s.fail) {
			t.Errorf("%v, want %v", err, s.fail)
		}
		s.fail = nil
		if waited, _ := collectOnce(t, c); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}
