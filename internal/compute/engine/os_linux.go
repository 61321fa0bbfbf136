package engine

import (
	"bytes"
	"os"
	"strconv"

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
