package tui

// This file makes a machine to draw: a recorded server that does the same in
// every run, with a busy database, containers, ZFS, and text that means harm.

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"topside/internal/see"
	"topside/internal/see/container"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
	"topside/internal/see/sample"
	"topside/internal/steer/threshold"
)

var sceneTime = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// A worldProcess is one process of the scene.
type worldProcess struct {
	pid, parent int32
	user        string
	state       byte
	threads     int32
	cpu         float64 // percent of a core, around which it varies
	rss         uint64  // MiB
	group       int
	read, write float64
	args        []string
}

var worldProcesses = []worldProcess{
	{1, 0, "root", 'S', 1, 0, 14, -1, 0, 0, []string{"/sbin/init"}},
	{2, 0, "root", 'S', 1, 0, 0, -1, 0, 0, nil},
	{11, 2, "root", 'I', 1, 0.3, 0, -1, 0, 0, nil},
	{412, 1, "root", 'S', 1, 0.1, 48, 0, 0, 4096, []string{"/lib/systemd/systemd-journald"}},
	{633, 1, "root", 'S', 1, 0, 9, 1, 0, 0, []string{"sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"}},
	{901, 1, "postgres", 'S', 1, 0.4, 210, 2, 0, 0, []string{"/usr/lib/postgresql/16/bin/postgres", "-D", "/var/lib/postgresql/16/main"}},
	{940, 901, "postgres", 'R', 1, 96, 1880, 2, 21e6, 3.2e6, []string{"postgres: app shop 10.0.3.9(52144) SELECT"}},
	{941, 901, "postgres", 'S', 1, 12, 940, 2, 1.1e6, 64e3, []string{"postgres: app shop 10.0.3.9(52150) idle"}},
	{942, 901, "postgres", 'D', 1, 31, 610, 2, 0, 42e6, []string{"postgres: checkpointer"}},
	{1200, 1, "root", 'S', 24, 1.5, 96, 3, 0, 0, []string{"/usr/bin/containerd"}},
	{1310, 1, "root", 'S', 31, 2.2, 128, 4, 0, 0, []string{"/usr/bin/dockerd", "-H", "fd://", "--containerd=/run/containerd/containerd.sock"}},
	{1502, 1200, "root", 'S', 11, 0.1, 14, 3, 0, 0, []string{"/usr/bin/containerd-shim-runc-v2", "-namespace", "moby", "-id", "4f1d"}},
	{1520, 1502, "www-data", 'S', 1, 0.2, 12, 5, 0, 0, []string{"nginx: master process nginx -g daemon off;"}},
	{1531, 1520, "www-data", 'S', 1, 8.4, 31, 5, 0, 2e3, []string{"nginx: worker process"}},
	{1532, 1520, "www-data", 'S', 1, 7.1, 30, 5, 0, 1e3, []string{"nginx: worker process"}},
	{1610, 1502, "1000", 'R', 18, 143, 2300, 6, 0, 18e3, []string{"java", "-Xmx4g", "-Ddb.password=hunter2", "-jar", "/srv/shop.jar"}},
	{1705, 1, "redis", 'S', 5, 3.1, 412, 7, 0, 0, []string{"/usr/bin/redis-server", "127.0.0.1:6379"}},
	{2210, 633, "kate", 'S', 1, 0, 11, 8, 0, 0, []string{"sshd: kate@pts/0"}},
	{2211, 2210, "kate", 'S', 1, 0, 8, 8, 0, 0, []string{"-bash"}},
	{2290, 2211, "kate", 'R', 4, 62, 340, 8, 9e6, 0, []string{"/usr/bin/rg", "--threads", "4", "--hidden", "TODO", "/home/kate/src"}},
	{2301, 2211, "kate", 'S', 1, 0, 5, 8, 0, 0, []string{"mysql", "-psecret", "shop"}},
	{2400, 1, "kate", 'Z', 1, 0, 0, 8, 0, 0, nil},
	{3100, 1, "nobody", 'T', 2, 0, 6, -1, 0, 0, []string{"evil\x1b[2J\x1b[Hname", "--\u202etxt.exe", "日本語の引数", "👩‍💻"}},
}

