package see

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Calls that a client makes together share an observation even when each is
// answered in no time and accepts one of a millisecond only; forced ones do not.
func TestCallsOfOneMomentShareASnapshot(t *testing.T) {
	o, err := New(Options{Interval: MinInterval, WithoutEngines: true})
	if err != nil {
		t.Fatal(err)
	}
	o.Start(t.Context())
	defer o.Close()
	ask := func(age time.Duration) string {
		s, err := o.Select(t.Context(), Selector{MaxAge: &age})
		if err != nil {
			t.Fatal(err)
		}
		return s.ID()
	}
	first := ask(time.Millisecond)
	began := time.Now()
	time.Sleep(2 * time.Millisecond)
	if second := ask(time.Millisecond); second != first && time.Since(began) < sameMoment {
		t.Error("two calls within one moment gave two snapshots")
	}
	if ask(0) == first {
		t.Error("a forced call gave the same snapshot")
	}
}
