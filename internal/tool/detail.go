package tool

// This file writes everything that is known of one resource. Each figure is
// there, or it is named in "absent" with the reason.

import (
	"maps"
	"slices"
	"strings"
	"time"

	"topside/internal/see"
	"topside/internal/see/cgroup"
	"topside/internal/see/display"
	"topside/internal/see/model"
	"topside/internal/see/plaintext"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
)

// An inspection is a row with its details.
type inspection struct {
	row
	Parents []parent `json:"parents,omitempty"`
	Details details  `json:"details"`
}

type parent struct {
	ID   string        `json:"resource_id"`
	Kind resource.Kind `json:"kind"`
	Name string        `json:"name"`
}

// details are of a process, or of a container or unit. Sizes are in bytes,
// rates per second over the snapshot's window.
type details struct {
	// Of a process.
	State        string              `json:"state,omitempty"`
	Threads      int32               `json:"threads,omitempty"`
	Nice         *int32              `json:"nice,omitempty"`
	Session      int32               `json:"session,omitempty"`
	UID          *uint32             `json:"uid,omitempty"`
	StartedAt    string              `json:"started_at,omitempty"`
	AgeSeconds   *float64            `json:"age_seconds,omitempty"`
	Program      string              `json:"program,omitempty"` // the first argument, which usage.args are behind
	Executable   string              `json:"executable,omitempty"`
	ExeDeleted   bool                `json:"executable_deleted,omitempty"`
	Directory    string              `json:"working_directory,omitempty"`
	Descriptors  *int                `json:"open_descriptors,omitempty"`
	Memory       *processMemory      `json:"memory,omitempty"`
	IO           *processIO          `json:"io,omitempty"`
	Faults       *faults             `json:"faults,omitempty"`
	Switches     *switches           `json:"context_switches,omitempty"`
	Limits       map[string]softHard `json:"limits,omitempty"`
	OOMScore     *int                `json:"oom_score,omitempty"`
	NamespacePID []int32             `json:"namespace_pids,omitempty"`
	Security     *security           `json:"security,omitempty"`
	// Of a container or a unit.
	FullID      string            `json:"full_id,omitempty"`
	Image       string            `json:"image,omitempty"`
	ImageID     string            `json:"image_id,omitempty"`
	Status      string            `json:"status,omitempty"`
	CreatedAt   string            `json:"created_at,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	LabelsLeft  int               `json:"labels_left_out,omitempty"`
	GroupCPU    *groupCPU         `json:"cpu,omitempty"`
	GroupMemory *groupMemory      `json:"group_memory,omitempty"`
	Tasks       *uint64           `json:"tasks,omitempty"`
	TasksLimit  *uint64           `json:"tasks_limit,omitempty"`
	GroupIO     *groupIO          `json:"group_io,omitempty"`
	Pressure    map[string]stall  `json:"pressure,omitempty"`
	// Of both.
	Runtime string   `json:"runtime,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Pod     string   `json:"pod_uid,omitempty"`
	Cgroups []string `json:"cgroups,omitempty"`
	// Unlimited names the limits that are known to be none; any other that is
	// missing is unknown.
	Unlimited []string `json:"unlimited,omitempty"`
}

type processMemory struct {
	Virtual uint64  `json:"virtual_bytes"`
	Peak    *uint64 `json:"peak_rss_bytes,omitempty"`
	Anon    *uint64 `json:"anonymous_bytes,omitempty"`
	File    *uint64 `json:"file_bytes,omitempty"`
	Shared  *uint64 `json:"shared_bytes,omitempty"`
	Swap    *uint64 `json:"swap_bytes,omitempty"`
}

type processIO struct {
	Read      uint64   `json:"read_bytes"`
	Written   uint64   `json:"written_bytes"`
	ReadRate  *float64 `json:"read_bytes_per_s,omitempty"`
	WriteRate *float64 `json:"write_bytes_per_s,omitempty"`
}

type faults struct {
	Minor     uint64   `json:"minor"`
	Major     uint64   `json:"major"`
	MinorRate *float64 `json:"minor_per_s,omitempty"`
	MajorRate *float64 `json:"major_per_s,omitempty"`
}

type switches struct {
	Voluntary   *uint64 `json:"voluntary,omitempty"`
	Involuntary *uint64 `json:"involuntary,omitempty"`
}

