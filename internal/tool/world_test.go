package tool

// This file makes an observation by hand, in which every figure is known, and
// checks what the two surfaces make of it.

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
	"topside/internal/see/sample"
)

const webID = "9c41aa00000000000000000000000000000000000000000000000000000000ff"

func process(pid, ppid int32, cpu model.Figure, rss uint64, group int, user string, args ...string) model.Process {
	facts := &sample.Facts{Comm: "comm", Args: args, User: user, UIDKnown: user != ""}
	p := model.Process{CPU: cpu, CPUSeconds: 12.345, Group: group}
	p.Process = &sample.Process{PID: pid, PPID: ppid, State: 'S', RSS: rss, Facts: facts, Group: group, StartTicks: uint64(pid)}
	return p
}

func group(isContainer bool, id string, runtime container.Runtime, cpu model.Figure, memory model.Figure, parent int) model.Group {
	at := container.Attribution{Runtime: runtime, Path: "/" + id}
	if isContainer {
		at.ContainerID = id
	} else {
		at.Unit = id
	}
	return model.Group{CPU: cpu, Memory: memory, FromCgroup: true, Processes: 1, RSS: 4096,
		Group: &sample.Group{Key: id, Container: isContainer, Placement: at, Parent: parent}}
}

// world is a machine of 16 CPUs: half busy, a tenth of it in a Docker container.
func world() *model.Observation {
	known := model.Known
	o := &model.Observation{
		CapturedAt: time.UnixMilli(1789512345678), Window: 3 * time.Second, CPUs: 16,
		Groups: []model.Group{
			group(true, webID, container.Docker, known(10), known(913309696), -1),
			group(false, "ssh.service", container.Systemd, known(0.5), known(8<<20), -1),
		},
		Processes: []model.Process{
			process(1, 0, known(0), 10<<20, -1, "root", "/sbin/init"),
			process(700, 1, known(0.5), 8<<20, 1, "root", "sshd: /usr/sbin/sshd -D"),
			process(4242, 700, known(6.25), 400<<20, -1, "bob", "/usr/lib/cc1plus", "-O2", "--password", "hunter2", "source.cc"),
			process(5000, 1, known(9.5), 200<<20, 0, "", "/usr/bin/mysql\x1b[31m", "-phunter2"),
			process(6000, 2, model.Figure{}, 0, -1, "root"),
		},
	}
	o.Processes[4].Kernel = true
	o.Processes[4].Facts.Comm = "kworker/0:1"
	o.Processes[4].Facts.Absent = map[string]proc.Reason{"args": sample.KernelTask}
	o.Processes[3].Facts.Absent = map[string]proc.Reason{"user": proc.NoPermission}
	total, available, cached := uint64(34209046528), uint64(9126805504), uint64(3<<30)
	zero := uint64(0)
	o.System = model.System{
		Busy: known(50), Unaccounted: known(33.3), Load: &proc.Load{One: 8.1, Five: 7, Fifteen: 3.25},
		Modes:    model.CPUModes{User: known(40), System: known(10), Idle: known(49), IOWait: known(1), Steal: known(0)},
		Memory:   &proc.Memory{Total: &total, Available: &available, Cached: &cached, SwapTotal: &zero, SwapFree: &zero},
		ARC:      &proc.ARC{Size: 1 << 30},
		Pressure: map[string]*proc.Pressure{"cpu": {Some: &proc.PressureLine{Avg10: 12.5, Avg60: 3}}},
		Disks: []model.Disk{
			{Name: "sda", ReadBytes: known(1 << 20), WriteBytes: known(0), Utilisation: known(45.67), Latency: known(3.21)},
			{Name: "sda1", Partition: true, ReadBytes: known(1 << 20)},
			{Name: "loop0"}, {Name: "sdb"},
		},
		Interfaces: []model.Interface{{Name: "lo", RxBytes: known(5)}, {Name: "eth0", RxBytes: known(1000), TxBytes: known(10), Drops: known(2)}, {Name: "eth1"}},
		Filesystems: []proc.Usage{
			{Mount: proc.Mount{Point: "/", Type: "ext4", Major: 8}, Total: &total, Free: &available, Available: &available},
			{Mount: proc.Mount{Point: "/mnt/nfs", Type: "nfs4", Major: 9}, Reason: proc.TimedOut},
			{Mount: proc.Mount{Point: "/run", Type: "tmpfs", Major: 10}, Total: &total, Free: &zero, Available: &zero},
		},
		Absent: map[string]proc.Reason{"pressure_io": proc.Unsupported, "pressure_irq": proc.Unsupported, "zfs_arc": proc.Unsupported},
	}
	for i := range 16 {
		o.System.Cores = append(o.System.Cores, model.Core{ID: i, Busy: known(float64(i))})
	}
	quota := 4.0
	o.System.Limits = &cgroup.Limits{Path: "/user.slice", Constraints: cgroup.Constraints{CPUQuotaCores: &quota}}
	o.Engines = []container.Listing{
		{Engine: container.EngineDocker, Status: container.Unreachable, Reason: "timed out after 500 ms"},
		{Engine: container.EnginePodman, Status: container.Absent, Reason: "no socket"},
	}
	return o
}

