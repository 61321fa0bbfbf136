package wire

import (
	"context"
	"errors"
	"os"
	"time"
)

// ErrParentGone is the cause of a context ended by [WithParent].
var ErrParentGone = errors.New("the parent process is gone")

// ParentGone returns a channel that is closed when the process that started this
// one has ended, and stays open for ever after ctx is done. A process that was
// adopted before the call (parent 1, or one outside its pid namespace) has no
// parent to lose.
//
// The kernel's own parent-death signal is not used: it fires when the *thread*
// that forked ends, and in Go, Java or Node that may be a passing worker of a
// parent that lives on. A pidfd stands for the process.
func ParentGone(ctx context.Context) <-chan struct{} {
	gone := make(chan struct{})
	parent := os.Getppid()
	if parent <= 1 {
		return gone
	}
	go func() {
		if waitForParent(ctx, parent) {
			close(gone)
		}
	}()
	return gone
}

// WithParent returns a context that ends, with ErrParentGone as its cause, when
// the parent process has ended (see [ParentGone]).
func WithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	gone := ParentGone(ctx)
	go func() {
		select {
		case <-gone:
			cancel(ErrParentGone)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// pollParent looks each second whether this process has been adopted.
func pollParent(ctx context.Context, parent int) bool {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if os.Getppid() != parent {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}
