package cgroup

import (
	"topside/internal/see/proc"
)

// The names of figures in Usage.Missing and Limits.Missing.
const (
	FigureCPU            = "cpu"
	FigureThrottling     = "throttling"
	FigureCPUQuota       = "cpu_quota"
	FigureCPUSet         = "cpuset"
	FigureMemory         = "memory"
	FigureMemoryStat     = "memory_stat"
	FigureMemoryLimit    = "memory_limit"
	FigureSwap           = "swap"
	FigureOOMKills       = "oom_kills"
	FigurePIDs           = "pids"
	FigurePIDsLimit      = "pids_limit"
	FigureIO             = "io"
	FigurePressureCPU    = "pressure_cpu"
	FigurePressureMemory = "pressure_memory"
	FigurePressureIO     = "pressure_io"
)

// Usage is one reading of a group's counters and limits. A nil pointer is a
// figure that could not be read; Missing says why. Counters include the groups
// below.
type Usage struct {
	CPUMicros    *uint64 // CPU time since the group was made
	UserMicros   *uint64
	SystemMicros *uint64 // of those, in the kernel

	Periods          *uint64 // enforcement intervals of the quota that passed
	ThrottledPeriods *uint64 // of those, how many ended throttled
	ThrottledMicros  *uint64

	MemoryCurrent      *uint64 // bytes, page cache included
	MemoryInactiveFile *uint64 // bytes of page cache that nobody used lately
	MemoryAnon         *uint64
	MemoryFile         *uint64
	SwapCurrent        *uint64
	OOMKills           *uint64

	PIDsCurrent *uint64 // tasks, threads included

	IOReadBytes, IOWriteBytes *uint64 // that reached the block devices

	PressureCPU, PressureMemory, PressureIO *proc.Pressure

	// Constraints are the group's limits and its ancestors', whichever is
	// tighter.
	Constraints

	// Missing names the figures that are absent, by the Figure constants; nil
	// when none is.
	Missing map[string]proc.Reason
}

// Constraints are the effective limits of a group: the tightest of its own and
// its ancestors', as far up as they can be seen. Each figure is nil both when
// there is no limit, with its Unlimited flag set, and when it is not known.
type Constraints struct {
	CPUQuotaCores   *float64 // cores' worth of time per period
	CPUUnlimited    bool
	CPUSet          string // "0-3,8": the CPUs that the group may run on
	CPUSetCount     *int
	MemoryLimit     *uint64 // bytes
	MemoryUnlimited bool
	PIDsLimit       *uint64
	PIDsUnlimited   bool
	memoryLimitFrom string
	pidsLimitFrom   string
	cpuQuotaFrom    string
	cpusetFrom      string
	missing         [4]proc.Reason // quota, cpuset, memory, pids
}

// MemoryWorkingSet is the memory in use as people mean it: the current figure
// without the inactive page cache, never below zero; nil unless both are known.
func (u *Usage) MemoryWorkingSet() *uint64 {
	if u.MemoryCurrent == nil || u.MemoryInactiveFile == nil {
		return nil
	}
	set := *u.MemoryCurrent - min(*u.MemoryInactiveFile, *u.MemoryCurrent)
	return &set
}

func (u *Usage) miss(figure string, reason proc.Reason) {
	if reason == "" {
		return
	}
	if u.Missing == nil {
		u.Missing = make(map[string]proc.Reason)
	}
	if _, known := u.Missing[figure]; !known {
		u.Missing[figure] = reason
	}
}

// Usage reads every figure of a group, opening each file once. See [Reader] for
// groups that are read again and again.
func (h *Hierarchies) Usage(m Membership) Usage {
	reading := reading{h: h, m: &m, read: func(f file) ([]byte, error) { return h.readFile(&m, f) }}
	reading.counters()
	reading.u.Constraints = h.constraints(&m)
	reading.constraints()
	return reading.u
}

// readFile reads one of a group's files by its name.
func (h *Hierarchies) readFile(m *Membership, f file) ([]byte, error) {
	path := m.path(f)
	if path == "" {
		return nil, errNoFile
	}
	data, err := h.fs.Read(path)
	if err != nil && f == fileIO && !m.dirs[blkio].v2 {
		// Kernels before 5.0 have no recursive figure on v1.
		if own, ownErr := h.fs.Read(m.dirs[blkio].name + "/blkio.throttle.io_service_bytes"); ownErr == nil {
			return own, nil
		}
	}
	return data, err
}

// A reading fills one Usage; read gives it the files.
type reading struct {
	h    *Hierarchies
	m    *Membership
	read func(file) ([]byte, error)
	u    Usage
}

// get reads one file, or books why its figures are missing.
func (r *reading) get(f file, figures ...string) ([]byte, bool) {
	dir := &r.m.dirs[fileNames[f].dir]
	reason := dir.absence
	if reason == "" {
		data, err := r.read(f)
		if err == nil {
			return data, true
		}
		reason = r.h.reasonOf(err, dir)
	}
	for _, figure := range figures {
		r.u.miss(figure, reason)
	}
	return nil, false
}

