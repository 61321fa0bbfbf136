//go:build linux

package compute

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// The benchmarks measure what a client waits for, over stdio. They are run alone:
//
//	go test -run '^$' -bench . ./test/compute
//
// The original, on two cores: eval 0.48 ms, env 5.8 ms, a started session 52 ms, reset 1.2 ms, a
// routed call 0.64 ms, a batch of a hundred 36 ms, start to initialize 21 ms, end
// with five sessions 3.1 s, 12 MB resident.

func ready(b *testing.B) *server {
	b.Helper()
	s := start(b)
	s.value("1+1;;")
	for i := range 20 {
		s.eval(fmt.Sprintf("let v%d = %d;;", i, i))
	}
	return s
}

func BenchmarkEval(b *testing.B) {
	s := ready(b)
	for b.Loop() {
		s.call("eval", "source", "1+1;;")
	}
}

// BenchmarkNativeEval compiles, links and loads the phrase; the original takes 11.8 ms.
func BenchmarkNativeEval(b *testing.B) {
	s := start(b, setting{"name", "topup-opt"})
	s.value("1+1;;")
	for b.Loop() {
		s.call("eval", "source", "1+1;;")
	}
}

// BenchmarkNativeFib32 is a phrase that computes; the original takes 21 ms.
func BenchmarkNativeFib32(b *testing.B) {
	s := start(b, setting{"name", "topup-opt"})
	s.value("1+1;;")
	for b.Loop() {
		s.call("eval", "source", "let rec fib n = if n < 2 then 1 else fib (n-1) + fib (n-2) in fib 32;;")
	}
}

func BenchmarkRouted(b *testing.B) {
	s := ready(b)
	s.call("start_local_session", "session", "w")
	for b.Loop() {
		s.call("eval", "source", "1+1;;", "session", "w")
	}
}

func BenchmarkEnv(b *testing.B) {
	s := ready(b)
	for b.Loop() {
		s.call("env")
	}
}

func BenchmarkBatchOf100(b *testing.B) {
	s := ready(b)
	sources := strings.Split(strings.Repeat("1+1;;\n", 99)+"1+1;;", "\n")
	for b.Loop() {
		s.call("eval_batch", "sources", sources)
	}
}

func BenchmarkStartLocalSession(b *testing.B) {
	s := ready(b)
	n := 0
	for b.Loop() {
		n++
		s.call("start_local_session", "session", fmt.Sprintf("s%d", n))
	}
}

func BenchmarkOutputOf10MB(b *testing.B) {
	s := ready(b)
	for b.Loop() {
		if r := s.eval("print_string (String.make 10_000_000 'x');;"); r.StdoutOverflow.Total != 10_000_000 {
			b.Fatal(r.StdoutOverflow)
		}
	}
}

// BenchmarkReset empties a session that has a binding and a keeper.
func BenchmarkReset(b *testing.B) {
	s := ready(b)
	for b.Loop() {
		b.StopTimer()
		s.eval("let x = 1;;")
		time.Sleep(10 * time.Millisecond)
		b.StartTimer()
		s.call("reset")
	}
}

func BenchmarkResetsInARow(b *testing.B) {
	s := ready(b)
	for b.Loop() {
		s.call("reset")
	}
}

// pipe is a client that only writes lines and reads to the next end of a line, so that its own work does not count.
type pipe struct {
	in  io.WriteCloser
	out io.Reader
	buf []byte
}

func rawPipe(b *testing.B) *pipe {
	b.Helper()
	cmd := exec.Command(binary, "topup")
	cmd.Env = environment(b.TempDir())
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
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	p := &pipe{in, out, make([]byte, 1<<20)}
	p.call(b, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	for range 20 {
		p.call(b, rawEval)
	}
	return p
}

const rawEval = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"eval","arguments":{"source":"1+1;;"}}}`

func (p *pipe) call(b *testing.B, line string) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		b.Fatal(err)
	}
	for {
		n, err := p.out.Read(p.buf)
		if err != nil {
			b.Fatal(err)
		}
		if p.buf[n-1] == '\n' {
			return
		}
	}
}

// median reports the middle of the times that f takes.
func median(b *testing.B, f func()) {
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		f()
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
}

func BenchmarkRawEval(b *testing.B) {
	p := rawPipe(b)
	median(b, func() { p.call(b, rawEval) })
}

func BenchmarkRawBatchOf100(b *testing.B) {
	p := rawPipe(b)
	sources := strings.TrimSuffix(strings.Repeat(`"1+1;;",`, 100), ",")
	line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"eval_batch","arguments":{"sources":[` + sources + `]}}}`
	median(b, func() { p.call(b, line) })
}

func BenchmarkRawReset(b *testing.B) {
	p := rawPipe(b)
	median(b, func() {
		p.call(b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"reset","arguments":{}}}`)
	})
}

func BenchmarkRecovery(b *testing.B) {
	s := ready(b)
	for b.Loop() {
		s.call("eval", "source", "exit 3;;")
	}
}

func BenchmarkStartToInitialize(b *testing.B) {
	home := b.TempDir()
	for b.Loop() {
		cmd := exec.Command(binary, "topup")
		cmd.Env = environment(home)
		cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n")
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8192)); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		cmd.Wait()
		b.StartTimer()
	}
}

// BenchmarkEndWithFiveSessions also tells how much the server holds in memory.
func BenchmarkEndWithFiveSessions(b *testing.B) {
	var took time.Duration
	var resident float64
	n := 0
	for b.Loop() {
		s := ready(b)
		for i := range 5 {
			s.call("start_local_session", "session", fmt.Sprint(i))
		}
		resident += residentMB(b, s.cmd.Process.Pid)
		begun := time.Now()
		s.end()
		took += time.Since(begun)
		n++
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(n), "ms/end")
	b.ReportMetric(resident/float64(n), "MB-resident")
}

func residentMB(b *testing.B, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kb float64
	fmt.Sscan(rest, &kb)
	return kb / 1024
}