var worldGroups = []struct {
	name      string
	container bool
	parent    int
}{
	{"systemd-journald.service", false, -1}, {"ssh.service", false, -1}, {"postgresql@16-main.service", false, -1},
	{"containerd.service", false, -1}, {"docker.service", false, -1}, {"shop-web", true, -1}, {"shop-app", true, -1},
	{"redis-server.service", false, -1}, {"session-4.scope", false, -1},
}

// wave is a figure that varies, the same in every run.
func wave(base float64, tick, phase int) float64 {
	return max(base*(1+0.35*math.Sin(float64(tick)/5+float64(phase))+0.12*math.Sin(float64(tick*7+phase))), 0)
}

// observationAt is the machine at a tick.
func observationAt(tick int) *model.Observation {
	const cpus = 8
	o := &model.Observation{CapturedAt: sceneTime.Add(time.Duration(tick) * time.Second), Window: time.Second, CPUs: cpus}
	for i, g := range worldGroups {
		a := container.Attribution{Runtime: container.Systemd, Unit: g.name}
		var info *container.Info
		if g.container {
			id := fmt.Sprintf("%064d", i)
			a = container.Attribution{Runtime: container.Docker, ContainerID: id}
			info = &container.Info{ID: id, Names: []string{g.name}, Image: "registry/" + g.name}
		}
		o.Groups = append(o.Groups, model.Group{
			Group: &sample.Group{Key: g.name, Container: g.container, Placement: a, Parent: g.parent}, Info: info,
		})
	}
	for i := range worldProcesses {
		w := &worldProcesses[i]
		p := processOf(w, tick)
		o.Processes = append(o.Processes, p)
		if w.group >= 0 {
			g := &o.Groups[w.group]
			g.Processes++
			g.CPU = plus(g.CPU, p.CPU)
			g.Memory = plus(g.Memory, model.Known(float64(p.RSS)))
		}
	}
	o.System = systemAt(tick, cpus)
	return o
}

// facts are shared between ticks, as the sampler shares them.
var worldFacts = func() map[int32]*sample.Facts {
	all := map[int32]*sample.Facts{}
	for i := range worldProcesses {
		w := &worldProcesses[i]
		f := &sample.Facts{Comm: "kworker/0:1", User: w.user, UIDKnown: true, UID: 1000, Args: w.args, Directory: "/"}
		if len(w.args) > 0 {
			f.Comm, f.Executable = "comm", "/usr/bin/program"
		} else {
			f.Absent = map[string]proc.Reason{"executable": sample.KernelTask, "directory": sample.KernelTask}
			f.Directory = ""
		}
		all[w.pid] = f
	}
	return all
}()

func processOf(w *worldProcess, tick int) model.Process {
	p := model.Process{
		Process: &sample.Process{
			PID: w.pid, PPID: w.parent, StartTicks: uint64(w.pid) * 100, State: w.state, Threads: w.threads,
			Kernel: w.args == nil && w.state != 'Z', RSS: w.rss << 20, VirtualBytes: w.rss << 22, Facts: worldFacts[w.pid], Group: w.group,
			IOKnown: w.args != nil, IO: proc.IO{ReadBytes: uint64(w.read) * 600, WriteBytes: uint64(w.write) * 600},
		},
		CPU: model.Known(wave(w.cpu, tick, int(w.pid)) / 8), CPUSeconds: w.cpu * 37.21, Group: w.group,
		MinorFaults: model.Known(w.cpu * 3), MajorFaults: model.Known(0),
	}
	if p.IOKnown {
		p.ReadBytes, p.WriteBytes = model.Known(wave(w.read, tick, 1)), model.Known(wave(w.write, tick, 2))
	}
	return p
}

func gib(v float64) *uint64 { n := uint64(v * (1 << 30)); return &n }

