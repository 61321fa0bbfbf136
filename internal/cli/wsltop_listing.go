package cli

// This file holds wsltop's listing: one observation as text or JSON (contract
// wsltop, section 6.2).

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"topside/internal/see"
	"topside/internal/see/model"
	"topside/internal/see/resource"
)

// wsltopListing is what the listing was asked for.
type wsltopListing struct {
	help, version       bool
	json, tree          bool
	limit               int
	intervalMS          int64
	withoutDocker       bool
	containerProcesses  bool
	containerProcessMax int
	perCore             bool
	sortBy              resource.SortKey
	ascending           bool
	root                string
	redact              bool
	interactive         bool
}

const wsltopUsage = "Run 'wsltop --help' for the options."

func parseWsltopListing(args []string) (wsltopListing, error) {
	o := wsltopListing{
		limit: 30, intervalMS: see.DefaultInterval.Milliseconds(), containerProcessMax: 5,
		perCore: true, sortBy: resource.ByCPU, root: "/",
	}
	a := arguments{rest: args, usage: wsltopUsage, joined: true}
	for a.next() {
		switch a.option {
		case "--once", "--wsl-only", "--no-wslc", "--show-wsl-host", "--hide-infra":
			// On Linux there is no host around the machine, no WSL container and
			// no infrastructure row: nothing changes.
		case "-i", "--interactive":
			o.interactive = true
		case "--json":
			o.json = true
		case "--tree":
			o.tree = true
		case "--limit":
			o.limit = int(min(a.integer(), 1<<30))
		case "--interval-ms":
			o.intervalMS = a.integer()
		case "--distro":
			a.refuse("--distro belongs to the Windows executable: here there is one machine, this one")
		case "--no-docker":
			o.withoutDocker = true
		case "--show-container-processes", "--show-docker-processes":
			o.containerProcesses = true
		case "--hide-container-processes":
			o.containerProcesses = false
		case "--container-process-limit", "--docker-process-limit":
			o.containerProcessMax = int(min(a.integer(), 1<<30))
		case "--cpu-scale":
			o.perCore = a.choice("core", "host") == "core"
		case "--sort":
			o.sortBy = resource.SortKey(a.choice("cpu", "memory", "name"))
		case "--sort-order":
			o.ascending = a.choice("asc", "desc") == "asc"
		case "--header":
			a.choice("classic")
		case "--color":
			a.choice("never", "auto")
		case "--root":
			o.root = a.filled()
		case "--redact-secrets":
			o.redact = true
		case "--help", "-h":
			o.help = true
		case "--version", "-V":
			o.version = true
		default:
			a.refuse("there is no option %q", a.option)
		}
	}
	if a.err == nil && o.interactive && o.json {
		a.refuse("--interactive cannot be combined with --json")
	}
	return o, a.err
}

func runWsltopListing(ctx context.Context, s Streams, args []string) error {
	o, err := parseWsltopListing(args)
	switch {
	case err != nil:
		return err
	case o.help:
		_, err := fmt.Fprint(s.Out, wsltopHelp)
		return err
	case o.version:
		_, err := fmt.Fprintf(s.Out, "wsltop %s\n", Version())
		return err
	case o.interactive:
		top := topCommand{observing: observing{root: o.root, intervalMS: o.intervalMS, withoutEngines: o.withoutDocker}, showSecrets: !o.redact}
		return top.run(ctx, s, true)
	}
	interval, err := intervalOf(o.intervalMS, 0)
	if err != nil {
		return err
	}
	seen, err := observeOnce(ctx, see.Options{
		Root: o.root, Interval: interval, WithoutEngines: o.withoutDocker,
		Flavour: resource.Flavour{WSL: true, WithoutContainers: o.withoutDocker, ShowSecrets: !o.redact},
	})
	if err != nil {
		return err
	}
	defer seen.end()
	for _, warning := range seen.snapshot.Observation().Warnings {
		fmt.Fprintf(s.Err, "wsltop: warning: %s\n", warning)
	}
	return o.write(s.Out, seen.snapshot)
}