func catalogue(t testing.TB, o *model.Observation, f resource.Flavour) *resource.Catalogue {
	t.Helper()
	c, err := resource.Build(o, f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func asJSON(t testing.TB, v any) (string, map[string]any) {
	t.Helper()
	encoded, err := marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(encoded, &m); err != nil {
		t.Fatalf("%v in %s", err, encoded)
	}
	return string(encoded), m
}

func TestWsltopSummary(t *testing.T) {
	t.Parallel()
	o := world()
	s, warning := wsltopSummaryOf(o, catalogue(t, o, resource.Flavour{WSL: true}))
	got, _ := asJSON(t, s)
	// wsl is what is left of the kernel's 50 % without docker's 10 %, and the
	// RSS of its own processes.
	rss := (10 + 8 + 400) << 20
	want := fmt.Sprintf(`{"host_logical_cpu_count":16,"host_cpu_percent":50,"cpu_breakdown":null,"cpu_overlap_unresolved":false,`+
		`"host_memory":{"total_bytes":34209046528,"available_bytes":9126805504,"used_bytes":25082241024},`+
		`"environments":{"windows":null,"wsl":{"cpu_percent":40,"memory_bytes":%d},"wslc":null,"docker":{"cpu_percent":10,"memory_bytes":913309696}}}`, rss)
	if got != want || warning != "" {
		t.Errorf("warning %q\n got %s\nwant %s", warning, got, want)
	}
}

func TestWsltopOverlap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy, docker model.Figure
		want         string
		unresolved   bool
	}{
		"removed":                  {model.Known(50), model.Known(10), "40", false},
		"all of it":                {model.Known(10), model.Known(10), "0", false},
		"more than the kernel":     {model.Known(5), model.Known(10), "5", true},
		"unknown container":        {model.Known(50), model.Figure{}, "50", true},
		"unknown kernel":           {model.Figure{}, model.Known(10), "null", false},
		"not a number is no share": {model.Known(math.NaN()), model.Known(0), "null", false},
	} {
		o := world()
		o.System.Busy, o.Groups[0].CPU = c.busy, c.docker
		s, warning := wsltopSummaryOf(o, catalogue(t, o, resource.Flavour{WSL: true}))
		got, _ := asJSON(t, s.Environments.WSL)
		if !strings.HasPrefix(got, `{"cpu_percent":`+c.want+`,`) || s.Unresolved != c.unresolved || (warning != "") != c.unresolved {
			t.Errorf("%s: got %s, unresolved %v, warning %q", name, got, s.Unresolved, warning)
		}
	}
}

func TestWsltopSummaryWithoutContainers(t *testing.T) {
	t.Parallel()
	o := world()
	o.Groups, o.System.Memory = nil, nil
	for i := range o.Processes {
		o.Processes[i].Group = -1
	}
	_, m := asJSON(t, must(wsltopSummaryOf(o, catalogue(t, o, resource.Flavour{WSL: true}))))
	if docker := m["environments"].(map[string]any)["docker"]; docker != nil {
		t.Errorf("docker is %v without containers", docker)
	}
	if memory, there := m["host_memory"]; memory != nil || !there {
		t.Errorf("unknown memory is %v, there %v", memory, there)
	}
}

func must[T any](v T, _ string) T { return v }

func TestUsedMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		total, available uint64
		want             string
	}{{100, 40, "60"}, {100, 100, "0"}, {0, 0, "null"}, {100, 101, "null"}} {
		got, _ := asJSON(t, totals(&proc.Memory{Total: &c.total, Available: &c.available}))
		if !strings.HasSuffix(got, `"used_bytes":`+c.want+`}`) {
			t.Errorf("%d of %d available: %s", c.available, c.total, got)
		}
	}
}

