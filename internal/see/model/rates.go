package model

// This file makes an observation of two passes.

import (
	"fmt"
	"time"

	"topside/internal/see/container"
	"topside/internal/see/sample"
)

// Between makes the observation of the window between two passes over the same
// machine. Processes are matched by PID and start ticks, and only within one
// boot.
func Between(before, after *sample.Pass) *Observation {
	w := window{before: before, after: after, elapsed: middle(after).Sub(middle(before))}
	if before.BootID != after.BootID {
		return without(after, "the machine was restarted between two samples")
	}
	if w.elapsed <= 0 {
		return without(after, "no time passed between two samples")
	}
	return w.observe()
}

// Alone makes the observation of a single pass, in which every rate is absent
// for that reason.
func Alone(pass *sample.Pass, reason string) *Observation { return without(pass, reason) }

func without(pass *sample.Pass, reason string) *Observation {
	w := window{after: pass}
	o := w.observe()
	o.RatesAbsent = reason
	return o
}

// middle is the moment that a pass stands for.
func middle(p *sample.Pass) time.Time { return p.Began.Add(p.Ended.Sub(p.Began) / 2) }

// A window is two passes; before is nil when there was one only.
type window struct {
	before, after *sample.Pass
	elapsed       time.Duration
}

func (w *window) observe() *Observation {
	o := &Observation{
		CapturedAt: w.after.Ended,
		Window:     w.elapsed,
		TableError: w.after.TableError,
		Hidden:     w.after.Hidden,
		Namespaced: w.after.Namespaced,
		CPUs:       w.after.System.CPUs,
		Engines:    w.after.Engines,
		Warnings:   append([]string(nil), w.after.Warnings...),
	}
	var ticks uint64
	o.Processes, ticks = w.processes(o.CPUs)
	o.Groups = w.groups(o)
	o.System = w.system(o)
	w.account(o, ticks)
	if w.before != nil && w.before.System.CPUs != o.CPUs {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the number of CPUs changed from %d to %d during the sample", w.before.System.CPUs, o.CPUs))
	}
	return o
}

// processes matches the rows of both passes by merging them, since both are
// sorted by PID. It also returns the ticks that all rows explain.
func (w *window) processes(cpus int) ([]Process, uint64) {
	rows := make([]Process, len(w.after.Processes))
	var explained uint64
	var earlier []sample.Process
	if w.before != nil {
		earlier = w.before.Processes
	}
	j := 0
	for i := range rows {
		now := &w.after.Processes[i]
		for j < len(earlier) && earlier[j].PID < now.PID {
			j++
		}
		var then *sample.Process
		if j < len(earlier) && earlier[j].PID == now.PID && earlier[j].StartTicks == now.StartTicks {
			then = &earlier[j]
		}
		explained += w.process(&rows[i], then, now, cpus)
	}
	return rows, explained
}

func (w *window) process(row *Process, then, now *sample.Process, cpus int) (ticks uint64) {
	*row = Process{Process: now, Group: now.Group}
	row.CPUSeconds = float64(now.UserTicks+now.SystemTicks) / float64(max(w.after.ClockTicks, 1))
	if w.before == nil {
		return 0
	}
	if then == nil {
		if !w.bornInside(now) {
			return 0
		}
		row.Newborn = true
		then = &sample.Process{}
	}
	delta, ok := growth(then.UserTicks+then.SystemTicks, now.UserTicks+now.SystemTicks)
	if ok {
		row.CPU = w.share(delta, cpus)
		ticks = delta
	}
	row.MinorFaults = w.perSecond(then.MinorFaults, now.MinorFaults)
	row.MajorFaults = w.perSecond(then.MajorFaults, now.MajorFaults)
	row.ReadBytes, row.WriteBytes = w.io(row.Newborn, then, now)
	return ticks
}

// bornInside reports whether a process that only the later pass saw started
// after the earlier one, to the tick: otherwise it was hidden then, and what it
// used before is not of this window.
func (w *window) bornInside(p *sample.Process) bool {
	if w.before.Uptime == 0 {
		return false
	}
	since := uint64(w.before.Uptime.Seconds() * float64(w.after.ClockTicks))
	return p.StartTicks+1 >= since
}

func (w *window) io(newborn bool, then, now *sample.Process) (read, write Figure) {
	if !now.IOKnown || !then.IOKnown && !newborn {
		return Figure{}, Figure{}
	}
	return w.perSecond(then.IO.ReadBytes, now.IO.ReadBytes), w.perSecond(then.IO.WriteBytes, now.IO.WriteBytes)
}

// growth is the difference of two readings of a counter; a counter that ran
// backwards was reset and has none.
func growth(then, now uint64) (uint64, bool) {
	if now < then {
		return 0, false
	}
	return now - then, true
}

// share turns ticks into percent of the whole machine.
func (w *window) share(ticks uint64, cpus int) Figure {
	if cpus <= 0 || w.after.ClockTicks == 0 {
		return Figure{}
	}
	return Known(float64(ticks) / float64(w.after.ClockTicks) / w.elapsed.Seconds() / float64(cpus) * 100)
}

func (w *window) perSecond(then, now uint64) Figure {
	delta, ok := growth(then, now)
	if !ok || w.elapsed <= 0 {
		return Figure{}
	}
	return Known(float64(delta) / w.elapsed.Seconds())
}

