// Package cgroup finds where the kernel's control groups are mounted and reads
// the counters and limits of one group, on cgroup v1, v2 and the hybrid of
// both.
//
// It sits above package proc, whose FS gives it every file, and below sample.
// It knows nothing of containers: package container says which part of a path
// is a container's, and [Hierarchies.PlaceAt] finds that directory in every
// hierarchy.
package cgroup

import (
	"slices"
	"strings"
	"sync/atomic"

	"topside/internal/see/proc"
)

// The reasons of this layer, beside package proc's.
const (
	// NotPlaced: the process is in no such directory that we can see, because
	// the hierarchy holds it elsewhere or lies outside our cgroup namespace.
	NotPlaced proc.Reason = "not in a cgroup that is visible here"
	// NotEnabled: the controller is off in this part of the tree, or not
	// mounted at all.
	NotEnabled proc.Reason = "controller not enabled for this cgroup"
)

// A kind is what we need a directory for. On v2 one directory serves all of
// them; on v1 each controller has its own tree.
type kind int

const (
	cpu kind = iota
	cpuacct
	cpuset
	memory
	pids
	blkio
	unified // pressure files
	kinds
)

// controllerNames are v1's; v2 calls blkio io and has cpuacct inside cpu.
var controllerNames = [kinds]string{"cpu", "cpuacct", "cpuset", "memory", "pids", "blkio", ""}

var knownControllers = []string{
	"cpu", "cpuacct", "cpuset", "memory", "pids", "blkio", "devices", "freezer",
	"hugetlb", "net_cls", "net_prio", "perf_event", "rdma", "misc",
}

// A mount is one place where a hierarchy can be read.
type mount struct {
	v2          bool
	controllers []string // v1's; "name=systemd" for a named hierarchy
	root        string   // which of the hierarchy's groups is mounted, as seen from our namespace
	dir         string   // where, relative to the FS's root
}

func (m *mount) has(k kind) bool {
	return !m.v2 && k != unified && slices.Contains(m.controllers, controllerNames[k])
}

// Hierarchies knows where each controller's groups are. It is safe for
// concurrent use.
type Hierarchies struct {
	fs      proc.FS
	version string
	mounts  []mount
	kept    atomic.Int64 // descriptors held by Readers
	maxKept int64
}

// defaultKept bounds the descriptors that all Readers of one Hierarchies hold.
const defaultKept = 1024

// Discover looks for the cgroup mounts in mountinfo, and where a recorded tree
// has none, at sys/fs/cgroup itself. A machine without control groups is no
// error: its version is "none".
func Discover(fs proc.FS) (*Hierarchies, error) {
	h := &Hierarchies{fs: fs, maxKept: defaultKept}
	mounts, err := fs.Mounts()
	for _, m := range mounts {
		h.addMount(m)
	}
	if len(h.mounts) == 0 {
		h.guessMounts()
	}
	// The usual place first: others are often a container's or a sub-tree's.
	slices.SortStableFunc(h.mounts, func(a, b mount) int { return rank(a) - rank(b) })
	h.version = h.classify()
	if len(h.mounts) == 0 && err != nil && fs.Live() {
		return h, err
	}
	return h, nil
}

func rank(m mount) int {
	if strings.HasPrefix(m.dir, cgroupRoot) {
		return 0
	}
	return 1
}

// cgroupRoot is where every distribution mounts the hierarchies.
const cgroupRoot = "sys/fs/cgroup"

func (h *Hierarchies) addMount(m proc.Mount) {
	found := mount{root: m.Root}
	switch m.Type {
	case "cgroup2":
		found.v2 = true
	case "cgroup":
		for option := range strings.SplitSeq(m.SuperOptions, ",") {
			if slices.Contains(knownControllers, option) || strings.HasPrefix(option, "name=") {
				found.controllers = append(found.controllers, option)
			}
		}
	default:
		return
	}
	found.dir = h.locate(m.Point, found.v2)
	h.mounts = append(h.mounts, found)
}

// locate translates a mount point into a name below the FS's root. The point is
// our own mount namespace's when the root is a directory of it (/host), so the
// part from sys/fs/cgroup on is tried as well.
func (h *Hierarchies) locate(point string, v2 bool) string {
	direct := strings.TrimPrefix(point, "/")
	if i := strings.Index(point, cgroupRoot); i > 1 && !h.mounted(direct, v2) && h.mounted(point[i:], v2) {
		return point[i:]
	}
	return direct
}

// mounted reports whether a hierarchy's root is readable at dir. The files are
// ones that each version has in every group, the root included.
func (h *Hierarchies) mounted(dir string, v2 bool) bool {
	probe := "cgroup.clone_children"
	if v2 {
		probe = "cgroup.controllers"
	}
	_, err := h.fs.Read(dir + "/" + probe)
	return err == nil
}

// guessMounts reads the layout off the folders of sys/fs/cgroup, for trees that
// were recorded without a mountinfo.
func (h *Hierarchies) guessMounts() {
	if h.mounted(cgroupRoot, true) {
		h.mounts = append(h.mounts, mount{v2: true, root: "/", dir: cgroupRoot})
		return
	}
	for _, name := range folderNames(h.fs, cgroupRoot) {
		found := mount{root: "/", dir: cgroupRoot + "/" + name}
		switch name {
		case "unified":
			found.v2 = true
		case "systemd":
			found.controllers = []string{"name=systemd"}
		default:
			for part := range strings.SplitSeq(name, ",") {
				if slices.Contains(knownControllers, part) {
					found.controllers = append(found.controllers, part)
				}
			}
			if found.controllers == nil {
				continue
			}
		}
		h.mounts = append(h.mounts, found)
	}
	if len(h.mounts) == 0 && h.hasUnifiedFiles() {
		h.mounts = append(h.mounts, mount{v2: true, root: "/", dir: cgroupRoot})
	}
}

// hasUnifiedFiles recognises a recorded v2 root that lacks cgroup.controllers.
func (h *Hierarchies) hasUnifiedFiles() bool {
	_, err := h.fs.Read(cgroupRoot + "/cpu.stat")
	if err != nil {
		_, err = h.fs.Read(cgroupRoot + "/cgroup.procs")
	}
	return err == nil
}

func (h *Hierarchies) classify() string {
	var v1, v2 bool
	for i := range h.mounts {
		v1 = v1 || !h.mounts[i].v2
		v2 = v2 || h.mounts[i].v2
	}
	switch {
	case v1 && v2:
		return "hybrid"
	case v1:
		return "v1"
	case v2:
		return "v2"
	}
	return "none"
}

// Version is "v1", "hybrid" (v1 controllers beside a cgroup2 mount), "v2", or
// "none".
func (h *Hierarchies) Version() string { return h.version }

// LimitKept bounds how many descriptors all Readers together keep open; files
// beyond it are opened for each reading. It must be called before the first
// Reader is made.
func (h *Hierarchies) LimitKept(descriptors int) { h.maxKept = int64(descriptors) }
