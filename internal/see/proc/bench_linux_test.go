package proc

// The benchmark of the scanner beside what a user would pick instead. It runs
// on real processes and compares processor time, not wall time: the bare loop
// of the system calls, the scanner, and other readers of the process table,
// all in one run.

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"
)

func BenchmarkScan(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchmarkScan(b, n) })
	}
}

func benchmarkScan(b *testing.B, n int) {
	crowd(b, n)
	f, err := NewFS("/")
	if err != nil {
		b.Fatal(err)
	}
	opening := f.NewScanner(ScannerOptions{})
	defer opening.Close()
	keeping := f.NewScanner(ScannerOptions{KeepDescriptors: keepable(n + 1000)})
	defer keeping.Close()
	bare := newBareLoop(b)
	seen := 0
	count := func(_ int32, s *Stat, err error) {
		if err == nil && s.Fields >= fieldRSS {
			seen++
		}
	}
	variants := []struct {
		name string
		once func()
		cpu  []time.Duration
	}{
		{name: "bare getdents+openat+read+close", once: func() { bare.run(b) }},
		{name: "Scan", once: func() { scanOnce(b, opening, count) }},
		{name: "Scan, kept descriptors", once: func() { scanOnce(b, keeping, count) }},
	}
	for _, v := range variants {
		v.once() // warm
	}
	round := 0
	for b.Loop() {
		round++
		for i := range variants {
			i = (i + round) % len(variants) // none always follows the same other
			before := cpuTime()
			variants[i].once()
			variants[i].cpu = append(variants[i].cpu, cpuTime()-before)
		}
	}
	if seen < n {
		b.Fatalf("the scanner saw %d processes of %d", seen, n)
	}
	b.StopTimer()
	floor := median(variants[0].cpu)
	var table strings.Builder
	row := func(name string, cpu time.Duration) float64 {
		ratio := float64(cpu) / float64(floor)
		fmt.Fprintf(&table, "%-36s %9.2f ms %8.2f us/process %8.2f x bare\n", name,
			cpu.Seconds()*1e3, cpu.Seconds()*1e6/float64(bare.last), ratio)
		return ratio
	}
	for i, v := range variants {
		ratio := row(v.name, median(v.cpu))
		if i > 0 {
			b.ReportMetric(ratio, []string{"", "scan/bare", "kept/bare"}[i])
		}
	}
	b.ReportMetric(ratioToOwnScan(median(variants[1].cpu), peer(b, func() time.Duration {
		return cpuOfCommand(b, "ps", "-eo", "pid,ppid,uid,stat,time,rss,nlwp,lstart,cgroup,args")
	}, "ps", row)), "ps/scan")
	b.ReportMetric(ratioToOwnScan(median(variants[1].cpu), peer(b, func() time.Duration { return cpuOfCommand(b, "top", "-b", "-n1") }, "top -b -n1", row)), "top/scan")
	b.ReportMetric(ratioToOwnScan(median(variants[1].cpu), peer(b, func() time.Duration { return cpuOfGopsutil(b) }, "gopsutil v4, 9 fields", row)), "gopsutil/scan")
	b.Logf("%d processes, medians of processor time (user and system)\n%s", bare.last, table.String())
}

func scanOnce(b *testing.B, sc *Scanner, visit func(int32, *Stat, error)) {
	if err := sc.Scan(visit); err != nil {
		b.Fatal(err)
	}
}

// peer measures another program a few times and writes its row.
func peer(b *testing.B, once func() time.Duration, name string, row func(string, time.Duration) float64) time.Duration {
	b.Helper()
	var cpu []time.Duration
	for range 3 {
		cpu = append(cpu, once())
	}
	row(name, median(cpu))
	return median(cpu)
}

func ratioToOwnScan(own, other time.Duration) float64 { return float64(other) / float64(own) }

// A bareLoop makes the system calls that no reader of the process table can
// do without, and nothing else.
type bareLoop struct {
	dir     int
	entries [32 << 10]byte
	line    [longestStat]byte
	last    int
}

func newBareLoop(b *testing.B) *bareLoop {
	dir, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(dir) })
	return &bareLoop{dir: dir}
}

func (l *bareLoop) run(b *testing.B) {
	unix.Seek(l.dir, 0, 0)
	l.last = 0
	var path [32]byte
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_GETDENTS64, uintptr(l.dir), uintptr(unsafe.Pointer(&l.entries[0])), uintptr(len(l.entries)))
		if errno != 0 {
			b.Fatal(errno)
		}
		if n == 0 {
			return
		}
		for at := 0; at < int(n); {
			entry := l.entries[at:n]
			length := int(*(*uint16)(unsafe.Pointer(&entry[16])))
			at += length
			name := entry[19:length]
			if name[0] < '1' || name[0] > '9' {
				continue
			}
			i := 0
			for name[i] != 0 {
				path[i] = name[i]
				i++
			}
			copy(path[i:], "/stat\x00")
			fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(l.dir), uintptr(unsafe.Pointer(&path[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
			if errno != 0 {
				continue
			}
			unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&l.line[0])), uintptr(len(l.line)))
			unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
			l.last++
		}
	}
}

// keepable caps a number of descriptors by the process's limit.
func keepable(wanted int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return min(wanted, int(limit.Cur)-100)
}

func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func median(of []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

func cpuOfGopsutil(b *testing.B) time.Duration {
	runtime.GC()
	before := cpuTime()
	processes, err := process.Processes()
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range processes {
		// A process may vanish; what it costs to ask is what counts.
		p.Name()
		p.Ppid()
		p.Uids()
		p.Status()
		p.Times()
		p.MemoryInfo()
		p.NumThreads()
		p.CreateTime()
		p.Cmdline()
	}
	return cpuTime() - before
}

func cpuOfCommand(b *testing.B, name string, args ...string) time.Duration {
	b.Helper()
	return commandCPU(run(b, name, args...))
}

func commandCPU(state *os.ProcessState) time.Duration {
	return state.UserTime() + state.SystemTime()
}

// run starts a program from the usual places and waits for it. os/exec is not
// used: no package of this layer may.
func run(tb testing.TB, name string, args ...string) *os.ProcessState {
	tb.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer null.Close()
	started, err := os.StartProcess(lookPath(tb, name), append([]string{name}, args...),
		&os.ProcAttr{Files: []*os.File{null, null, os.Stderr}, Env: append(os.Environ(), "TERM=dumb")})
	if err != nil {
		tb.Fatal(err)
	}
	state, err := started.Wait()
	if err != nil || !state.Success() {
		tb.Fatalf("%s: %v %v", name, state, err)
	}
	return state
}

func lookPath(tb testing.TB, name string) string {
	tb.Helper()
	if filepath.IsAbs(name) {
		return name
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	tb.Fatalf("%s is needed, and not in PATH", name)
	return ""
}

// crowd starts n sleeping processes and ends them with the test.
func crowd(tb testing.TB, n int) (pid int) {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), "crowd")
	run(tb, "gcc", "-O1", "-static", "-o", binary, filepath.Join("testdata", "crowd.c"))
	stdin, keepOpen, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	started, err := os.StartProcess(binary, []string{"crowd", strconv.Itoa(n)},
		&os.ProcAttr{Files: []*os.File{stdin, stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	stdin.Close()
	stdout.Close()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		keepOpen.Close()
		unix.Kill(-started.Pid, unix.SIGKILL)
		started.Wait()
		out.Close()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil && err != io.EOF || line != "ready\n" {
		tb.Fatalf("the crowd did not come up: %q %v", line, err)
	}
	return started.Pid
}
