// Package model turns two passes over a machine into rates: what each process,
// container, unit, disk and interface did in the window between them.
//
// It sits between sample (raw counters) and resource (the catalogue). It reads
// nothing and judges nothing: counters that ran backwards, or that only one of
// the passes has, give an absent figure, never a zero.
package model

import (
	"time"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/proc"
	"topside/internal/see/sample"
)

// A Figure is a number that may be unknown. The zero Figure is unknown.
type Figure struct {
	Value float64
	Known bool
}

// Known returns a figure that is known to be v.
func Known(v float64) Figure { return Figure{Value: v, Known: true} }

// Or returns the figure's value, or other when it is unknown.
func (f Figure) Or(other float64) float64 {
	if f.Known {
		return f.Value
	}
	return other
}

// An Observation is one machine over one window. It is immutable.
type Observation struct {
	// CapturedAt is when the closing pass was complete.
	CapturedAt time.Time
	// Window is the time between the two passes; zero when there was one pass
	// only, and then every rate is unknown, with RatesAbsent saying why.
	Window      time.Duration
	RatesAbsent string
	// TableError is why there are no processes; nil when the table was read.
	TableError error
	// Namespaced is true when only the processes of a PID namespace are seen.
	Namespaced bool
	// Hidden is true when the kernel hides other users' processes from us.
	Hidden bool
	// CPUs is the number of logical CPUs, the denominator of all percentages.
	CPUs      int
	Processes []Process
	Groups    []Group
	System    System
	Engines   []container.Listing
	Warnings  []string
}

// A Process is one process over the window.
type Process struct {
	*sample.Process
	// CPU is in percent of the whole machine: one busy core of 16 is 6.25.
	CPU Figure
	// CPUSeconds is user and system time since the process started, its
	// threads included.
	CPUSeconds float64
	// Faults and bytes per second over the window.
	MinorFaults, MajorFaults Figure
	ReadBytes, WriteBytes    Figure
	// Newborn is true when the process started inside the window: its CPU is
	// what it has used since.
	Newborn bool
	// Group is the index into Observation.Groups of the innermost group that
	// the process belongs to, or -1.
	Group int
}

// A Group is a set of processes with a cgroup of their own: a container or a
// systemd unit.
type Group struct {
	*sample.Group
	// CPU is in percent of the whole machine, by the group's own cgroup where
	// it has one, else summed over its processes; FromCgroup says which.
	CPU        Figure
	FromCgroup bool
	CPUSeconds Figure
	// Memory is current usage minus inactive file cache, in bytes, or the sum
	// of its processes' RSS where the cgroup does not tell.
	Memory Figure
	// Throttled is the share of the window's periods in which the group was
	// throttled, in percent; ThrottledMS the time it stood still.
	Throttled   Figure
	ThrottledMS Figure
	ReadBytes   Figure // per second
	WriteBytes  Figure
	Processes   int
	RSS         uint64          // sum of its processes' RSS, bytes
	Info        *container.Info // what an engine knows of it; nil
}

// System is the machine's own figures. Absent ones are named in Absent with
// the reason.
type System struct {
	// Busy is user + nice + system + irq + softirq in percent of the machine
	// (idle, iowait and steal are not work; guest is inside user).
	Busy   Figure
	Modes  CPUModes
	Cores  []Core
	Load   *proc.Load
	Memory *proc.Memory
	ARC    *proc.ARC
	// Pressure by resource: cpu, memory, io, irq.
	Pressure    map[string]*proc.Pressure
	Disks       []Disk
	Filesystems []proc.Usage
	Interfaces  []Interface
	Limits      *cgroup.Limits
	// Unaccounted is busy time that no process row explains: processes that
	// ended inside the window and the kernel's own work, in percent of the
	// machine.
	Unaccounted Figure
	// ContextSwitches and Forks per second.
	ContextSwitches, Forks Figure
	Running, Blocked       *uint64
	Uptime                 time.Duration // zero when unknown
	Hostname, Kernel       string
	Absent                 map[string]proc.Reason
}

// CPUModes is how the machine's CPU time was spent, in percent of the machine.
type CPUModes struct{ User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal, Guest Figure }

// A Core is one logical CPU's busy share, in percent of that core.
type Core struct {
	ID   int
	Busy Figure
}

// A Disk is one block device over the window.
type Disk struct {
	Name                  string
	Partition             bool
	ReadBytes, WriteBytes Figure // per second
	Reads, Writes         Figure // operations per second
	Utilisation           Figure // percent of the window with an operation in flight
	Latency               Figure // milliseconds per operation, mean over the window
	InFlight              uint64
}

// An Interface is one network interface over the window.
type Interface struct {
	Name                 string
	RxBytes, TxBytes     Figure // per second
	RxPackets, TxPackets Figure
	Errors, Drops        Figure // per second, both directions
}
