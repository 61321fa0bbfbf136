// Package container tells which container and which systemd unit a process
// belongs to, and what the container is called.
//
// Membership comes from the text of proc/PID/cgroup alone ([Attribute]): no
// runtime is asked and nothing is executed inside a container, so that it works
// for every runtime, for images without a shell and for recorded trees. The
// engines' APIs ([Engines]) only add names, images, labels and states.
//
// It stands beside package cgroup and above package proc. The counters of a
// container's own cgroup are read with cgroup.Hierarchies.PlaceAt, from the
// path that an [Attribution] names.
package container

import (
	"strings"

	"topside/internal/see/proc"
)

// A Runtime is the software that made a container, as far as the path tells.
type Runtime string

// The runtimes. Kubernetes stands for a pod whose engine the path does not
// name, Systemd for a process that has a unit and no container.
const (
	Docker     Runtime = "docker"
	Podman     Runtime = "podman"
	Containerd Runtime = "containerd"
	CRIO       Runtime = "cri-o"
	Kubernetes Runtime = "kubernetes"
	LXC        Runtime = "lxc"
	Nspawn     Runtime = "systemd-nspawn"
	QEMU       Runtime = "qemu"
	Garden     Runtime = "garden"
	Mesos      Runtime = "mesos"
	Nomad      Runtime = "nomad"
	YARN       Runtime = "yarn"
	Systemd    Runtime = "systemd"
	None       Runtime = "none"
)

// An Attribution is what the cgroup paths of one process say about it.
type Attribution struct {
	Runtime Runtime
	// ContainerID is the innermost container in the runtime's own spelling:
	// 64 hexadecimal digits, or a name (LXC, nspawn, ctr). Empty without one.
	ContainerID string
	// PodUID is the Kubernetes pod's, with dashes; 32 hexadecimal digits for a
	// static pod.
	PodUID string
	// Unit is the systemd unit, as systemctl prints it: the user's unit inside
	// user@UID.service or session-N.scope. A container's scope is its unit.
	Unit string
	// SystemUnit is the system's unit around a user's Unit.
	SystemUnit string
	// UserUID is the owner of the user-UID.slice; nil outside of one.
	UserUID *uint32
	// InnerUnit is a unit of a systemd that runs inside the container.
	InnerUnit string
	// Path is the cgroup path up to and including the container's own element
	// (the pod's, when there is a pod and no container), as the deciding
	// hierarchy spells it. cgroup.Hierarchies.PlaceAt finds the same directory
	// in every other hierarchy.
	Path string
	// UnitPath is the cgroup path up to and including Unit's element.
	UnitPath string
}

// InContainer reports whether the process is inside a container or a pod.
func (a Attribution) InContainer() bool { return a.ContainerID != "" || a.PodUID != "" }

// Attribute reads the cgroup lines of one process. Where hierarchies disagree,
// systemd's own (name=systemd) decides first. Monitors that sit beside their
// container (conmon, lxc.monitor, shims) are not inside it.
func Attribute(lines []proc.CgroupLine) Attribution {
	var a Attribution
	named, unified := -1, -1
	for i := range lines {
		switch {
		case systemdHierarchy(lines[i].Controllers):
			if named < 0 {
				named = i
			}
		case lines[i].Controllers == "" && lines[i].Hierarchy == 0:
			if unified < 0 {
				unified = i
			}
		}
	}
	a.findContainer(lines, named)
	a.findUnit(lines, named, unified)
	switch {
	case a.Runtime != "":
	case a.Unit != "":
		a.Runtime = Systemd
	default:
		a.Runtime = None
	}
	return a
}

// systemdHierarchy recognises systemd's named hierarchy; some files write it
// without the "name=".
func systemdHierarchy(controllers string) bool {
	return controllers == "name=systemd" || controllers == "systemd"
}

func (a *Attribution) findContainer(lines []proc.CgroupLine, named int) {
	if named >= 0 && a.scan(lines[named].Path) {
		return
	}
	var pod Attribution
	for i := range lines {
		if i == named {
			continue
		}
		var found Attribution
		if !found.scan(lines[i].Path) {
			continue
		}
		if found.ContainerID != "" {
			*a = found
			return
		}
		if pod.PodUID == "" {
			pod = found
		}
	}
	if pod.PodUID != "" {
		*a = pod
	}
}

// findUnit asks systemd's own hierarchies first, and the others only when those
// are missing or hold the process at their root.
func (a *Attribution) findUnit(lines []proc.CgroupLine, named, unified int) {
	spoke := false
	for _, i := range [2]int{named, unified} {
		if i < 0 {
			continue
		}
		path, lead := cleanPath(lines[i].Path)
		spoke = spoke || path != "/"
		a.setUID(path)
		if a.setUnit(unitOf(path), lead) {
			return
		}
	}
	for i := range lines {
		if spoke && i != named && i != unified {
			continue
		}
		path, lead := cleanPath(lines[i].Path)
		a.setUID(path)
		place := unitOf(path)
		if place.unit == "" && !a.InContainer() {
			place = unitBelowRoot(path)
		}
		if a.setUnit(place, lead) {
			return
		}
	}
}

func (a *Attribution) setUID(path string) {
	if a.UserUID != nil {
		return
	}
	if uid, ok := ownerUID(path); ok {
		a.UserUID = &uid
	}
}

func (a *Attribution) setUnit(place unitPlace, lead string) bool {
	if place.unit == "" {
		return false
	}
	a.Unit, a.SystemUnit, a.UnitPath = place.unit, place.system, lead+place.path
	return true
}

// cleanPath takes off what is no name: the leading /.. of a path outside the
// reader's cgroup namespace, which is returned as lead.
func cleanPath(path string) (clean, lead string) {
	n := 0
	for strings.HasPrefix(path[n:], "/..") && (len(path) == n+3 || path[n+3] == '/') {
		n += 3
	}
	if n == len(path) {
		return "/", path
	}
	return path[n:], path[:n]
}

// scan walks the elements of one path and keeps the innermost container and
// pod. It reports whether it found either.
func (a *Attribution) scan(raw string) bool {
	path, lead := cleanPath(raw)
	var previous, beforePrevious string
	for i, depth := 0, 0; ; depth++ {
		element, end := nextElement(path, i)
		if element == "" {
			break
		}
		if uid := podUID(element); uid != "" {
			a.PodUID, a.ContainerID, a.Runtime = uid, "", Kubernetes
			a.mark(path, lead, end)
		}
		rest := path[end:]
		if runtime, id := containerOf(element, previous, beforePrevious, rest, depth, a.PodUID != ""); id != "" {
			a.Runtime, a.ContainerID = runtime, id
			a.mark(path, lead, end)
		}
		beforePrevious, previous = previous, element
		i = end
	}
	return a.InContainer()
}

// mark makes path[:end] the container's, and looks for a unit of a systemd
// below it. nspawn and Proxmox put one element between the two.
func (a *Attribution) mark(path, lead string, end int) {
	a.Path = lead + path[:end]
	a.InnerUnit = ""
	start := end
	if element, after := nextElement(path, end); element == "payload" || element == "ns" {
		start = after
	}
	a.InnerUnit = unitOf(path[start:]).unit
}
