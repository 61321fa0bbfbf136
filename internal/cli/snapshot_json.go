package cli

// This file writes everything of one observation as one JSON object. A figure
// that is not known is null or left out, and "absent" beside it says why.

import (
	"encoding/json"

	"topside/internal/see"
	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/display"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
)

// A snapshotReport is what "topside snapshot --json" prints. Percentages are of the
// whole machine unless their name says otherwise, sizes in bytes, rates per
// second.
type snapshotReport struct {
	Snapshot snapshotMeta `json:"snapshot"`
	System   systemReport `json:"system"`
	// Environments is as get_system_summary has it.
	Environments json.RawMessage  `json:"environments"`
	Engines      []engineReport   `json:"engines"`
	Resources    []resourceReport `json:"resources"`
}

type snapshotMeta struct {
	ID             string   `json:"snapshot_id"`
	CapturedAt     int64    `json:"captured_at_unix_ms"`
	WindowMS       *int64   `json:"sample_window_ms"`
	RatesAbsent    string   `json:"rates_absent,omitempty"`
	Root           string   `json:"root"`
	TopsideVersion string   `json:"topside_version"`
	Warnings       []string `json:"warnings"`
}

type systemReport struct {
	Hostname      string                 `json:"hostname,omitempty"`
	Kernel        string                 `json:"kernel,omitempty"`
	UptimeSeconds *float64               `json:"uptime_seconds"`
	CPUs          int                    `json:"logical_cpu_count"`
	CPU           *float64               `json:"cpu_percent"`
	Modes         map[string]*float64    `json:"cpu_modes_percent"`
	Cores         []coreReport           `json:"cores"`
	Unaccounted   *float64               `json:"unaccounted_cpu_percent"`
	Load          *loadReport            `json:"load"`
	Running       *uint64                `json:"tasks_running"`
	Blocked       *uint64                `json:"tasks_blocked"`
	Switches      *float64               `json:"context_switches_per_second"`
	Forks         *float64               `json:"forks_per_second"`
	Memory        map[string]any         `json:"memory"`
	ARC           *arcReport             `json:"zfs_arc"`
	Pressure      map[string]*pressureOf `json:"pressure"`
	Disks         []diskReport           `json:"disks"`
	Filesystems   []filesystemReport     `json:"filesystems"`
	Interfaces    []interfaceReport      `json:"interfaces"`
	OwnLimits     *limitsReport          `json:"own_limits"`
	Absent        map[string]proc.Reason `json:"absent,omitempty"`
}

type coreReport struct {
	ID   int      `json:"id"`
	Busy *float64 `json:"busy_percent_of_core"`
}

type loadReport struct {
	One      float64 `json:"one"`
	Five     float64 `json:"five"`
	Fifteen  float64 `json:"fifteen"`
	Runnable int     `json:"runnable"`
	Entities int     `json:"entities"`
}

type arcReport struct {
	Size    uint64 `json:"size_bytes"`
	Minimum uint64 `json:"minimum_bytes"`
	Maximum uint64 `json:"maximum_bytes"`
}

type pressureOf struct {
	Some *pressureLine `json:"some"`
	Full *pressureLine `json:"full"`
}

type pressureLine struct {
	Avg10  float64 `json:"avg10_percent"`
	Avg60  float64 `json:"avg60_percent"`
	Avg300 float64 `json:"avg300_percent"`
	Total  uint64  `json:"total_us"`
}

type diskReport struct {
	Name        string   `json:"name"`
	Partition   bool     `json:"partition"`
	ReadBytes   *float64 `json:"read_bytes_per_second"`
	WriteBytes  *float64 `json:"write_bytes_per_second"`
	Reads       *float64 `json:"reads_per_second"`
	Writes      *float64 `json:"writes_per_second"`
	Utilisation *float64 `json:"utilisation_percent"`
	Latency     *float64 `json:"latency_ms"`
	InFlight    uint64   `json:"in_flight"`
}

type filesystemReport struct {
	Point      string      `json:"mount_point"`
	Type       string      `json:"type"`
	Source     string      `json:"source"`
	Total      *uint64     `json:"total_bytes"`
	Free       *uint64     `json:"free_bytes"`
	Available  *uint64     `json:"available_bytes"`
	Inodes     *uint64     `json:"inodes"`
	InodesFree *uint64     `json:"inodes_free"`
	Reason     proc.Reason `json:"absent,omitempty"`
}