// need books a figure that its file did not hold.
func need[T any](r *reading, value *T, figure string, reason proc.Reason) {
	if value == nil {
		r.u.miss(figure, reason)
	}
}

func (r *reading) counters() {
	r.cpu()
	r.memory()
	if data, ok := r.get(filePIDs, FigurePIDs); ok {
		r.u.PIDsCurrent = single(data)
		need(r, r.u.PIDsCurrent, FigurePIDs, proc.Malformed)
	}
	if data, ok := r.get(fileIO, FigureIO); ok {
		if r.m.dirs[blkio].v2 {
			r.u.IOReadBytes, r.u.IOWriteBytes = parseIOStat(data)
			if len(data) == 0 { // no device was ever touched
				r.u.IOReadBytes, r.u.IOWriteBytes = new(uint64), new(uint64)
			}
		} else {
			r.u.IOReadBytes, r.u.IOWriteBytes = parseServiceBytes(data)
		}
		need(r, r.u.IOReadBytes, FigureIO, proc.Malformed)
	}
	r.u.PressureCPU = r.pressure(filePressureCPU, FigurePressureCPU)
	r.u.PressureMemory = r.pressure(filePressureMemory, FigurePressureMemory)
	r.u.PressureIO = r.pressure(filePressureIO, FigurePressureIO)
}

func (r *reading) cpu() {
	u := &r.u
	if !r.m.dirs[cpuacct].v2 {
		if data, ok := r.get(fileCPUUsage, FigureCPU); ok {
			if nanos := single(data); nanos != nil {
				micros := *nanos / 1000
				u.CPUMicros = &micros
			}
			need(r, u.CPUMicros, FigureCPU, proc.Malformed)
		}
		if data, ok := r.get(fileCPUSplit, FigureCPU); ok {
			u.UserMicros, u.SystemMicros = parseCPUSplit(data)
		}
	}
	// On v2 one file holds both the time and the throttling.
	shared := r.m.dirs[cpu] == r.m.dirs[cpuacct]
	if r.m.dirs[cpuacct].v2 {
		if data, ok := r.get(fileCPUUsage, FigureCPU); ok {
			stat := parseCPUStat(data)
			u.CPUMicros, u.UserMicros, u.SystemMicros = stat.usage, stat.user, stat.system
			need(r, u.CPUMicros, FigureCPU, proc.Malformed)
			if shared {
				r.throttling(stat)
			}
		} else if shared {
			u.miss(FigureThrottling, u.Missing[FigureCPU])
		}
	}
	if !shared || !r.m.dirs[cpuacct].v2 {
		if data, ok := r.get(fileCPUStat, FigureThrottling); ok {
			r.throttling(parseCPUStat(data))
		}
	}
}

func (r *reading) throttling(stat cpuStat) {
	r.u.Periods, r.u.ThrottledPeriods, r.u.ThrottledMicros = stat.periods, stat.throttled, stat.micros
	need(r, stat.throttled, FigureThrottling, NotEnabled)
}

func (r *reading) memory() {
	u, v2 := &r.u, r.m.dirs[memory].v2
	if data, ok := r.get(fileMemory, FigureMemory); ok {
		u.MemoryCurrent = single(data)
		need(r, u.MemoryCurrent, FigureMemory, proc.Malformed)
	}
	if data, ok := r.get(fileMemoryStat, FigureMemoryStat); ok {
		stat := parseMemoryStat(data, v2)
		u.MemoryInactiveFile, u.MemoryAnon, u.MemoryFile = stat.inactiveFile, stat.anon, stat.file
		need(r, u.MemoryInactiveFile, FigureMemoryStat, proc.Malformed)
		if !v2 {
			u.SwapCurrent = stat.swap
			need(r, u.SwapCurrent, FigureSwap, proc.Unsupported)
		}
	} else if !v2 {
		u.miss(FigureSwap, u.Missing[FigureMemoryStat])
	}
	if v2 {
		if data, ok := r.get(fileSwap, FigureSwap); ok {
			u.SwapCurrent = single(data)
			need(r, u.SwapCurrent, FigureSwap, proc.Malformed)
		}
	}
	if data, ok := r.get(fileMemoryEvents, FigureOOMKills); ok {
		u.OOMKills = parseOOMKills(data)
		need(r, u.OOMKills, FigureOOMKills, proc.Unsupported)
	}
}

func (r *reading) pressure(f file, figure string) *proc.Pressure {
	data, ok := r.get(f, figure)
	if !ok {
		return nil
	}
	p, err := proc.ParsePressure(data)
	if err != nil {
		r.u.miss(figure, r.h.fs.ReasonOf(err))
		return nil
	}
	return p
}

// constraints books what is missing of the limits.
func (r *reading) constraints() {
	c := &r.u.Constraints
	for i, figure := range [...]string{FigureCPUQuota, FigureCPUSet, FigureMemoryLimit, FigurePIDsLimit} {
		r.u.miss(figure, c.missing[i])
	}
}
