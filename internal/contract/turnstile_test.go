package contract

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTurnstile: whatever calls come and go, at each place at most one has its
// turn, the earliest; none is forgotten; and all come forward in the end.
func TestTurnstile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s turnstile
		var under []*turn
		has := func(t *turn) bool {
			select {
			case <-t.come:
				return true
			default:
				return false
			}
		}
		check := func() {
			first := map[string]bool{}
			for _, u := range under {
				due := true
				for _, p := range u.places {
					due = due && !first[p]
					first[p] = true
				}
				if has(u) != due {
					t.Fatalf("call %d at %v: has its turn %v, due %v", u.number, u.places, has(u), due)
				}
				if s.find(u.number) != u {
					t.Fatal("a call is not found")
				}
			}
		}
		places := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(under) == 0 || rapid.Bool().Draw(t, "enter") {
				under = append(under, s.enter("x", nil, places.Draw(t, "places")))
			} else {
				i := rapid.IntRange(0, len(under)-1).Draw(t, "leave")
				s.leave(under[i])
				s.leave(under[i]) // twice does no harm
				under = append(under[:i:i], under[i+1:]...)
			}
			check()
		}
		for _, p := range []string{"a", "b", "c"} {
			var want *turn
			for _, u := range under {
				for _, q := range u.places {
					if q == p && want == nil {
						want = u
					}
				}
			}
			if got := s.cancel(p); got != (want != nil) || want != nil && want.ctx.Err() == nil {
				t.Fatalf("cancel at %s: %v", p, got)
			}
		}
		if len(under) > 0 && len(under[0].places) > 0 {
			s.answer(under[0])
			p := under[0].places[0]
			if got := s.cancel(p); got != (len(s.queues[p]) > 1) {
				t.Fatalf("cancel behind an answered call: %v", got)
			}
		}
		for len(under) > 0 {
			s.leave(under[0])
			under = under[1:]
			check()
		}
		if len(s.turns) != 0 || len(s.queues) != 0 {
			t.Fatal("something is left")
		}
	})
}
