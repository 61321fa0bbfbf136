package cgroup

import (
	"reflect"
	"testing"

	"topside/internal/see/proc"
)

const scope = "/system.slice/docker-1c8fa019edd4b9d4b2856f4932c55929c5c118c808ed5faee9a135ca6e84b039.scope"

func TestUsageOfV2Container(t *testing.T) {
	t.Parallel()
	h := discover(t, world(t, "v2-docker"))
	if h.Version() != "v2" {
		t.Fatalf("version %s", h.Version())
	}
	process := lines(t, "0::"+scope+"/init.scope\n")
	leaf := h.Usage(h.Place(process))
	value(t, "the leaf's CPUMicros", leaf.CPUMicros, 1)
	u := h.Usage(h.PlaceAt(process, scope))
	value(t, "CPUMicros", u.CPUMicros, 12849502000)
	value(t, "UserMicros", u.UserMicros, 10191064000)
	value(t, "SystemMicros", u.SystemMicros, 2658438000)
	value(t, "Periods", u.Periods, 500)
	value(t, "ThrottledPeriods", u.ThrottledPeriods, 20)
	value(t, "ThrottledMicros", u.ThrottledMicros, 12345)
	value(t, "MemoryCurrent", u.MemoryCurrent, 500000000)
	value(t, "MemoryAnon", u.MemoryAnon, 200000000)
	value(t, "MemoryWorkingSet", u.MemoryWorkingSet(), 400000000)
	value(t, "MemoryLimit, the slice's", u.MemoryLimit, 1073741824)
	value(t, "SwapCurrent", u.SwapCurrent, 4096)
	value(t, "OOMKills", u.OOMKills, 1)
	value(t, "PIDsCurrent", u.PIDsCurrent, 17)
	absent(t, "PIDsLimit", u.PIDsLimit)
	value(t, "CPUQuotaCores", u.CPUQuotaCores, 1.5)
	value(t, "CPUSetCount", u.CPUSetCount, 3)
	value(t, "IOReadBytes", u.IOReadBytes, 1030)
	value(t, "IOWriteBytes", u.IOWriteBytes, 2040)
	if u.CPUSet != "0-1,4" || !u.PIDsUnlimited || u.MemoryUnlimited || u.CPUUnlimited {
		t.Errorf("constraints %+v", u.Constraints)
	}
	if u.PressureCPU == nil || u.PressureCPU.Full == nil || u.PressureCPU.Full.TotalMicros != 44480 {
		t.Errorf("PressureCPU = %+v", u.PressureCPU)
	}
	want := map[string]proc.Reason{FigurePressureMemory: proc.NotRecorded, FigurePressureIO: proc.NotRecorded}
	if !reflect.DeepEqual(u.Missing, want) {
		t.Errorf("Missing = %v, want %v", u.Missing, want)
	}
}

func TestUsageOfV1Container(t *testing.T) {
	t.Parallel()
	fs := world(t, "v1-docker")
	h := discover(t, fs)
	if h.Version() != "v1" {
		t.Fatalf("version %s", h.Version())
	}
	const id = "/docker/b43d92bf1e5c6f78bb9b7bc6f40721280299855ba692092716e3a1b6c0b86f3f"
	m := h.PlaceAt(lines(t, "5:blkio:"+id+"\n4:memory:"+id+"/inner\n3:cpuset:"+id+"\n2:cpu,cpuacct:"+id+"\n1:name=systemd:"+id+"\n"), id)
	u := h.Usage(m)
	value(t, "CPUMicros", u.CPUMicros, 1234567890)
	value(t, "UserMicros", u.UserMicros, 1000000000)
	value(t, "SystemMicros", u.SystemMicros, 234560000)
	value(t, "Periods", u.Periods, 380975143)
	value(t, "ThrottledMicros", u.ThrottledMicros, 254005032764)
	value(t, "MemoryWorkingSet", u.MemoryWorkingSet(), 16000000000-1601998848)
	value(t, "MemoryAnon", u.MemoryAnon, 12778020864)
	value(t, "MemoryLimit, of an ancestor", u.MemoryLimit, 21474836480)
	value(t, "OOMKills", u.OOMKills, 4)
	value(t, "CPUQuotaCores", u.CPUQuotaCores, 2)
	value(t, "CPUSetCount, the parent's", u.CPUSetCount, 4)
	value(t, "IOReadBytes", u.IOReadBytes, 4097)
	value(t, "IOWriteBytes", u.IOWriteBytes, 8194)
	absent(t, "SwapCurrent: swap accounting is off", u.SwapCurrent)
	absent(t, "PIDsCurrent", u.PIDsCurrent)
	for figure, reason := range map[string]proc.Reason{FigureSwap: proc.Unsupported, FigurePIDs: NotEnabled, FigurePressureCPU: proc.Unsupported} {
		if u.Missing[figure] != reason {
			t.Errorf("Missing[%s] = %q, want %q", figure, u.Missing[figure], reason)
		}
	}
	limits, err := Self(fs)
	if err != nil {
		t.Fatal(err)
	}
	value(t, "our own CPUQuotaCores", limits.CPUQuotaCores, 2)
	if from := limits.From[FigureCPUQuota]; from != "sys/fs/cgroup/cpuacct,cpu"+id+"/cpu.cfs_quota_us" {
		t.Errorf("the quota comes from %q", from)
	}
}