type interfaceReport struct {
	Name      string   `json:"name"`
	RxBytes   *float64 `json:"rx_bytes_per_second"`
	TxBytes   *float64 `json:"tx_bytes_per_second"`
	RxPackets *float64 `json:"rx_packets_per_second"`
	TxPackets *float64 `json:"tx_packets_per_second"`
	Errors    *float64 `json:"errors_per_second"`
	Drops     *float64 `json:"drops_per_second"`
}

// A limitsReport is the limits of one control group; null is no limit, or one
// that "absent" gives the reason for.
type limitsReport struct {
	Version  string                 `json:"cgroup_version,omitempty"`
	Path     string                 `json:"cgroup,omitempty"`
	CPUQuota *float64               `json:"cpu_quota_cores"`
	CPUSet   string                 `json:"cpuset,omitempty"`
	CPUs     *int                   `json:"cpuset_count"`
	Memory   *uint64                `json:"memory_bytes"`
	PIDs     *uint64                `json:"pids"`
	Absent   map[string]proc.Reason `json:"absent,omitempty"`
}

// An engineReport is what one engine's socket gave.
type engineReport struct {
	Engine     string           `json:"engine"`
	Status     container.Status `json:"status"`
	Reason     string           `json:"reason,omitempty"`
	Socket     string           `json:"socket,omitempty"`
	Containers int              `json:"containers"`
	Omitted    int              `json:"omitted,omitempty"`
}

type resourceReport struct {
	ID          string               `json:"resource_id"`
	Parents     []string             `json:"parent_ids"`
	Environment resource.Environment `json:"environment"`
	Kind        resource.Kind        `json:"kind"`
	NativeID    string               `json:"id"`
	Source      string               `json:"source,omitempty"`
	Name        string               `json:"name"`
	CPU         *float64             `json:"cpu_percent"`
	Cores       *float64             `json:"cores_used"`
	CPUSeconds  *float64             `json:"cpu_time_seconds"`
	Memory      *uint64              `json:"memory_bytes"`
	Process     *processReport       `json:"process,omitempty"`
	Group       *groupReport         `json:"group,omitempty"`
}

type processReport struct {
	PID         int32                  `json:"pid"`
	PPID        int32                  `json:"ppid"`
	Session     int32                  `json:"session"`
	StartTicks  uint64                 `json:"start_ticks"`
	State       string                 `json:"state"`
	KernelTask  bool                   `json:"kernel_task"`
	Newborn     bool                   `json:"started_in_window"`
	Threads     int32                  `json:"threads"`
	Nice        int32                  `json:"nice"`
	Comm        string                 `json:"comm"`
	Args        string                 `json:"args,omitempty"`
	ArgsCut     bool                   `json:"args_cut,omitempty"`
	Executable  string                 `json:"executable,omitempty"`
	Deleted     bool                   `json:"executable_deleted,omitempty"`
	Directory   string                 `json:"working_directory,omitempty"`
	UID         *uint32                `json:"uid"`
	User        string                 `json:"user,omitempty"`
	Virtual     uint64                 `json:"virtual_bytes"`
	MinorFaults *float64               `json:"minor_faults_per_second"`
	MajorFaults *float64               `json:"major_faults_per_second"`
	ReadRate    *float64               `json:"read_bytes_per_second"`
	WriteRate   *float64               `json:"write_bytes_per_second"`
	ReadBytes   *uint64                `json:"read_bytes_total"`
	WriteBytes  *uint64                `json:"write_bytes_total"`
	Cgroup      string                 `json:"cgroup,omitempty"`
	Unit        string                 `json:"unit,omitempty"`
	SystemUnit  string                 `json:"system_unit,omitempty"`
	Runtime     string                 `json:"runtime,omitempty"`
	ContainerID string                 `json:"container_id,omitempty"`
	PodUID      string                 `json:"pod_uid,omitempty"`
	Absent      map[string]proc.Reason `json:"absent,omitempty"`
}