func systemAt(tick, cpus int) model.System {
	running := uint64(4)
	s := model.System{
		Load:     &proc.Load{One: 4.21, Five: 3.87, Fifteen: 2.9, Runnable: 4, Entities: 612},
		Memory:   &proc.Memory{Total: gib(64), Free: gib(9.5), Available: gib(22 - 3*math.Sin(float64(tick)/9)), Cached: gib(12), Shmem: gib(1.2), Slab: gib(3.1), Dirty: gib(0.04), SwapTotal: gib(8), SwapFree: gib(6.6)},
		ARC:      &proc.ARC{Size: 11 << 30, Minimum: 2 << 30, Maximum: 32 << 30},
		Pressure: map[string]*proc.Pressure{},
		Running:  &running, Uptime: 37*24*time.Hour + 4*time.Hour, Hostname: "shop-1", Kernel: "6.12.9-amd64",
	}
	var sum float64
	for i := range cpus {
		busy := min(wave(12+float64(i*i), tick, i*2), 100)
		sum += busy
		s.Cores = append(s.Cores, model.Core{ID: i, Busy: model.Known(busy)})
	}
	busy := sum / float64(cpus)
	s.Busy = model.Known(busy)
	s.Modes = model.CPUModes{User: model.Known(busy * 0.7), System: model.Known(busy * 0.25), Nice: model.Known(0), IOWait: model.Known(3.2), Steal: model.Known(0), IRQ: model.Known(busy * 0.01), SoftIRQ: model.Known(busy * 0.04), Idle: model.Known(100 - busy)}
	for i, name := range []string{"cpu", "memory", "io"} {
		some := wave([]float64{6, 0.4, 24}[i], tick, i)
		s.Pressure[name] = &proc.Pressure{
			Some: &proc.PressureLine{Avg10: some, Avg60: some * 0.8, Avg300: some * 0.5}, Full: &proc.PressureLine{Avg10: some / 3},
		}
	}
	s.Disks = []model.Disk{
		{Name: "nvme0n1", ReadBytes: model.Known(wave(22e6, tick, 1)), WriteBytes: model.Known(wave(45e6, tick, 2)), Reads: model.Known(900), Writes: model.Known(700), Utilisation: model.Known(min(wave(61, tick, 3), 100)), Latency: model.Known(0.8)},
		{Name: "nvme0n1p1", Partition: true, ReadBytes: model.Known(1), WriteBytes: model.Known(1)},
		{Name: "sda", ReadBytes: model.Known(0), WriteBytes: model.Known(0), Reads: model.Known(0), Utilisation: model.Known(0)},
		{Name: "loop0", ReadBytes: model.Known(0), WriteBytes: model.Known(0)},
	}
	usage := func(point, kind string, total, used float64) proc.Usage {
		return proc.Usage{Mount: proc.Mount{Point: point, Type: kind}, Total: gib(total), Free: gib(total - used), Available: gib(total - used)}
	}
	s.Filesystems = []proc.Usage{
		usage("/", "ext4", 94, 41), usage("/var/lib/postgresql", "zfs", 1800, 1690), usage("/run", "tmpfs", 6.4, 0.01), usage("/snap/core", "squashfs", 0.1, 0.1),
	}
	s.Interfaces = []model.Interface{
		{Name: "lo", RxBytes: model.Known(120e3), TxBytes: model.Known(120e3)},
		{Name: "eth0", RxBytes: model.Known(wave(3.4e6, tick, 4)), TxBytes: model.Known(wave(9.8e6, tick, 5)), Errors: model.Known(0), Drops: model.Known(0)},
		{Name: "docker0", RxBytes: model.Known(wave(410e3, tick, 6)), TxBytes: model.Known(wave(88e3, tick, 7)), Errors: model.Known(0), Drops: model.Known(2)},
		{Name: "wg0", RxBytes: model.Known(0), TxBytes: model.Known(0)},
	}
	return s
}

func sceneAt(t testing.TB, tick int) *Scene {
	t.Helper()
	return sceneOf(t, observationAt(tick))
}

