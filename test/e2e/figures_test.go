//go:build linux

package e2e

// Figures against other readings of the same machine: a process's CPU clock,
// ps, and the counters of a cgroup.

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/test/bed"
)

// tolerance is how far our CPU figure may be from the truth, in cores: user and
// system time are cut to ticks of 10 ms at both ends of the window, and the
// moment at which the process was read lies somewhere in the pass.
func tolerance(s snapshot) float64 {
	return 0.03 + 0.04/(float64(s.WindowMS)/1000)
}

func TestCPUOfProcesses(t *testing.T) {
	t.Parallel()
	s := bed.Start(t, []string{"mcp", "--interval-ms", "1000", "--no-engines"})
	type player struct {
		part, argument string
		pid            int
		meter          *bed.Meter
	}
	players := []*player{{part: bed.Burner, argument: "100"}, {part: bed.Burner, argument: "30"}, {part: bed.Crowd, argument: "10"}, {part: bed.Actor}}
	for _, p := range players {
		p.pid = bed.Play(t, p.part, p.argument).PID()
		p.meter = bed.MeterOf(t, p.pid)
	}
	// On a busy machine the pass itself is interrupted, and a process is read at
	// another moment than the window says: one window of four must be right, and
	// none far off.
	hits := map[*player]int{}
	for range 4 {
		time.Sleep(1100 * time.Millisecond)
		var list seeList
		s.Get("list_resources", bed.Arguments{"max_age_ms": 0, "limit": 1000, "name_contains": "bed-"}, &list)
		time.Sleep(50 * time.Millisecond) // the meters' next reading
		for _, p := range players {
			var found *seeRow
			for i := range list.Data {
				if list.Data[i].Usage.PID != nil && *list.Data[i].Usage.PID == p.pid {
					found = &list.Data[i]
				}
			}
			if found == nil {
				t.Fatalf("no row of %s %s", p.part, p.argument)
			}
			want := p.meter.Cores(list.Snapshot.begin(), list.Snapshot.end())
			if near(*found.Cores, want, tolerance(list.Snapshot)) {
				hits[p]++
			} else {
				t.Logf("%s %s: %.3f cores over %d ms, its clock says %.3f", p.part, p.argument, *found.Cores, list.Snapshot.WindowMS, want)
			}
			if !near(*found.Cores, want, 0.3) {
				t.Errorf("%s %s: %.3f cores, its clock says %.3f", p.part, p.argument, *found.Cores, want)
			}
			if percent := *found.Usage.CPU; !near(percent, *found.Cores*100/float64(runtime.NumCPU()), 0.1) {
				t.Errorf("%.2f %% and %.3f cores", percent, *found.Cores)
			}
		}
	}
	for _, p := range players {
		if hits[p] == 0 {
			t.Errorf("%s %s: no window agrees with its clock", p.part, p.argument)
		}
	}
}

// wsltop's rows say the same.
func TestCPUOfProcessesInWsltop(t *testing.T) {
	t.Parallel()
	s := bed.Start(t, []string{"wsltop", "mcp", "--interval-ms", "1000", "--no-docker"})
	player := bed.Play(t, bed.Burner, "50")
	meter := bed.MeterOf(t, player.PID())
	time.Sleep(1200 * time.Millisecond)
	var list listing
	s.Get("list_resources", bed.Arguments{"max_age_ms": 0}, &list)
	time.Sleep(1200 * time.Millisecond)
	s.Get("list_resources", bed.Arguments{"max_age_ms": 0, "limit": 1000, "name_contains": "bed-"}, &list)
	time.Sleep(50 * time.Millisecond)
	for _, r := range list.Data {
		if *r.Usage.PID == player.PID() {
			want := meter.Cores(list.Snapshot.begin(), list.Snapshot.end())
			if !near(*r.Cores, want, tolerance(list.Snapshot)) {
				t.Errorf("%.3f cores, its clock says %.3f", *r.Cores, want)
			}
			return
		}
	}
	t.Error("no row of the burner")
}

