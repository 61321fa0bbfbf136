//go:build unix

package frame

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// directWriter returns a function that writes to w what the system takes without
// waiting, or nil where w is not a file that the runtime polls.
func directWriter(w io.Writer) func([]byte) (int, error) {
	c, ok := w.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	waits := true
	if raw.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		waits = err != nil || flags&unix.O_NONBLOCK == 0
	}) != nil || waits {
		return nil
	}
	return func(b []byte) (n int, err error) {
		if outer := raw.Write(func(fd uintptr) bool {
			n, err = unix.Write(int(fd), b)
			return true
		}); outer != nil {
			return 0, outer
		}
		switch err {
		case unix.EAGAIN, unix.EINTR:
			return 0, nil
		}
		return max(n, 0), err
	}
}
