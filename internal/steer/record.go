package steer

// This file makes the process record of the xtop contract (section 1.3) of a
// process in a snapshot.

import (
	"math"
	"strconv"
	"time"

	"topside/internal/see/model"
	"topside/internal/see/proc"
)

// A Record is one process as the xtop contract shows it.
type Record struct {
	PID  int32
	Name string
	// CPU is in percent of one core, to one decimal; 0 when it is not known
	// yet, since the contract has no absence here.
	CPU      float64
	MemBytes uint64
	State    string
	User     string // numeric user id, or "?"
	Cmd      string // the first argument
	Exe      string // "?" when unreadable
	PPID     int32
	Threads  int32
	RunTime  int64 // seconds since the start
	Cwd      string
}

// RecordOf makes the record of a process. The user is the effective one;
// [RealUser] corrects that where it matters.
func RecordOf(o *model.Observation, p *model.Process, clockTicks uint64) Record {
	f := p.Facts
	r := Record{
		PID: p.PID, Name: f.Comm, MemBytes: p.RSS, State: StateWord(p.State), User: "?", Exe: "?", Cwd: "?",
		PPID: p.PPID, Threads: p.Threads, RunTime: int64(runTime(o, p, clockTicks) / time.Second),
	}
	r.CPU = math.Round(p.CPU.Or(0)*float64(max(o.CPUs, 1))*10) / 10
	if f.UIDKnown {
		r.User = strconv.FormatUint(uint64(f.UID), 10)
	}
	if len(f.Args) > 0 {
		r.Cmd = f.Args[0]
	}
	if f.Executable != "" {
		r.Exe = f.Executable
	}
	if f.Directory != "" {
		r.Cwd = f.Directory
	}
	return r
}

// RealUser puts the real user id into a record, as the contract has it: it
// differs from the effective one in a setuid program. Reading it costs one
// file, so that it is done for the records that are shown.
func RealUser(fs proc.FS, r *Record) {
	if status, err := fs.Status(r.PID); err == nil && status.Uids != nil {
		r.User = strconv.FormatUint(uint64(status.Uids[0]), 10)
	}
}

func runTime(o *model.Observation, p *model.Process, clockTicks uint64) time.Duration {
	if o.System.Uptime == 0 || clockTicks == 0 {
		return 0
	}
	started := time.Duration(float64(p.StartTicks) / float64(clockTicks) * float64(time.Second))
	return max(o.System.Uptime-started, 0)
}

// StateWord is the contract's word for the state letter of proc_pid_stat(5).
func StateWord(state byte) string {
	switch state {
	case 'R':
		return "Run"
	case 'S':
		return "Sleep"
	case 'D':
		return "UninterruptibleDiskSleep"
	case 'I':
		return "Idle"
	case 'T':
		return "Stop"
	case 't':
		return "Tracing"
	case 'Z':
		return "Zombie"
	case 'X', 'x':
		return "Dead"
	case 'K':
		return "Wakekill"
	case 'W':
		return "Waking"
	case 'P':
		return "Parked"
	}
	return "Unknown(" + strconv.Itoa(int(state)) + ")"
}
