package proc

// The scanner's loop over a live procfs: getdents64 on a kept directory, then
// openat, read and close per process, or one pread of a kept descriptor. It
// stays within a few percent of those system calls alone, and allocates
// nothing per process.

import (
	"encoding/binary"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Scanner walks the process table of one FS. It owns the descriptor of proc/
// and those it keeps; Close ends them.
type Scanner struct {
	fs   FS
	stat Stat
	dir  int // descriptor of proc/, -1 when closed
	most int // how many descriptors may be kept

	// kept holds the descriptors of the last scan in the order of their pids,
	// next those of the scan that is running. The kernel lists processes in
	// that order too, so that both are merged in one pass.
	kept, next []keptStat

	entries [32 << 10]byte
	line    [longestStat]byte
	path    [len("2147483647/stat\x00")]byte
}

type keptStat struct {
	pid int32
	fd  int32
}

// NewScanner returns a scanner. Nothing is opened before the first scan.
func (f FS) NewScanner(opts ScannerOptions) *Scanner {
	return &Scanner{fs: f, dir: -1, most: max(opts.KeepDescriptors, 0)}
}

// Close closes what the scanner holds. It may be used again afterwards.
func (sc *Scanner) Close() error {
	for _, k := range sc.kept {
		closeRaw(int(k.fd))
	}
	sc.kept = sc.kept[:0]
	if sc.dir >= 0 {
		closeRaw(sc.dir)
		sc.dir = -1
	}
	return nil
}

func (sc *Scanner) scanLive(visit func(pid int32, s *Stat, err error)) error {
	if err := sc.rewind(); err != nil {
		return err
	}
	sc.next = sc.next[:0]
	old, last := 0, int32(0)
	for {
		n, errno := getdents(sc.dir, sc.entries[:])
		if errno != 0 {
			sc.keep(old)
			closeRaw(sc.dir)
			sc.dir = -1
			return &fs.PathError{Op: "getdents64", Path: sc.fs.Path("proc"), Err: errno}
		}
		if n == 0 {
			break
		}
		for at := 0; at < n; {
			pid, length := direntPID(sc.entries[at:n])
			if length == 0 {
				break
			}
			at += length
			if pid <= 0 {
				continue
			}
			if sc.most > 0 && pid > last {
				last = pid
				old = sc.visitKept(pid, old, visit)
			} else {
				sc.visitOnce(pid, visit)
			}
		}
	}
	sc.drop(old)
	sc.kept, sc.next = sc.next, sc.kept[:0]
	return nil
}

// rewind puts the directory back to its start, opening it the first time.
func (sc *Scanner) rewind() error {
	if sc.dir >= 0 {
		if _, err := unix.Seek(sc.dir, 0, 0); err == nil {
			return nil
		}
		closeRaw(sc.dir)
		sc.dir = -1
	}
	dir, err := sc.fs.open("proc", unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	sc.dir = dir.fd
	return nil
}

// drop closes the kept descriptors from position old on: their processes are
// not in the directory any more.
func (sc *Scanner) drop(old int) {
	for _, k := range sc.kept[old:] {
		closeRaw(int(k.fd))
	}
}

// keep ends a scan that failed half way without losing a descriptor.
func (sc *Scanner) keep(old int) {
	sc.drop(old)
	sc.kept, sc.next = sc.next, sc.kept[:0]
}

// visitOnce reads a process's line without keeping anything open.
func (sc *Scanner) visitOnce(pid int32, visit func(pid int32, s *Stat, err error)) {
	fd, errno := sc.openStat(pid)
	if errno != 0 {
		sc.fail(pid, errno, visit)
		return
	}
	n, errno := readRaw(fd, sc.line[:])
	closeRaw(fd)
	sc.deliver(pid, n, errno, visit)
}

// visitKept reads a process's line from its kept descriptor, or opens one and
// keeps it while there is room. It returns the new position in sc.kept.
func (sc *Scanner) visitKept(pid int32, old int, visit func(pid int32, s *Stat, err error)) int {
	for old < len(sc.kept) && sc.kept[old].pid < pid {
		closeRaw(int(sc.kept[old].fd))
		old++
	}
	if old < len(sc.kept) && sc.kept[old].pid == pid {
		fd := int(sc.kept[old].fd)
		old++
		n, errno := preadRaw(fd, sc.line[:])
		if errno == 0 && n > 0 {
			sc.next = append(sc.next, keptStat{pid, int32(fd)})
			sc.deliver(pid, n, 0, visit)
			return old
		}
		// The process that the descriptor belongs to is dead. The pid may
		// be another's by now.
		closeRaw(fd)
	}
	fd, errno := sc.openStat(pid)
	if errno == unix.EMFILE || errno == unix.ENFILE {
		// Better fewer kept descriptors than processes that cannot be read.
		sc.most = len(sc.next) / 2
		for _, k := range sc.next[sc.most:] {
			closeRaw(int(k.fd))
		}
		sc.next = sc.next[:sc.most]
		sc.drop(old)
		old = len(sc.kept)
		fd, errno = sc.openStat(pid)
	}
	if errno != 0 {
		sc.fail(pid, errno, visit)
		return old
	}
	n, errno := readRaw(fd, sc.line[:])
	if errno == 0 && len(sc.next)+len(sc.kept)-old < sc.most {
		sc.next = append(sc.next, keptStat{pid, int32(fd)})
	} else {
		closeRaw(fd)
	}
	sc.deliver(pid, n, errno, visit)
	return old
}

// deliver parses a line and passes it on.
func (sc *Scanner) deliver(pid int32, n int, errno unix.Errno, visit func(pid int32, s *Stat, err error)) {
	if errno != 0 {
		sc.fail(pid, errno, visit)
		return
	}
	err := ParseStat(sc.line[:n], &sc.stat)
	sc.stat.PID = pid
	visit(pid, &sc.stat, err)
}

// fail passes an error on, unless it only says that the process is gone.
func (sc *Scanner) fail(pid int32, errno unix.Errno, visit func(pid int32, s *Stat, err error)) {
	if errno == unix.ENOENT || errno == unix.ESRCH {
		return
	}
	sc.stat = Stat{PID: pid}
	visit(pid, &sc.stat, errno)
}

// direntPID returns the pid that the first linux_dirent64 of b names (0 when
// it names something else) and the record's length (0 when it is broken).
func direntPID(b []byte) (pid int32, length int) {
	const lengthAt, nameAt = 16, 19
	if len(b) < nameAt {
		return 0, 0
	}
	length = int(binary.NativeEndian.Uint16(b[lengthAt:]))
	if length < nameAt || length > len(b) {
		return 0, 0
	}
	for _, c := range b[nameAt:length] {
		if c == 0 {
			break
		}
		if c < '0' || c > '9' || pid > (1<<31-1-9)/10 {
			return 0, length
		}
		pid = pid*10 + int32(c-'0')
	}
	return pid, length
}

// openStat opens PID/stat below the kept directory.
func (sc *Scanner) openStat(pid int32) (int, unix.Errno) {
	const suffix = "/stat\x00"
	at := len(sc.path) - len(suffix)
	copy(sc.path[at:], suffix)
	for v := pid; v > 0; v /= 10 {
		at--
		sc.path[at] = byte('0' + v%10)
	}
	for {
		fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(sc.dir), uintptr(unsafe.Pointer(&sc.path[at])),
			unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if errno != unix.EINTR {
			return int(fd), errno
		}
	}
}

// The calls below are raw: none of them waits for anything but the processor,
// so that the scheduler need not hear of them.

func getdents(fd int, into []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

func readRaw(fd int, into []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// preadRaw reads from the start of a file. The offset's two halves are both 0,
// so that the call is right on 32-bit machines too.
func preadRaw(fd int, into []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)), 0, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

func closeRaw(fd int) { unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }
