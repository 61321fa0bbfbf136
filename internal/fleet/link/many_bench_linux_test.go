package link_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/route"
)

// BenchmarkFiftyHosts calls 50 daemons behind one sshd at a time, beside one of them
// alone: what the fleet adds to the work itself.
func BenchmarkFiftyHosts(b *testing.B) {
	const n = 50
	s := farHost(b, fleettest.Options{})
	ctx := within(b, 5*time.Minute)
	links, hosts := s.Links(ctx, b, n, func(o *link.Options) { o.Surface = "test" })
	call := func(ctx context.Context, h string) (json.RawMessage, error) {
		return links[h].Call(ctx, "big", json.RawMessage(`{"bytes":20000}`))
	}
	var one, all time.Duration
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		if _, err := call(ctx, hosts[0]); err != nil {
			b.Fatal(err)
		}
		one += time.Since(began)
		began = time.Now()
		for _, o := range route.Each(ctx, hosts, 30*time.Second, call) {
			if o.Status != route.OK {
				b.Fatalf("%s: %v", o.Host, o.Err)
			}
		}
		all += time.Since(began)
	}
	b.ReportMetric(float64(one.Microseconds())/float64(b.N), "us/one")
	b.ReportMetric(float64(all.Microseconds())/float64(b.N), "us/fifty")
}
