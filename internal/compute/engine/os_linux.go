package engine

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// newCapture makes an anonymous file in memory: no disk that could be full or slow, and ranges of it can be given
// back while the child writes on.
func newCapture(name string) (*Capture, error) {
	fd, err := unix.MemfdCreate("topside-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return tempCapture(name)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND|unix.O_RDWR); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &Capture{file: os.NewFile(uintptr(fd), name)}, nil
}

// Discard gives the storage of [from,to) back. Offsets stay as they are.
func (c *Capture) Discard(from, to int64) {
	if to <= from {
		return
	}
	raw, err := c.file.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.Fallocate(int(fd), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	})
}

func fileSize(f *os.File) int64 {
	var size int64
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		var st unix.Stat_t
		if unix.Fstat(int(fd), &st) == nil {
			size = st.Size
		}
	})
	return size
}

// ownProcesses prepares this process for a child: no descriptor that it inherited passes on to them, and
// orphans of a session (a keeper whose engine died) become its children, so that their end is known.
func ownProcesses() {
	unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// limit sets the limits of a started child, before it was given any work.
func limit(pid int, l Limits) {
	set := func(resource int, n int64) {
		if n <= 0 {
			return
		}
		var old unix.Rlimit
		if unix.Prlimit(pid, resource, nil, &old) != nil {
			return
		}
		now := unix.Rlimit{Cur: min(uint64(n), old.Max), Max: min(uint64(n), old.Max)}
		unix.Prlimit(pid, resource, &now, nil)
	}
	set(unix.RLIMIT_AS, l.Memory)
	set(unix.RLIMIT_FSIZE, l.FileSize)
	core := unix.Rlimit{}
	unix.Prlimit(pid, unix.RLIMIT_CORE, &core, nil)
}

// processCount is the number of processes and threads of the machine, a cheap first look for a fork bomb.
func processCount() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int(info.Procs)
}

// isZombie tells whether the process is dead and only not collected by its parent yet.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	end := bytes.LastIndexByte(stat, ')')
	return err == nil && end > 0 && bytes.HasPrefix(stat[end:], []byte(") Z"))
}

// workSpan is how long a process must have computed without a pause to pass for one that is not about to begin a system
// call: one that mostly waits is seen computing now and then too. workPatience is how long that is looked for.
const (
	workSpan     = time.Millisecond
	workPatience = 20 * time.Millisecond
)

// interruptible tells whether a signal disturbs nothing that the process does: it computes, or it sleeps in a call that
// OCaml itself begins again. Where that cannot be read, it is not.
func interruptible(pid int) bool {
	pauses, begun := switches(pid), computed(pid)
	for end := time.Now().Add(workPatience); time.Now().Before(end); time.Sleep(workSpan) {
		inCall, sleeps := systemCall(pid)
		if inCall {
			return sleeps
		}
		if pauses == nil || !bytes.Equal(pauses, switches(pid)) {
			return false
		}
		if computed(pid)-begun >= workSpan {
			return true
		}
	}
	return false
}

// computed is how long the process has had a CPU (proc(5), /proc/PID/schedstat); 0 where the kernel does not tell.
func computed(pid int) time.Duration {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/schedstat")
	first, _, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.ParseInt(string(first), 10, 64)
	return time.Duration(n)
}

// systemCall tells whether the process is in a system call, and whether that is a sleep (proc(5), /proc/PID/syscall).
func systemCall(pid int) (inCall, sleeps bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall")
	number, _, _ := bytes.Cut(text, []byte(" "))
	if err != nil || len(number) == 0 {
		return true, false
	}
	if bytes.HasPrefix(number, []byte("running")) {
		return false, false
	}
	n, err := strconv.Atoi(string(number))
	return true, err == nil && (n == unix.SYS_NANOSLEEP || n == unix.SYS_CLOCK_NANOSLEEP)
}

// switches is the line of /proc/PID/status that counts how often the process began to wait; nil when it is not there.
func switches(pid int) []byte {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, rest, found := bytes.Cut(text, []byte("\nvoluntary_ctxt_switches:"))
	if err != nil || !found {
		return nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return line
}
