//go:build linux

package compute

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The benchmarks measure what a client waits for, over stdio. They are run alone:
//
//	go test -run '^$' -bench . ./test/compute
//
// The original, on two cores: eval 0.48 ms, env 5.8 ms, a started session 52 ms, a
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