// softHard is a resource limit. One without any bound is in "unlimited" instead.
type softHard struct {
	Soft          *uint64 `json:"soft,omitempty"`
	Hard          *uint64 `json:"hard,omitempty"`
	HardUnlimited bool    `json:"hard_unlimited,omitempty"`
	Unit          string  `json:"unit,omitempty"`
}

type security struct {
	Seccomp    string `json:"seccomp,omitempty"`
	NoNewPrivs *bool  `json:"no_new_privileges,omitempty"`
	TracedBy   *int32 `json:"traced_by_pid,omitempty"`
}

type groupCPU struct {
	LimitCores  *float64 `json:"limit_cores,omitempty"`
	CPUSet      string   `json:"cpuset,omitempty"`
	Throttled   *float64 `json:"throttled_periods_percent,omitempty"`
	ThrottledMS *float64 `json:"throttled_ms,omitempty"`
	// Source says whether the share of CPU is by the group's own cgroup, or
	// summed over its processes.
	Source string `json:"source"`
}

// groupMemory has the raw current usage beside the row's figure, which leaves
// out inactive page cache.
type groupMemory struct {
	Current      *uint64 `json:"current_bytes,omitempty"`
	InactiveFile *uint64 `json:"inactive_file_bytes,omitempty"`
	Anon         *uint64 `json:"anonymous_bytes,omitempty"`
	File         *uint64 `json:"file_bytes,omitempty"`
	Swap         *uint64 `json:"swap_bytes,omitempty"`
	Limit        *uint64 `json:"limit_bytes,omitempty"`
	OOMKills     *uint64 `json:"oom_kills,omitempty"`
	RSS          uint64  `json:"processes_rss_bytes"`
}

type groupIO struct {
	Read      *uint64  `json:"read_bytes,omitempty"`
	Written   *uint64  `json:"written_bytes,omitempty"`
	ReadRate  *float64 `json:"read_bytes_per_s,omitempty"`
	WriteRate *float64 `json:"write_bytes_per_s,omitempty"`
}

// pathLimit bounds paths, in characters.
const pathLimit = 1024

func pathText(s string) string {
	shown, _ := plaintext.Bounded(s, pathLimit)
	return shown
}

// inspection writes a resource with all that is known of it; d may be nil.
func (w *rowWriter) inspection(r *resource.Resource, d *see.Details, clockTicks uint64) *inspection {
	i := &inspection{row: w.row(r)}
	c := w.catalogue
	for _, p := range c.Parents(r) {
		i.Parents = append(i.Parents, parent{c.ID(p), p.Kind, shortText(p.Name)})
	}
	switch {
	case r.Proc != nil:
		i.processFacts(r.Proc, w.showSecrets)
		i.processFigures(r.Proc)
		i.started(w.observation, r.Proc, clockTicks)
		i.processDetails(d)
	case r.Group != nil:
		i.groupFacts(r.Group, w.showSecrets)
		i.groupFigures(r.Group)
	}
	return i
}

