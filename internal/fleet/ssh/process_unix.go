//go:build unix

package ssh

import "syscall"

func (p *Process) terminate() { p.signal(syscall.SIGTERM) }
func (p *Process) kill()      { p.signal(syscall.SIGKILL) }

// signal reaches the whole group: ssh leads it, so its id is the group's as long
// as any member lives.
func (p *Process) signal(s syscall.Signal) { _ = syscall.Kill(-p.Pid(), s) }
