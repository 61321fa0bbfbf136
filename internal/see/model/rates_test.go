package model

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/proc"
	"topside/internal/see/sample"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// passAt is an empty pass of a machine of 16 CPUs, so many seconds after the
// epoch, with 100 ticks to the second.
func passAt(seconds float64, processes ...sample.Process) *sample.Pass {
	at := epoch.Add(time.Duration(seconds * float64(time.Second)))
	for i := range processes {
		processes[i].Facts = &sample.Facts{}
		if processes[i].Group == 0 {
			processes[i].Group = -1
		}
	}
	return &sample.Pass{
		Began: at, Ended: at, Uptime: time.Hour + at.Sub(epoch), BootID: "boot", Live: true,
		ClockTicks: 100, Processes: processes, System: sample.System{CPUs: 16},
	}
}

func near(t *testing.T, what string, got Figure, want float64) {
	t.Helper()
	if !got.Known || math.Abs(got.Value-want) > 1e-9 {
		t.Errorf("%s = %+v, want %v", what, got, want)
	}
}

func unknown(t *testing.T, what string, got Figure) {
	t.Helper()
	if got.Known {
		t.Errorf("%s = %v, want it unknown", what, got.Value)
	}
}

// One busy CPU of sixteen is 6.25 % of the machine.
func TestProcessCPUIsInPercentOfTheMachine(t *testing.T) {
	t.Parallel()
	o := Between(
		passAt(0, sample.Process{PID: 7, StartTicks: 5, UserTicks: 100, SystemTicks: 50}),
		passAt(2, sample.Process{PID: 7, StartTicks: 5, UserTicks: 250, SystemTicks: 100}))
	near(t, "CPU", o.Processes[0].CPU, 6.25)
	if got := o.Processes[0].CPUSeconds; got != 3.5 {
		t.Errorf("CPUSeconds = %v, want 3.5", got)
	}
	if o.Window != 2*time.Second {
		t.Errorf("Window = %v", o.Window)
	}
}

func TestACounterThatRanBackwardsGivesNoFigure(t *testing.T) {
	t.Parallel()
	o := Between(
		passAt(0, sample.Process{PID: 7, StartTicks: 5, UserTicks: 100, MinorFaults: 9, IOKnown: true, IO: proc.IO{ReadBytes: 10, WriteBytes: 0}}),
		passAt(1, sample.Process{PID: 7, StartTicks: 5, UserTicks: 99, MinorFaults: 8, IOKnown: true, IO: proc.IO{ReadBytes: 5, WriteBytes: 100}}))
	p := o.Processes[0]
	unknown(t, "CPU", p.CPU)
	unknown(t, "MinorFaults", p.MinorFaults)
	unknown(t, "ReadBytes", p.ReadBytes)
	near(t, "WriteBytes", p.WriteBytes, 100)
}

func TestARecycledPIDIsAnotherProcess(t *testing.T) {
	t.Parallel()
	after := passAt(1, sample.Process{PID: 7, StartTicks: 360_050, UserTicks: 50})
	o := Between(passAt(0, sample.Process{PID: 7, StartTicks: 5, UserTicks: 10}), after)
	p := o.Processes[0]
	if !p.Newborn {
		t.Fatal("a process that started inside the window is not newborn")
	}
	near(t, "CPU since its birth", p.CPU, 50.0/100/1/16*100)
}

// A process that the first pass did not see though it was older was hidden: what
// it used before is not of this window.
func TestAnOlderProcessThatWasNotSeenBeforeHasNoRate(t *testing.T) {
	t.Parallel()
	o := Between(passAt(0), passAt(1, sample.Process{PID: 7, StartTicks: 5, UserTicks: 5000}))
	if o.Processes[0].Newborn {
		t.Error("newborn")
	}
	unknown(t, "CPU", o.Processes[0].CPU)
}

func TestARestartBetweenTwoPassesGivesNoRates(t *testing.T) {
	t.Parallel()
	before, after := passAt(0, sample.Process{PID: 1}), passAt(1, sample.Process{PID: 1, UserTicks: 9})
	after.BootID = "another"
	o := Between(before, after)
	unknown(t, "CPU", o.Processes[0].CPU)
	if o.RatesAbsent == "" || o.Window != 0 {
		t.Errorf("RatesAbsent = %q, Window = %v", o.RatesAbsent, o.Window)
	}
}

func kernel(user, idle, steal uint64) *proc.KernelStat {
	times := proc.CPUTimes{User: user, Idle: idle, IOWait: 7, Steal: steal, Columns: 8}
	return &proc.KernelStat{Total: times, CPUs: []proc.CPU{{ID: 0, Times: times}}}
}

