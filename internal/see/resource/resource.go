// Package resource builds the catalogue of one snapshot: every process,
// container and unit once, each with an opaque id and its parents, and answers
// queries over it.
//
// It sits between model (the figures) and store (the snapshots). What an
// environment is called, and whether units are shown, is a [Flavour]: the
// united surface speaks of Linux and its container runtimes, the wsltop
// contract of WSL and Docker. A catalogue never changes once built.
package resource

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"topside/internal/see/container"
	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/secret"
)

// A Kind says what a resource is.
type Kind string

// The kinds of resources. Infra and Host exist in the wsltop contract only and
// have no rows on Linux.
const (
	Process     Kind = "process"
	Application Kind = "application" // a systemd unit or a Kubernetes pod
	Container   Kind = "container"
	Infra       Kind = "infra"
	Host        Kind = "host"
)

// An Environment says where a resource runs.
type Environment string

// The environments, of the united surface and of the wsltop contract. Docker
// is in both.
const (
	Linux      Environment = "linux"
	Docker     Environment = "docker"
	Podman     Environment = "podman"
	Containerd Environment = "containerd"
	Kubernetes Environment = "kubernetes"
	LXC        Environment = "lxc"

	Windows Environment = "windows"
	WSL     Environment = "wsl"
	WSLC    Environment = "wslc"
)

// A Resource is one row of the catalogue.
type Resource struct {
	Environment Environment
	Kind        Kind
	Source      string // the container's id for a process inside one, else ""
	NativeID    string // PID, container id or unit name; informational
	Name        string
	Args        string // the command line, "" when unknown or none
	// CPU is in percent of the whole machine.
	CPU        model.Figure
	CPUSeconds model.Figure
	// Memory is RSS of a process, current minus inactive file of a container
	// or unit, in bytes.
	Memory model.Figure
	// Proc is set for processes, Group for containers and applications.
	Proc  *model.Process
	Group *model.Group

	index    int
	parents  []int
	children []int
}

// The ways in which a catalogue can be impossible (contract wsltop, 3.4).
var (
	ErrAmbiguous = errors.New("ambiguous resource")
	ErrHierarchy = errors.New("invalid hierarchy")
)

// A Flavour says how the catalogue names things.
type Flavour struct {
	// WSL names the machine's own processes wsl, knows docker beside it, and
	// leaves out units and processes that were born inside the window.
	WSL bool
	// ShowSecrets leaves passwords and tokens in the names of processes. Else they
	// are hidden before anything can be sorted or found by a name.
	ShowSecrets bool
	// WithoutContainers leaves container processes among the machine's own.
	WithoutContainers bool
}

// A Catalogue is all resources of one observation.
type Catalogue struct {
	resources []Resource
	keys      identities
	flavour   Flavour
}

// Build makes the catalogue of an observation. Containers and units come
// before processes. It fails with [ErrAmbiguous] or [ErrHierarchy] only if the
// observation contradicts itself.
func Build(o *model.Observation, flavour Flavour) (*Catalogue, error) {
	keys, err := newIdentities()
	if err != nil {
		return nil, err
	}
	c := &Catalogue{keys: keys, flavour: flavour, resources: make([]Resource, 0, len(o.Groups)+len(o.Processes))}
	rows := c.addGroups(o)
	c.addProcesses(o, rows)
	if err := c.link(o, rows); err != nil {
		return nil, err
	}
	return c, nil
}

// addGroups adds containers and units and returns, for each group of the
// observation, its row or -1 when the flavour does not show it.
func (c *Catalogue) addGroups(o *model.Observation) []int {
	rows := make([]int, len(o.Groups))
	for i := range o.Groups {
		g := &o.Groups[i]
		rows[i] = -1
		if !c.shows(g) {
			continue
		}
		rows[i] = len(c.resources)
		c.resources = append(c.resources, Resource{
			Environment: c.environment(g),
			Kind:        groupKind(g),
			NativeID:    nativeGroupID(g),
			Name:        groupName(g),
			CPU:         g.CPU,
			CPUSeconds:  g.CPUSeconds,
			Memory:      g.Memory,
			Group:       g,
			index:       len(c.resources),
		})
	}
	return rows
}