// A storm of short-lived processes keeps a CPU busy with no process to show
// for it: the remainder is a figure of its own. The storm's own cgroup knows
// the truth.
func TestAStormOfShortLivedProcesses(t *testing.T) {
	t.Parallel()
	script := `while :; do (i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done); done`
	c := exec.Command("/bin/sh", "-c", script)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
	// Before other load, where that is permitted, so that it is a storm.
	_ = syscall.Setpriority(syscall.PRIO_PGRP, c.Process.Pid, -10)
	// What the children used that it waited for.
	meter := bed.MeterOfFile(t, func() (time.Duration, bool) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err != nil {
			return 0, false
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		user, _ := strconv.Atoi(fields[13])
		system, _ := strconv.Atoi(fields[14])
		return time.Duration(user+system) * 10 * time.Millisecond, true
	})
	group := ownCgroup(t, c.Process.Pid)
	s := bed.Start(t, []string{"mcp", "--interval-ms", "1500", "--no-engines"})
	time.Sleep(1700 * time.Millisecond)
	type summary struct {
		Snapshot snapshot
		Data     struct {
			CPU         float64 `json:"host_cpu_percent"`
			Unaccounted float64 `json:"unaccounted_cpu_percent"`
		}
	}
	var first, answer summary
	s.Get("get_system_summary", bed.Arguments{"max_age_ms": 0}, &first)
	time.Sleep(1700 * time.Millisecond)
	s.Get("get_system_summary", bed.Arguments{"max_age_ms": 0}, &answer)
	time.Sleep(100 * time.Millisecond)
	cores := answer.Data.Unaccounted * float64(runtime.NumCPU()) / 100
	children := meter.Cores(answer.Snapshot.begin(), answer.Snapshot.end())
	if children < 0.05 {
		t.Fatalf("the storm got only %.3f cores", children)
	}
	if cores < 0.8*children-tolerance(answer.Snapshot) {
		t.Errorf("%.3f cores are unaccounted for, the storm's children used %.3f", cores, children)
	}
	if answer.Data.Unaccounted > answer.Data.CPU {
		t.Errorf("%.1f %% unaccounted of %.1f %% busy", answer.Data.Unaccounted, answer.Data.CPU)
	}
	if group != nil {
		truth := group.Cores(answer.Snapshot.begin(), answer.Snapshot.end())
		own := truth - children // the shell itself, which has a row
		if cores < 0.8*(truth-own)-tolerance(answer.Snapshot) {
			t.Errorf("%.3f cores are unaccounted for, the storm's cgroup used %.3f", cores, truth)
		}
	}
}

// ownCgroup puts a process into a cgroup of its own, where that is permitted,
// and measures the group; nil where it is not.
func ownCgroup(t *testing.T, pid int) *bed.Meter {
	t.Helper()
	for _, hierarchy := range []struct {
		mount, counter string
		read           func(string) (time.Duration, bool)
	}{
		{"/sys/fs/cgroup/cpuacct", "cpuacct.usage", func(s string) (time.Duration, bool) {
			n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
			return time.Duration(n), err == nil
		}},
		{"/sys/fs/cgroup", "cpu.stat", usageUsec},
		{"/sys/fs/cgroup/unified", "cpu.stat", usageUsec},
	} {
		dir := filepath.Join(hierarchy.mount, fmt.Sprintf("topside-test-%d", pid))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { removeCgroup(t, dir) })
		if os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, pid), 0) != nil {
			continue
		}
		counter := filepath.Join(dir, hierarchy.counter)
		if _, err := os.Stat(counter); err != nil {
			continue
		}
		return bed.MeterOfFile(t, func() (time.Duration, bool) {
			data, err := os.ReadFile(counter)
			if err != nil {
				return 0, false
			}
			return hierarchy.read(string(data))
		})
	}
	return nil
}

func usageUsec(s string) (time.Duration, bool) {
	rest, ok := strings.CutPrefix(s, "usage_usec ")
	if !ok {
		return 0, false
	}
	first, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(first, 10, 64)
	return time.Duration(n) * time.Microsecond, err == nil
}

// removeCgroup removes a cgroup whose processes are just ending.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	for range 100 {
		if data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err == nil {
			for _, word := range strings.Fields(string(data)) {
				if pid, err := strconv.Atoi(word); err == nil {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		if err := os.Remove(dir); err == nil || os.IsNotExist(err) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("the cgroup %s cannot be removed", dir)
}

// exec keeps the pid and the start time, and changes all else.
func TestAProcessThatBecomesAnotherProgram(t *testing.T) {
	t.Parallel()
	player := bed.Play(t, bed.Actor, "")
	s := startSee(t)
	r, _ := find(t, s, player.PID(), bed.Arguments{"max_age_ms": 0, "name_contains": "bed-actor"})
	if r.Usage.Name != "bed-actor" {
		t.Errorf("before: %q", r.Usage.Name)
	}
	player.Tell("exec /bin/sleep 4711")
	deadline := time.Now().Add(5 * time.Second)
	for {
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", player.PID())); err == nil && strings.TrimSpace(string(comm)) == "sleep" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the player did not become sleep")
		}
		time.Sleep(5 * time.Millisecond)
	}
	r, snap := find(t, s, player.PID(), bed.Arguments{"max_age_ms": 0, "match": "4711"})
	_, d := inspect(t, s, snap.ID, r.ID)
	if r.Usage.Name != "sleep" || r.Usage.Args == nil || !strings.Contains(*r.Usage.Args, "4711") || !strings.HasSuffix(d.Executable, "/sleep") {
		t.Errorf("after: %q %v %q", r.Usage.Name, r.Usage.Args, d.Executable)
	}
}

