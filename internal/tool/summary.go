package tool

// This file writes the summary of the united surface. It has a budget of about
// a thousand tokens, so that lists show what is busy and say how much is not.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
	"topside/internal/see/sample"
)

// How many of each the summary shows.
const (
	shownBusiest     = 5
	shownDisks       = 4
	shownFilesystems = 4
	shownInterfaces  = 4
	shownCores       = 128
)

// A summary is the machine at a glance. Rates are per second.
type summary struct {
	CPUs        int                    `json:"host_logical_cpu_count"`
	CPUPercent  *float64               `json:"host_cpu_percent,omitempty"`
	Unaccounted *float64               `json:"unaccounted_cpu_percent,omitempty"` // busy time of no process: ended ones and the kernel's own
	CPU         *cpuSummary            `json:"cpu,omitempty"`
	Load        *loadSummary           `json:"load,omitempty"`
	Memory      *memorySummary         `json:"host_memory,omitempty"`
	Pressure    map[string]stall       `json:"pressure,omitempty"`
	Environment map[string]environment `json:"environments"`
	Counts      counts                 `json:"counts"`

	Disks              []diskSummary       `json:"disks,omitempty"`
	DisksLeftOut       int                 `json:"idle_disks_left_out,omitempty"`
	Filesystems        []filesystemSummary `json:"filesystems,omitempty"`
	FilesystemsLeftOut int                 `json:"filesystems_left_out,omitempty"`
	Network            []networkSummary    `json:"network,omitempty"`
	NetworkLeftOut     int                 `json:"idle_interfaces_left_out,omitempty"`
	OwnLimits          *limitsSummary      `json:"own_limits,omitempty"`
	BusiestByCPU       []busy              `json:"busiest_by_cpu"`
	BusiestByMemory    []busy              `json:"busiest_by_memory"`
	NotMeasured        []notMeasured       `json:"not_measured"`
}

// cpuSummary is CPU time by mode and by core, in percent of the machine and of
// the core.
type cpuSummary struct {
	User         *float64  `json:"user,omitempty"`
	Nice         *float64  `json:"nice,omitempty"`
	System       *float64  `json:"system,omitempty"`
	IOWait       *float64  `json:"iowait,omitempty"`
	IRQ          *float64  `json:"irq,omitempty"`
	SoftIRQ      *float64  `json:"softirq,omitempty"`
	Steal        *float64  `json:"steal,omitempty"`
	Guest        *float64  `json:"guest,omitempty"`
	Cores        []float64 `json:"core_percents,omitempty"`
	CoresLeftOut int       `json:"cores_left_out,omitempty"`
}

type loadSummary struct {
	One     float64 `json:"1m"`
	Five    float64 `json:"5m"`
	Fifteen float64 `json:"15m"`
}

type memorySummary struct {
	memoryTotals
	Cached    *uint64 `json:"cached_bytes,omitempty"`
	SwapTotal *uint64 `json:"swap_total_bytes,omitempty"`
	SwapUsed  *uint64 `json:"swap_used_bytes,omitempty"`
	ARC       *uint64 `json:"zfs_arc_bytes,omitempty"`
}

// A stall is pressure: the share of time in which some or all tasks waited, in
// percent.
type stall struct {
	Some10 *float64 `json:"some_avg10,omitempty"`
	Some60 *float64 `json:"some_avg60,omitempty"`
	Full10 *float64 `json:"full_avg10,omitempty"`
	Full60 *float64 `json:"full_avg60,omitempty"`
}

// An environment has a null for a figure that is not known, and then the
// status and the reason say why.
type environment struct {
	Status      string   `json:"status"`
	Reason      string   `json:"reason,omitempty"`
	CPUPercent  *float64 `json:"cpu_percent"`
	MemoryBytes *uint64  `json:"memory_bytes"`
	Containers  int      `json:"containers,omitempty"`
}

type counts struct {
	Processes  int     `json:"processes"`
	Containers int     `json:"containers"`
	Units      int     `json:"units"`
	Running    *uint64 `json:"running,omitempty"`
	Blocked    *uint64 `json:"blocked,omitempty"`
}