func (c *Catalogue) shows(g *model.Group) bool {
	if g.Container {
		return !c.flavour.WithoutContainers
	}
	return !c.flavour.WSL
}

func groupKind(g *model.Group) Kind {
	if g.Container {
		return Container
	}
	return Application
}

func nativeGroupID(g *model.Group) string {
	switch {
	case g.Container:
		return g.Placement.ContainerID
	case g.Placement.Unit != "":
		return g.Placement.Unit
	default:
		return g.Placement.PodUID
	}
}

// groupName prefers what an engine calls the container; a full id is cut to
// the twelve characters that people know it by.
func groupName(g *model.Group) string {
	if g.Info != nil && len(g.Info.Names) > 0 {
		return strings.TrimPrefix(g.Info.Names[0], "/")
	}
	id := nativeGroupID(g)
	switch {
	case g.Container && len(id) == 64:
		return id[:12]
	case !g.Container && g.Placement.Unit == "":
		return "pod " + id
	}
	return id
}

func (c *Catalogue) environment(g *model.Group) Environment {
	if c.flavour.WSL {
		if g.Placement.Runtime == container.Docker {
			return Docker
		}
		return WSL
	}
	return EnvironmentOf(g.Placement)
}

// EnvironmentOf names the environment of a placement in the united surface.
func EnvironmentOf(p container.Attribution) Environment {
	if p.PodUID != "" {
		return Kubernetes
	}
	switch p.Runtime {
	case container.Docker:
		return Docker
	case container.Podman:
		return Podman
	case container.Containerd:
		return Containerd
	case container.Kubernetes, container.CRIO:
		return Kubernetes
	case container.LXC:
		return LXC
	}
	return Linux
}

func (c *Catalogue) addProcesses(o *model.Observation, rows []int) {
	for i := range o.Processes {
		p := &o.Processes[i]
		if c.flavour.WSL && p.Newborn {
			continue
		}
		r := Resource{
			Environment: Linux,
			Kind:        Process,
			NativeID:    strconv.Itoa(int(p.PID)),
			Name:        c.processName(p),
			Args:        strings.Join(p.Facts.Args, " "),
			CPU:         p.CPU,
			CPUSeconds:  model.Known(p.CPUSeconds),
			Memory:      model.Known(float64(p.RSS)),
			Proc:        p,
			index:       len(c.resources),
		}
		if c.flavour.WSL {
			r.Environment = WSL
		}
		if g := containerAround(o, p.Group); g >= 0 && rows[g] >= 0 {
			r.Environment = c.environment(&o.Groups[g])
			if r.Environment != WSL && o.Groups[g].Container {
				r.Source = o.Groups[g].Placement.ContainerID
				r.NativeID = r.Source + ":" + r.NativeID
			}
		}
		c.resources = append(c.resources, r)
	}
}

// containerAround returns the innermost container or pod around group g, or -1.
func containerAround(o *model.Observation, g int) int {
	for hops := 0; g >= 0 && hops <= len(o.Groups); hops++ {
		if o.Groups[g].Container || o.Groups[g].Placement.PodUID != "" {
			return g
		}
		g = o.Groups[g].Parent
	}
	return -1
}

// processName is the base name of the first argument, as ps users know a
// process, else the kernel's name for it.
func (c *Catalogue) processName(p *model.Process) string {
	if len(p.Facts.Args) > 0 {
		first := p.Facts.Args[0]
		if first != p.Facts.Executable {
			first = c.safe(first)
		}
		if name := programName(first, p.Facts.Executable); name != "" {
			return name
		}
	}
	return c.safe(p.Facts.Comm)
}

// longestTitle bounds what a process can have for a name, in characters.
const longestTitle = 1024

// safe is what a process calls itself, without the secrets in it. A bare path,
// which nearly all are, has none.
func (c *Catalogue) safe(title string) string {
	if len(title) > longestTitle {
		title, _ = plaintext.Bounded(title, longestTitle)
	}
	if c.flavour.ShowSecrets || !strings.ContainsAny(title, ":= ") && len(title) < 20 {
		return title
	}
	return secret.Arguments([]string{plaintext.Line(title)})[0]
}

