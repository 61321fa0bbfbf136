package cgroup

import (
	"slices"
	"strings"

	"topside/internal/see/proc"
)

const (
	missingQuota = iota
	missingCPUSet
	missingMemory
	missingPIDs
)

// constraints reads the effective limits of a group by walking up to where its
// mount begins.
func (h *Hierarchies) constraints(m *Membership) Constraints {
	var c Constraints
	h.memoryLimit(m, &c)
	h.pidsLimit(m, &c)
	h.cpuQuota(m, &c)
	h.cpuset(m, &c)
	return c
}

// ancestors calls visit for a directory and those above it within its mount,
// the nearest first, until it returns false.
func (d *directory) ancestors(visit func(dir string) bool) {
	for name := d.name; ; {
		if !visit(name) || len(name) <= len(d.top) {
			return
		}
		slash := strings.LastIndexByte(name, '/')
		if slash < 0 {
			return
		}
		name = name[:slash]
	}
}

// A readLimit reads the limit that one directory sets: nil and true for none.
type readLimit[T uint64 | float64] func(dir string) (limit *T, unlimited bool, file string, err error)

// A tightest is the smallest limit of a group and its ancestors.
type tightest[T uint64 | float64] struct {
	limit     *T
	unlimited bool // none of them sets one
	file      string
	reason    proc.Reason // why neither is known
}

// tightestOf walks from a directory to the top of its mount. Groups at the root
// lack the files of limits, and groups whose controller is off have none: where
// no file is found at all, v2File (cpu.max …) tells whether there could be one.
func tightestOf[T uint64 | float64](h *Hierarchies, d *directory, v2File string, read readLimit[T]) (t tightest[T]) {
	if !d.ok() {
		t.reason = d.absence
		return t
	}
	seen := false
	d.ancestors(func(dir string) bool {
		limit, unlimited, file, err := read(dir)
		switch {
		case err != nil:
			if t.reason == "" {
				t.reason = h.reasonOf(err, d)
			}
		case limit != nil:
			if t.limit == nil || *limit < *t.limit {
				t.limit, t.file = limit, file
			}
		case unlimited:
			seen = true
		default:
			t.reason = proc.Malformed
		}
		return true
	})
	if t.reason == NotEnabled {
		seen = seen || d.v2 && h.offeredAtTop(d, v2File) || !d.v2 && d.name == d.top
	}
	t.unlimited = t.limit == nil && seen
	if t.limit != nil || t.unlimited {
		t.reason = ""
	}
	return t
}

// limitFile reads limits that stand alone in a file.
func (h *Hierarchies) limitFile(d *directory, v1, v2 string) readLimit[uint64] {
	name := v1
	if d.v2 {
		name = v2
	}
	return func(dir string) (*uint64, bool, string, error) {
		file := dir + "/" + name
		data, err := h.fs.Read(file)
		if err != nil {
			return nil, false, "", err
		}
		limit, unlimited := parseLimit(data)
		return limit, unlimited, file, nil
	}
}

// offeredAtTop reports whether the controller of a v2 file exists at the top of
// the mount: where no group on the way down has its file, nothing is limited.
func (h *Hierarchies) offeredAtTop(d *directory, file string) bool {
	data, err := h.fs.Read(d.top + "/cgroup.controllers")
	if err != nil {
		return false
	}
	controller, _, _ := strings.Cut(file, ".")
	return slices.Contains(strings.Fields(string(data)), controller)
}

func (h *Hierarchies) memoryLimit(m *Membership, c *Constraints) {
	d := &m.dirs[memory]
	t := tightestOf(h, d, "memory.max", h.limitFile(d, "memory.limit_in_bytes", "memory.max"))
	if d.ok() && !d.v2 {
		h.hierarchicalLimit(d, &t)
	}
	c.MemoryLimit, c.MemoryUnlimited, c.memoryLimitFrom = t.limit, t.unlimited, t.file
	c.missing[missingMemory] = t.reason
}

// hierarchicalLimit takes in what v1 itself says binds a group, which counts
// ancestors that are not mounted here.
func (h *Hierarchies) hierarchicalLimit(d *directory, t *tightest[uint64]) {
	file := d.name + "/memory.stat"
	data, err := h.fs.Read(file)
	if err != nil {
		return
	}
	binding := parseMemoryStat(data, false).limit
	switch {
	case binding == nil:
		return
	case *binding < noLimit && (t.limit == nil || *binding < *t.limit):
		t.limit, t.unlimited, t.file = binding, false, file
	case t.limit == nil:
		t.unlimited = true
	}
	t.reason = ""
}

func (h *Hierarchies) pidsLimit(m *Membership, c *Constraints) {
	d := &m.dirs[pids]
	t := tightestOf(h, d, "pids.max", h.limitFile(d, "pids.max", "pids.max"))
	c.PIDsLimit, c.PIDsUnlimited, c.pidsLimitFrom = t.limit, t.unlimited, t.file
	c.missing[missingPIDs] = t.reason
}

