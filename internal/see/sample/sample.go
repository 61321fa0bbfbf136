// Package sample takes one pass over a machine: the raw counters of every
// process, the static facts of each (cached by identity), the counters of the
// containers' and units' cgroups, and the system's own files.
//
// It sits above proc, cgroup and container, which read single files, and below
// model, which turns two passes into rates. A pass is immutable once taken and
// holds counters with the time they were read at, never rates.
package sample

import (
	"time"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/proc"
)

// A Pass is one reading of the whole machine.
type Pass struct {
	// Began and Ended bound the reading of the process table, on the monotonic
	// clock; rates use their midpoint.
	Began, Ended time.Time
	Uptime       time.Duration // at Began; zero when unknown
	BootID       string
	Live         bool
	ClockTicks   uint64
	// Processes is sorted by PID.
	Processes []Process
	// Groups are the containers and units that those processes belong to.
	Groups  []Group
	System  System
	Engines []container.Listing
	// TableError is why the process table could not be read; nil when it was.
	TableError error
	// Namespaced is true when the table is that of a PID namespace inside the
	// machine (a container): processes outside of it are not in it.
	Namespaced bool
	// Hidden is true when the kernel hides other users' processes from us.
	Hidden bool
	// Denied counts processes of which less could be read than their owner
	// could; Malformed those whose stat line made no sense.
	Denied, Malformed int
	Warnings          []string
}

// A Process is one row of the table.
type Process struct {
	PID, PPID  int32
	StartTicks uint64 // with BootID and PID: the identity of a process
	State      byte
	Kernel     bool // a kernel task
	Threads    int32
	Nice       int32
	Session    int32
	// UserTicks and SystemTicks cover all threads.
	UserTicks, SystemTicks   uint64
	MinorFaults, MajorFaults uint64
	RSS                      uint64 // bytes
	VirtualBytes             uint64
	// IO is what the process read and wrote so far, as of the last pass in
	// which it had been active; IOKnown is false when it was never read, and
	// IOAbsent then says why.
	IO       proc.IO
	IOKnown  bool
	IOAbsent proc.Reason
	Facts    *Facts
	// Group is an index into Pass.Groups, or -1.
	Group int
}

// Ended reports whether the process has ended and only waits for its parent; see
// [proc.Stat.Ended].
func (p *Process) Ended() bool { return (p.State == 'Z' || p.State == 'X') && p.Threads <= 1 }

// Facts are what stays the same between two execs of a process. They are
// shared between passes and never changed.
type Facts struct {
	Comm       string
	Args       []string // nil for kernel tasks and when unreadable
	Executable string
	Deleted    bool // the executable's file is gone
	Directory  string
	UID        uint32
	UIDKnown   bool
	User       string // by the root's passwd file, else the number
	Cgroups    []proc.CgroupLine
	Placement  container.Attribution
	// Absent names the facts that could not be read: args, executable,
	// directory, user, cgroup.
	Absent map[string]proc.Reason

	placed *placed // nil without a cgroup
}

// A Group is a container or a systemd unit with processes in it.
type Group struct {
	Key       string // unique within the pass, stable between passes
	Container bool
	Placement container.Attribution
	Usage     cgroup.Usage
	// Parent is the index of the group around this one (a container in a pod
	// or a unit, a user's unit in the system's), or -1.
	Parent int

	lines []proc.CgroupLine // of a process inside
	path  string            // of the group's own cgroup; "" when it has none
}

// System is the machine's own files in one pass.
type System struct {
	Kernel      *proc.KernelStat
	CPUs        int
	Load        *proc.Load
	Memory      *proc.Memory
	ARC         *proc.ARC
	Pressure    map[string]*proc.Pressure
	Disks       []proc.Disk
	Interfaces  []proc.Interface
	Filesystems []proc.Usage
	Limits      *cgroup.Limits
	Hostname    string
	Release     string
	Absent      map[string]proc.Reason
}
