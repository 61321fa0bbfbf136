package sample

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"topside/internal/see/proc"
)

// tree writes a recorded root with these files and returns its FS.
func tree(t testing.TB, files map[string]string) proc.FS {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	fs, err := proc.NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func take(t testing.TB, fs proc.FS) *Pass {
	t.Helper()
	s := NewSampler(fs, Options{})
	t.Cleanup(func() { s.Close() })
	pass, err := s.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

// statLine is a line of proc/PID/stat.
func statLine(pid int, comm string, state byte, flags, user, system uint64, start uint64) string {
	return fmt.Sprintf("%d (%s) %c 1 %d %d 0 -1 %d 10 0 2 0 %d %d 0 0 20 0 3 0 %d 4096000 100 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		pid, comm, state, pid, pid, flags, user, system, start)
}

func processOf(t testing.TB, pass *Pass, pid int32) *Process {
	t.Helper()
	for i := range pass.Processes {
		if pass.Processes[i].PID == pid {
			return &pass.Processes[i]
		}
	}
	t.Fatalf("process %d is not in the pass", pid)
	return nil
}

func TestRecordedTree(t *testing.T) {
	t.Parallel()
	docker := "/system.slice/docker-" + strings.Repeat("ab", 32) + ".scope"
	pass := take(t, tree(t, map[string]string{
		"proc/stat":                            "cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 5 0 5 40 0 0 0 0 0 0\ncpu1 5 0 5 40 0 0 0 0 0 0\n",
		"proc/uptime":                          "100.00 150.00\n",
		"proc/10/stat":                         statLine(10, "a b) (c", 'S', 0, 7, 3, 500),
		"proc/10/cmdline":                      "/usr/bin/thing\x00--flag\x00",
		"proc/10/cgroup":                       "0::" + docker + "\n",
		"proc/10/status":                       "Name:\tthing\nUid:\t33\t33\t33\t33\n",
		"proc/2/stat":                          statLine(2, "kthreadd", 'S', 0x00200040, 0, 0, 1),
		"proc/2/cgroup":                        "0::/\n",
		"proc/9/stat":                          "9 (no end",
		"proc/11/cmdline":                      "gone\x00",
		"etc/passwd":                           "www-data:x:33:33::/:/bin/sh\n",
		"proc/self/cgroup":                     "0::/\n",
		"proc/pressure/cpu":                    "some avg10=1.50 avg60=0.00 avg300=0.00 total=5\n",
		"proc/meminfo":                         "MemTotal: 1000 kB\nMemAvailable: 400 kB\n",
		"proc/notanumber/st":                   "",
		"sys/fs/cgroup/cgroup.controllers":     "cpu memory\n",
		"sys/fs/cgroup" + docker + "/cpu.stat": "usage_usec 5000000\nuser_usec 1\nsystem_usec 1\n",
		"sys/fs/cgroup" + docker + "/memory.current": "1000\n",
		"sys/fs/cgroup" + docker + "/memory.stat":    "inactive_file 400\n",
	}))
	if len(pass.Processes) != 2 || pass.Processes[0].PID != 2 || pass.Malformed != 1 {
		t.Fatalf("%d processes, %d malformed", len(pass.Processes), pass.Malformed)
	}
	p := processOf(t, pass, 10)
	f := p.Facts
	if f.Comm != "a b) (c" || f.User != "www-data" || len(f.Args) != 2 || p.UserTicks != 7 || p.SystemTicks != 3 || p.Threads != 3 {
		t.Errorf("%+v %+v", p, f)
	}
	if f.Absent["executable"] != proc.NotRecorded || p.IOKnown || p.IOAbsent != proc.NotRecorded {
		t.Errorf("absences: %v, io %v %q", f.Absent, p.IOKnown, p.IOAbsent)
	}
	kernel := processOf(t, pass, 2)
	if !kernel.Kernel || kernel.Facts.Absent["args"] != KernelTask || kernel.Group != -1 {
		t.Errorf("%+v %v", kernel, kernel.Facts.Absent)
	}
	if len(pass.Groups) != 1 || p.Group != 0 {
		t.Fatalf("groups %+v, of the process %d", pass.Groups, p.Group)
	}
	g := pass.Groups[0]
	if set := g.Usage.MemoryWorkingSet(); !g.Container || g.Usage.CPUMicros == nil || *g.Usage.CPUMicros != 5_000_000 || set == nil || *set != 600 {
		t.Errorf("%+v", g)
	}
	if pass.System.CPUs != 2 || pass.System.Absent["pressure_io"] != proc.NotRecorded || pass.System.Pressure["cpu"].Some.Avg10 != 1.5 {
		t.Errorf("%+v", pass.System)
	}
}

func TestGroupsAroundAProcess(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0123456789abcdef", 4)
	for _, test := range []struct {
		why, cgroup string
		chain       []string
	}{
		{"the root", "0::/", nil},
		{"a service", "0::/system.slice/cron.service", []string{"unit:/system.slice/cron.service"}},
		{"docker's scope is the container", "0::/system.slice/docker-" + id + ".scope", []string{"container:docker:" + id}},
		{"a container split below a unit", "0::/system.slice/web.service/libpod-payload-" + id, []string{"container:podman:" + id, "unit:/system.slice/web.service"}},
		{"a pod", "0::/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-" + id + ".scope",
			[]string{"container:containerd:" + id, "pod:11111111-2222-3333-4444-555555555555"}},
		{"a user's unit", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.service",
			[]string{"unit:/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.service", "unit:/user.slice/user-1000.slice/user@1000.service"}},
	} {
		pass := take(t, tree(t, map[string]string{"proc/10/stat": statLine(10, "x", 'S', 0, 0, 0, 1), "proc/10/cgroup": test.cgroup + "\n"}))
		var chain []string
		for g := pass.Processes[0].Group; g >= 0; g = pass.Groups[g].Parent {
			chain = append(chain, pass.Groups[g].Key)
		}
		if fmt.Sprint(chain) != fmt.Sprint(test.chain) {
			t.Errorf("%s: %v, want %v", test.why, chain, test.chain)
		}
	}
}

// live returns a sampler of this machine.
func live(t testing.TB) *Sampler {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Fatal("the live tests need Linux")
	}
	fs, err := proc.NewFS("/")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSampler(fs, Options{})
	t.Cleanup(func() { s.Close() })
	return s
}

func mustTake(t testing.TB, s *Sampler) *Pass {
	t.Helper()
	pass, err := s.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

// An exec keeps the PID and the start time: the facts must follow all the same,
// also when the new program has the old one's name.
func TestFactsFollowAnExec(t *testing.T) {
	t.Parallel()
	s := live(t)
	input, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	command := exec.Command("/bin/sh", "-c", "read line; exec sleep 60")
	command.Stdin = input
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	input.Close()
	defer func() {
		command.Process.Kill()
		command.Wait()
	}()
	pid := int32(command.Process.Pid)
	before := processOf(t, mustTake(t, s), pid)
	if _, err := feed.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		after := processOf(t, mustTake(t, s), pid)
		if after.Facts.Comm == "sleep" && len(after.Facts.Args) == 2 && after.Facts.Args[1] == "60" {
			if after.StartTicks != before.StartTicks {
				t.Error("the identity changed with the exec")
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the facts are still %q %q", after.Facts.Comm, after.Facts.Args)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestFactsAreSharedBetweenPasses(t *testing.T) {
	t.Parallel()
	s := live(t)
	pid := int32(os.Getppid())
	first := processOf(t, mustTake(t, s), pid)
	second := processOf(t, mustTake(t, s), pid)
	if first.Facts != second.Facts && s.table[pid].settled {
		t.Error("the facts of a settled process were read twice")
	}
	if !second.IOKnown && second.IOAbsent == "" {
		t.Error("unknown I/O without a reason")
	}
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	s := live(t)
	command := exec.Command("/bin/sleep", "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	pid := int32(command.Process.Pid)
	processOf(t, mustTake(t, s), pid)
	command.Process.Kill()
	command.Wait()
	mustTake(t, s)
	if _, ok := s.table[pid]; ok {
		t.Error("a process that ended is still remembered")
	}
}

// A warm pass allocates its own few slices, and nothing for each process.
func TestAWarmPassAllocatesNothingPerProcess(t *testing.T) {
	s := live(t)
	for range 3 {
		mustTake(t, s)
	}
	scan := func() {
		pass := &Pass{Processes: make([]Process, 0, s.count+64)}
		s.groups.begin()
		s.pass++
		if err := s.scanner.Scan(func(pid int32, stat *proc.Stat, err error) {
			if err == nil {
				s.add(pass, pid, stat)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	perProcess := testing.AllocsPerRun(20, scan) / float64(s.count)
	if perProcess > 0.5 {
		t.Errorf("%.2f allocations for each of %d processes", perProcess, s.count)
	}
}

func BenchmarkTake(b *testing.B) {
	s := live(b)
	mustTake(b, s)
	b.ReportAllocs()
	for b.Loop() {
		mustTake(b, s)
	}
	b.ReportMetric(float64(s.count), "processes")
}

// A table that cannot be read leaves the system's figures, and says so.
func TestAnUnreadableTableIsAWarning(t *testing.T) {
	t.Parallel()
	fs := tree(t, map[string]string{"proc/loadavg": "1.00 2.00 3.00 1/2 3\n"})
	s := NewSampler(fs, Options{})
	defer s.Close()
	if err := os.RemoveAll(filepath.Join(fs.Root(), "proc")); err != nil {
		t.Fatal(err)
	}
	pass, err := s.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pass.TableError == nil || len(pass.Warnings) == 0 || len(pass.Processes) != 0 {
		t.Errorf("%+v", pass)
	}
}

func TestAZombieSaysThatItHasEnded(t *testing.T) {
	t.Parallel()
	line := strings.Replace(statLine(10, "gone", 'Z', 0, 0, 0, 1), " 20 0 3 0 ", " 20 0 1 0 ", 1) // one thread
	pass := take(t, tree(t, map[string]string{"proc/10/stat": line, "proc/10/status": "Uid:\t0\t0\t0\t0\n"}))
	if absent := pass.Processes[0].Facts.Absent; absent["executable"] != Ended || absent["directory"] != Ended || absent["args"] != Ended {
		t.Errorf("%v", absent)
	}
}

// A process whose first thread ended before the others is shown as a zombie, and
// runs: its facts are those of the other threads.
func TestAProcessWithoutItsFirstThreadHasFacts(t *testing.T) {
	t.Parallel()
	fs := tree(t, map[string]string{
		"proc/10/stat": statLine(10, "x", 'Z', 0, 0, 0, 1), "proc/10/status": "Uid:\t0\t0\t0\t0\n", "proc/10/cmdline": "",
		"proc/10/task/10/stat": statLine(10, "x", 'Z', 0, 0, 0, 1),
		"proc/10/task/11/stat": statLine(11, "x", 'S', 0, 0, 0, 1), "proc/10/task/11/cmdline": "/tmp/.x\x00",
	})
	if err := os.Symlink("/tmp/.x", filepath.Join(fs.Root(), "proc/10/task/11/exe")); err != nil {
		t.Fatal(err)
	}
	p := take(t, fs).Processes[0]
	if p.Ended() || p.Facts.Executable != "/tmp/.x" || len(p.Facts.Args) != 1 {
		t.Errorf("%+v", p.Facts)
	}
}

// Every whole machine has kthreadd as process 2, unless it is hidden.
func TestATableWithoutKthreaddIsOfAPIDNamespace(t *testing.T) {
	t.Parallel()
	s := &Sampler{}
	whole := []Process{{PID: 1}, {PID: 2, Kernel: true}, {PID: 30}}
	for why, test := range map[string]struct {
		pass Pass
		want bool
	}{
		"a whole machine":    {Pass{Live: true, Processes: whole}, false},
		"a namespace":        {Pass{Live: true, Processes: []Process{{PID: 1}, {PID: 2}}}, true},
		"a namespace of one": {Pass{Live: true, Processes: []Process{{PID: 1}}}, true},
		"hidden by hidepid":  {Pass{Live: true, Hidden: true, Processes: []Process{{PID: 30}}}, false},
		"a recorded tree":    {Pass{Processes: []Process{{PID: 1}}}, false},
	} {
		if got := s.namespaced(&test.pass); got != test.want {
			t.Errorf("%s: %v, want %v", why, got, test.want)
		}
	}
}
