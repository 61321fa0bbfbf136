package link_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
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
	args, err := s.Client.Args("far", nil, "exec cat")
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
	bare := func() {
		if _, err := in.Write(line); err != nil {
			b.Fatal(err)
		}
		if _, err := r.ReadSlice('\n'); err != nil && err != io.EOF {
			b.Fatal(err)
		}
	}
	call := func() {
		if _, err := l.Call(ctx, "echo", params); err != nil {
			b.Fatal(err)
		}
	}
	for range 200 {
		bare()
		call()
	}
	var bareTime, callTime time.Duration
	const batch = 50
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
		bareTime += middle.Sub(began)
		callTime += time.Since(middle)
	}
	b.ReportMetric(float64(bareTime.Nanoseconds())/float64(b.N*batch), "ns/bare-line")
	b.ReportMetric(float64(callTime.Nanoseconds())/float64(b.N*batch), "ns/call")
	b.ReportMetric(float64(callTime)/float64(bareTime), "ratio")
}