func (o wsltopListing) write(w io.Writer, snapshot *see.Snapshot) error {
	switch {
	case o.json && o.tree:
		return writeJSON(w, o.treeOf(snapshot))
	case o.json:
		rows := o.rows(snapshot)
		usages := make([]usage, len(rows))
		for i, row := range rows {
			usages[i] = o.usageOf(row.resource)
		}
		return writeJSON(w, usages)
	case o.tree:
		return o.writeTree(w, snapshot)
	}
	return o.writeText(w, snapshot)
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// A listed row is a resource and how deep it stands below another.
type listed struct {
	resource *resource.Resource
	depth    int
}

// rows are the listing's rows: processes of the machine and containers, sorted
// and limited together; the processes of a container, when asked for, stand
// right behind it and do not count.
func (o wsltopListing) rows(snapshot *see.Snapshot) []listed {
	catalogue := snapshot.Catalogue()
	all, _ := catalogue.Query(resource.Query{SortBy: o.sortBy, Ascending: o.ascending, Limit: catalogue.Len()})
	var rows []listed
	count := 0
	for _, r := range all {
		if count == o.limit {
			break
		}
		if inside(r) {
			continue
		}
		count++
		rows = append(rows, listed{resource: r})
		if o.containerProcesses && r.Kind == resource.Container && r.Environment == resource.Docker {
			for _, child := range o.children(snapshot, r, o.containerProcessMax) {
				rows = append(rows, listed{resource: child, depth: 1})
			}
		}
	}
	return rows
}

// inside reports whether r is a process of a container.
func inside(r *resource.Resource) bool {
	return r.Kind == resource.Process && r.Environment == resource.Docker
}

func (o wsltopListing) children(snapshot *see.Snapshot, parent *resource.Resource, limit int) []*resource.Resource {
	children, _ := snapshot.Catalogue().Query(resource.Query{
		Parent: parent, Kind: resource.Process, SortBy: o.sortBy, Ascending: o.ascending, Limit: limit,
	})
	return children
}

// A usage is the contract's usage object (section 1.4): source, ppid, args and
// cpu_time_seconds are left out when unknown, pid is null for what is no
// process.
type usage struct {
	Environment    resource.Environment `json:"environment"`
	Source         string               `json:"source,omitempty"`
	Kind           resource.Kind        `json:"kind"`
	ID             string               `json:"id"`
	PID            *int32               `json:"pid"`
	PPID           *int32               `json:"ppid,omitempty"`
	Name           string               `json:"name"`
	Args           string               `json:"args,omitempty"`
	ArgsTruncated  bool                 `json:"args_truncated,omitempty"` // not in the original: args are not whole
	CPUPercent     *float64             `json:"cpu_percent"`
	CPUTimeSeconds *float64             `json:"cpu_time_seconds,omitempty"`
	MemoryBytes    *uint64              `json:"memory_bytes"`
}

func (o wsltopListing) usageOf(r *resource.Resource) usage {
	u := usage{
		Environment: r.Environment, Source: r.Source, Kind: r.Kind, ID: r.NativeID,
		Name:       clean(r.Name),
		CPUPercent: finite(r.CPU), CPUTimeSeconds: finite(r.CPUSeconds), MemoryBytes: whole(r.Memory),
	}
	if r.Proc != nil {
		u.PID, u.PPID = &r.Proc.PID, &r.Proc.PPID
		u.Args, u.ArgsTruncated = commandLine(r.Proc.Facts.Args, !o.redact)
	}
	return u
}

// A wsltopTree is the object of --tree --json. Groups are hosts around the
// machine, which Linux does not have; neither are there WSL containers or
// Windows applications.
type wsltopTree struct {
	Logical             int              `json:"host_logical_cpu_count"`
	Groups              []struct{}       `json:"groups"`
	Unmapped            []usage          `json:"unmapped_children"`
	Docker              []containerGroup `json:"docker_groups"`
	WSLC                []containerGroup `json:"wslc_groups"`
	WindowsApplications []struct{}       `json:"windows_applications"`
}

// A containerGroup is a container, its processes, and what they do not explain
// of its CPU (section 4.5).
type containerGroup struct {
	Container       usage    `json:"container"`
	Children        []usage  `json:"children"`
	Unattributed    *float64 `json:"unattributed_cpu_percent"`
	OverAttributed  *float64 `json:"over_attributed_cpu_percent"`
	resource        *resource.Resource
	childrenSources []*resource.Resource
}

func (o wsltopListing) treeOf(snapshot *see.Snapshot) wsltopTree {
	catalogue := snapshot.Catalogue()
	tree := wsltopTree{
		Logical: snapshot.Observation().CPUs, Groups: []struct{}{}, Unmapped: []usage{},
		Docker: []containerGroup{}, WSLC: []containerGroup{}, WindowsApplications: []struct{}{},
	}
	all, _ := catalogue.Query(resource.Query{SortBy: o.sortBy, Ascending: o.ascending, Limit: catalogue.Len()})
	for _, r := range all {
		switch {
		case r.Kind == resource.Container && r.Environment == resource.Docker:
			tree.Docker = append(tree.Docker, o.groupOf(snapshot, r))
		case !inside(r):
			tree.Unmapped = append(tree.Unmapped, o.usageOf(r))
		}
	}
	return tree
}

func (o wsltopListing) groupOf(snapshot *see.Snapshot, r *resource.Resource) containerGroup {
	g := containerGroup{Container: o.usageOf(r), Children: []usage{}, resource: r}
	g.childrenSources = o.children(snapshot, r, snapshot.Catalogue().Len())
	known := 0.0
	for _, child := range g.childrenSources {
		g.Children = append(g.Children, o.usageOf(child))
		known += child.CPU.Or(0)
	}
	if r.CPU.Known {
		left, over := max(r.CPU.Value-known, 0), max(known-r.CPU.Value, 0)
		g.Unattributed, g.OverAttributed = &left, &over
	}
	return g
}

// writeText writes the table.
func (o wsltopListing) writeText(w io.Writer, snapshot *see.Snapshot) error {
	o.writeHeader(w, snapshot)
	t := newTable("ENV", ">PID", ">"+o.cpuHeading(), ">TIME", ">MEM", "NAME")
	for _, row := range o.rows(snapshot) {
		o.addRow(t, snapshot, row.resource, row.depth)
	}
	t.write(w, palette{}, "", columnsOf(w))
	return nil
}

// writeTree writes the containers with what is in them, and then the rest.
func (o wsltopListing) writeTree(w io.Writer, snapshot *see.Snapshot) error {
	o.writeHeader(w, snapshot)
	t := newTable("ENV", ">PID", ">"+o.cpuHeading(), ">TIME", ">MEM", "NAME")
	tree := o.treeOf(snapshot)
	for _, group := range tree.Docker {
		o.addRow(t, snapshot, group.resource, 0)
		for _, child := range group.childrenSources {
			o.addRow(t, snapshot, child, 1)
		}
	}
	o.containerProcesses = false
	for _, row := range o.rows(snapshot) {
		if row.resource.Kind != resource.Container || row.resource.Environment != resource.Docker {
			o.addRow(t, snapshot, row.resource, 0)
		}
	}
	t.write(w, palette{}, "", columnsOf(w))
	return nil
}

func (o wsltopListing) writeHeader(w io.Writer, snapshot *see.Snapshot) {
	observation := snapshot.Observation()
	system := &observation.System
	memory := unknown
	if m := system.Memory; m != nil && m.Total != nil && m.Available != nil && *m.Available <= *m.Total {
		memory = size(float64(*m.Total-*m.Available)) + " of " + size(float64(*m.Total))
	}
	fmt.Fprintf(w, "wsltop %s  %d CPUs  CPU %s  memory %s\n\n", Version(), observation.CPUs, percent(system.Busy), memory)
}

func (o wsltopListing) cpuHeading() string {
	if o.perCore {
		return "CPU% (core)"
	}
	return "CPU% (host)"
}

func (o wsltopListing) addRow(t *table, snapshot *see.Snapshot, r *resource.Resource, depth int) {
	cpu := r.CPU
	if o.perCore {
		cpu.Value *= float64(snapshot.Observation().CPUs)
	}
	pid := unknown
	if r.Proc != nil {
		pid = fmt.Sprint(r.Proc.PID)
	}
	name := clean(r.Name)
	if r.Kind == resource.Container {
		name = "[" + name + "]"
	}
	if depth > 0 {
		name = "└ " + name
	}
	t.add(string(r.Environment), pid, number(cpu, 1), clock(r.CPUSeconds), sizeOf(r.Memory), name)
}

// finite is the figure as JSON has it: null when unknown or not a number.
func finite(f model.Figure) *float64 {
	if number(f, 0) == unknown {
		return nil
	}
	return &f.Value
}

// whole is a count of bytes as JSON has it.
func whole(f model.Figure) *uint64 {
	if number(f, 0) == unknown || f.Value < 0 {
		return nil
	}
	n := uint64(f.Value)
	return &n
}

const wsltopHelp = `wsltop: which processes and containers use CPU and memory

Usage: wsltop [OPTIONS]
       wsltop mcp [OPTIONS]    the MCP server; see wsltop mcp --help

Options:
  --once                       one observation, then end (the default)
  -i, --interactive            watch it in the terminal (topside top) until q
  --json                       a JSON array of rows instead of a table
  --tree                       containers with their processes; with --json one object
  --limit N                    show at most N rows (default 30)
  --interval-ms N              sample over N milliseconds, at least 100 (default 3000)
  --sort cpu|memory|name       sort by this column (default cpu)
  --sort-order asc|desc        in this order (default desc)
  --cpu-scale core|host        in the table, 100 % is one core or the machine (default core)
  --show-container-processes   list the processes of containers below them
  --hide-container-processes   do not (the default)
  --container-process-limit N  at most N processes a container (default 5)
  --no-docker                  do not look for Docker containers
  --no-wslc, --wsl-only, --show-wsl-host, --hide-infra
                               accepted; there is nothing of the kind on Linux
  --header classic, --color never
                               accepted; the table is always like that
  --root PATH                  observe the machine whose proc/ and sys/ are in this folder
  --redact-secrets             hide passwords, tokens and keys in arguments
  -h, --help                   print this help
  -V, --version                print the version

--show-docker-processes and --docker-process-limit are other names of the
container options. --distro NAME exists in the Windows executable only.
JSON always has CPU in percent of the whole machine.
`
