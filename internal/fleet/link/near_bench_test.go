//go:build unix

package link_test

import (
	"encoding/json"
	"testing"
	"time"

	"topside/internal/fleet/daemon"
	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
)

// BenchmarkCallNear is what a link and a daemon cost by themselves, without ssh.
func BenchmarkCallNear(b *testing.B) {
	l := link.New(link.Options{Host: "near", Surface: "test", Dial: fleettest.DialSocket(fleettest.RunDaemon(b, daemon.Config{}))})
	defer l.Close()
	ctx := within(b, 5*time.Minute)
	params := json.RawMessage(`{"n":1}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Call(ctx, "echo", params); err != nil {
			b.Fatal(err)
		}
	}
}
