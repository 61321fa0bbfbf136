package cgroup

import (
	"os"
	"strings"
	"testing"

	"topside/internal/see/proc"
)

// On the machine that the test runs on: our own group is found, and what we say
// of it is what its files say.
func TestLiveSelf(t *testing.T) {
	t.Parallel()
	fs, err := proc.NewFS("/")
	if err != nil {
		t.Fatal(err)
	}
	h := discover(t, fs)
	t.Logf("version %s", h.Version())
	l, err := h.Self()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("limits %+v", l)
	own, err := fs.Cgroups(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	m := h.Place(own)
	r := h.NewReader(m)
	defer r.Close()
	before := r.Usage()
	for i, spin := 0, 0; i < 20_000_000; i++ {
		spin += i
	}
	after := r.Usage()
	t.Logf("missing %v", after.Missing)
	if before.CPUMicros != nil && after.CPUMicros != nil && *after.CPUMicros < *before.CPUMicros {
		t.Errorf("CPU time ran from %d to %d", *before.CPUMicros, *after.CPUMicros)
	}
	for _, figure := range []struct {
		name   string
		absent bool
	}{
		{FigureCPU, after.CPUMicros == nil},
		{FigureMemory, after.MemoryCurrent == nil},
		{FigurePIDs, after.PIDsCurrent == nil},
		{FigurePressureCPU, after.PressureCPU == nil},
		{FigureIO, after.IOReadBytes == nil},
		{FigureCPUSet, after.CPUSetCount == nil},
	} {
		if _, missing := after.Missing[figure.name]; missing != figure.absent {
			t.Errorf("%s: absent %t, but missing %t", figure.name, figure.absent, missing)
		}
	}
}

// A group that is removed while a Reader keeps its files open is vanished, not
// frozen at its last figures; one that is made again under its name is read
// anew. It needs the right to make a group, and says so where it has none.
func TestReaderOutlivesItsGroup(t *testing.T) {
	fs, err := proc.NewFS("/")
	if err != nil {
		t.Fatal(err)
	}
	h := discover(t, fs)
	own := h.Place([]proc.CgroupLine{{Controllers: "", Path: "/"}, {Hierarchy: 1, Controllers: "cpuacct", Path: "/"}, {Hierarchy: 2, Controllers: "cpu,cpuacct", Path: "/"}})
	parent := own.Dir("cpuacct")
	if parent == "" {
		t.Log("no cgroup here counts CPU time: nothing to remove")
		return
	}
	name := "topside-test-" + strings.ReplaceAll(t.Name(), "/", "-")
	dir := fs.Path(parent + "/" + name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Logf("no group can be made here (%v): the errors of a removed one are tested on recorded trees", err)
		return
	}
	defer os.Remove(dir)
	m := own
	for i := range m.dirs {
		if m.dirs[i].ok() {
			m.dirs[i].name += "/" + name
		}
	}
	r := h.NewReader(m)
	defer r.Close()
	value(t, "CPUMicros of an empty group", r.Usage().CPUMicros, 0)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	u := r.Usage()
	absent(t, "CPUMicros of a removed group", u.CPUMicros)
	if u.Missing[FigureCPU] != proc.Vanished {
		t.Errorf("a removed group's CPU time is missing because: %q", u.Missing[FigureCPU])
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	value(t, "CPUMicros of the group made again", r.Usage().CPUMicros, 0)
}
