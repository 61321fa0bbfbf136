//go:build unix && !linux

package ssh

import (
	"os"
	"os/exec"
	"syscall"
)

// own gives ssh a group of its own.
func own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func widen(*os.File) {}
