package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counting collects 1, 2, 3, … and takes a second for each.
func counting(n *atomic.Int64) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		select {
		case <-time.After(time.Second):
			return n.Add(1), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func newStore(collections *atomic.Int64) *Store[int64] {
	return New(4, time.Minute, counting(collections))
}

func TestConcurrentLatestCallsShareOneCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collections atomic.Int64
		s := newStore(&collections)
		ids := make([]string, 20)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				snapshot, err := s.Latest(t.Context(), 3*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = snapshot.ID
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("different snapshots: %q and %q", id, ids[0])
			}
		}
		if n := collections.Load(); n != 1 {
			t.Errorf("%d collections, want 1", n)
		}
	})
}

func TestForcedCallsCollectEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collections atomic.Int64
		s := newStore(&collections)
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := s.Latest(t.Context(), 0); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := collections.Load(); n != 3 {
			t.Errorf("%d collections, want 3", n)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v, want 3s: one after another", took)
		}
	})
}

func TestAgeBoundsAreInclusiveForMaxAgeAndExclusiveForRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collections atomic.Int64
		s := newStore(&collections)
		first, err := s.Latest(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if again, _ := s.Latest(t.Context(), 3*time.Second); again != first {
			t.Error("a snapshot exactly as old as the maximum was not reused")
		}
		time.Sleep(57*time.Second - time.Nanosecond)
		if _, err := s.Pinned(first.ID); err != nil {
			t.Errorf("just before its retention ends: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := s.Pinned(first.ID); !errors.Is(err, ErrUnavailable) {
			t.Errorf("at the end of its retention: %v, want %v", err, ErrUnavailable)
		}
		if again, _ := s.Latest(t.Context(), time.Hour); again == first {
			t.Error("an expired snapshot was served as the latest")
		}
	})
}

func TestFifthSnapshotEvictsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collections atomic.Int64
		s := newStore(&collections)
		var ids []string
		for range 5 {
			snapshot, err := s.Latest(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, snapshot.ID)
		}
		if _, err := s.Pinned(ids[0]); !errors.Is(err, ErrUnavailable) {
			t.Errorf("the first of five: %v, want %v", err, ErrUnavailable)
		}
		for i, id := range ids[1:] {
			if snapshot, err := s.Pinned(id); err != nil || snapshot.Value != int64(i+2) {
				t.Errorf("snapshot %d: %v, %v", i+2, snapshot, err)
			}
		}
	})
}

func TestPinnedReadsDoNotWaitForACollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collections atomic.Int64
		s := newStore(&collections)
		first, err := s.Latest(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := s.Latest(t.Context(), 0)
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		if _, err := s.Pinned(first.ID); err != nil {
			t.Error(err)
		}
		if _, err := s.Pinned("nobody's"); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFailureKeepsWhatWasGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		fail := false
		s := New(1, time.Minute, func(context.Context) (string, error) {
			if fail {
				return "", broken
			}
			return "good", nil
		})
		good, err := s.Latest(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		fail = true
		if _, err := s.Latest(t.Context(), 0); !errors.Is(err, broken) {
			t.Fatalf("%v, want %v", err, broken)
		}
		if still, err := s.Pinned(good.ID); err != nil || still.Value != "good" {
			t.Errorf("after a failure: %v, %v", still, err)
		}
	})
}

func TestCancelledCallerStopsWaitingAndFreesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collections atomic.Int64
		s := newStore(&collections)
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := fmt.Errorf("the client gave up")
		done := make(chan error)
		go func() {
			_, err := s.Latest(ctx, 0)
			done <- err
		}()
		synctest.Wait()
		cancel(reason)
		if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, reason) {
			t.Errorf("cancelled while collecting: %v", err)
		}
		if _, err := s.Latest(t.Context(), 0); err != nil {
			t.Errorf("the next caller: %v", err)
		}
	})
}

func TestIDsAreShortAndDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id, err := newID()
		if err != nil {
			t.Fatal(err)
		}
		if len(id) > 24 || seen[id] {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
}
