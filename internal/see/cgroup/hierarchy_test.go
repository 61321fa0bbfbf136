package cgroup

import (
	"testing"
)

func TestDiscoverLayouts(t *testing.T) {
	t.Parallel()
	const memoryLine = "7:memory:/x\n3:cpu,cpuacct:/x\n1:name=systemd:/x\n0::/x\n"
	for _, c := range []struct {
		name    string
		files   map[string]string
		version string
		dirs    map[string]string // by controller, of the process in /x
	}{
		{"nothing", nil, "none", map[string]string{"memory": "", "": ""}},
		{"v2 without mountinfo", map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}, "v2", map[string]string{"memory": "sys/fs/cgroup/x", "": "sys/fs/cgroup/x", "cpuacct": "sys/fs/cgroup/x"}},
		{"v2 without mountinfo and controllers", map[string]string{"sys/fs/cgroup/cpu.stat": "usage_usec 1\n"}, "v2", map[string]string{"memory": "sys/fs/cgroup/x"}},
		{"v1 without mountinfo", map[string]string{"sys/fs/cgroup/memory/tasks": "", "sys/fs/cgroup/cpu,cpuacct/tasks": "", "sys/fs/cgroup/systemd/tasks": "", "sys/fs/cgroup/other/tasks": ""}, "v1", map[string]string{"memory": "sys/fs/cgroup/memory/x", "cpuacct": "sys/fs/cgroup/cpu,cpuacct/x", "pids": ""}},
		{"hybrid without mountinfo", map[string]string{"sys/fs/cgroup/memory/tasks": "", "sys/fs/cgroup/unified/cgroup.procs": ""}, "hybrid", map[string]string{"memory": "sys/fs/cgroup/memory/x", "": "sys/fs/cgroup/unified/x", "cpu": "sys/fs/cgroup/unified/x"}},
		{"a mountinfo without cgroups", map[string]string{"proc/self/mountinfo": "24 1 0:22 / /proc rw - proc proc rw\n", "sys/fs/cgroup/cgroup.controllers": ""}, "v2", map[string]string{"memory": "sys/fs/cgroup/x"}},
		{"six controllers in one mount", map[string]string{"proc/self/mountinfo": "38 31 0:33 / /sys/fs/cgroup/cpu,cpuacct,net_cls,net_prio,hugetlb,memory rw shared:17 - cgroup cgroup rw,cpu,cpuacct,memory,net_cls,net_prio,hugetlb\n"}, "v1", map[string]string{"memory": "sys/fs/cgroup/cpu,cpuacct,net_cls,net_prio,hugetlb,memory/x"}},
		{"an unusual mount point", map[string]string{"proc/self/mountinfo": "38 31 0:33 / /dev/cgroup\\040v2 rw - cgroup2 none rw\n"}, "v2", map[string]string{"memory": "dev/cgroup v2/x"}},
		{
			// A container's root that shows the host's tree below /host: the
			// usual place wins over a part of the tree mounted elsewhere.
			"several cgroup2 mounts", map[string]string{"proc/self/mountinfo": "961 957 0:26 /other /mnt/sys/fs/cgroup ro - cgroup2 cgroup2 rw\n953 950 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate\n"}, "v2",
			map[string]string{"memory": "sys/fs/cgroup/x"},
		},
		{"the group we are in, mounted alone", map[string]string{"proc/self/mountinfo": "953 950 0:26 /x /sys/fs/cgroup rw - cgroup2 cgroup rw\n"}, "v2", map[string]string{"memory": "sys/fs/cgroup"}},
		{"another group, mounted alone", map[string]string{"proc/self/mountinfo": "953 950 0:26 /y /sys/fs/cgroup rw - cgroup2 cgroup rw\n"}, "v2", map[string]string{"memory": ""}},
		{
			// Our mount namespace has the host's files below /host, which is
			// the root that we observe.
			"a point of our own namespace", map[string]string{"proc/self/mountinfo": "953 950 0:26 / /host/sys/fs/cgroup rw - cgroup2 cgroup rw\n", "sys/fs/cgroup/cgroup.controllers": "memory\n"}, "v2",
			map[string]string{"memory": "sys/fs/cgroup/x"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := discover(t, tree(t, c.files))
			if h.Version() != c.version {
				t.Errorf("version %q, want %q", h.Version(), c.version)
			}
			m := h.Place(lines(t, memoryLine))
			for controller, want := range c.dirs {
				if got := m.Dir(controller); got != want {
					t.Errorf("%q is in %q, want %q", controller, got, want)
				}
			}
		})
	}
}

// A container with a cgroup namespace of its own that also sees the host's
// tree: mountinfo's roots climb out of the namespace, and so do the paths of
// the host's processes. What can be resolved is, the rest is absent.
func TestPrivateNamespaceWithHostTree(t *testing.T) {
	t.Parallel()
	h := discover(t, tree(t, map[string]string{
		"proc/self/mountinfo":                             "961 957 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup2 rw,nsdelegate\n",
		"proc/self/cgroup":                                "0::/\n",
		"sys/fs/cgroup/cgroup.controllers":                "cpu memory pids\n",
		"sys/fs/cgroup/system.slice/ssh.service/cpu.stat": "usage_usec 7\n",
	}))
	m := h.Place(lines(t, "0::/../../system.slice/ssh.service\n"))
	u := h.Usage(m)
	value(t, "CPUMicros of a host's service", u.CPUMicros, 7)
	own := h.Place(lines(t, "0::/\n"))
	if !own.Empty() {
		t.Errorf("our own group was found at %q, though the mount does not tell its name", own.Dir(""))
	}
	u = h.Usage(own)
	if u.Missing[FigureCPU] != NotPlaced || u.Missing[FigureMemory] != NotPlaced {
		t.Errorf("Missing = %v", u.Missing)
	}
	l, err := h.Self()
	if err != nil || l.Missing[FigureMemoryLimit] != NotPlaced || l.MemoryUnlimited {
		t.Errorf("limits %+v, %v", l, err)
	}
}

// A group whose directory was removed while its process was still listed.
func TestDeletedGroup(t *testing.T) {
	t.Parallel()
	h := discover(t, world(t, "v2-docker"))
	if m := h.Place(lines(t, "0::/system.slice/ssh.service (deleted)\n")); !m.Empty() {
		t.Errorf("a removed group has the directory %q", m.Dir(""))
	}
	// Its parent's is still there.
	if m := h.PlaceAt(lines(t, "0::"+scope+"/init.scope (deleted)\n"), scope); m.Dir("") != "sys/fs/cgroup"+scope {
		t.Errorf("the container of a removed group is in %q", m.Dir(""))
	}
}

// Paths come from text: none may lead out of the hierarchy.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	h := discover(t, world(t, "v2-docker"))
	for _, path := range []string{"/a/../../../../etc", "/./x", "/../../../etc", "/x\x00y"} {
		if m := h.Place(lines(t, "0::"+path+"\n")); !m.Empty() {
			t.Errorf("%q leads to %q", path, m.Dir(""))
		}
	}
}