type groupReport struct {
	Cgroup      string                 `json:"cgroup,omitempty"`
	Runtime     string                 `json:"runtime,omitempty"`
	Unit        string                 `json:"unit,omitempty"`
	PodUID      string                 `json:"pod_uid,omitempty"`
	Processes   int                    `json:"processes"`
	RSS         uint64                 `json:"rss_bytes"`
	CPUFrom     string                 `json:"cpu_from"`
	MemoryRaw   *uint64                `json:"memory_current_bytes"`
	Swap        *uint64                `json:"swap_bytes"`
	PIDs        *uint64                `json:"pids"`
	OOMKills    *uint64                `json:"oom_kills"`
	Throttled   *float64               `json:"throttled_percent_of_periods"`
	ThrottledMS *float64               `json:"throttled_ms"`
	ReadRate    *float64               `json:"read_bytes_per_second"`
	WriteRate   *float64               `json:"write_bytes_per_second"`
	Limits      limitsReport           `json:"limits"`
	Pressure    map[string]*pressureOf `json:"pressure,omitempty"`
	Names       []string               `json:"names,omitempty"`
	Image       string                 `json:"image,omitempty"`
	State       string                 `json:"state,omitempty"`
	Labels      map[string]string      `json:"labels,omitempty"`
	Absent      map[string]proc.Reason `json:"absent,omitempty"`
}

// everything makes the report of a snapshot.
func everything(snapshot *see.Snapshot, root string, showSecrets bool) snapshotReport {
	o, catalogue := snapshot.Observation(), snapshot.Catalogue()
	r := snapshotReport{
		Snapshot: snapshotMeta{
			ID: snapshot.ID(), CapturedAt: o.CapturedAt.UnixMilli(), RatesAbsent: o.RatesAbsent, Root: root,
			TopsideVersion: Version(), Warnings: append([]string{}, o.Warnings...),
		},
		System:    systemOf(o),
		Engines:   []engineReport{},
		Resources: []resourceReport{},
	}
	if o.RatesAbsent == "" {
		window := o.Window.Milliseconds()
		r.Snapshot.WindowMS = &window
	}
	for i := range o.Engines {
		e := &o.Engines[i]
		r.Engines = append(r.Engines, engineReport{e.Engine, e.Status, clean(e.Reason), clean(e.Socket), len(e.Containers), e.Omitted})
	}
	all, _ := catalogue.Query(resource.Query{Limit: catalogue.Len()})
	for _, row := range all {
		r.Resources = append(r.Resources, resourceOf(row, snapshot, showSecrets))
	}
	return r
}

func systemOf(o *model.Observation) systemReport {
	s := &o.System
	r := systemReport{
		Hostname: clean(s.Hostname), Kernel: clean(s.Kernel), CPUs: o.CPUs,
		CPU: finite(s.Busy), Unaccounted: finite(s.Unaccounted), Running: s.Running, Blocked: s.Blocked,
		Switches: finite(s.ContextSwitches), Forks: finite(s.Forks), Absent: s.Absent,
		Modes: map[string]*float64{
			"user": finite(s.Modes.User), "nice": finite(s.Modes.Nice), "system": finite(s.Modes.System),
			"idle": finite(s.Modes.Idle), "iowait": finite(s.Modes.IOWait), "irq": finite(s.Modes.IRQ),
			"softirq": finite(s.Modes.SoftIRQ), "steal": finite(s.Modes.Steal), "guest": finite(s.Modes.Guest),
		},
		Cores: []coreReport{}, Disks: []diskReport{}, Filesystems: []filesystemReport{}, Interfaces: []interfaceReport{},
		Memory: memoryOf(s.Memory), Pressure: map[string]*pressureOf{}, OwnLimits: ownLimits(s.Limits),
	}
	if s.Uptime > 0 {
		seconds := s.Uptime.Seconds()
		r.UptimeSeconds = &seconds
	}
	if l := s.Load; l != nil {
		r.Load = &loadReport{l.One, l.Five, l.Fifteen, l.Runnable, l.Entities}
	}
	if s.ARC != nil {
		r.ARC = &arcReport{s.ARC.Size, s.ARC.Minimum, s.ARC.Maximum}
	}
	for name, p := range s.Pressure {
		r.Pressure[name] = pressureReport(p)
	}
	for _, c := range s.Cores {
		r.Cores = append(r.Cores, coreReport{c.ID, finite(c.Busy)})
	}
	for _, d := range s.Disks {
		r.Disks = append(r.Disks, diskReport{
			clean(d.Name), d.Partition, finite(d.ReadBytes), finite(d.WriteBytes), finite(d.Reads), finite(d.Writes),
			finite(d.Utilisation), finite(d.Latency), d.InFlight,
		})
	}
	for i := range s.Filesystems {
		f := &s.Filesystems[i]
		r.Filesystems = append(r.Filesystems, filesystemReport{
			clean(f.Mount.Point), clean(f.Mount.Type), clean(f.Mount.Source), f.Total, f.Free, f.Available, f.Inodes, f.InodesFree, f.Reason,
		})
	}
	for _, n := range s.Interfaces {
		r.Interfaces = append(r.Interfaces, interfaceReport{
			clean(n.Name), finite(n.RxBytes), finite(n.TxBytes), finite(n.RxPackets), finite(n.TxPackets), finite(n.Errors), finite(n.Drops),
		})
	}
	return r
}

