package steer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestRefresh: a question after a pause hastens the next pass and waits for it;
// one that follows a pass closely does not, and one whose time is over goes on
// with what is known.
func TestRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &Advisor{o: Options{Interval: 2 * time.Second}, closed: make(chan struct{}), hasten: make(chan struct{}, 1), passed: make(chan struct{}), last: time.Now()}
		begin := time.Now()
		a.refresh(t.Context())
		if took := time.Since(begin); took != 0 || len(a.hasten) != 0 {
			t.Errorf("waited %v for a pass of a moment ago", took)
		}
		time.Sleep(time.Minute)
		go func() {
			<-a.hasten
			time.Sleep(time.Second)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.last = time.Now()
			close(a.passed)
			a.passed = make(chan struct{})
		}()
		begin = time.Now()
		a.refresh(t.Context())
		if took := time.Since(begin); took != time.Second {
			t.Errorf("waited %v for a pass of a second", took)
		}
		time.Sleep(time.Minute)
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		begin = time.Now()
		a.refresh(ctx)
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("waited %v, not as long as it could", took)
		}
	})
}
