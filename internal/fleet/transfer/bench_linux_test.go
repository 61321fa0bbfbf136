package transfer_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/internal/fleet/transfer"
)

// BenchmarkFile measures the push and the pull of a file beside sftp's put and get of
// the same file over the same sshd: the four take turns, and the medians of a run are
// compared, and the best rounds. Throughput must be at least 0.7 of sftp's, and memory must not grow with
// the file.
func BenchmarkFile(b *testing.B) {
	for _, of := range []struct {
		name string
		size int
	}{{"512MiB", 512 << 20}, {"1GiB", 1 << 30}} {
		b.Run(of.name, func(b *testing.B) { measureFile(b, of.size) })
	}
}

func measureFile(b *testing.B, size int) {
	s, l := far(b)
	ctx := within(b, 20*time.Minute)
	from := write(b, s.Dir+"/from", nil, 0o600)
	fill(b, from, size)
	if err := l.Connect(ctx); err != nil {
		b.Fatal(err)
	}
	times := map[string][]time.Duration{}
	timed := func(what string, run func() error) {
		syscall.Sync() // what earlier runs wrote must not slow this one down
		began := time.Now()
		if err := run(); err != nil {
			b.Fatalf("%s: %v", what, err)
		}
		times[what] = append(times[what], time.Since(began))
	}
	sftp := func(command string) func() error {
		return func() error {
			cmd := exec.Command("sftp", "-q", "-b", "-", "-F", s.Config, "far")
			cmd.Stdin = strings.NewReader(command + "\n")
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		}
	}
	near := s.Dir + "/near"
	b.ResetTimer()
	put := func() { timed("sftp-put", sftp(fmt.Sprintf("put %s %s/put", from, s.Home))) }
	push := func() {
		timed("push", func() error {
			_, err := transfer.Push(ctx, l, from, "~/push", transfer.Options{})
			return err
		})
	}
	get := func() { timed("sftp-get", sftp(fmt.Sprintf("get %s/push %s/get", s.Home, s.Dir))) }
	pull := func() {
		timed("pull", func() error {
			_, err := transfer.Pull(ctx, l, "~/push", near, "", transfer.Options{})
			return err
		})
	}
	for round := range b.N {
		// Whoever writes second meets what the disk still does for the first.
		order := []func(){put, push, get, pull}
		if round%2 == 1 {
			order = []func(){push, put, pull, get}
		}
		for _, run := range order {
			run()
		}
		remove(b, s.Home+"/put", s.Home+"/push", s.Dir+"/get", near)
	}
	b.StopTimer()
	median := func(what string) float64 {
		d := times[what]
		slices.Sort(d)
		return (d[(len(d)-1)/2] + d[len(d)/2]).Seconds() / 2
	}
	for what := range times {
		b.ReportMetric(float64(size)/median(what)/(1<<20), "MiB/s-"+what)
	}
	best := func(what string) float64 { return slices.Min(times[what]).Seconds() }
	b.ReportMetric(best("sftp-put")/best("push"), "best-ratio-push")
	b.ReportMetric(best("sftp-get")/best("pull"), "best-ratio-pull")
	b.ReportMetric(median("sftp-put")/median("push"), "ratio-push")
	b.ReportMetric(median("sftp-get")/median("pull"), "ratio-pull")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapSys)/(1<<20), "MiB-heap-near")
	for _, pid := range s.Processes("fleet-daemon") {
		b.ReportMetric(peak(b, pid), "MiB-peak-daemon")
	}
}

func fill(b *testing.B, path string, size int) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := content(16<<20, 9)
	for n := 0; n < size; n += len(block) {
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
	}
}

func remove(b *testing.B, paths ...string) {
	for _, p := range paths {
		if err := os.Remove(p); err != nil {
			b.Fatal(err)
		}
	}
}

// peak is the high-water mark of a process's resident memory, in MiB.
func peak(b *testing.B, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
