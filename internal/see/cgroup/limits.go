package cgroup

import (
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

// A limitWalk keeps the tightest limit of a group and its ancestors.
type limitWalk struct {
	limit   *uint64
	from    string
	seen    bool        // some file of the kind was read
	reason  proc.Reason // of the first that could not be
	invalid bool
}

func (h *Hierarchies) walkLimit(d *directory, v1, v2 string) (w limitWalk) {
	if !d.ok() {
		return limitWalk{reason: d.absence}
	}
	name := v1
	if d.v2 {
		name = v2
	}
	d.ancestors(func(dir string) bool {
		data, err := h.fs.Read(dir + "/" + name)
		if err != nil {
			if w.reason == "" {
				w.reason = h.reasonOf(err, d)
			}
			return true
		}
		limit, unlimited := parseLimit(data)
		switch {
		case limit != nil && (w.limit == nil || *limit < *w.limit):
			w.limit, w.from = limit, dir+"/"+name
		case limit == nil && !unlimited:
			w.invalid = true
			return true
		}
		w.seen = true
		return true
	})
	if w.invalid && !w.seen {
		w.reason = proc.Malformed
	}
	if w.reason == NotEnabled && d.v2 && h.offeredAtTop(d, v2) {
		w.seen = true // only the root lacks the file, and the root has no limit
	}
	return w
}

// offeredAtTop reports whether the controller of a v2 file exists at the top of
// the mount: where no group on the way down has its file, nothing is limited.
func (h *Hierarchies) offeredAtTop(d *directory, file string) bool {
	data, err := h.fs.Read(d.top + "/cgroup.controllers")
	if err != nil {
		return false
	}
	controller, _, _ := strings.Cut(file, ".")
	for _, offered := range strings.Fields(string(data)) {
		if offered == controller {
			return true
		}
	}
	return false
}

func (h *Hierarchies) memoryLimit(m *Membership, c *Constraints) {
	w := h.walkLimit(&m.dirs[memory], "memory.limit_in_bytes", "memory.max")
	c.MemoryLimit, c.memoryLimitFrom = w.limit, w.from
	c.MemoryUnlimited = w.limit == nil && w.seen
	// v1 also says itself what binds, even from ancestors that are not mounted.
	if d := &m.dirs[memory]; d.ok() && !d.v2 {
		if data, err := h.fs.Read(d.name + "/memory.stat"); err == nil {
			if limit := parseMemoryStat(data, false).limit; limit != nil {
				if *limit < noLimit && (c.MemoryLimit == nil || *limit < *c.MemoryLimit) {
					c.MemoryLimit, c.memoryLimitFrom = limit, d.name+"/memory.stat"
				}
				c.MemoryUnlimited = c.MemoryLimit == nil
			}
		}
	}
	if c.MemoryLimit == nil && !c.MemoryUnlimited {
		c.missing[missingMemory] = w.reason
	}
}

func (h *Hierarchies) pidsLimit(m *Membership, c *Constraints) {
	w := h.walkLimit(&m.dirs[pids], "pids.max", "pids.max")
	c.PIDsLimit, c.pidsLimitFrom = w.limit, w.from
	c.PIDsUnlimited = w.limit == nil && w.seen
	if w.limit == nil && unlimitedRoot(&m.dirs[pids], w.reason) {
		c.PIDsUnlimited = true // v1's root group has no pids.max
	}
	if c.PIDsLimit == nil && !c.PIDsUnlimited {
		c.missing[missingPIDs] = w.reason
	}
}

// unlimitedRoot reports whether a v1 directory is the top of its mount and lacks the
// file that only groups below the root have.
func unlimitedRoot(d *directory, reason proc.Reason) bool {
	return d.ok() && !d.v2 && d.name == d.top && reason == NotEnabled
}

func (h *Hierarchies) cpuQuota(m *Membership, c *Constraints) {
	d := &m.dirs[cpu]
	if !d.ok() {
		c.missing[missingQuota] = d.absence
		return
	}
	var reason proc.Reason
	seen := false
	d.ancestors(func(dir string) bool {
		cores, unlimited, from, err := h.ownQuota(dir, d.v2)
		switch {
		case err != nil:
			if reason == "" {
				reason = h.reasonOf(err, d)
			}
		case cores == nil && !unlimited:
			reason = proc.Malformed
		default:
			seen = true
			if cores != nil && (c.CPUQuotaCores == nil || *cores < *c.CPUQuotaCores) {
				c.CPUQuotaCores, c.cpuQuotaFrom = cores, from
			}
		}
		return true
	})
	if reason == NotEnabled && (d.v2 && h.offeredAtTop(d, "cpu.max") || unlimitedRoot(d, reason)) {
		seen = true
	}
	c.CPUUnlimited = c.CPUQuotaCores == nil && seen
	if c.CPUQuotaCores == nil && !seen {
		c.missing[missingQuota] = reason
	}
}

// ownQuota reads the quota of one directory, in cores.
func (h *Hierarchies) ownQuota(dir string, v2 bool) (cores *float64, unlimited bool, from string, err error) {
	if v2 {
		from = dir + "/cpu.max"
		data, err := h.fs.Read(from)
		if err != nil {
			return nil, false, "", err
		}
		cores, unlimited = parseQuota(data)
		return cores, unlimited, from, nil
	}
	from = dir + "/cpu.cfs_quota_us"
	quota, err := h.fs.Read(from)
	if err != nil {
		return nil, false, "", err
	}
	period, err := h.fs.Read(dir + "/cpu.cfs_period_us")
	if err != nil {
		return nil, false, "", err
	}
	cores, unlimited = quotaCores(quota, period)
	return cores, unlimited, from, nil
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
