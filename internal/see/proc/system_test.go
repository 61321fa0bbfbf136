package proc

import (
	"errors"
	"testing"
)

func TestShortFacts(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{
		"proc/sys/kernel/random/boot_id": "1f9e2f2c-1f4a-4d4e-9f0b-0a8d3f7d2f11\n",
		"proc/sys/kernel/hostname":       "box\n",
		"proc/sys/kernel/osrelease":      "6.1.0\n",
		"proc/sys/kernel/pid_max":        "4194304\n",
		"sys/devices/system/cpu/online":  "0-1,4-5,8-9,12-13\n",
		"etc/passwd":                     "root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\nbroken\n:x:5:5\nx:y:z:\nann:x:1000:1000:Ann,,,:/home/ann:/bin/sh\n",
		"proc/1/mountinfo":               "1 1 0:5 / / rw - ext4 /dev/a rw\n2 1 0:6 / /proc rw - proc proc rw,hidepid=2,gid=4\n",
	})
	if id, err := f.BootID(); id != "1f9e2f2c-1f4a-4d4e-9f0b-0a8d3f7d2f11" || err != nil {
		t.Error(id, err)
	}
	if name, err := f.Hostname(); name != "box" || err != nil {
		t.Error(name, err)
	}
	if release, err := f.KernelRelease(); release != "6.1.0" || err != nil {
		t.Error(release, err)
	}
	if n, err := f.PIDMax(); n != 4194304 || err != nil {
		t.Error(n, err)
	}
	if n, err := f.OnlineCPUs(); n != 8 || err != nil {
		t.Error(n, err)
	}
	if users := f.Users(); len(users) != 2 || users[0] != "root" || users[1000] != "ann" {
		t.Error(users)
	}
	if mode, err := f.HidePID(); mode != "invisible" || err != nil {
		t.Error(mode, err)
	}
	if f.ClockTicks() != 100 || f.PageSize() != 4096 {
		t.Error(f.ClockTicks(), f.PageSize())
	}
	bare := written(t, map[string]string{"proc/stat": "cpu 1 2 3 4\ncpu0 1 2 3 4\ncpu5 1 2 3 4\n", "proc/sys/kernel/hostname": "\n"})
	if n, err := bare.OnlineCPUs(); n != 2 || err != nil {
		t.Error(n, err)
	}
	if users := bare.Users(); users == nil || len(users) != 0 {
		t.Error(users)
	}
	if _, err := bare.Hostname(); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if _, err := bare.BootID(); bare.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
	if _, err := bare.HidePID(); bare.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}

func TestParseCPUList(t *testing.T) {
	t.Parallel()
	for list, expected := range map[string]int{"": 0, "0": 1, "0-3,8,10-11\n": 7} {
		if n, err := ParseCPUList([]byte(list)); n != expected || err != nil {
			t.Errorf("%q: %d %v", list, n, err)
		}
	}
	for _, wrong := range []string{"a", "3-1", "0-", ",", "0-99999999999", "0-65535,0-65535"} {
		if n, err := ParseCPUList([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %d %v", wrong, n, err)
		}
	}
}

// proc/stat of this tree is longer than the buffers that readers usually take.
func TestTrees(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"prometheus-procfs", "prometheus-node_exporter"} {
		f := tree(t, name)
		if k, err := f.KernelStat(); err != nil || len(k.CPUs) != 8 || k.BootTime == nil || k.Forks == nil {
			t.Errorf("%s: %+v %v", name, k, err)
		}
		if m, err := f.Memory(); err != nil || m.Total == nil {
			t.Errorf("%s: %+v %v", name, m, err)
		}
		if d, err := f.Disks(); err != nil || len(d) < 40 || d[0].Name != "ram0" {
			t.Errorf("%s: %+v %v", name, d, err)
		}
		if i, err := f.Interfaces(); name == "prometheus-procfs" && (err != nil || len(i) < 3) || err != nil && f.ReasonOf(err) != NotRecorded {
			t.Errorf("%s: %+v %v", name, i, err)
		}
		if p, err := f.Pressure("memory"); err != nil || p.Some == nil || p.Full == nil {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
}
