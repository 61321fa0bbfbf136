package sample

// This file remembers the static facts of each process between passes, and
// decides when they are read again.

import (
	"strconv"
	"time"

	"topside/internal/see/proc"
)

// An entry is what is remembered of one process.
type entry struct {
	start               uint64
	facts               *Facts
	startCode, argStart uint64
	readAt              time.Time // when the facts were read
	settled             bool      // read again since the process was young
	ticks               uint64
	io                  proc.IO
	ioKnown             bool
	ioAbsent            proc.Reason
	ioPass              uint64 // the pass that read io last; 0 is never
	seen                uint64 // the last pass that saw the process
}

const (
	// young is how long after its birth a process may still be moved into its
	// cgroup or change its user: what starts processes does that.
	young = 10 * time.Second
	// stale is when facts that can change without an exec (title, cgroup,
	// user, directory) are read again.
	stale = 45 * time.Second
	// staleBatch bounds how many stale facts one pass reads again.
	staleBatch = 256
)

// entryOf returns the entry of a process with its facts up to date. A process
// is the same while its PID and start ticks are; after an exec (another name,
// or another place of its code or arguments) its facts are read anew.
func (s *Sampler) entryOf(pid int32, stat *proc.Stat) *entry {
	e := s.table[pid]
	switch {
	case e == nil || e.start != stat.StartTicks:
		e = &entry{start: stat.StartTicks}
		s.table[pid] = e
	case e.facts.Comm == string(stat.Comm) && e.startCode == stat.StartCode && e.argStart == stat.ArgStart && !s.due(e):
		return e
	}
	if stat.Ended() && e.facts != nil {
		e.readAt = s.now // a zombie tells nothing new: what it was stays
		return e
	}
	e.settled = !s.youngAt(stat)
	e.startCode, e.argStart = stat.StartCode, stat.ArgStart
	e.facts = s.readFacts(pid, stat)
	e.readAt = s.now
	return e
}

// due reports whether facts should be read again though no exec was seen.
func (s *Sampler) due(e *entry) bool {
	if !s.fs.Live() {
		return false
	}
	age := s.now.Sub(e.readAt)
	if !e.settled {
		return age > time.Second
	}
	if age < stale || s.reread >= staleBatch {
		return false
	}
	s.reread++
	return true
}

// youngAt reports whether a process started less than young ago.
func (s *Sampler) youngAt(stat *proc.Stat) bool {
	if s.uptime == 0 || s.clockTicks == 0 {
		return false
	}
	started := time.Duration(stat.StartTicks) * time.Second / time.Duration(s.clockTicks)
	return s.uptime-started < young
}

func (s *Sampler) readFacts(pid int32, stat *proc.Stat) *Facts {
	f := &Facts{Comm: string(stat.Comm)}
	kernel := stat.KernelThread()
	if uid, err := s.fs.Owner(pid); err != nil {
		f.missing("user", s.fs.ReasonOf(err))
	} else {
		f.UID, f.UIDKnown, f.User = uid, true, s.users.name(uid)
	}
	if lines, err := s.fs.Cgroups(pid); err != nil {
		f.missing("cgroup", s.fs.ReasonOf(err))
	} else {
		f.placed = s.groups.place(lines)
		f.Cgroups, f.Placement = f.placed.lines, f.placed.placement
	}
	if kernel {
		for _, what := range []string{"args", "executable", "directory"} {
			f.missing(what, KernelTask)
		}
		return f
	}
	if stat.Ended() {
		for _, what := range []string{"args", "executable", "directory"} {
			f.missing(what, Ended)
		}
		return f
	}
	if args, err := s.fs.Cmdline(pid); err != nil {
		f.missing("args", s.fs.ReasonOf(err))
	} else {
		f.Args = args
	}
	if path, deleted, err := s.fs.Executable(pid); err != nil {
		f.missing("executable", s.fs.ReasonOf(err))
	} else {
		f.Executable, f.Deleted = path, deleted
	}
	if directory, err := s.fs.WorkingDirectory(pid); err != nil {
		f.missing("directory", s.fs.ReasonOf(err))
	} else {
		f.Directory = directory
	}
	return f
}

// KernelTask is the reason why a kernel task has no arguments, executable or
// directory.
const KernelTask proc.Reason = "kernel task"

// Ended is the reason why a zombie has none of them any more.
const Ended proc.Reason = "the process has ended (zombie)"

func (f *Facts) missing(what string, why proc.Reason) {
	if f.Absent == nil {
		f.Absent = map[string]proc.Reason{}
	}
	f.Absent[what] = why
}

// users turns user ids into names by the root's own passwd file.
type users struct {
	fs     proc.FS
	names  map[uint32]string
	readAt time.Time
}

func newUsers(fs proc.FS) *users { return &users{fs: fs} }

func (u *users) name(uid uint32) string {
	if u.names == nil || time.Since(u.readAt) > time.Minute {
		u.names, u.readAt = u.fs.Users(), time.Now()
	}
	if name, ok := u.names[uid]; ok {
		return name
	}
	return strconv.FormatUint(uint64(uid), 10)
}
