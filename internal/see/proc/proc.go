// Package proc reads the kernel's files of one root: the process table, the
// system's counters and the static facts of a process.
//
// It is the lowest layer of see: it knows the formats of the files below
// proc/ and sys/ and nothing of rates, containers or resources. The root is a
// value, so that everything runs on a recorded tree as well as on the live
// kernel; no other package spells out a path below proc/ or sys/.
//
// A figure that a file does not hold is absent (a nil pointer), never zero,
// and every error can be reduced to a [Reason] that tells the reader why.
package proc

import (
	"errors"
)

// A Reason says why a figure is absent. It is a short phrase for people and
// agents, and one of the constants below.
type Reason string

// The kinds of absence. They are kept apart because each asks for something
// else: more rights, another kernel, or nothing at all.
const (
	NoPermission Reason = "no permission"
	Unsupported  Reason = "not supported by this kernel"
	Vanished     Reason = "vanished while being read"
	Malformed    Reason = "malformed"
	NotRecorded  Reason = "not in this recorded tree"
	TimedOut     Reason = "timed out"
	Unreadable   Reason = "unreadable"
)

// ErrMalformed is wrapped by every parse error; the error's text quotes the
// bytes that could not be understood.
var ErrMalformed = errors.New("malformed")

// Stat is one line of proc/PID/stat (proc_pid_stat(5)). Counters are in clock
// ticks, sizes as the kernel gives them. Comm aliases the buffer that was
// parsed: copy it to keep it.
type Stat struct {
	PID         int32
	Comm        []byte // between the first '(' and the last ')'
	State       byte
	PPID        int32
	PGRP        int32
	Session     int32
	TTY         int32
	Flags       uint64 // PF_KTHREAD is 0x00200000
	MinorFaults uint64
	MajorFaults uint64
	UserTicks   uint64
	SystemTicks uint64
	// ChildUserTicks and ChildSystemTicks are of children that were waited for.
	ChildUserTicks   uint64
	ChildSystemTicks uint64
	Nice             int32
	Threads          int32
	StartTicks       uint64 // since boot
	VirtualBytes     uint64
	RSSPages         uint64 // negative values (some kernels' races) are 0
	// StartCode and ArgStart change with every exec of an ASLR kernel; both
	// are 0 without the right to trace the process.
	StartCode uint64
	ArgStart  uint64
	// Fields is how many fields the line held, from 1 (pid) on.
	Fields int
}

// KernelThread reports whether the row is a kernel task (PF_KTHREAD).
func (s *Stat) KernelThread() bool { return s.Flags&0x00200000 != 0 }

// IO is proc/PID/io: bytes that reached storage, and those of all system calls.
type IO struct {
	ReadBytes, WriteBytes       uint64 // storage
	CancelledWriteBytes         uint64
	ReadChars, WriteChars       uint64 // rchar, wchar
	ReadSyscalls, WriteSyscalls uint64
}

// CPUTimes are the columns of one cpu line of proc/stat, in clock ticks.
// Guest time is already inside User (and GuestNice inside Nice).
type CPUTimes struct {
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal, Guest, GuestNice uint64
	// Columns is how many of them the kernel gave (old kernels: 4 to 9).
	Columns int
}

// CPU is one logical CPU's line of proc/stat.
type CPU struct {
	ID    int
	Times CPUTimes
}

// KernelStat is proc/stat.
type KernelStat struct {
	Total           CPUTimes
	CPUs            []CPU
	ContextSwitches *uint64
	BootTime        *int64  // seconds since the epoch; wall clock, never an identity
	Forks           *uint64 // nil when negative or missing
	Running         *uint64
	Blocked         *uint64
}

// Memory is proc/meminfo in bytes. A key that is missing is nil.
type Memory struct {
	Total, Free, Available, Buffers, Cached, Shmem, Slab, SReclaimable, SUnreclaim *uint64
	Active, Inactive, ActiveFile, InactiveFile, Dirty, Writeback, AnonPages        *uint64
	SwapTotal, SwapFree, SwapCached                                                *uint64
	CommitLimit, Committed                                                         *uint64
	HugePagesTotal, HugePagesFree, HugePageSize                                    *uint64 // counts of pages; HugePageSize in bytes
	// AvailableEstimated is true when the kernel gave no MemAvailable and
	// Available was estimated (free + buffers + cached - shmem + reclaimable).
	AvailableEstimated bool
}

// SwapUsed returns total minus free; nil when unknown or when the two
// contradict each other (lxcfs writes a free of 2^64-128 kB).
func (m *Memory) SwapUsed() *uint64 {
	if m.SwapTotal == nil || m.SwapFree == nil || *m.SwapFree > *m.SwapTotal {
		if m.SwapTotal != nil && *m.SwapTotal == 0 {
			return new(uint64)
		}
		return nil
	}
	used := *m.SwapTotal - *m.SwapFree
	return &used
}

// ARC is ZFS's adaptive replacement cache (proc/spl/kstat/zfs/arcstats), in
// bytes: Size is what it holds, Minimum what it cannot be shrunk below.
type ARC struct{ Size, Minimum, Maximum uint64 }

// PressureLine is one line of a pressure file: averages in percent, the total
// in microseconds.
type PressureLine struct {
	Avg10, Avg60, Avg300 float64
	TotalMicros          uint64
}

// Pressure is one file of PSI. A line that the kernel does not give is nil.
type Pressure struct{ Some, Full *PressureLine }

// Load is proc/loadavg.
type Load struct {
	One, Five, Fifteen float64
	Runnable, Entities int
}

// Disk is one line of proc/diskstats. Sectors are 512 bytes whatever the device.
type Disk struct {
	Major, Minor                  uint32
	Name                          string
	Reads, ReadSectors, ReadMS    uint64
	Writes, WriteSectors, WriteMS uint64
	InFlight                      uint64
	BusyMS                        uint64 // io_ticks
	WeightedMS                    uint64
	Partition                     bool // by sys/dev/block/MAJ:MIN/partition or the parent's folder, else by name
}

// Interface is one line of proc/net/dev.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
	TxKnown                                 bool // false when the line was cut before the transmit columns
}

// Mount is one line of proc/PID/mountinfo, octal escapes decoded.
type Mount struct {
	ID, Parent   int
	Major, Minor uint32
	Root         string
	Point        string
	Options      string
	Type         string
	Source       string
	SuperOptions string
}

// CgroupLine is one line of proc/PID/cgroup.
type CgroupLine struct {
	Hierarchy   int
	Controllers string // "", "name=systemd", "cpu,cpuacct"
	Path        string
	// Deleted is true when the cgroup was removed while the process (a
	// zombie) was still in it; the kernel's mark is cut from Path.
	Deleted bool
}