func sceneOf(t testing.TB, o *model.Observation) *Scene {
	t.Helper()
	c, err := resource.Build(o, resource.Flavour{})
	if err != nil {
		t.Fatal(err)
	}
	return &Scene{Observation: o, Catalogue: c, ClockTicks: 100}
}

// A recorded is a source that plays the scene, tick by tick.
type recorded struct {
	t     testing.TB
	tick  int
	err   error
	tuned time.Duration
}

func (r *recorded) Sample(context.Context) (*Scene, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.tick++
	return sceneAt(r.t, r.tick), nil
}

func (r *recorded) Details(context.Context, *Scene, *resource.Resource) *see.Details {
	n, score := 128, 12
	return &see.Details{Descriptors: &n, OOMScore: &score, Limits: map[string]proc.Limit{"Max open files": {Soft: 1024, Hard: 4096}}}
}

func (r *recorded) Retune(d time.Duration) error { r.tuned = d; return nil }

// A fixed is a configuration that tests change.
type fixed struct {
	settings Settings
	err      error
}

func (f *fixed) Current() Settings { return f.settings }

func (f *fixed) Choose(theme, layout string) error {
	if f.err == nil {
		f.settings.Theme, f.settings.Layout = theme, layout
	}
	return f.err
}

type fixedAlerts struct {
	alerts []Alert
	seen   []string
}

func (f *fixedAlerts) Judge(context.Context, *Scene) ([]Alert, error) { return f.alerts, nil }
func (f *fixedAlerts) Acknowledge(id string) error                    { f.seen = append(f.seen, id); return nil }

func worldAlerts() []Alert {
	return []Alert{
		{ID: "a1", Severity: "Critical", Rule: "suspicious_exe_path", Message: "runs from /tmp/.x/kdev", Process: "kdev", PID: 3100, Since: sceneTime, Count: 3,
			Evidence: []string{"executable /tmp/.x/kdev belongs to no package", "started by sshd: kate@pts/0 with --token=abcdef0123456789"}, Next: []string{"inspect process 3100"}},
		{ID: "a2", Severity: "Warning", Rule: "disk", Message: "/var/lib/postgresql is 94 % full", Since: sceneTime},
		{ID: "a3", Severity: "Info", Rule: "suspicious_fd_anomaly", Message: "1210 open file descriptors", Process: "redis-server", PID: 1705, Since: sceneTime, Seen: true},
	}
}

type fixedActor struct {
	refusal string
	sent    []string
}

func (f *fixedActor) Preview(_ context.Context, t Target, signal string) (Preview, error) {
	return Preview{Refusal: f.refusal, Notes: []string{"2 children", "listens on tcp 443"}}, nil
}

func (f *fixedActor) Signal(_ context.Context, t Target, signal string) (string, error) {
	f.sent = append(f.sent, fmt.Sprintf("%s %d %d", signal, t.PID, t.StartTicks))
	return fmt.Sprintf("SIG%s sent to %d", signal, t.PID), nil
}

// A stage is a view with all that it speaks to.
type stage struct {
	*Model
	source *recorded
	config *fixed
	alerts *fixedAlerts
	actor  *fixedActor
}

func newStage(t testing.TB, width, height int) *stage {
	t.Helper()
	s := &stage{
		source: &recorded{t: t}, alerts: &fixedAlerts{alerts: worldAlerts()}, actor: &fixedActor{},
		config: &fixed{settings: Settings{Theme: "x", Layout: "Dashboard", Interval: time.Second, Thresholds: threshold.Defaults()}},
	}
	s.Model = newModel(context.Background(), Options{Source: s.source, Configuration: s.config, Alerts: s.alerts, Actor: s.actor})
	s.now = func() time.Time { return sceneTime }
	s.width, s.height = width, height
	return s
}

// play takes samples.
func (s *stage) play(ticks int) *stage {
	for range ticks {
		s.run(s.sample())
	}
	return s
}

// text is the screen without style.
func (s *stage) text() string {
	s.stale = true
	s.View()
	return s.canvas.Plain()
}