type diskSummary struct {
	Name        string   `json:"name"`
	Read        *float64 `json:"read_bytes_per_s,omitempty"`
	Write       *float64 `json:"write_bytes_per_s,omitempty"`
	Utilisation *float64 `json:"utilisation_percent,omitempty"`
	Latency     *float64 `json:"latency_ms,omitempty"`
}

type filesystemSummary struct {
	Mount       string   `json:"mount"`
	Type        string   `json:"type"`
	Total       *uint64  `json:"total_bytes,omitempty"`
	Available   *uint64  `json:"available_bytes,omitempty"`
	UsedPercent *float64 `json:"used_percent,omitempty"`
	Absent      string   `json:"absent,omitempty"`
}

type networkSummary struct {
	Name   string   `json:"name"`
	Rx     *float64 `json:"rx_bytes_per_s,omitempty"`
	Tx     *float64 `json:"tx_bytes_per_s,omitempty"`
	Errors *float64 `json:"errors_per_s,omitempty"`
	Drops  *float64 `json:"drops_per_s,omitempty"`
}

// limitsSummary are the limits of the cgroup that the server itself runs in.
type limitsSummary struct {
	Cgroup string   `json:"cgroup"`
	Cores  *float64 `json:"cpu_cores,omitempty"`
	CPUSet string   `json:"cpuset,omitempty"`
	Memory *uint64  `json:"memory_bytes,omitempty"`
	PIDs   *uint64  `json:"pids,omitempty"`
}

// busy is one of the busiest processes.
type busy struct {
	ID         string   `json:"resource_id"`
	PID        int32    `json:"pid"`
	Name       string   `json:"name"`
	CPUPercent *float64 `json:"cpu_percent,omitempty"`
	Memory     *uint64  `json:"memory_bytes,omitempty"`
	Within     string   `json:"within,omitempty"` // name of its container or unit
}

type notMeasured struct {
	Figure string `json:"figure"`
	Reason string `json:"reason"`
}

// summaryOf sums an observation up.
func summaryOf(o *model.Observation, c *resource.Catalogue) *summary {
	s := &summary{
		CPUs:            o.CPUs,
		CPUPercent:      figure(o.System.Busy, 1),
		Unaccounted:     figure(o.System.Unaccounted, 1),
		CPU:             cpuOf(&o.System),
		Load:            loadOf(o.System.Load),
		Memory:          memoryOf(&o.System),
		Pressure:        pressureOf(o.System.Pressure),
		Environment:     environmentsOf(o, c),
		Counts:          countsOf(o, c),
		OwnLimits:       limitsOf(o),
		BusiestByCPU:    busiest(c, resource.ByCPU),
		BusiestByMemory: busiest(c, resource.ByMemory),
		NotMeasured:     notMeasuredOf(o),
	}
	s.Disks, s.DisksLeftOut = disksOf(o.System.Disks)
	s.Filesystems, s.FilesystemsLeftOut = filesystemsOf(o.System.Filesystems)
	s.Network, s.NetworkLeftOut = networkOf(o.System.Interfaces)
	return s
}

func cpuOf(s *model.System) *cpuSummary {
	m := s.Modes
	c := &cpuSummary{
		User: figure(m.User, 1), Nice: notable(m.Nice), System: figure(m.System, 1), IOWait: figure(m.IOWait, 1),
		IRQ: notable(m.IRQ), SoftIRQ: notable(m.SoftIRQ), Steal: notable(m.Steal), Guest: notable(m.Guest),
	}
	decimals := 1
	if len(s.Cores) > 16 {
		decimals = 0
	}
	for _, core := range s.Cores {
		if !core.Busy.Known || len(c.Cores) == shownCores {
			c.CoresLeftOut++
			continue
		}
		c.Cores = append(c.Cores, round(core.Busy.Value, decimals))
	}
	if !m.User.Known && len(c.Cores) == 0 {
		return nil
	}
	return c
}

// notable leaves out a mode in which nearly no machine spends time.
func notable(f model.Figure) *float64 {
	if v := figure(f, 1); v != nil && *v != 0 {
		return v
	}
	return nil
}

