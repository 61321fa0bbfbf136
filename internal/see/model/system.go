package model

// This file makes the machine's own figures of two passes.

import (
	"maps"
	"slices"

	"topside/internal/see/proc"
	"topside/internal/see/sample"
)

func (w *window) system(o *Observation) System {
	now := &w.after.System
	s := System{
		Load: now.Load, Memory: now.Memory, ARC: now.ARC, Pressure: now.Pressure,
		Filesystems: now.Filesystems, Limits: now.Limits, Uptime: w.after.Uptime,
		Hostname: now.Hostname, Kernel: now.Release, Absent: maps.Clone(now.Absent),
	}
	if now.Kernel != nil {
		s.Running, s.Blocked = now.Kernel.Running, now.Kernel.Blocked
	}
	if w.before == nil {
		s.Disks, s.Interfaces = disksAlone(now.Disks), interfacesAlone(now.Interfaces)
		return s
	}
	w.cpu(&s, &w.before.System, now)
	s.Disks = w.disks(w.before.System.Disks, now.Disks)
	s.Interfaces = w.interfaces(w.before.System.Interfaces, now.Interfaces)
	return s
}

func (w *window) cpu(s *System, then, now *sample.System) {
	if then.Kernel == nil || now.Kernel == nil {
		return
	}
	s.Modes = modesOf(then.Kernel.Total, now.Kernel.Total)
	s.Busy = busyShare(then.Kernel.Total, now.Kernel.Total)
	s.Cores = cores(then.Kernel.CPUs, now.Kernel.CPUs)
	if n, ok := difference(then.Kernel.ContextSwitches, now.Kernel.ContextSwitches); ok {
		s.ContextSwitches = Known(float64(n) / w.elapsed.Seconds())
	}
	if n, ok := difference(then.Kernel.Forks, now.Kernel.Forks); ok {
		s.Forks = Known(float64(n) / w.elapsed.Seconds())
	}
}

// columnsOf are the columns of a cpu line that add up to the time that passed:
// guest time is already inside user, and guest_nice inside nice.
func columnsOf(t proc.CPUTimes) [8]uint64 {
	return [...]uint64{t.User, t.Nice, t.System, t.Idle, t.IOWait, t.IRQ, t.SoftIRQ, t.Steal}
}

// busyColumns are those that are work: idle, iowait and steal are not.
var busyColumns = [8]bool{0: true, 1: true, 2: true, 5: true, 6: true}

// passed is the ticks between two lines. Shares are of these rather than of the
// clock, so that they add up to 100 however late a line was read. A column that
// ran backwards (steal and iowait do) did not pass.
func passed(then, now proc.CPUTimes) (total uint64) {
	before, after := columnsOf(then), columnsOf(now)
	for i := range after {
		if delta, ok := growth(before[i], after[i]); ok {
			total += delta
		}
	}
	return total
}

func shareOf(ticks, total uint64) Figure {
	if total == 0 {
		return Figure{}
	}
	return Known(float64(ticks) / float64(total) * 100)
}

// busyShare is unknown if any column of work ran backwards.
func busyShare(then, now proc.CPUTimes) Figure {
	var sum uint64
	before, after := columnsOf(then), columnsOf(now)
	for i := range after {
		if !busyColumns[i] {
			continue
		}
		delta, ok := growth(before[i], after[i])
		if !ok {
			return Figure{}
		}
		sum += delta
	}
	return shareOf(sum, passed(then, now))
}

func modesOf(then, now proc.CPUTimes) CPUModes {
	columns, total := min(then.Columns, now.Columns), passed(then, now)
	mode := func(column int, then, now uint64) Figure {
		delta, ok := growth(then, now)
		if !ok || column > columns {
			return Figure{}
		}
		return shareOf(delta, total)
	}
	return CPUModes{
		User: mode(1, then.User, now.User), Nice: mode(2, then.Nice, now.Nice),
		System: mode(3, then.System, now.System), Idle: mode(4, then.Idle, now.Idle),
		IOWait: mode(5, then.IOWait, now.IOWait), IRQ: mode(6, then.IRQ, now.IRQ),
		SoftIRQ: mode(7, then.SoftIRQ, now.SoftIRQ), Steal: mode(8, then.Steal, now.Steal),
		Guest: mode(9, then.Guest, now.Guest),
	}
}