// programName is the base name of a first argument. Many programs write a title
// there, whose slashes are not a path's ("sshd: kate@pts/0"), or their whole
// command line ("/usr/lib/chromium/chromium --type=renderer --lang=a/b").
func programName(first, executable string) string {
	program, title := first, ""
	if first != executable {
		if i := strings.Index(first, ": "); i > 0 {
			program, title = first[:i], first[i:]
		} else if i := strings.Index(first, " -"); i > 0 {
			program = first[:i]
		}
	}
	base := path.Base(program)
	if base == "." || base == "/" {
		return ""
	}
	return base + title
}

// link fills in parents and children: a process is below the innermost group
// that is shown, a group below the next shown one around it.
func (c *Catalogue) link(o *model.Observation, rows []int) error {
	shownAround := func(g int) int {
		for g >= 0 && rows[g] < 0 {
			g = o.Groups[g].Parent
		}
		if g < 0 {
			return -1
		}
		return rows[g]
	}
	if err := checkIdentities(o); err != nil {
		return err
	}
	for i := range o.Groups {
		if err := checkAround(o, i); err != nil {
			return err
		}
	}
	for i := range c.resources {
		r := &c.resources[i]
		from := -1
		switch {
		case r.Proc != nil:
			from = r.Proc.Group
		case r.Group != nil:
			from = r.Group.Parent
		}
		if parent := shownAround(from); parent >= 0 {
			r.parents = []int{parent}
			c.resources[parent].children = append(c.resources[parent].children, i)
		}
	}
	return nil
}

// checkAround refuses a group that is inside itself.
func checkAround(o *model.Observation, g int) error {
	for hops, around := 0, o.Groups[g].Parent; around >= 0; hops, around = hops+1, o.Groups[around].Parent {
		if around == g || hops > len(o.Groups) {
			return fmt.Errorf("%w: the groups around %s form a cycle", ErrHierarchy, o.Groups[g].Key)
		}
	}
	return nil
}

// checkIdentities refuses an observation that holds one identity twice.
func checkIdentities(o *model.Observation) error {
	for i := 1; i < len(o.Processes); i++ {
		if o.Processes[i].PID == o.Processes[i-1].PID {
			return fmt.Errorf("%w: process %d is listed twice", ErrAmbiguous, o.Processes[i].PID)
		}
	}
	seen := make(map[string]bool, len(o.Groups))
	for i := range o.Groups {
		if seen[o.Groups[i].Key] {
			return fmt.Errorf("%w: group %s is listed twice", ErrAmbiguous, o.Groups[i].Key)
		}
		seen[o.Groups[i].Key] = true
	}
	return nil
}

// Len is the number of resources.
func (c *Catalogue) Len() int { return len(c.resources) }

// All returns every resource in the catalogue's own order. The slice is the
// catalogue's: do not change it.
func (c *Catalogue) All() []Resource { return c.resources }

// ID returns the opaque id of a resource of this catalogue: 12 characters that
// mean nothing outside it and cannot be guessed.
func (c *Catalogue) ID(r *Resource) string { return c.keys.id(r.index) }

// ParentIDs returns the ids of the resource's parents; empty for a root.
func (c *Catalogue) ParentIDs(r *Resource) []string {
	ids := make([]string, len(r.parents))
	for i, p := range r.parents {
		ids[i] = c.keys.id(p)
	}
	return ids
}

// Parents returns the resource's direct parents.
func (c *Catalogue) Parents(r *Resource) []*Resource { return c.at(r.parents) }

// Children returns the resource's direct children.
func (c *Catalogue) Children(r *Resource) []*Resource { return c.at(r.children) }

func (c *Catalogue) at(indexes []int) []*Resource {
	out := make([]*Resource, len(indexes))
	for i, index := range indexes {
		out[i] = &c.resources[index]
	}
	return out
}

// Find returns the resource with that id.
func (c *Catalogue) Find(id string) (*Resource, bool) {
	i, ok := c.keys.find(id, len(c.resources))
	if !ok {
		return nil, false
	}
	return &c.resources[i], true
}

// ByPID returns the process with that PID.
func (c *Catalogue) ByPID(pid int32) (*Resource, bool) {
	i := slices.IndexFunc(c.resources, func(r Resource) bool { return r.Proc != nil && r.Proc.PID == pid })
	if i < 0 {
		return nil, false
	}
	return &c.resources[i], true
}