func (i *inspection) processFacts(p *model.Process, showSecrets bool) {
	d, f := &i.Details, p.Facts
	if len(f.Args) > 0 {
		d.Program, _ = display.CommandLine(f.Args[:1], showSecrets, pathLimit)
	}
	d.State, d.Threads, d.Nice, d.Session = stateName(p.State), p.Threads, &p.Nice, p.Session
	if f.UIDKnown {
		d.UID = &f.UID
	}
	d.Executable, d.ExeDeleted, d.Directory = pathText(display.Text(f.Executable, showSecrets)), f.Deleted, pathText(display.Text(f.Directory, showSecrets))
	d.Runtime, d.Unit, d.Pod = runtimeName(string(f.Placement.Runtime)), pathText(f.Placement.Unit), f.Placement.PodUID
	for _, line := range f.Cgroups {
		if path := pathText(line.Path); path != "" && path != "/" && !slices.Contains(d.Cgroups, path) {
			d.Cgroups = append(d.Cgroups, path)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(f.Absent)) {
		name := what
		if what == "directory" {
			name = "working_directory"
		}
		i.note(name, true, string(f.Absent[what]))
	}
}

// runtimeName leaves out that a process is in no container.
func runtimeName(name string) string {
	if name == "none" || name == "systemd" {
		return ""
	}
	return name
}

func (i *inspection) processFigures(p *model.Process) {
	d := &i.Details
	d.Memory = &processMemory{Virtual: p.VirtualBytes}
	d.Faults = &faults{p.Process.MinorFaults, p.Process.MajorFaults, figure(p.MinorFaults, 1), figure(p.MajorFaults, 1)}
	if p.IOKnown {
		d.IO = &processIO{p.IO.ReadBytes, p.IO.WriteBytes, figure(p.ReadBytes, 0), figure(p.WriteBytes, 0)}
		return
	}
	reason := string(p.IOAbsent)
	if reason == "" {
		reason = "not read while it was idle"
	}
	i.note("io", true, reason)
}

// started says when the process began, by its age: the boot time as wall clock
// drifts, the time since boot does not.
func (i *inspection) started(o *model.Observation, p *model.Process, clockTicks uint64) {
	if clockTicks == 0 || o.System.Uptime == 0 {
		i.note("started_at", true, "the time since boot is unknown")
		return
	}
	sinceBoot := time.Duration(float64(p.StartTicks) / float64(clockTicks) * float64(time.Second))
	age := max(o.System.Uptime-sinceBoot, 0)
	seconds := round(age.Seconds(), 1)
	i.Details.AgeSeconds = &seconds
	i.Details.StartedAt = o.CapturedAt.Add(-age).UTC().Format(time.RFC3339)
}

func (i *inspection) processDetails(from *see.Details) {
	if from == nil {
		i.note("descriptors", true, "not read")
		return
	}
	d := &i.Details
	d.Descriptors, d.OOMScore = from.Descriptors, from.OOMScore
	for _, what := range slices.Sorted(maps.Keys(from.Absent)) {
		i.note(what, true, string(from.Absent[what]))
	}
	if s := from.Status; s != nil {
		d.Memory.Peak, d.Memory.Anon, d.Memory.File, d.Memory.Shared, d.Memory.Swap = s.VmHWM, s.RssAnon, s.RssFile, s.RssShmem, s.VmSwap
		if s.VoluntarySwitches != nil || s.NonvoluntarySwitches != nil {
			d.Switches = &switches{s.VoluntarySwitches, s.NonvoluntarySwitches}
		}
		if len(s.NSpid) > 1 {
			d.NamespacePID = s.NSpid
		}
		d.Security = securityOf(s)
	}
	d.Limits, d.Unlimited = limitsShown(from.Limits)
}

func securityOf(s *proc.Status) *security {
	x := security{NoNewPrivs: s.NoNewPrivs}
	if s.Seccomp != nil {
		x.Seccomp = []string{"off", "strict", "filter"}[max(0, min(*s.Seccomp, 2))]
	}
	if s.TracerPid != nil && *s.TracerPid != 0 {
		x.TracedBy = s.TracerPid
	}
	return &x
}

// limitsShown are the resource limits that programs run into, and the names of
// those that do not bound at all.
func limitsShown(all map[string]proc.Limit) (shown map[string]softHard, unlimited []string) {
	shown = map[string]softHard{}
	for name, key := range map[string]string{
		"open_files": "Max open files", "processes": "Max processes", "address_space": "Max address space",
		"locked_memory": "Max locked memory", "stack": "Max stack size", "core_file": "Max core file size", "cpu_time": "Max cpu time", "file_size": "Max file size",
	} {
		l, ok := all[key]
		switch {
		case !ok:
			continue
		case l.SoftUnlimited && l.HardUnlimited:
			unlimited = append(unlimited, name)
			continue
		}
		limit := softHard{Unit: l.Unit, HardUnlimited: l.HardUnlimited}
		if !l.SoftUnlimited {
			limit.Soft = &l.Soft
		}
		if !l.HardUnlimited {
			limit.Hard = &l.Hard
		}
		shown[name] = limit
	}
	slices.Sort(unlimited)
	return shown, unlimited
}

func stateName(state byte) string {
	names := map[byte]string{
		'R': "running", 'S': "sleeping", 'D': "uninterruptible sleep", 'Z': "zombie", 'T': "stopped",
		't': "traced", 'X': "dead", 'I': "idle", 'P': "parked", 'W': "waking", 'K': "wakekill",
	}
	if name, ok := names[state]; ok {
		return name
	}
	return stateLetter(state)
}

// labelsShown bounds how many labels are shown, and labelLimit their length.
const (
	labelsShown = 40
	labelLimit  = 200
)

func (i *inspection) groupFacts(g *model.Group, showSecrets bool) {
	d, at := &i.Details, g.Placement
	d.Runtime, d.Unit, d.Pod = runtimeName(string(at.Runtime)), pathText(at.Unit), at.PodUID
	if g.Container {
		d.FullID = shortText(at.ContainerID)
	}
	for _, path := range []string{at.Path, at.UnitPath} {
		if path = pathText(path); path != "" && !slices.Contains(d.Cgroups, path) {
			d.Cgroups = append(d.Cgroups, path)
		}
	}
	if g.Info == nil {
		if g.Container {
			i.note("image", true, "no engine told it")
			i.note("labels", true, "no engine told them")
		}
		return
	}
	d.Image, d.ImageID = pathText(display.Text(g.Info.Image, showSecrets)), shortText(g.Info.ImageID)
	d.State, d.Status = shortText(g.Info.State), shortText(g.Info.Summary)
	if !g.Info.Created.IsZero() {
		d.CreatedAt = g.Info.Created.UTC().Format(time.RFC3339)
	}
	d.Labels, d.LabelsLeft = labelsOf(g.Info.Labels, showSecrets)
}

func labelsOf(all map[string]string, showSecrets bool) (labels map[string]string, left int) {
	names := slices.Sorted(maps.Keys(all))
	labels = map[string]string{}
	for _, name := range names[:min(len(names), labelsShown)] {
		labels[shortText(name)], _ = plaintext.Bounded(display.Label(name, all[name], showSecrets), labelLimit)
	}
	return labels, len(names) - len(labels)
}

func (i *inspection) groupFigures(g *model.Group) {
	d, u := &i.Details, &g.Usage
	d.GroupCPU = &groupCPU{LimitCores: u.CPUQuotaCores, CPUSet: shortText(u.CPUSet), Throttled: figure(g.Throttled, 1), ThrottledMS: figure(g.ThrottledMS, 1), Source: "sum of processes"}
	if g.FromCgroup {
		d.GroupCPU.Source = "cgroup"
	}
	d.GroupMemory = &groupMemory{
		Current: u.MemoryCurrent, InactiveFile: u.MemoryInactiveFile, Anon: u.MemoryAnon, File: u.MemoryFile,
		Swap: u.SwapCurrent, Limit: u.MemoryLimit, OOMKills: u.OOMKills, RSS: g.RSS,
	}
	d.Tasks, d.TasksLimit = u.PIDsCurrent, u.PIDsLimit
	for _, limit := range []struct {
		name, figure string
		bounds       bool
	}{
		{"cpu", cgroup.FigureCPUQuota, u.CPUQuotaCores != nil},
		{"memory", cgroup.FigureMemoryLimit, u.MemoryLimit != nil},
		{"tasks", cgroup.FigurePIDsLimit, u.PIDsLimit != nil},
	} {
		if _, unknown := u.Missing[limit.figure]; g.FromCgroup && !limit.bounds && !unknown {
			d.Unlimited = append(d.Unlimited, limit.name)
		}
	}
	if u.IOReadBytes != nil || u.IOWriteBytes != nil {
		d.GroupIO = &groupIO{u.IOReadBytes, u.IOWriteBytes, figure(g.ReadBytes, 0), figure(g.WriteBytes, 0)}
	}
	d.Pressure = map[string]stall{}
	for name, p := range map[string]*proc.Pressure{"cpu": u.PressureCPU, "memory": u.PressureMemory, "io": u.PressureIO} {
		if p != nil {
			d.Pressure[name] = stallOf(p, true)
		}
	}
	for _, figure := range slices.Sorted(maps.Keys(u.Missing)) {
		if figure != cgroup.FigureMemory || i.Usage.MemoryBytes == nil || u.MemoryCurrent == nil {
			i.note(figure, true, string(u.Missing[figure]))
		}
	}
}

// text is the row and then one line for each detail.
func (i *inspection) text(meta snapshotMeta) string {
	var b strings.Builder
	b.WriteString(meta.heading())
	b.WriteString("resource_id kind environment pid user cpu% cores memory name args < parent\n")
	b.WriteString(i.row.text())
	for _, p := range i.Parents {
		b.WriteString("\nin " + string(p.Kind) + " " + p.Name + " (" + p.ID + ")")
	}
	b.WriteString("\ndetails " + compact(i.Details))
	if len(i.Absent) > 0 {
		b.WriteString("\nabsent " + compact(i.Absent))
	}
	b.WriteByte('\n')
	return b.String()
}
