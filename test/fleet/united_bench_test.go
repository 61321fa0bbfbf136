//go:build linux

package fleet

import (
	"bufio"
	"os/exec"
	"slices"
	"testing"
	"time"

	"topside/test/bed"
)

// BenchmarkUnitedCall measures what it costs to name a host: a call of the client
// here, the same call on a connected host, and the round trip of a bare line through
// ssh to it, alternately in one run. A call over there should cost no more than a
// call here and 1.3 bare lines.
func BenchmarkUnitedCall(b *testing.B) {
	w := newUnited(b, farHost{name: "alpha"})
	s := w.serve()
	args, err := w.hosts["alpha"].Client.Args("alpha", nil, "exec cat")
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("ssh", args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	r := bufio.NewReader(out)
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"n":1}}` + "\n")
	works := []struct {
		name string
		do   func()
	}{
		{"here", func() { s.Call("config_get", nil) }},
		{"there", func() { s.Call("config_get", bed.Arguments{"host": "alpha"}) }},
		{"bare-line", func() {
			if _, err := in.Write(line); err != nil {
				b.Fatal(err)
			}
			if _, err := r.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}},
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
