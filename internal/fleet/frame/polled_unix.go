//go:build unix

package frame

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// polled gives access to the descriptor of a stream, nil unless the runtime polls it.
func polled(stream any) syscall.RawConn {
	c, ok := stream.(syscall.Conn)
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
	return raw
}