func TestAProcessThatRenamesItself(t *testing.T) {
	t.Parallel()
	player := bed.Play(t, bed.Actor, "", func(c *exec.Cmd) { c.Args = []string{""} })
	s := startSee(t)
	for _, name := range []string{"plain", "with space", "((brackets)", ") R 1 1 1", "new\nline", "bad\xff\xfeutf8", "\u202eleft"} {
		player.Tell("name " + strconv.Quote(name))
		deadline := time.Now().Add(5 * time.Second)
		for {
			comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", player.PID()))
			if err == nil && strings.TrimSuffix(string(comm), "\n") == name {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the player is called %q, not %q", comm, name)
			}
			time.Sleep(5 * time.Millisecond)
		}
		r, snap := find(t, s, player.PID(), bed.Arguments{"max_age_ms": 0, "sort_by": "memory"})
		_, d := inspect(t, s, snap.ID, r.ID)
		if *r.Usage.PPID != os.Getpid() || d.State == "" || d.Threads < 1 || *r.Usage.Memory < 1<<20 {
			t.Errorf("%q: parent %v, %d threads, %v bytes", name, r.Usage.PPID, d.Threads, *r.Usage.Memory)
		}
		if strings.ContainsAny(r.Usage.Name, "\n\u202e") || strings.Contains(r.Usage.Name, "\xff") {
			t.Errorf("%q came through as %q", name, r.Usage.Name)
		}
		if name == "plain" || name == "with space" || name == ") R 1 1 1" {
			if r.Usage.Name != name {
				t.Errorf("%q is called %q", name, r.Usage.Name)
			}
		}
	}
}

func TestZombies(t *testing.T) {
	t.Parallel()
	mother := bed.Play(t, bed.Mother, "3")
	s := startSee(t)
	var list seeList
	s.Get("list_resources", bed.Arguments{"max_age_ms": 0, "limit": 1000, "match": "^true$"}, &list)
	zombies := 0
	for _, r := range list.Data {
		if r.Usage.PPID != nil && *r.Usage.PPID == mother.PID() {
			zombies++
			if r.Usage.Name != "true" || r.Usage.State != "Z" || *r.Usage.Memory != 0 {
				t.Errorf("a zombie: %q %s %v", r.Usage.Name, r.Usage.State, *r.Usage.Memory)
			}
			one, d := inspect(t, s, list.Snapshot.ID, r.ID)
			if d.State != "zombie" || one.Usage.Args != nil && *one.Usage.Args != "" {
				t.Errorf("a zombie's details: %s", one.Details)
			}
		}
	}
	if zombies != 3 {
		t.Errorf("%d zombies, want 3", zombies)
	}
}

func TestKernelTasks(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/2/stat"); err != nil {
		t.Log("this machine shows no kernel tasks (a container)")
		return
	}
	s := startSee(t)
	r, snap := find(t, s, 2, bed.Arguments{"max_age_ms": 0, "name_contains": "kthreadd"})
	one, _ := inspect(t, s, snap.ID, r.ID)
	if r.Usage.Name != "kthreadd" || !r.Usage.Kernel || *r.Usage.Memory != 0 || one.Usage.Args != nil {
		t.Errorf("kthreadd: %+v", one.Usage)
	}
}

// Every process that the kernel lists has exactly one row.
func TestEveryProcessHasOneRow(t *testing.T) {
	t.Parallel()
	player := bed.Play(t, bed.Actor, "")
	before := pids(t)
	seen := reportOf(t, bed.RunBinary(t, "snapshot", "--json", "--interval-ms", "500", "--no-engines"))
	after := pids(t)
	rows := map[int]int{}
	for _, r := range seen.Resources {
		if r.Process != nil {
			rows[r.Process.PID]++
		}
	}
	for pid, n := range rows {
		if n != 1 {
			t.Errorf("process %d has %d rows", pid, n)
		}
	}
	for pid := range before {
		if after[pid] && rows[pid] == 0 {
			t.Errorf("process %d has no row", pid)
		}
	}
	if rows[player.PID()] != 1 || rows[os.Getpid()] != 1 {
		t.Error("the tests' own processes are missing")
	}
}

func pids(t *testing.T) map[int]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]bool{}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			all[pid] = true
		}
	}
	return all
}
