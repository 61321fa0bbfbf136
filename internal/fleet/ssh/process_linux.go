package ssh

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// own gives ssh a group of its own, and has it end when this process is killed
// even while it is still connecting.
func own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// widen lets a pipe hold more, so that bulk data needs fewer switches. A refusal
// (the user's limit on pipes) costs speed only.
func widen(f *os.File) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) })
}