func loadOf(l *proc.Load) *loadSummary {
	if l == nil {
		return nil
	}
	return &loadSummary{l.One, l.Five, l.Fifteen}
}

func memoryOf(s *model.System) *memorySummary {
	t := totals(s.Memory)
	if t == nil {
		return nil
	}
	m := &memorySummary{memoryTotals: *t, Cached: s.Memory.Cached, SwapTotal: s.Memory.SwapTotal, SwapUsed: s.Memory.SwapUsed()}
	if m.SwapTotal != nil && *m.SwapTotal == 0 {
		m.SwapUsed = nil
	}
	if s.ARC != nil {
		m.ARC = &s.ARC.Size
	}
	return m
}

func pressureOf(all map[string]*proc.Pressure) map[string]stall {
	stalls := map[string]stall{}
	for _, resource := range []string{"cpu", "memory", "io"} {
		if p := all[resource]; p != nil {
			stalls[resource] = stallOf(p, resource != "cpu")
		}
	}
	return stalls
}

// stallOf writes one file of pressure. A whole machine never waits for the CPU
// in full, so that figure is left out there.
func stallOf(p *proc.Pressure, full bool) stall {
	var s stall
	if p.Some != nil {
		s.Some10, s.Some60 = &p.Some.Avg10, &p.Some.Avg60
	}
	if full && p.Full != nil {
		s.Full10, s.Full60 = &p.Full.Avg10, &p.Full.Avg60
	}
	return s
}

// environmentsOf gives every environment its status. Only Docker and Podman
// have an engine that is asked; the others are found by their cgroups.
func environmentsOf(o *model.Observation, c *resource.Catalogue) map[string]environment {
	sums := sumUp(c)
	all := make(map[string]environment, len(environments))
	outer := model.Known(0)
	for _, name := range environments[1:] {
		s := sums[name]
		e := statusOf(o, name)
		e.Containers = s.containers
		if s.containers > 0 || e.Status == string(container.OK) {
			if s.containers == 0 {
				s.cpu = model.Known(0)
			}
			e.CPUPercent, e.MemoryBytes = figure(s.cpu, 1), &s.memory
			outer = model.Figure{Value: outer.Value + s.cpu.Value, Known: outer.Known && s.cpu.Known}
			if e.Status == string(container.Absent) {
				e.Status, e.Reason = string(container.OK), ""
			}
			if e.CPUPercent == nil && e.Reason == "" {
				e.Reason = "CPU: " + orUnknown(o.RatesAbsent)
			}
		}
		all[string(name)] = e
	}
	all[string(resource.Linux)] = linuxOf(o, sums[resource.Linux], outer)
	return all
}

// statusOf is how the engine of an environment stands.
func statusOf(o *model.Observation, name resource.Environment) environment {
	listing := engineOf(o, string(name))
	switch {
	case listing != nil:
		return environment{Status: string(listing.Status), Reason: plaintext.Line(listing.Reason)}
	case name == resource.Docker || name == resource.Podman:
		return environment{Status: string(container.Disabled), Reason: "its engine is not asked"}
	}
	return environment{Status: string(container.Absent), Reason: "no such container is running"}
}

// linuxOf is what the machine does outside containers.
func linuxOf(o *model.Observation, s sum, containers model.Figure) environment {
	e := environment{Status: string(container.OK), MemoryBytes: &s.processMemory}
	own := o.System.Busy
	switch {
	case !own.Known:
		e.Reason = "CPU: " + orUnknown(o.RatesAbsent)
	case !containers.Known || containers.Value > own.Value:
		e.Reason = "CPU includes containers"
	default:
		own.Value -= containers.Value
	}
	e.CPUPercent = figure(own, 1)
	if why := incomplete(o); why != "" {
		e.MemoryBytes, e.Reason = nil, "memory: "+why
	}
	if o.TableError != nil {
		e.Status = string(container.Unreachable)
	}
	return e
}

