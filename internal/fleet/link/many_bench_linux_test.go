package link_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/route"
	"topside/internal/fleet/ssh"
)

// BenchmarkFiftyHosts calls 50 daemons behind one sshd at a time, beside one of them
// alone: what the fleet adds to the work itself.
func BenchmarkFiftyHosts(b *testing.B) {
	const n = 50
	s := farHost(b, fleettest.Options{})
	ctx := within(b, 5*time.Minute)
	links := map[string]*link.Link{}
	var hosts []string
	var group sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range n {
		name := fmt.Sprintf("h%d", i)
		d := ssh.Dialer{Client: s.Client, Host: "far", Socket: fmt.Sprintf("~/%s/d.sock", name)}
		l := link.New(link.Options{Host: name, Dial: d.Dial, Surface: "test", ConnectWait: 2 * time.Minute})
		b.Cleanup(l.Close)
		links[name] = l
		hosts = append(hosts, name)
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := l.Connect(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	if b.Failed() {
		return
	}
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