func TestUnitedSummary(t *testing.T) {
	t.Parallel()
	o := world()
	c := catalogue(t, o, resource.Flavour{})
	s := summaryOf(o, c)
	encoded, m := asJSON(t, s)
	for _, part := range []string{
		`"host_cpu_percent":50,"unaccounted_cpu_percent":33.3`,
		`"docker":{"status":"unreachable","reason":"timed out after 500 ms","cpu_percent":10,"memory_bytes":913309696,"containers":1}`,
		`"podman":{"status":"absent","reason":"no socket","cpu_percent":null,"memory_bytes":null}`,
		`"lxc":{"status":"absent","reason":"no such container is running","cpu_percent":null,"memory_bytes":null}`,
		`"linux":{"status":"ok","cpu_percent":40,`,
		`"zfs_arc_bytes":1073741824`,
		`"disks":[{"name":"sda","read_bytes_per_s":1048576,"write_bytes_per_s":0,"utilisation_percent":45.7,"latency_ms":3.2}],"idle_disks_left_out":2`,
		`{"mount":"/mnt/nfs","type":"nfs4","absent":"timed out"}`, `"filesystems_left_out":1`,
		`"network":[{"name":"eth0","rx_bytes_per_s":1000,"tx_bytes_per_s":10,"drops_per_s":2},{"name":"lo","rx_bytes_per_s":5}],"idle_interfaces_left_out":1`,
		`"own_limits":{"cgroup":"/user.slice","cpu_cores":4}`,
		`"not_measured":[{"figure":"pressure_io","reason":"not supported by this kernel"}]`,
		`"counts":{"processes":5,"containers":1,"units":1}`,
		`"core_percents":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]`,
	} {
		if !strings.Contains(encoded, part) {
			t.Errorf("the summary has no %s in\n%s", part, encoded)
		}
	}
	busiest := m["busiest_by_cpu"].([]any)
	first := busiest[0].(map[string]any)
	if len(busiest) != 5 || first["name"] != "mysql" || first["within"] != webID[:12] {
		t.Errorf("busiest by CPU: %v", busiest)
	}
	if r, ok := c.Find(first["resource_id"].(string)); !ok || r.Proc.PID != 5000 {
		t.Errorf("the id of the busiest is of %v", r)
	}
	text := s.text(snapshotMeta{ID: "S1", Window: 3000})
	for _, part := range []string{"snapshot_id S1", "cpu 50% of 16 CPUs", "docker: unreachable", first["resource_id"].(string), "not measured: pressure_io", "/mnt/nfs: timed out"} {
		if !strings.Contains(text, part) {
			t.Errorf("the text has no %q in\n%s", part, text)
		}
	}
	if strings.Contains(encoded+text, "\x1b") {
		t.Error("an escape character came through")
	}
}

// TestRatesAbsent: of a recorded tree nothing that needs two samples is zero.
func TestRatesAbsent(t *testing.T) {
	t.Parallel()
	o := world()
	o.RatesAbsent = "a recorded tree has no second sample"
	o.System.Busy, o.System.Unaccounted, o.System.Modes, o.System.Cores = model.Figure{}, model.Figure{}, model.CPUModes{}, nil
	for i := range o.Processes {
		o.Processes[i].CPU = model.Figure{}
	}
	encoded, m := asJSON(t, summaryOf(o, catalogue(t, o, resource.Flavour{})))
	if _, there := m["host_cpu_percent"]; there || strings.Contains(encoded, `"cpu":{"user"`) {
		t.Errorf("a rate is there: %s", encoded)
	}
	if !strings.Contains(encoded, `{"figure":"rates","reason":"a recorded tree has no second sample"}`) {
		t.Errorf("no reason in %s", encoded)
	}
}

// budget is in characters of JSON: a token is about four.
const (
	summaryBudget = 4000
	listBudget    = 12000
	toolsBudget   = 7000
)

func TestSummaryBudget(t *testing.T) {
	t.Parallel()
	o := world()
	for i := range 40 {
		o.System.Disks = append(o.System.Disks, model.Disk{Name: fmt.Sprint("nvme", i, "n1"), ReadBytes: model.Known(1e9), Utilisation: model.Known(99)})
		o.System.Interfaces = append(o.System.Interfaces, model.Interface{Name: fmt.Sprint("veth", i), RxBytes: model.Known(1e9), TxBytes: model.Known(1e9)})
	}
	s := summaryOf(o, catalogue(t, o, resource.Flavour{}))
	encoded, err := marshal(envelope{snapshotMeta{ID: "0123456789abcdef", Warnings: []string{}}, s})
	if err != nil || len(encoded) > summaryBudget {
		t.Errorf("the summary has %d characters, more than %d: %v", len(encoded), summaryBudget, err)
	}
}

func TestToolsBudget(t *testing.T) {
	t.Parallel()
	total := 0
	for _, tool := range SeeTools(nil, false) {
		// name, title, description, annotations and the keys around them
		total += len(tool.InputSchema()) + len(tool.OutputSchema()) + len(tool.Name) + len(tool.Title) + len(tool.Description) + 200
	}
	if total > toolsBudget {
		t.Errorf("the tools have about %d characters, more than %d", total, toolsBudget)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0B", 999: "999B", 1000: "1.0KiB", 1536: "1.5KiB", 10 << 20: "10MiB", 1<<64 - 1: "16EiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
}
