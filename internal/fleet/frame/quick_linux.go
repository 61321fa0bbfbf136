package frame

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A system call that may block is announced to Go's scheduler, which wakes its monitor
// thread if all was idle before. For a request of a few bytes to an idle process that
// costs more than the request: two switches between threads on each side. Reads and
// writes of a descriptor that does not block need no announcement.

// maxQuick is the most that is read or written unannounced: copying it takes
// microseconds.
const maxQuick = 64 << 10

// quickReader reads what the runtime polls; nil if r is not such a file or socket.
func quickReader(r io.Reader) io.Reader {
	raw := polled(r)
	if raw == nil {
		return nil
	}
	// One function for all reads: a reader is for one goroutine at a time.
	var b []byte
	var n int
	var err error
	read := func(fd uintptr) bool {
		n, err = quick(unix.SYS_READ, fd, b)
		return err != unix.EAGAIN
	}
	return readFunc(func(into []byte) (int, error) {
		if len(into) == 0 {
			return 0, nil
		}
		b = into
		outer := raw.Read(read)
		b = nil
		switch {
		case outer != nil:
			return 0, outer
		case n == 0 && err == nil:
			return 0, io.EOF
		}
		return n, err
	})
}

// directWriter returns a function that writes to w what the system takes without
// waiting, or nil where w is not a file or socket that the runtime polls. It is for
// one goroutine at a time.
func directWriter(w io.Writer) func([]byte) (int, error) {
	raw := polled(w)
	if raw == nil {
		return nil
	}
	var b []byte
	var n int
	var err error
	write := func(fd uintptr) bool {
		n, err = quick(unix.SYS_WRITE, fd, b)
		return true
	}
	return func(from []byte) (int, error) {
		b = from
		outer := raw.Write(write)
		b = nil
		switch {
		case outer != nil:
			return 0, outer
		case err == unix.EAGAIN:
			return n, nil
		}
		return n, err
	}
}

// quick reads or writes. Whoever shares the descriptor may have made it block: then
// the scheduler has to know.
func quick(call, fd uintptr, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	b = b[:min(len(b), maxQuick)]
	for {
		var n uintptr
		var err syscall.Errno
		flags, _, _ := unix.RawSyscall(unix.SYS_FCNTL, fd, unix.F_GETFL, 0)
		if int(flags)&unix.O_NONBLOCK != 0 {
			n, _, err = unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		} else {
			n, _, err = unix.Syscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		}
		switch err {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}
