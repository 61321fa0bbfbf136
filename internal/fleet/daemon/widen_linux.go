package daemon

import (
	"os"

	"golang.org/x/sys/unix"
)

// widen lets a pipe of sshd's hold more, so that bulk data needs fewer switches. What
// is no pipe, or a refusal, costs speed only.
func widen(f *os.File) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) })
}
