package cgroup

import (
	"strings"

	"topside/internal/see/proc"
)

// A directory is one group's folder in one hierarchy.
type directory struct {
	name    string // relative to the FS's root
	top     string // the mount it is in: where its ancestors end
	v2      bool
	absence proc.Reason // why there is none; empty when there is one
}

func (d *directory) ok() bool { return d.absence == "" && d.name != "" }

// A Membership is the directories, one for each controller, that hold the
// files of one group. Its zero value holds none. It is comparable: two
// processes of one group have equal memberships.
type Membership struct {
	dirs [kinds]directory
}

// Empty reports whether no controller's directory is known.
func (m *Membership) Empty() bool {
	for i := range m.dirs {
		if m.dirs[i].ok() {
			return false
		}
	}
	return true
}

// Dir returns the directory that holds the named controller's files ("cpu",
// "cpuacct", "cpuset", "memory", "pids", "blkio", or "" for the unified tree),
// as a name for FS.Read; empty when it is not known.
func (m *Membership) Dir(controller string) string {
	for k, name := range controllerNames {
		if name == controller && m.dirs[k].ok() {
			return m.dirs[k].name
		}
	}
	return ""
}

// Place finds the directories of the group that a process is in, from the lines
// of its proc/PID/cgroup.
func (h *Hierarchies) Place(lines []proc.CgroupLine) Membership {
	return h.place(lines, func(path string) (string, bool) { return path, true })
}

// PlaceAt finds the directories of an ancestor of the process's group: the
// one that within names (a container's or unit's cgroup path, as one of the
// hierarchies spells it). In a hierarchy where the process is not below such a
// directory there is none: its figures are absent rather than another group's.
func (h *Hierarchies) PlaceAt(lines []proc.CgroupLine, within string) Membership {
	return h.place(lines, func(path string) (string, bool) { return cutAt(path, within) })
}

func (h *Hierarchies) place(lines []proc.CgroupLine, cut func(string) (string, bool)) Membership {
	var m Membership
	m.dirs[unified] = h.placeUnified(lines, cut)
	for k := range unified {
		m.dirs[k] = h.placeController(lines, k, cut)
		switch {
		case m.dirs[k].absence == NotEnabled && h.version != "v1":
			m.dirs[k] = m.dirs[unified] // no v1 tree has it: v2's, if any
		case !m.dirs[k].ok() && k == cpuacct && m.dirs[unified].ok():
			// Every unified group counts CPU time, even without controllers.
			m.dirs[k] = m.dirs[unified]
		}
	}
	return m
}

func (h *Hierarchies) placeController(lines []proc.CgroupLine, k kind, cut func(string) (string, bool)) directory {
	mounted := false
	for i := range h.mounts {
		if !h.mounts[i].has(k) {
			continue
		}
		mounted = true
		for j := range lines {
			if hasController(lines[j].Controllers, controllerNames[k]) {
				if dir := h.mounts[i].directory(&lines[j], cut); dir.ok() {
					return dir
				}
			}
		}
	}
	if mounted {
		return directory{absence: NotPlaced}
	}
	return directory{absence: h.unmounted(NotEnabled)}
}

func (h *Hierarchies) placeUnified(lines []proc.CgroupLine, cut func(string) (string, bool)) directory {
	mounted := false
	for i := range h.mounts {
		if !h.mounts[i].v2 {
			continue
		}
		mounted = true
		for j := range lines {
			if lines[j].Hierarchy != 0 || lines[j].Controllers != "" {
				continue
			}
			if dir := h.mounts[i].directory(&lines[j], cut); dir.ok() {
				return dir
			}
			break // of two 0:: lines, which no kernel writes, the first
		}
	}
	if mounted {
		return directory{absence: NotPlaced}
	}
	return directory{absence: h.unmounted(proc.Unsupported)}
}

// directory translates a path of the hierarchy into a folder below the mount.
func (m *mount) directory(line *proc.CgroupLine, cut func(string) (string, bool)) directory {
	path, ok := cut(line.Path)
	if !ok {
		return directory{absence: NotPlaced}
	}
	if line.Deleted && len(path) == len(line.Path) {
		return directory{absence: proc.Vanished}
	}
	below, ok := relativeTo(m.root, path)
	if !ok {
		return directory{absence: NotPlaced}
	}
	return directory{name: m.dir + below, top: m.dir, v2: m.v2}
}