// memoryOf leaves out what the kernel did not tell.
func memoryOf(m *proc.Memory) map[string]any {
	if m == nil {
		return nil
	}
	out := map[string]any{}
	put := func(name string, bytes *uint64) {
		if bytes != nil {
			out[name] = *bytes
		}
	}
	put("total_bytes", m.Total)
	put("available_bytes", m.Available)
	if m.Total != nil && m.Available != nil && *m.Available <= *m.Total {
		out["used_bytes"] = *m.Total - *m.Available
	}
	if m.AvailableEstimated {
		out["available_estimated"] = true
	}
	put("free_bytes", m.Free)
	put("buffers_bytes", m.Buffers)
	put("cached_bytes", m.Cached)
	put("shared_bytes", m.Shmem)
	put("slab_bytes", m.Slab)
	put("slab_reclaimable_bytes", m.SReclaimable)
	put("anonymous_bytes", m.AnonPages)
	put("active_file_bytes", m.ActiveFile)
	put("inactive_file_bytes", m.InactiveFile)
	put("dirty_bytes", m.Dirty)
	put("writeback_bytes", m.Writeback)
	put("swap_total_bytes", m.SwapTotal)
	put("swap_used_bytes", m.SwapUsed())
	put("commit_limit_bytes", m.CommitLimit)
	put("committed_bytes", m.Committed)
	put("huge_pages_total", m.HugePagesTotal)
	put("huge_pages_free", m.HugePagesFree)
	put("huge_page_bytes", m.HugePageSize)
	return out
}

func pressureReport(p *proc.Pressure) *pressureOf {
	if p == nil {
		return nil
	}
	return &pressureOf{Some: pressureLineOf(p.Some), Full: pressureLineOf(p.Full)}
}

func pressureLineOf(l *proc.PressureLine) *pressureLine {
	if l == nil {
		return nil
	}
	return &pressureLine{l.Avg10, l.Avg60, l.Avg300, l.TotalMicros}
}

func ownLimits(l *cgroup.Limits) *limitsReport {
	if l == nil {
		return nil
	}
	r := constraintsOf(&l.Constraints)
	r.Version, r.Path, r.Absent = l.Version, clean(l.Path), l.Missing
	return &r
}

func constraintsOf(c *cgroup.Constraints) limitsReport {
	return limitsReport{CPUQuota: c.CPUQuotaCores, CPUSet: clean(c.CPUSet), CPUs: c.CPUSetCount, Memory: c.MemoryLimit, PIDs: c.PIDsLimit}
}

func resourceOf(r *resource.Resource, snapshot *see.Snapshot, showSecrets bool) resourceReport {
	catalogue, cpus := snapshot.Catalogue(), snapshot.Observation().CPUs
	out := resourceReport{
		ID: catalogue.ID(r), Parents: catalogue.ParentIDs(r), Environment: r.Environment, Kind: r.Kind,
		NativeID: clean(r.NativeID), Source: clean(r.Source), Name: clean(r.Name),
		CPU: finite(r.CPU), CPUSeconds: finite(r.CPUSeconds), Memory: whole(r.Memory),
	}
	if out.CPU != nil && cpus > 0 {
		cores := *out.CPU * float64(cpus) / 100
		out.Cores = &cores
	}
	if r.Proc != nil {
		out.Process = processOf(r.Proc, showSecrets)
	}
	if r.Group != nil {
		out.Group = groupOf(r.Group, showSecrets)
	}
	return out
}