// On hybrid, a controller that holds the process elsewhere must not lend its
// figures: cpuacct of ssh.service would be the whole machine's.
func TestUsageOfHybridUnit(t *testing.T) {
	t.Parallel()
	h := discover(t, world(t, "hybrid"))
	if h.Version() != "hybrid" {
		t.Fatalf("version %s", h.Version())
	}
	ssh := lines(t, "6:memory:/system.slice/ssh.service\n4:cpu,cpuacct:/\n1:name=systemd:/system.slice/ssh.service\n0::/system.slice/ssh.service\n")
	u := h.Usage(h.PlaceAt(ssh, "/system.slice/ssh.service"))
	value(t, "CPUMicros, the unified tree's", u.CPUMicros, 7000)
	value(t, "MemoryWorkingSet", u.MemoryWorkingSet(), 4000000)
	value(t, "SwapCurrent", u.SwapCurrent, 4096)
	absent(t, "MemoryLimit", u.MemoryLimit)
	if !u.MemoryUnlimited || u.PressureMemory == nil {
		t.Errorf("memory unlimited: %t, pressure %v", u.MemoryUnlimited, u.PressureMemory)
	}
	if u.Missing[FigureThrottling] != NotPlaced {
		t.Errorf("throttling: %q", u.Missing[FigureThrottling])
	}

	const id = "/docker/2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d"
	docker := lines(t, "4:cpu,cpuacct:"+id+"\n1:name=systemd:"+id+"\n0::/system.slice/containerd.service\n")
	u = h.Usage(h.PlaceAt(docker, id))
	value(t, "CPUMicros", u.CPUMicros, 5000000)
	value(t, "UserMicros", u.UserMicros, 3000000)
	absent(t, "PressureCPU", u.PressureCPU)
	if u.Missing[FigurePressureCPU] != NotPlaced {
		t.Errorf("pressure: %q", u.Missing[FigurePressureCPU])
	}
}

func TestLimitsOfV2Self(t *testing.T) {
	t.Parallel()
	l, err := Self(world(t, "v2-docker"))
	if err != nil {
		t.Fatal(err)
	}
	value(t, "MemoryLimit", l.MemoryLimit, 1073741824)
	value(t, "PIDsLimit", l.PIDsLimit, 512)
	value(t, "CPUSetCount, the root's", l.CPUSetCount, 8)
	if !l.CPUUnlimited || l.Path != "/system.slice/ssh.service" || l.Version != "v2" {
		t.Errorf("limits %+v", l)
	}
	if from := l.From[FigureMemoryLimit]; from != "sys/fs/cgroup/system.slice/memory.max" {
		t.Errorf("the memory limit comes from %q", from)
	}
	if !l.Limited(8, 64<<30) {
		t.Error("a memory limit of 1 GiB on a machine of 64 GiB is none")
	}
}

// The working set of a group with more inactive cache than usage, which races
// of the kernel give, is zero and not 2^64.
func TestWorkingSetHasAFloor(t *testing.T) {
	t.Parallel()
	h := discover(t, world(t, "v2-docker"))
	u := h.Usage(h.Place(lines(t, "0::/system.slice/ssh.service\n")))
	value(t, "MemoryWorkingSet", u.MemoryWorkingSet(), 0)
	var none Usage
	absent(t, "the working set of nothing", none.MemoryWorkingSet())
}

// A Reader tells the same as a reading by names, again and again, within its
// bound of descriptors, and after Close.
func TestReaderAgreesWithUsage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v2-docker", "v1-docker", "hybrid"} {
		for _, bound := range []int{0, 3, 100} {
			h := discover(t, world(t, name))
			h.LimitKept(bound)
			for _, text := range []string{"0::" + scope + "\n", "0::/system.slice/ssh.service\n6:memory:/system.slice/ssh.service\n", "4:memory:/docker/b43d92bf1e5c6f78bb9b7bc6f40721280299855ba692092716e3a1b6c0b86f3f\n", "0::/\n"} {
				m := h.Place(lines(t, text))
				want := h.Usage(m)
				r := h.NewReader(m)
				for range 3 {
					if got := r.Usage(); !reflect.DeepEqual(got, want) {
						t.Errorf("%s, %d descriptors, %q:\n got %+v\nwant %+v", name, bound, text, got, want)
					}
					if kept := h.kept.Load(); kept > int64(bound) {
						t.Errorf("%d descriptors are kept, the bound is %d", kept, bound)
					}
				}
				r.Close()
				if got := r.Usage(); !reflect.DeepEqual(got, want) {
					t.Errorf("%s after Close:\n got %+v\nwant %+v", name, got, want)
				}
				if kept := h.kept.Load(); kept != 0 {
					t.Errorf("%d descriptors are left", kept)
				}
			}
		}
	}
}