func (h *Hierarchies) cpuQuota(m *Membership, c *Constraints) {
	d := &m.dirs[cpu]
	read := h.quotaV1
	if d.v2 {
		read = h.quotaV2
	}
	t := tightestOf(h, d, "cpu.max", read)
	c.CPUQuotaCores, c.CPUUnlimited, c.cpuQuotaFrom = t.limit, t.unlimited, t.file
	c.missing[missingQuota] = t.reason
}

func (h *Hierarchies) quotaV2(dir string) (cores *float64, unlimited bool, file string, err error) {
	file = dir + "/cpu.max"
	data, err := h.fs.Read(file)
	if err != nil {
		return nil, false, "", err
	}
	cores, unlimited = parseQuota(data)
	return cores, unlimited, file, nil
}

func (h *Hierarchies) quotaV1(dir string) (cores *float64, unlimited bool, file string, err error) {
	file = dir + "/cpu.cfs_quota_us"
	quota, err := h.fs.Read(file)
	if err != nil {
		return nil, false, "", err
	}
	period, err := h.fs.Read(dir + "/cpu.cfs_period_us")
	if err != nil {
		return nil, false, "", err
	}
	cores, unlimited = quotaCores(quota, period)
	return cores, unlimited, file, nil
}

// cpuset reads the effective CPUs. Where the controller is off for a group, the
// nearest ancestor that has it decides.
func (h *Hierarchies) cpuset(m *Membership, c *Constraints) {
	d := &m.dirs[cpuset]
	if !d.ok() {
		c.missing[missingCPUSet] = d.absence
		return
	}
	names := []string{"cpuset.effective_cpus", "cpuset.cpus"}
	if d.v2 {
		names = []string{"cpuset.cpus.effective"}
	}
	d.ancestors(func(dir string) bool {
		for _, name := range names {
			data, err := h.fs.Read(dir + "/" + name)
			if err != nil {
				if c.missing[missingCPUSet] == "" {
					c.missing[missingCPUSet] = h.reasonOf(err, d)
				}
				continue
			}
			list := strings.TrimSpace(string(data))
			count, ok := ParseCPUList(list)
			if !ok {
				c.missing[missingCPUSet] = proc.Malformed
				return false
			}
			if list == "" {
				continue // not set here
			}
			c.CPUSet, c.CPUSetCount, c.cpusetFrom = list, &count, dir+"/"+name
			c.missing[missingCPUSet] = ""
			return false
		}
		return true
	})
	if c.CPUSetCount == nil && c.missing[missingCPUSet] == "" {
		c.missing[missingCPUSet] = NotEnabled
	}
}

// Limits are the limits of the group that we ourselves run in.
type Limits struct {
	// Version is the layout of the hierarchies ("v1", "hybrid", "v2", "none").
	Version string
	// Path is our group's path, in the hierarchy that decides for memory.
	Path string
	Constraints
	// From names the file that each known limit comes from, by the Figure
	// constants.
	From map[string]string
	// Missing says why a limit is neither known nor known to be none.
	Missing map[string]proc.Reason
}

// Limited reports whether any limit is tighter than the machine, given its
// number of CPUs and bytes of memory (0 when unknown).
func (l *Limits) Limited(cpus int, memoryBytes uint64) bool {
	return l.CPUQuotaCores != nil && (cpus == 0 || *l.CPUQuotaCores < float64(cpus)) ||
		l.CPUSetCount != nil && cpus != 0 && *l.CPUSetCount < cpus ||
		l.MemoryLimit != nil && (memoryBytes == 0 || *l.MemoryLimit < memoryBytes) ||
		l.PIDsLimit != nil
}

// Self reads the limits of the group that this process runs in. In a recorded
// tree that is the recorder's group, when proc/self was recorded.
func Self(fs proc.FS) (Limits, error) {
	h, err := Discover(fs)
	if err != nil {
		return Limits{Version: h.Version()}, err
	}
	return h.Self()
}

// Self is the package's Self for hierarchies that were found before.
func (h *Hierarchies) Self() (Limits, error) {
	l := Limits{Version: h.version, From: map[string]string{}, Missing: map[string]proc.Reason{}}
	data, err := h.fs.Read("proc/self/cgroup")
	if err != nil {
		return l, err
	}
	lines, err := proc.ParseCgroups(data)
	if err != nil {
		return l, err
	}
	m := h.Place(lines)
	l.Path = selfPath(lines)
	l.Constraints = h.constraints(&m)
	for i, figure := range [...]struct{ name, from string }{
		missingQuota:  {FigureCPUQuota, l.cpuQuotaFrom},
		missingCPUSet: {FigureCPUSet, l.cpusetFrom},
		missingMemory: {FigureMemoryLimit, l.memoryLimitFrom},
		missingPIDs:   {FigurePIDsLimit, l.pidsLimitFrom},
	} {
		if figure.from != "" {
			l.From[figure.name] = figure.from
		}
		if l.missing[i] != "" {
			l.Missing[figure.name] = l.missing[i]
		}
	}
	return l, nil
}

func selfPath(lines []proc.CgroupLine) string {
	path := ""
	for i := range lines {
		if hasController(lines[i].Controllers, "memory") {
			return lines[i].Path
		}
		if lines[i].Hierarchy == 0 && lines[i].Controllers == "" {
			path = lines[i].Path
		}
	}
	return path
}