// incomplete says why the sum over the processes is not that of the machine; ""
// when it is.
func incomplete(o *model.Observation) string {
	switch {
	case o.TableError != nil:
		return plaintext.Line(o.TableError.Error())
	case o.Hidden:
		return "other users' processes are hidden (hidepid)"
	case o.Namespaced:
		return "only the processes of this PID namespace are visible"
	case len(o.Processes) == 0:
		return "no process was seen"
	}
	return ""
}

func orUnknown(reason string) string {
	if reason == "" {
		return "unknown"
	}
	return reason
}

func engineOf(o *model.Observation, name string) *container.Listing {
	for i := range o.Engines {
		if o.Engines[i].Engine == name {
			return &o.Engines[i]
		}
	}
	return nil
}

func countsOf(o *model.Observation, c *resource.Catalogue) counts {
	n := counts{Running: o.System.Running, Blocked: o.System.Blocked}
	all := c.All()
	for i := range all {
		switch all[i].Kind {
		case resource.Process:
			n.Processes++
		case resource.Container:
			n.Containers++
		case resource.Application:
			n.Units++
		}
	}
	return n
}

func disksOf(all []model.Disk) (shown []diskSummary, left int) {
	active := slices.DeleteFunc(slices.Clone(all), func(d model.Disk) bool {
		return d.Partition || d.ReadBytes.Or(0)+d.WriteBytes.Or(0)+d.Utilisation.Or(0) == 0
	})
	slices.SortStableFunc(active, func(a, b model.Disk) int {
		return cmp.Or(cmp.Compare(b.Utilisation.Or(0), a.Utilisation.Or(0)), cmp.Compare(b.ReadBytes.Or(0)+b.WriteBytes.Or(0), a.ReadBytes.Or(0)+a.WriteBytes.Or(0)))
	})
	for _, d := range active[:min(len(active), shownDisks)] {
		shown = append(shown, diskSummary{shortText(d.Name), figure(d.ReadBytes, 0), figure(d.WriteBytes, 0), figure(d.Utilisation, 1), figure(d.Latency, 1)})
	}
	for _, d := range all {
		if !d.Partition {
			left++
		}
	}
	return shown, left - len(shown)
}

// fleeting are filesystems in memory and images, whose use says nothing of a
// disk that fills up.
var fleeting = []string{"tmpfs", "devtmpfs", "ramfs", "squashfs", "efivarfs", "erofs", "iso9660", "hugetlbfs"}

// filesystemsOf shows the fullest and those that did not answer, each device
// once.
func filesystemsOf(all []proc.Usage) (shown []filesystemSummary, left int) {
	type device struct{ major, minor uint32 }
	seen := map[device]bool{}
	var kept []proc.Usage
	for _, u := range all {
		d := device{u.Mount.Major, u.Mount.Minor}
		if seen[d] || slices.Contains(fleeting, u.Mount.Type) || u.Reason == "" && (u.Total == nil || *u.Total == 0) {
			continue
		}
		seen[d] = true
		kept = append(kept, u)
	}
	slices.SortStableFunc(kept, func(a, b proc.Usage) int { return cmp.Compare(fullness(b), fullness(a)) })
	for _, u := range kept[:min(len(kept), shownFilesystems)] {
		f := filesystemSummary{Mount: shortText(u.Mount.Point), Type: shortText(u.Mount.Type), Total: u.Total, Available: u.Available, Absent: string(u.Reason)}
		if u.Reason == "" && u.Total != nil && u.Available != nil {
			f.UsedPercent = figure(model.Known(fullness(u)), 1)
		}
		shown = append(shown, f)
	}
	return shown, len(all) - len(shown)
}

// fullness is the share of what users can have that is taken, in percent, as df
// shows it. A filesystem that does not answer counts as full.
func fullness(u proc.Usage) float64 {
	if u.Reason != "" {
		return 101
	}
	full, _ := u.Full()
	return full
}

