package sample

// This file takes a pass: it walks the process table once and gathers what
// belongs to it.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/proc"
)

// Options tune a sampler.
type Options struct {
	// Engines lists the containers that engines know; nil asks none.
	Engines *container.Engines
	// KeepDescriptors is how many stat files stay open between passes; 0 is
	// [DefaultKeptDescriptors], negative none.
	KeepDescriptors int
}

// DefaultKeptDescriptors bounds the stat files that stay open. Each costs the
// kernel about a page, which is why a machine with more processes than this
// pays the cost of opening the rest.
const DefaultKeptDescriptors = 4096

// A Sampler takes passes over one root. It remembers static facts and open
// files between them. It is not safe for concurrent use; Close it when done.
type Sampler struct {
	fs          proc.FS
	options     Options
	scanner     *proc.Scanner
	hierarchies *cgroup.Hierarchies
	table       map[int32]*entry
	groups      *grouper
	system      *systemReader
	users       *users
	clockTicks  uint64
	pageSize    uint64
	pass        uint64        // number of the pass being taken
	now         time.Time     // its start
	uptime      time.Duration // of the machine, then
	reread      int           // stale facts that it read again
	count       int           // processes in the last pass
}

// NewSampler returns a sampler of that root.
func NewSampler(fs proc.FS, o Options) *Sampler {
	// Without control groups there are no containers to see, and all the rest:
	// the hierarchies are then empty.
	hierarchies, _ := cgroup.Discover(fs)
	kept := descriptors(o.KeepDescriptors)
	hierarchies.LimitKept(kept / 4)
	return &Sampler{
		fs: fs, options: o, hierarchies: hierarchies,
		scanner:    fs.NewScanner(proc.ScannerOptions{KeepDescriptors: kept}),
		table:      map[int32]*entry{},
		groups:     newGrouper(hierarchies),
		system:     newSystemReader(fs, hierarchies),
		users:      newUsers(fs),
		clockTicks: fs.ClockTicks(),
		pageSize:   fs.PageSize(),
	}
}

// descriptors keeps at most half of what the process may open, since clients,
// control groups and sessions need the rest.
func descriptors(wanted int) int {
	switch {
	case wanted < 0:
		return 0
	case wanted == 0:
		wanted = DefaultKeptDescriptors
	}
	return min(wanted, openFileLimit()/2)
}

// Live reports whether a running kernel is sampled.
func (s *Sampler) Live() bool { return s.fs.Live() }

// Close releases the files that are kept open.
func (s *Sampler) Close() error {
	s.groups.close()
	s.system.close()
	var err error
	if s.options.Engines != nil {
		err = s.options.Engines.Close()
	}
	return errors.Join(err, s.scanner.Close())
}

// Take reads the machine once. It fails only when ctx ends: what cannot be read
// is absent in the pass, with its reason, even the process table itself.
func (s *Sampler) Take(ctx context.Context) (*Pass, error) {
	s.pass++
	pass := &Pass{Live: s.fs.Live(), ClockTicks: s.clockTicks, Processes: make([]Process, 0, s.count+s.count/16+16)}
	engines := s.listEngines(ctx)
	filesystems := s.system.startFilesystems(ctx)
	if err := s.readProcesses(ctx, pass); err != nil {
		return nil, err
	}
	s.groups.read(pass)
	pass.System.Filesystems = filesystems(&pass.System)
	pass.Engines = engines()
	s.warn(pass)
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return pass, nil
}

func (s *Sampler) readProcesses(ctx context.Context, pass *Pass) error {
	pass.Began = time.Now()
	s.system.read(pass)
	s.groups.begin()
	s.now, s.uptime, s.reread = pass.Began, pass.Uptime, 0
	var walk int
	err := s.scanner.Scan(func(pid int32, stat *proc.Stat, err error) {
		walk++
		switch {
		case walk%64 == 0 && ctx.Err() != nil:
		case err == nil:
			s.add(pass, pid, stat)
		case s.fs.ReasonOf(err) == proc.NoPermission:
			pass.Denied++
		default:
			pass.Malformed++
		}
	})
	pass.Ended = time.Now()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		pass.TableError = fmt.Errorf("the process table could not be read: %w", err)
		pass.Warnings = append(pass.Warnings, pass.TableError.Error())
	}
	byPID := func(a, b Process) int { return int(a.PID) - int(b.PID) }
	if !slices.IsSortedFunc(pass.Processes, byPID) {
		slices.SortFunc(pass.Processes, byPID)
	}
	s.count = len(pass.Processes)
	s.forget()
	return nil
}