func TestBusyTimeThatNoRowExplainsIsItsOwnFigure(t *testing.T) {
	t.Parallel()
	before := passAt(0, sample.Process{PID: 7, StartTicks: 5})
	after := passAt(1, sample.Process{PID: 7, StartTicks: 5, UserTicks: 100})
	before.System.Kernel, after.System.Kernel = kernel(0, 0, 0), kernel(900, 700, 0)
	o := Between(before, after)
	near(t, "Busy", o.System.Busy, 900.0/1600*100)
	near(t, "Unaccounted", o.System.Unaccounted, 800.0/1600*100)
	unknown(t, "Guest, which an old kernel does not give", o.System.Modes.Guest)
}

// Migration of a virtual machine can turn steal back; that must not spoil the
// figures that did grow.
func TestStealThatRunsBackwardsIsAbsentAlone(t *testing.T) {
	t.Parallel()
	before, after := passAt(0), passAt(1)
	before.System.Kernel, after.System.Kernel = kernel(0, 0, 500), kernel(800, 800, 400)
	o := Between(before, after)
	unknown(t, "Steal", o.System.Modes.Steal)
	near(t, "User", o.System.Modes.User, 50)
	near(t, "Busy", o.System.Busy, 50)
}

func TestASinglePassHasNoRates(t *testing.T) {
	t.Parallel()
	pass := passAt(0, sample.Process{PID: 7, StartTicks: 5, UserTicks: 100, RSS: 4096})
	pass.System.Kernel = kernel(1, 2, 3)
	pass.System.Disks = []proc.Disk{{Name: "sda", Reads: 5}}
	o := Alone(pass, "recorded")
	unknown(t, "CPU", o.Processes[0].CPU)
	unknown(t, "Busy", o.System.Busy)
	unknown(t, "Unaccounted", o.System.Unaccounted)
	unknown(t, "Reads", o.System.Disks[0].Reads)
	if o.RatesAbsent != "recorded" || o.Processes[0].RSS != 4096 {
		t.Errorf("%+v", o)
	}
}

func TestDiskFigures(t *testing.T) {
	t.Parallel()
	before, after := passAt(0), passAt(2)
	before.System.Disks = []proc.Disk{{Name: "sda"}, {Name: "sdb", Reads: 50}}
	after.System.Disks = []proc.Disk{
		{Name: "sda", Reads: 100, ReadSectors: 800, ReadMS: 150, Writes: 50, WriteMS: 150, BusyMS: 500},
		{Name: "sdb", Reads: 40}, {Name: "sdc", Reads: 9},
	}
	disks := Between(before, after).System.Disks
	near(t, "Reads", disks[0].Reads, 50)
	near(t, "ReadBytes", disks[0].ReadBytes, 800*512/2)
	near(t, "Utilisation", disks[0].Utilisation, 25)
	near(t, "Latency", disks[0].Latency, 2)
	unknown(t, "a disk that was replaced", disks[1].Reads)
	unknown(t, "a disk that is new", disks[2].Reads)
}

func micros(v uint64) *uint64 { return &v }

func TestAContainersFiguresAreOfItsOwnCgroup(t *testing.T) {
	t.Parallel()
	group := func(cpu, memory, inactive, periods, throttled uint64) sample.Group {
		return sample.Group{
			Key: "container:docker:abc", Container: true, Parent: -1,
			Placement: container.Attribution{Runtime: container.Docker, ContainerID: "abc"},
			Usage: cgroup.Usage{
				CPUMicros: micros(cpu), MemoryCurrent: micros(memory), MemoryInactiveFile: micros(inactive),
				Periods: micros(periods), ThrottledPeriods: micros(throttled),
			},
		}
	}
	before, after := passAt(0), passAt(1, sample.Process{PID: 7, StartTicks: 5, RSS: 999})
	before.Groups = []sample.Group{group(0, 0, 0, 0, 0)}
	after.Groups = []sample.Group{group(1_600_000, 1000, 300, 10, 5)}
	after.Processes[0].Group = 0
	g := Between(before, after).Groups[0]
	near(t, "CPU", g.CPU, 10)
	near(t, "Memory", g.Memory, 700)
	near(t, "Throttled", g.Throttled, 50)
	if !g.FromCgroup || g.Processes != 1 || g.RSS != 999 {
		t.Errorf("%+v", g)
	}
}

