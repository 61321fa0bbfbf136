package transfer_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/internal/fleet/transfer"
)

// BenchmarkPush1GiB measures the push and the pull of 1 GiB beside sftp's put and get
// of the same file over the same sshd, in one run. Throughput must be at least 0.7 of
// sftp's, and memory must not grow with the file.
func BenchmarkPush1GiB(b *testing.B) {
	size := sizeOfBench()
	s, l := far(b)
	ctx := within(b, 10*time.Minute)
	from := write(b, s.Dir+"/from", nil, 0o600)
	fill(b, from, size)
	if err := l.Connect(ctx); err != nil {
		b.Fatal(err)
	}
	sftp := func(command string) time.Duration {
		cmd := exec.Command("sftp", "-q", "-b", "-", "-F", s.Config, "far")
		cmd.Stdin = strings.NewReader(command + "\n")
		syscall.Sync() // what earlier runs wrote must not slow this one down
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("sftp: %v: %s", err, out)
		}
		return time.Since(began)
	}
	timed := func(run func() error) time.Duration {
		syscall.Sync()
		began := time.Now()
		if err := run(); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var put, get, push, pull time.Duration
	b.ResetTimer()
	for i := range b.N {
		put += sftp(fmt.Sprintf("put %s %s/put", from, s.Home))
		push += timed(func() error {
			_, err := transfer.Push(ctx, l, from, "~/push", transfer.Options{Overwrite: true})
			return err
		})
		remove(b, s.Home+"/put")
		get += sftp(fmt.Sprintf("get %s/push %s/get", s.Home, s.Dir))
		pull += timed(func() error {
			_, err := transfer.Pull(ctx, l, "~/push", fmt.Sprintf("%s/pull%d", s.Dir, i), "", transfer.Options{})
			return err
		})
		remove(b, s.Home+"/push", s.Dir+"/get", fmt.Sprintf("%s/pull%d", s.Dir, i))
	}
	b.StopTimer()
	rate := func(d time.Duration) float64 { return float64(size) * float64(b.N) / d.Seconds() / (1 << 20) }
	b.ReportMetric(rate(put), "MiB/s-sftp-put")
	b.ReportMetric(rate(push), "MiB/s-push")
	b.ReportMetric(put.Seconds()/push.Seconds(), "ratio-push")
	b.ReportMetric(rate(get), "MiB/s-sftp-get")
	b.ReportMetric(rate(pull), "MiB/s-pull")
	b.ReportMetric(get.Seconds()/pull.Seconds(), "ratio-pull")
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

// sizeOfBench is 1 GiB, or what FLEET_BENCH_MIB says.
func sizeOfBench() int {
	var mib int
	if _, err := fmt.Sscan(os.Getenv("FLEET_BENCH_MIB"), &mib); err == nil && mib > 0 {
		return mib << 20
	}
	return 1 << 30
}