// hasController finds name in a comma-separated list.
func hasController(list, name string) bool {
	for list != "" {
		first, rest, _ := strings.Cut(list, ",")
		if first == name {
			return true
		}
		list = rest
	}
	return false
}

// relativeTo returns path relative to the mounted root, "" or "/a/b". Both are
// relative to our cgroup namespace's root, and start with /.. where they lie
// outside of it. What would need the name of a group above our own root cannot
// be told.
func relativeTo(root, path string) (string, bool) {
	rootUps, root := stripUps(root)
	pathUps, path := stripUps(path)
	if rootUps != pathUps {
		return "", false
	}
	if !clean(path) {
		return "", false
	}
	if root == "" {
		return path, true
	}
	below, ok := strings.CutPrefix(path, root)
	if !ok || (below != "" && below[0] != '/') {
		return "", false
	}
	return below, true
}

// stripUps counts the leading /.. of a path and takes them off; what is left
// has no slash at its end, so that the root is "".
func stripUps(path string) (ups int, rest string) {
	for strings.HasPrefix(path, "/..") && (len(path) == 3 || path[3] == '/') {
		path = path[3:]
		ups++
	}
	return ups, strings.TrimRight(path, "/")
}

// clean refuses a path that would leave its hierarchy: the text comes from a
// file, which in a recorded tree can hold anything.
func clean(path string) bool {
	if path != "" && path[0] != '/' {
		return false
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == ".." || element == "." || strings.IndexByte(element, 0) >= 0 {
			return false
		}
	}
	return true
}

// cutAt shortens path to the directory that within names. The hierarchies of
// one process spell it the same way, or with another parent in front: then its
// last two elements decide, or the last alone when it holds an id.
func cutAt(path, within string) (string, bool) {
	ups, rest := stripUps(path)
	lead := path[:len("/..")*ups]
	_, tail := stripUps(within)
	if tail == "" {
		return lead + "/", true
	}
	if end, ok := prefixAt(rest, tail); ok {
		return lead + rest[:end], true
	}
	last := strings.LastIndexByte(tail, '/')
	if last < 0 {
		return "", false
	}
	if second := strings.LastIndexByte(tail[:last], '/'); second >= 0 {
		if end, ok := lastElements(rest, tail[second:]); ok {
			return lead + rest[:end], true
		}
	}
	if holdsID(tail[last:]) {
		if end, ok := lastElements(rest, tail[last:]); ok {
			return lead + rest[:end], true
		}
	}
	return "", false
}

func prefixAt(path, prefix string) (end int, ok bool) {
	if !strings.HasPrefix(path, prefix) || (len(path) > len(prefix) && path[len(prefix)] != '/') {
		return 0, false
	}
	return len(prefix), true
}

// lastElements finds the last place in path where elements ("/a/b") stand whole.
func lastElements(path, elements string) (end int, ok bool) {
	for until := len(path); ; {
		at := strings.LastIndex(path[:until], elements)
		if at < 0 {
			return 0, false
		}
		end = at + len(elements)
		if end == len(path) || path[end] == '/' {
			return end, true
		}
		until = end - 1
	}
}

// holdsID reports whether an element holds 32 hexadecimal digits in a row or a
// UUID: such names are unique in every hierarchy.
func holdsID(element string) bool {
	run, dashes := 0, 0
	for i := 0; i < len(element); i++ {
		c := element[i]
		switch {
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f':
			if run++; run >= 32 {
				return true
			}
		case (c == '-' || c == '_') && run > 0:
			dashes++
		default:
			run, dashes = 0, 0
		}
	}
	return false
}

// unmounted is why a hierarchy that is nowhere mounted gives nothing: in a
// recorded tree nobody knows whether it was.
func (h *Hierarchies) unmounted(live proc.Reason) proc.Reason {
	if len(h.mounts) == 0 && !h.fs.Live() {
		return proc.NotRecorded
	}
	return live
}