func cores(then, now []proc.CPU) []Core {
	earlier := make(map[int]proc.CPUTimes, len(then))
	for _, c := range then {
		earlier[c.ID] = c.Times
	}
	cores := make([]Core, 0, len(now))
	for _, c := range now {
		core := Core{ID: c.ID}
		if before, ok := earlier[c.ID]; ok {
			core.Busy = busyShare(before, c.Times)
		}
		cores = append(cores, core)
	}
	return cores
}

// capped cuts what the coarseness of the kernel's clock puts above the possible.
func capped(f Figure, limit float64) Figure {
	f.Value = min(f.Value, limit)
	return f
}

func disksAlone(disks []proc.Disk) []Disk {
	out := make([]Disk, len(disks))
	for i, d := range disks {
		out[i] = Disk{Name: d.Name, Partition: d.Partition, InFlight: d.InFlight}
	}
	return out
}

const sectorBytes = 512

func (w *window) disks(then, now []proc.Disk) []Disk {
	out := disksAlone(now)
	for i, d := range now {
		at := slices.IndexFunc(then, func(e proc.Disk) bool {
			return e.Name == d.Name && e.Major == d.Major && e.Minor == d.Minor
		})
		if at < 0 {
			continue
		}
		e := then[at]
		out[i].Reads, out[i].Writes = w.perSecond(e.Reads, d.Reads), w.perSecond(e.Writes, d.Writes)
		out[i].ReadBytes = scaled(w.perSecond(e.ReadSectors, d.ReadSectors), sectorBytes)
		out[i].WriteBytes = scaled(w.perSecond(e.WriteSectors, d.WriteSectors), sectorBytes)
		out[i].Utilisation = capped(scaled(w.perSecond(e.BusyMS, d.BusyMS), 0.1), 100)
		out[i].Latency = latency(e, d)
	}
	return out
}

func scaled(f Figure, by float64) Figure {
	f.Value *= by
	return f
}

// latency is the mean time of the operations that ended in the window; unknown
// when there were none.
func latency(then, now proc.Disk) Figure {
	reads, ok := growth(then.Reads, now.Reads)
	writes, ok2 := growth(then.Writes, now.Writes)
	spent, ok3 := growth(then.ReadMS+then.WriteMS, now.ReadMS+now.WriteMS)
	if !ok || !ok2 || !ok3 || reads+writes == 0 {
		return Figure{}
	}
	return Known(float64(spent) / float64(reads+writes))
}

func interfacesAlone(interfaces []proc.Interface) []Interface {
	out := make([]Interface, len(interfaces))
	for i := range interfaces {
		out[i].Name = interfaces[i].Name
	}
	return out
}

func (w *window) interfaces(then, now []proc.Interface) []Interface {
	out := interfacesAlone(now)
	for i, n := range now {
		at := slices.IndexFunc(then, func(e proc.Interface) bool { return e.Name == n.Name })
		if at < 0 {
			continue
		}
		e := then[at]
		out[i].RxBytes, out[i].RxPackets = w.perSecond(e.RxBytes, n.RxBytes), w.perSecond(e.RxPackets, n.RxPackets)
		out[i].Errors = w.perSecond(e.RxErrors+e.TxErrors, n.RxErrors+n.TxErrors)
		out[i].Drops = w.perSecond(e.RxDropped+e.TxDropped, n.RxDropped+n.TxDropped)
		if e.TxKnown && n.TxKnown {
			out[i].TxBytes, out[i].TxPackets = w.perSecond(e.TxBytes, n.TxBytes), w.perSecond(e.TxPackets, n.TxPackets)
		}
	}
	return out
}