// add makes the row of one process. Once the process is known and idle this
// costs no system call and no allocation.
func (s *Sampler) add(pass *Pass, pid int32, stat *proc.Stat) {
	e := s.entryOf(pid, stat)
	ticks := stat.UserTicks + stat.SystemTicks
	if e.ioPass == 0 || ticks != e.ticks || stat.State == 'D' {
		s.readIO(e, pid)
	}
	e.ticks, e.seen = ticks, s.pass
	pass.Processes = append(pass.Processes, Process{
		PID: pid, PPID: stat.PPID, StartTicks: stat.StartTicks, State: stat.State,
		Kernel: stat.KernelThread(), Threads: stat.Threads, Nice: stat.Nice, Session: stat.Session,
		UserTicks: stat.UserTicks, SystemTicks: stat.SystemTicks,
		MinorFaults: stat.MinorFaults, MajorFaults: stat.MajorFaults,
		RSS: stat.RSSPages * s.pageSize, VirtualBytes: stat.VirtualBytes,
		IO: e.io, IOKnown: e.ioKnown, IOAbsent: e.ioAbsent,
		Facts: e.facts,
		Group: s.groups.of(pass, e.facts),
	})
}

func (s *Sampler) readIO(e *entry, pid int32) {
	io, err := s.fs.IO(pid)
	e.ioPass = s.pass
	if err != nil {
		e.ioKnown, e.ioAbsent = false, s.fs.ReasonOf(err)
		return
	}
	e.io, e.ioKnown, e.ioAbsent = io, true, ""
}

// forget drops what is remembered of processes that are gone.
func (s *Sampler) forget() {
	if len(s.table) == s.count {
		return
	}
	for pid, e := range s.table {
		if e.seen != s.pass {
			delete(s.table, pid)
		}
	}
}

// listEngines asks the engines while the table is read; their own bound on
// waiting holds.
func (s *Sampler) listEngines(ctx context.Context) func() []container.Listing {
	if s.options.Engines == nil {
		return func() []container.Listing { return nil }
	}
	listed := make(chan []container.Listing, 1)
	go func() { listed <- s.options.Engines.List(ctx) }()
	return func() []container.Listing { return <-listed }
}

// warn says once per pass what a reader must know to read its figures right.
func (s *Sampler) warn(pass *Pass) {
	if mode, err := s.fs.HidePID(); err == nil && mode != "off" && !privileged() {
		pass.Hidden = true
		pass.Warnings = append(pass.Warnings, fmt.Sprintf(
			"proc is mounted with hidepid=%s: other users' processes are hidden and missing from every list and sum", mode))
	}
	if pass.Namespaced = s.namespaced(pass); pass.Namespaced {
		pass.Warnings = append(pass.Warnings, "only the processes of this PID namespace (a container) are visible: those outside of it are missing from every list and sum")
	}
	if !s.fs.Live() && s.fs.Root() == "/" {
		pass.Warnings = append(pass.Warnings, "no procfs is mounted at the root: what is there is read like a recorded tree")
	}
	if pass.Malformed > 0 {
		pass.Warnings = append(pass.Warnings, fmt.Sprintf("%d processes had a stat line that could not be understood and are left out", pass.Malformed))
	}
	if pass.Denied > 0 {
		pass.Warnings = append(pass.Warnings, fmt.Sprintf("%d processes could not be read for lack of permission and are left out", pass.Denied))
	}
	for i := range pass.Engines {
		if w := pass.Engines[i].Warning(); w != "" {
			pass.Warnings = append(pass.Warnings, w)
		}
	}
}

// namespaced reports whether the table lacks kthreadd, process 2 of every whole
// machine, though nothing hides it.
func (s *Sampler) namespaced(pass *Pass) bool {
	if !pass.Live || pass.Hidden || pass.TableError != nil {
		return false
	}
	at, found := slices.BinarySearchFunc(pass.Processes, int32(kthreadd), func(p Process, pid int32) int { return int(p.PID) - int(pid) })
	return !found || !pass.Processes[at].Kernel
}

const kthreadd = 2
