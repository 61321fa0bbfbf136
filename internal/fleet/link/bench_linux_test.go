package link_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
)

// BenchmarkCall measures a call on a connected host beside the round trip of a bare
// line through ssh to the same machine, alternately, in one run. The ratio must stay
// below 1.3.
func BenchmarkCall(b *testing.B) {
	s := farHost(b, fleettest.Options{})
	l := linkTo(b, s, nil)
	ctx := within(b, 5*time.Minute)
	params := json.RawMessage(`{"n":1}`)
	if _, err := l.Call(ctx, "echo", params); err != nil {
		b.Fatal(err)
	}
	bare := fleettest.BareLine(b, s.Client, "far")
	call := func() {
		if _, err := l.Call(ctx, "echo", params); err != nil {
			b.Fatal(err)
		}
	}
	for range 200 {
		bare()
		call()
	}
	// Medians of short turns: what else the machine does must not decide.
	var bareTimes, callTimes []time.Duration
	const batch = 20
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		for range batch {
			bare()
		}
		middle := time.Now()
		for range batch {
			call()
		}
		bareTimes = append(bareTimes, middle.Sub(began)/batch)
		callTimes = append(callTimes, time.Since(middle)/batch)
	}
	slices.Sort(bareTimes)
	slices.Sort(callTimes)
	one, other := bareTimes[b.N/2], callTimes[b.N/2]
	b.ReportMetric(float64(one.Nanoseconds()), "ns/bare-line")
	b.ReportMetric(float64(other.Nanoseconds()), "ns/call")
	b.ReportMetric(float64(other)/float64(one), "ratio")
	b.ReportMetric(float64(callTimes[b.N/10])/float64(bareTimes[b.N/10]), "ratio-p10")
}