func networkOf(all []model.Interface) (shown []networkSummary, left int) {
	traffic := func(i model.Interface) float64 {
		return i.RxBytes.Or(0) + i.TxBytes.Or(0) + i.Errors.Or(0) + i.Drops.Or(0)
	}
	active := slices.DeleteFunc(slices.Clone(all), func(i model.Interface) bool { return traffic(i) == 0 })
	slices.SortStableFunc(active, func(a, b model.Interface) int { return cmp.Compare(traffic(b), traffic(a)) })
	for _, i := range active[:min(len(active), shownInterfaces)] {
		shown = append(shown, networkSummary{shortText(i.Name), figure(i.RxBytes, 0), figure(i.TxBytes, 0), notable(i.Errors), notable(i.Drops)})
	}
	return shown, len(all) - len(shown)
}

// limitsOf is nil when the server's own cgroup is as free as the machine.
func limitsOf(o *model.Observation) *limitsSummary {
	l := o.System.Limits
	if l == nil {
		return nil
	}
	var machine uint64
	if m := o.System.Memory; m != nil && m.Total != nil {
		machine = *m.Total
	}
	s := &limitsSummary{Cgroup: shortText(l.Path)}
	tight := constrain(s, &l.Constraints, o.CPUs, machine)
	if !tight {
		return nil
	}
	return s
}

// constrain fills in the limits that are tighter than the machine, and reports
// whether any is.
func constrain(s *limitsSummary, c *cgroup.Constraints, cpus int, memory uint64) bool {
	if c.CPUQuotaCores != nil && (cpus == 0 || *c.CPUQuotaCores < float64(cpus)) {
		s.Cores = c.CPUQuotaCores
	}
	if c.CPUSetCount != nil && *c.CPUSetCount < cpus {
		s.CPUSet = shortText(c.CPUSet)
	}
	if c.MemoryLimit != nil && (memory == 0 || *c.MemoryLimit < memory) {
		s.Memory = c.MemoryLimit
	}
	s.PIDs = c.PIDsLimit
	return s.Cores != nil || s.CPUSet != "" || s.Memory != nil || s.PIDs != nil
}

func busiest(c *resource.Catalogue, by resource.SortKey) []busy {
	rows, _ := c.Query(resource.Query{Kind: resource.Process, SortBy: by, Limit: shownBusiest})
	all := make([]busy, 0, len(rows))
	for _, r := range rows {
		b := busy{ID: c.ID(r), PID: r.Proc.PID, Name: shortText(r.Name), CPUPercent: figure(r.CPU, 1), Memory: bytesOf(r.Memory)}
		if parents := c.Parents(r); len(parents) > 0 {
			b.Within = shortText(parents[0].Name)
		}
		all = append(all, b)
	}
	return all
}

// notMeasuredOf names what this machine, or our rights on it, do not give. What
// is merely not there (ZFS, pressure by interrupts) is not named.
func notMeasuredOf(o *model.Observation) []notMeasured {
	all := []notMeasured{}
	if o.RatesAbsent != "" {
		all = append(all, notMeasured{"rates", o.RatesAbsent})
	}
	if o.Hidden || o.Namespaced {
		all = append(all, notMeasured{"other processes", incomplete(o)})
	}
	for _, figure := range slices.Sorted(maps.Keys(o.System.Absent)) {
		reason := o.System.Absent[figure]
		if figure == sample.FigureARC || figure == sample.FigurePressure+"irq" {
			continue
		}
		all = append(all, notMeasured{figure, string(reason)})
	}
	var files, arguments int
	for i := range o.Processes {
		p := &o.Processes[i]
		if p.IOAbsent == proc.NoPermission {
			files++
		}
		if p.Facts != nil && p.Facts.Absent["args"] == proc.NoPermission {
			arguments++
		}
	}
	if files > 0 {
		all = append(all, notMeasured{fmt.Sprintf("I/O of processes (%d)", files), string(proc.NoPermission)})
	}
	if arguments > 0 {
		all = append(all, notMeasured{fmt.Sprintf("arguments of processes (%d)", arguments), string(proc.NoPermission)})
	}
	return all
}