func processOf(p *model.Process, showSecrets bool) *processReport {
	f := p.Facts
	out := &processReport{
		PID: p.PID, PPID: p.PPID, Session: p.Session, StartTicks: p.StartTicks, State: clean(string(rune(p.State))),
		KernelTask: p.Kernel, Newborn: p.Newborn, Threads: p.Threads, Nice: p.Nice,
		Comm: display.Text(f.Comm, showSecrets), Executable: display.Text(f.Executable, showSecrets), Deleted: f.Deleted,
		Directory: display.Text(f.Directory, showSecrets), User: clean(f.User), Virtual: p.VirtualBytes,
		MinorFaults: finite(p.MinorFaults), MajorFaults: finite(p.MajorFaults),
		ReadRate: finite(p.ReadBytes), WriteRate: finite(p.WriteBytes),
		Cgroup: cgroupPath(f.Cgroups), Unit: clean(f.Placement.Unit), SystemUnit: clean(f.Placement.SystemUnit),
		ContainerID: clean(f.Placement.ContainerID), PodUID: clean(f.Placement.PodUID),
		Absent: reasons(f.Absent, "io", p.IOAbsent),
	}
	out.Args, out.ArgsCut = commandLine(f.Args, showSecrets)
	if f.Placement.InContainer() {
		out.Runtime = string(f.Placement.Runtime)
	}
	if f.UIDKnown {
		out.UID = &f.UID
	}
	if p.IOKnown {
		out.ReadBytes, out.WriteBytes = &p.IO.ReadBytes, &p.IO.WriteBytes
	}
	return out
}

// reasons adds one reason to others, which stay as they are.
func reasons(others map[string]proc.Reason, name string, reason proc.Reason) map[string]proc.Reason {
	if reason == "" {
		return others
	}
	all := map[string]proc.Reason{name: reason}
	for k, v := range others {
		all[k] = v
	}
	return all
}

// cgroupPath is the path in the hierarchy that tells most: the unified one,
// else systemd's, else memory's.
func cgroupPath(lines []proc.CgroupLine) string {
	best, rank := "", 0
	for i := range lines {
		r := 1
		switch {
		case lines[i].Controllers == "" && lines[i].Path != "/":
			r = 4
		case lines[i].Controllers == "name=systemd":
			r = 3
		case lines[i].Controllers == "memory":
			r = 2
		}
		if r > rank {
			best, rank = lines[i].Path, r
		}
	}
	return clean(best)
}

func groupOf(g *model.Group, showSecrets bool) *groupReport {
	u := &g.Usage
	out := &groupReport{
		Cgroup: clean(g.Placement.Path), Runtime: string(g.Placement.Runtime), Unit: clean(g.Placement.Unit), PodUID: clean(g.Placement.PodUID),
		Processes: g.Processes, RSS: g.RSS, CPUFrom: "processes",
		MemoryRaw: u.MemoryCurrent, Swap: u.SwapCurrent, PIDs: u.PIDsCurrent, OOMKills: u.OOMKills,
		Throttled: finite(g.Throttled), ThrottledMS: finite(g.ThrottledMS), ReadRate: finite(g.ReadBytes), WriteRate: finite(g.WriteBytes),
		Limits: constraintsOf(&u.Constraints), Absent: u.Missing,
	}
	if g.FromCgroup {
		out.CPUFrom = "cgroup"
	}
	if out.Cgroup == "" {
		out.Cgroup = clean(g.Placement.UnitPath)
	}
	for name, p := range map[string]*proc.Pressure{"cpu": u.PressureCPU, "memory": u.PressureMemory, "io": u.PressureIO} {
		if p != nil {
			if out.Pressure == nil {
				out.Pressure = map[string]*pressureOf{}
			}
			out.Pressure[name] = pressureReport(p)
		}
	}
	if g.Info != nil {
		for _, name := range g.Info.Names {
			out.Names = append(out.Names, clean(name))
		}
		out.Image, out.State, out.Labels = display.Text(g.Info.Image, showSecrets), clean(g.Info.State), labelsOf(g.Info.Labels, showSecrets)
	}
	return out
}

func labelsOf(labels map[string]string, showSecrets bool) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	out := make(map[string]string, len(labels))
	for name, value := range labels {
		out[clean(name)] = display.Label(name, value, showSecrets)
	}
	return out
}
