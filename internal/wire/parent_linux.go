package wire

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// waitForParent reports whether the parent ended before ctx did.
func waitForParent(ctx context.Context, parent int) bool {
	fd, err := unix.PidfdOpen(parent, 0) // Linux 5.3
	if err != nil {
		return pollParent(ctx, parent)
	}
	if os.Getppid() != parent { // it ended before the pidfd was opened
		_ = unix.Close(fd)
		return true
	}
	return waitForPidfd(ctx, fd)
}

// waitForPidfd waits in the runtime's poller, without a thread of its own, for
// the process behind fd to end. It closes fd.
func waitForPidfd(ctx context.Context, fd int) bool {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return pollParent(ctx, os.Getppid())
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return pollParent(ctx, os.Getppid())
	}
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	defer func() {
		if stop() {
			_ = f.Close()
		}
	}()
	ended := false
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		ended = err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
		return ended
	})
	if err != nil && ctx.Err() == nil {
		return pollParent(ctx, os.Getppid())
	}
	return ended
}