// text is the summary in lines, each for one subject.
func (s *summary) text(meta snapshotMeta) string {
	var b strings.Builder
	b.WriteString(meta.heading())
	fmt.Fprintf(&b, "cpu %s%% of %d CPUs busy", number(s.CPUPercent), s.CPUs)
	if s.CPU != nil {
		fmt.Fprintf(&b, " (user %s, system %s, iowait %s)", number(s.CPU.User), number(s.CPU.System), number(s.CPU.IOWait))
	}
	if s.Unaccounted != nil {
		fmt.Fprintf(&b, "; %s%% by no listed process", number(s.Unaccounted))
	}
	if s.Load != nil {
		fmt.Fprintf(&b, "; load %.2f %.2f %.2f", s.Load.One, s.Load.Five, s.Load.Fifteen)
	}
	if m := s.Memory; m != nil {
		fmt.Fprintf(&b, "\nmemory %s used of %s, %s available", sizeOf(m.Used), size(m.Total), size(m.Available))
		if m.SwapTotal != nil && *m.SwapTotal > 0 {
			fmt.Fprintf(&b, "; swap %s of %s", sizeOf(m.SwapUsed), size(*m.SwapTotal))
		}
	}
	s.textOfPressure(&b)
	for _, name := range environments {
		if e := s.Environment[string(name)]; e.Status != string(container.Absent) {
			fmt.Fprintf(&b, "\n%s: %s, cpu %s%%, memory %s", name, e.Status, number(e.CPUPercent), sizeOf(e.MemoryBytes))
			if e.Reason != "" {
				fmt.Fprintf(&b, " (%s)", e.Reason)
			}
		}
	}
	fmt.Fprintf(&b, "\n%d processes, %d containers, %d units", s.Counts.Processes, s.Counts.Containers, s.Counts.Units)
	s.textOfDevices(&b)
	if s.OwnLimits != nil {
		fmt.Fprintf(&b, "\nthis server's own limits: %s", compact(s.OwnLimits))
	}
	textOfBusiest(&b, "by cpu", s.BusiestByCPU)
	textOfBusiest(&b, "by memory", s.BusiestByMemory)
	for _, n := range s.NotMeasured {
		fmt.Fprintf(&b, "\nnot measured: %s (%s)", n.Figure, n.Reason)
	}
	b.WriteByte('\n')
	return b.String()
}

func (s *summary) textOfPressure(b *strings.Builder) {
	for _, resource := range []string{"cpu", "memory", "io"} {
		if p, ok := s.Pressure[resource]; ok && p.Some10 != nil && (*p.Some10 > 0 || *p.Some60 > 0) {
			fmt.Fprintf(b, "\npressure on %s: some %.1f%% (10 s), %.1f%% (60 s)", resource, *p.Some10, *p.Some60)
		}
	}
}

func (s *summary) textOfDevices(b *strings.Builder) {
	for _, d := range s.Disks {
		fmt.Fprintf(b, "\ndisk %s: %s%% busy, read %s/s, write %s/s", d.Name, number(d.Utilisation), rate(d.Read), rate(d.Write))
	}
	for _, f := range s.Filesystems {
		if f.Absent != "" {
			fmt.Fprintf(b, "\nfilesystem %s: %s", f.Mount, f.Absent)
			continue
		}
		fmt.Fprintf(b, "\nfilesystem %s: %s%% full, %s available of %s", f.Mount, number(f.UsedPercent), sizeOf(f.Available), sizeOf(f.Total))
	}
	for _, n := range s.Network {
		fmt.Fprintf(b, "\nnetwork %s: in %s/s, out %s/s", n.Name, rate(n.Rx), rate(n.Tx))
	}
}

func textOfBusiest(b *strings.Builder, title string, all []busy) {
	fmt.Fprintf(b, "\nbusiest %s (resource_id pid name cpu%% memory):", title)
	for _, p := range all {
		fmt.Fprintf(b, "\n  %s %d %s %s %s", p.ID, p.PID, p.Name, number(p.CPUPercent), sizeOf(p.Memory))
		if p.Within != "" {
			fmt.Fprintf(b, " in %s", p.Within)
		}
	}
}

func rate(f *float64) string {
	if f == nil || *f < 0 {
		return "?"
	}
	return size(uint64(*f))
}