// Without a readable cgroup a group is the sum of the processes in it and in
// the groups inside it.
func TestAGroupWithoutACgroupIsTheSumOfItsProcesses(t *testing.T) {
	t.Parallel()
	at := func(seconds float64, ticks uint64) *sample.Pass {
		pass := passAt(seconds, sample.Process{PID: 7, StartTicks: 5, UserTicks: ticks, RSS: 10}, sample.Process{PID: 8, StartTicks: 5, UserTicks: ticks, RSS: 20})
		pass.Groups = []sample.Group{{Key: "unit:/a", Parent: -1}, {Key: "container:x", Container: true, Parent: 0}}
		pass.Processes[0].Group, pass.Processes[1].Group = 0, 1
		return pass
	}
	groups := Between(at(0, 0), at(1, 80)).Groups
	near(t, "outer CPU", groups[0].CPU, 10)
	near(t, "outer memory", groups[0].Memory, 30)
	near(t, "inner CPU", groups[1].CPU, 5)
	if groups[0].FromCgroup || groups[0].Processes != 2 {
		t.Errorf("%+v", groups[0])
	}
}

func TestARunningContainerWithoutVisibleProcessesIsListed(t *testing.T) {
	t.Parallel()
	after := passAt(1)
	after.Engines = []container.Listing{{Engine: container.EngineDocker, Status: container.OK, Containers: []container.Info{
		{ID: "aaaa", Names: []string{"web"}, State: "running"}, {ID: "bbbb", State: "exited"},
	}}}
	groups := Between(passAt(0), after).Groups
	if len(groups) != 1 || groups[0].Info.Names[0] != "web" || groups[0].Memory.Known {
		t.Fatalf("%+v", groups)
	}
}

// Whatever the counters do, no rate is negative or not finite, and what rows
// and remainder explain is the machine's busy time, to a tick a row.
func TestRatesAreNeverNegative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counter := rapid.Uint64Range(0, 1<<40)
		row := func(pid int32) sample.Process {
			return sample.Process{
				PID: pid, StartTicks: rapid.Uint64Range(0, 3).Draw(t, "start"), UserTicks: counter.Draw(t, "user"),
				SystemTicks: counter.Draw(t, "system"), MinorFaults: counter.Draw(t, "faults"),
				IOKnown: rapid.Bool().Draw(t, "io"), IO: proc.IO{ReadBytes: counter.Draw(t, "read")},
			}
		}
		table := func() []sample.Process {
			pids := rapid.SliceOfNDistinct(rapid.Int32Range(1, 40), 0, 20, rapid.ID[int32]).Draw(t, "pids")
			slices.Sort(pids)
			rows := make([]sample.Process, len(pids))
			for i, pid := range pids {
				rows[i] = row(pid)
			}
			return rows
		}
		before := passAt(0, table()...)
		after := passAt(rapid.Float64Range(0.001, 100).Draw(t, "seconds"), table()...)
		before.System.Kernel = kernel(counter.Draw(t, "u"), counter.Draw(t, "i"), counter.Draw(t, "s"))
		after.System.Kernel = kernel(counter.Draw(t, "u"), counter.Draw(t, "i"), counter.Draw(t, "s"))
		o := Between(before, after)
		if len(o.Processes) != len(after.Processes) {
			t.Fatalf("%d rows, want %d", len(o.Processes), len(after.Processes))
		}
		for _, p := range o.Processes {
			for _, f := range []Figure{p.CPU, p.MinorFaults, p.MajorFaults, p.ReadBytes, p.WriteBytes} {
				if f.Known && (f.Value < 0 || math.IsNaN(f.Value) || math.IsInf(f.Value, 0)) {
					t.Fatalf("process %d: %v", p.PID, f.Value)
				}
			}
		}
		if u := o.System.Unaccounted; u.Known && (u.Value < 0 || u.Value > o.System.Busy.Value) {
			t.Fatalf("unaccounted %v of %v", u.Value, o.System.Busy.Value)
		}
	})
}

// However late a line was read, the modes of the time that passed add up.
func TestModesAddUpToTheTimeThatPassed(t *testing.T) {
	t.Parallel()
	before, after := passAt(0), passAt(1)
	before.System.Kernel, after.System.Kernel = kernel(0, 0, 0), kernel(1700, 0, 15)
	o := Between(before, after)
	m := o.System.Modes
	sum := m.User.Value + m.Nice.Value + m.System.Value + m.Idle.Value + m.IOWait.Value + m.IRQ.Value + m.SoftIRQ.Value + m.Steal.Value
	if math.Abs(sum-100) > 1e-9 || m.User.Value > 100 {
		t.Errorf("the modes add up to %v: %+v", sum, m)
	}
	near(t, "Busy", o.System.Busy, m.User.Value)
}
