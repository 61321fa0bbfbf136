package proc

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The machine's own files, as the running kernel writes them.
func TestOwnMachine(t *testing.T) {
	t.Parallel()
	f := live(t)
	k, err := f.KernelStat()
	if err != nil || len(k.CPUs) == 0 || k.BootTime == nil || k.ContextSwitches == nil {
		t.Fatalf("%+v %v", k, err)
	}
	if n, err := f.OnlineCPUs(); err != nil || n != len(k.CPUs) {
		t.Errorf("%d CPUs online, %d in proc/stat, %v", n, len(k.CPUs), err)
	}
	if m, err := f.Memory(); err != nil || m.Total == nil || m.Available == nil || *m.Available > *m.Total {
		t.Errorf("%+v %v", m, err)
	}
	if l, err := f.Load(); err != nil || l.Entities == 0 {
		t.Errorf("%+v %v", l, err)
	}
	if up, err := f.Uptime(); err != nil || up <= 0 {
		t.Error(up, err)
	}
	if id, err := f.BootID(); err != nil || len(id) != 36 {
		t.Error(id, err)
	}
	if name, err := f.Hostname(); err != nil || name == "" {
		t.Error(name, err)
	}
	if release, err := f.KernelRelease(); err != nil || release == "" {
		t.Error(release, err)
	}
	if n, err := f.PIDMax(); err != nil || n < 300 {
		t.Error(n, err)
	}
	if f.ClockTicks() != 100 || f.PageSize() != uint64(os.Getpagesize()) {
		t.Error(f.ClockTicks(), f.PageSize())
	}
	if i, err := f.Interfaces(); err != nil || !slices.ContainsFunc(i, func(i Interface) bool { return i.Name == "lo" }) {
		t.Errorf("%+v %v", i, err)
	}
	if _, err := f.Disks(); err != nil {
		t.Error(err)
	}
	if mode, err := f.HidePID(); err != nil || mode == "" {
		t.Error(mode, err)
	}
	for _, resource := range []string{"cpu", "memory", "io", "irq"} {
		if p, err := f.Pressure(resource); err != nil && f.ReasonOf(err) != Unsupported {
			t.Errorf("%s: %+v %v", resource, p, err)
		}
	}
	if _, err := f.ARC(); err != nil && f.ReasonOf(err) != Unsupported {
		t.Error(err)
	}
}

func TestOwnFilesystems(t *testing.T) {
	t.Parallel()
	f := live(t)
	mounts, err := f.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	usages := f.NewFilesystems().Usage(context.Background(), mounts)
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil {
		t.Fatal(err)
	}
	root := slices.IndexFunc(usages, func(u Usage) bool { return u.Mount.Point == "/" })
	if root < 0 || usages[root].Total == nil || *usages[root].Total != st.Blocks*uint64(st.Frsize) || *usages[root].Available > *usages[root].Free {
		t.Errorf("%+v", usages)
	}
}

func TestKeptFileOfKernel(t *testing.T) {
	t.Parallel()
	f := live(t)
	k := f.Keep(FileUptime)
	defer k.Close()
	var last time.Duration
	for range 3 {
		data, err := k.Read()
		if err != nil {
			t.Fatal(err)
		}
		up, err := ParseUptime(data)
		if err != nil || up < last {
			t.Errorf("%v after %v, %v", up, last, err)
		}
		last = up
		time.Sleep(20 * time.Millisecond)
	}
	// The file of a process that ended gives an error, not its last content.
	pid, end := sleeper(t)
	status := f.Keep(ofPID(pid, "status"))
	defer status.Close()
	if _, err := status.Read(); err != nil {
		t.Error(err)
	}
	end()
	if data, err := status.Read(); f.ReasonOf(err) != Vanished {
		t.Errorf("%q %v", data, err)
	}
}
