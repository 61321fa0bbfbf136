package sample

// This file finds the containers, pods and units that processes belong to, and
// reads their cgroups' counters.

import (
	"strings"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/proc"
)

// A placed is what one text of proc/PID/cgroup says; processes of one group
// share it.
type placed struct {
	lines     []proc.CgroupLine
	placement container.Attribution
	chain     []link // innermost first
}

// A link is one group around a process.
type link struct {
	key       string
	container bool
	placement container.Attribution
	path      string // of the group's own cgroup; "" when it has none
}

// A grouper remembers placements and the open files of groups between passes.
type grouper struct {
	hierarchies *cgroup.Hierarchies
	placed      map[string]*placed
	readers     map[string]*groupReader
	index       map[string]int // of the pass being taken: key to Pass.Groups
}

type groupReader struct {
	reader *cgroup.Reader
	used   bool
}

// mostPlaced bounds the texts that are remembered, for machines whose cgroups
// come and go.
const mostPlaced = 4096

func newGrouper(h *cgroup.Hierarchies) *grouper {
	return &grouper{hierarchies: h, placed: map[string]*placed{}, readers: map[string]*groupReader{}}
}

func (g *grouper) close() {
	for _, r := range g.readers {
		r.reader.Close()
	}
	g.readers = map[string]*groupReader{}
}

// place returns what the cgroup lines of a process say; equal texts share it.
func (g *grouper) place(lines []proc.CgroupLine) *placed {
	key := textOf(lines)
	if p, ok := g.placed[key]; ok {
		return p
	}
	if len(g.placed) >= mostPlaced {
		clear(g.placed)
	}
	placement := container.Attribute(lines)
	p := &placed{lines: lines, placement: placement, chain: chainOf(placement)}
	g.placed[key] = p
	return p
}

func textOf(lines []proc.CgroupLine) string {
	var b strings.Builder
	for i := range lines {
		b.WriteString(lines[i].Controllers)
		b.WriteByte(':')
		b.WriteString(lines[i].Path)
		b.WriteByte('\n')
	}
	return b.String()
}

// chainOf lists the groups around a process, innermost first: its container,
// its pod, the unit that these run in, and the system's unit around a user's.
// A scope that systemd made for the container is the container, not a unit of
// its own.
func chainOf(a container.Attribution) []link {
	var chain []link
	if a.ContainerID != "" {
		chain = append(chain, link{key: "container:" + string(a.Runtime) + ":" + a.ContainerID, container: true, placement: a, path: a.Path})
	}
	if a.PodUID != "" {
		pod := container.Attribution{Runtime: container.Kubernetes, PodUID: a.PodUID, Path: podPath(a)}
		chain = append(chain, link{key: "pod:" + a.PodUID, placement: pod, path: pod.Path})
	}
	if a.Unit == "" || a.InContainer() && !properPrefix(a.UnitPath, a.Path) {
		return chain
	}
	unit := container.Attribution{Runtime: container.Systemd, Unit: a.Unit, SystemUnit: a.SystemUnit, UserUID: a.UserUID, Path: a.UnitPath, UnitPath: a.UnitPath}
	chain = append(chain, link{key: "unit:" + a.UnitPath, placement: unit, path: a.UnitPath})
	if above, ok := systemUnitPath(a); ok {
		system := container.Attribution{Runtime: container.Systemd, Unit: a.SystemUnit, UserUID: a.UserUID, Path: above, UnitPath: above}
		chain = append(chain, link{key: "unit:" + above, placement: system, path: above})
	}
	return chain
}

// podPath is the container's path without its last element.
func podPath(a container.Attribution) string {
	if a.ContainerID == "" {
		return a.Path
	}
	if i := strings.LastIndexByte(a.Path, '/'); i > 0 {
		return a.Path[:i]
	}
	return ""
}

func properPrefix(prefix, path string) bool {
	return prefix != "" && len(prefix) < len(path) && strings.HasPrefix(path, prefix) && path[len(prefix)] == '/'
}

// systemUnitPath finds the element of the system's unit in the user unit's path.
func systemUnitPath(a container.Attribution) (string, bool) {
	if a.SystemUnit == "" {
		return "", false
	}
	i := strings.Index(a.UnitPath, "/"+a.SystemUnit+"/")
	if i < 0 {
		return "", false
	}
	return a.UnitPath[:i+1+len(a.SystemUnit)], true
}

// begin starts the groups of a new pass.
func (g *grouper) begin() {
	g.index = make(map[string]int, len(g.index))
	for _, r := range g.readers {
		r.used = false
	}
}

// of returns the index of the innermost group of a process, adding the groups
// around it to the pass when they are new to it; -1 when there is none.
func (g *grouper) of(pass *Pass, facts *Facts) int {
	if facts.placed == nil {
		return -1
	}
	return g.add(pass, facts.placed, facts.placed.chain)
}

func (g *grouper) add(pass *Pass, p *placed, chain []link) int {
	if len(chain) == 0 {
		return -1
	}
	l := &chain[0]
	if i, ok := g.index[l.key]; ok {
		return i
	}
	i := len(pass.Groups)
	g.index[l.key] = i
	pass.Groups = append(pass.Groups, Group{Key: l.key, Container: l.container, Placement: l.placement, lines: p.lines, path: l.path})
	parent := g.add(pass, p, chain[1:])
	pass.Groups[i].Parent = parent
	return i
}

// read reads the cgroups of the pass's groups and closes the files of those
// that are gone.
func (g *grouper) read(pass *Pass) {
	for i := range pass.Groups {
		group := &pass.Groups[i]
		if group.path == "" {
			continue
		}
		r := g.readers[group.Key]
		if r == nil {
			r = &groupReader{reader: g.hierarchies.NewReader(g.hierarchies.PlaceAt(group.lines, group.path))}
			g.readers[group.Key] = r
		}
		r.used = true
		group.Usage = r.reader.Usage()
	}
	for key, r := range g.readers {
		if !r.used {
			r.reader.Close()
			delete(g.readers, key)
		}
	}
}
