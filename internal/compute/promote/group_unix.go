//go:build unix

package promote

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the end of the context the end of everything the build started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
