//go:build linux

package fleet

import (
	"slices"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/test/bed"
)

// BenchmarkUnitedCall measures what it costs to name a host: a call of the client
// here, the same call on a connected host, and the round trip of a bare line through
// ssh to it, alternately in one run. A call over there should cost no more than a
// call here and 1.3 bare lines.
func BenchmarkUnitedCall(b *testing.B) {
	w := newUnited(b, farHost{name: "alpha"})
	s := w.serve()
	works := []struct {
		name string
		do   func()
	}{
		{"here", func() { s.Call("config_get", nil) }},
		{"there", func() { s.Call("config_get", bed.Arguments{"host": "alpha"}) }},
		{"bare-line", fleettest.BareLine(b, w.hosts["alpha"].Client, "alpha")},
	}
	times := make([][]time.Duration, len(works))
	const batch = 20
	for i := -10; i < b.N; i++ {
		for j, work := range works {
			began := time.Now()
			for range batch {
				work.do()
			}
			if i >= 0 {
				times[j] = append(times[j], time.Since(began)/batch)
			}
		}
	}
	medians := make([]float64, len(works))
	for j, all := range times {
		slices.Sort(all)
		medians[j] = float64(all[len(all)/2].Nanoseconds())
		b.ReportMetric(medians[j], "ns/"+works[j].name)
	}
	b.ReportMetric((medians[1]-medians[0])/medians[2], "ratio")
}