// account reports the busy time that no row explains. Ticks are coarse, so a
// small excess of the rows over the machine is zero, not negative.
func (w *window) account(o *Observation, explained uint64) {
	if !o.System.Busy.Known || w.after.TableError != nil || w.before.TableError != nil {
		return
	}
	rows := w.share(explained, o.CPUs)
	if !rows.Known {
		return
	}
	o.System.Unaccounted = Known(max(o.System.Busy.Value-rows.Value, 0))
}

// groups gives each group its figures: of its own cgroup where that tells,
// else summed over the processes in it and in the groups inside it.
func (w *window) groups(o *Observation) []Group {
	groups := make([]Group, len(w.after.Groups))
	earlier := map[string]*sample.Group{}
	if w.before != nil {
		for i := range w.before.Groups {
			earlier[w.before.Groups[i].Key] = &w.before.Groups[i]
		}
	}
	for i := range groups {
		groups[i].Group = &w.after.Groups[i]
	}
	sums := w.sums(o.Processes, groups)
	for i := range groups {
		g := &groups[i]
		w.groupCPU(g, earlier[g.Key], o.CPUs, sums[i])
		w.groupMemory(g)
		w.groupIO(g, earlier[g.Key])
		g.Info = infoOf(w.after.Engines, g.Placement.ContainerID)
	}
	return append(groups, unseen(w.after.Engines, groups)...)
}

// sum is what the processes of a group add up to.
type sum struct {
	cpu     float64
	seconds float64
	known   bool
}

func (w *window) sums(processes []Process, groups []Group) []sum {
	sums := make([]sum, len(groups))
	for i := range processes {
		p := &processes[i]
		for g, hops := p.Group, 0; g >= 0 && hops <= len(groups); g, hops = groups[g].Parent, hops+1 {
			groups[g].Processes++
			groups[g].RSS += p.RSS
			sums[g].seconds += p.CPUSeconds
			if p.CPU.Known {
				sums[g].cpu += p.CPU.Value
				sums[g].known = true
			}
		}
	}
	return sums
}

func (w *window) groupCPU(g *Group, then *sample.Group, cpus int, s sum) {
	now := g.Usage.CPUMicros
	if now != nil {
		g.CPUSeconds = Known(float64(*now) / 1e6)
	} else {
		g.CPUSeconds = Known(s.seconds)
	}
	if now != nil && then != nil && then.Usage.CPUMicros != nil && cpus > 0 {
		if delta, ok := growth(*then.Usage.CPUMicros, *now); ok && w.elapsed > 0 {
			g.CPU = Known(float64(delta) / 1e6 / w.elapsed.Seconds() / float64(cpus) * 100)
			g.FromCgroup = true
		}
	} else if s.known {
		g.CPU = Known(s.cpu)
	}
	if then == nil {
		return
	}
	periods, ok := difference(then.Usage.Periods, g.Usage.Periods)
	throttled, ok2 := difference(then.Usage.ThrottledPeriods, g.Usage.ThrottledPeriods)
	if ok && ok2 && periods > 0 {
		g.Throttled = Known(float64(throttled) / float64(periods) * 100)
	}
	if micros, ok := difference(then.Usage.ThrottledMicros, g.Usage.ThrottledMicros); ok {
		g.ThrottledMS = Known(float64(micros) / 1e3)
	}
}

func (w *window) groupMemory(g *Group) {
	if set := g.Usage.MemoryWorkingSet(); set != nil {
		g.Memory = Known(float64(*set))
		return
	}
	g.Memory = Known(float64(g.RSS))
}

func (w *window) groupIO(g *Group, then *sample.Group) {
	if then == nil || w.elapsed <= 0 {
		return
	}
	if n, ok := difference(then.Usage.IOReadBytes, g.Usage.IOReadBytes); ok {
		g.ReadBytes = Known(float64(n) / w.elapsed.Seconds())
	}
	if n, ok := difference(then.Usage.IOWriteBytes, g.Usage.IOWriteBytes); ok {
		g.WriteBytes = Known(float64(n) / w.elapsed.Seconds())
	}
}

func difference(then, now *uint64) (uint64, bool) {
	if then == nil || now == nil {
		return 0, false
	}
	return growth(*then, *now)
}

func infoOf(engines []container.Listing, id string) *container.Info {
	if id == "" {
		return nil
	}
	for i := range engines {
		for j := range engines[i].Containers {
			if engines[i].Containers[j].ID == id {
				return &engines[i].Containers[j]
			}
		}
	}
	return nil
}

// unseen makes groups of the running containers that an engine lists and no
// visible process belongs to (hidden processes, or an engine in a virtual
// machine): they exist, and what they use is unknown.
func unseen(engines []container.Listing, groups []Group) []Group {
	seen := make(map[string]bool, len(groups))
	for i := range groups {
		seen[groups[i].Placement.ContainerID] = true
	}
	var out []Group
	for i := range engines {
		if !engines[i].Current() {
			continue // what it lists is of the past
		}
		for j := range engines[i].Containers {
			info := &engines[i].Containers[j]
			if seen[info.ID] || info.State != "running" && info.State != "paused" {
				continue
			}
			seen[info.ID] = true
			placement := container.Attribution{Runtime: engines[i].Runtime(), ContainerID: info.ID}
			out = append(out, Group{
				Group: &sample.Group{Key: "engine:" + info.ID, Container: true, Placement: placement, Parent: -1},
				Info:  info,
			})
		}
	}
	return out
}
