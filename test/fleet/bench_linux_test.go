package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/route"
	"topside/test/bed"
)

// BenchmarkSummaryOfFiftyHosts takes a forced summary of fifty hosts at a time: fifty
// daemons of the real binary behind one real sshd, each with a home and a connection of
// its own. Beside it, in the same run: the time of one host alone, and the CPU time
// that fifty collections take in their daemons. All of them should take less than 1.5
// times one host's time plus that CPU time divided by the processors.
func BenchmarkSummaryOfFiftyHosts(b *testing.B) {
	const n = 50
	s := fleettest.Start(b, fleettest.Options{Programs: map[string]string{"topside": bed.Binary()}})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	b.Cleanup(cancel)
	links, hosts := s.Links(ctx, b, n, func(o *link.Options) { o.Surface, o.Version, o.Opened = "topside", "test", greetTools })
	summary := func(ctx context.Context, h string) (json.RawMessage, error) {
		result, err := route.Tool(ctx, links[h], "get_system_summary", json.RawMessage(`{"max_age_ms":0}`))
		if err == nil && !bytes.Contains(result, []byte(`"structuredContent"`)) {
			err = fmt.Errorf("no summary: %.200s", result)
		}
		return result, err
	}
	one := func(h string) time.Duration {
		began := time.Now()
		if _, err := summary(ctx, h); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	// What is read once only, and a baseline for each: a collection whose daemon has none
	// of the last seconds waits for one, which is no work.
	route.Each(ctx, hosts, time.Minute, summary)
	var alone, all, collections []time.Duration
	b.ResetTimer()
	for range b.N {
		before := cpuOf(b, links)
		var each []time.Duration
		for _, h := range hosts {
			each = append(each, one(h))
		}
		collections = append(collections, cpuOf(b, links)-before)
		slices.Sort(each)
		alone = append(alone, each[n/2])
		began := time.Now()
		for _, o := range route.Each(ctx, hosts, 30*time.Second, summary) {
			if o.Status != route.OK {
				b.Fatalf("%s: %v", o.Host, o.Err)
			}
		}
		all = append(all, time.Since(began))
	}
	b.StopTimer()
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	bound := median(alone) + median(collections)/time.Duration(runtime.NumCPU())
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(median(alone)), "ms/one")
	b.ReportMetric(ms(median(collections)), "ms-cpu/fifty-collections")
	b.ReportMetric(ms(median(all)), "ms/fifty")
	b.ReportMetric(float64(median(all))/float64(bound), "ratio")
}

// greetTools makes the handshake with a host's tool server.
func greetTools(ctx context.Context, call link.Caller, fresh bool) error {
	if !fresh {
		return nil
	}
	_, err := call(ctx, "initialize", json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`))
	return err
}

// cpuOf is the CPU time that the daemons have taken, to the nanosecond.
func cpuOf(b *testing.B, links map[string]*link.Link) time.Duration {
	var sum time.Duration
	for _, l := range links {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", l.State().Far.PID))
		if err != nil {
			b.Fatal(err)
		}
		for _, task := range tasks {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", l.State().Far.PID, task.Name()))
			if err != nil {
				b.Fatal(err)
			}
			var ns int64
			if _, err := fmt.Sscan(strings.Fields(string(text))[0], &ns); err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(ns)
		}
	}
	return sum
}
