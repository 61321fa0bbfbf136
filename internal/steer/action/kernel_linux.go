package action

// The running kernel: a pidfd holds a process, whoever gets its id later
// (pidfd_open(2), Linux 5.3).

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

type linux struct{}

func kernel() System { return linux{} }

func (linux) Self() int32 { return int32(os.Getpid()) }

// Open sets no flags: Linux 6.9 could open threads too, whose ids are to be
// refused.
func (linux) Open(pid int32) (Handle, error) {
	fd, err := unix.PidfdOpen(int(pid), 0)
	switch {
	case err == nil:
		return &pidfd{fd}, nil
	case errors.Is(err, unix.ESRCH):
		return nil, ErrGone
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return nil, ErrThread
	case errors.Is(err, unix.ENOSYS):
		return nil, ErrUnsupported
	case errors.Is(err, unix.EPERM):
		return nil, ErrNotAllowed
	}
	return nil, fmt.Errorf("pidfd_open: %w", err)
}

type pidfd struct{ fd int }

var numbers = map[Signal]unix.Signal{
	Term: unix.SIGTERM, Kill: unix.SIGKILL, Int: unix.SIGINT, Hup: unix.SIGHUP,
	Stop: unix.SIGSTOP, Cont: unix.SIGCONT, Usr1: unix.SIGUSR1, Usr2: unix.SIGUSR2,
}

func (p *pidfd) Signal(s Signal) error { return p.send(numbers[s]) }

// Probe sends the signal 0, which the kernel only judges.
func (p *pidfd) Probe() error { return p.send(0) }

func (p *pidfd) send(s unix.Signal) error {
	err := unix.PidfdSendSignal(p.fd, s, nil, 0)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ESRCH):
		return ErrGone
	case errors.Is(err, unix.EPERM):
		return ErrNotAllowed
	}
	return fmt.Errorf("pidfd_send_signal: %w", err)
}

// Wait polls: a pidfd is readable once its process has ended. It wakes up now
// and again to see whether ctx has ended.
func (p *pidfd) Wait(ctx context.Context) error {
	const slice = 50 * time.Millisecond
	for {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(slice.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll of a pidfd: %w", err)
		}
		if n > 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (p *pidfd) Close() error { return unix.Close(p.fd) }
