package wire

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// SignalError is the cause of a context ended by a signal (see [context.Cause]).
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return fmt.Sprintf("signal: %v", e.Signal) }

// Signals returns a context that ends at the first SIGTERM, SIGINT or SIGHUP, with
// a *SignalError as its cause. A second one has its ordinary effect, so that an
// impatient user is heard. SIGHUP stays ignored where it was (nohup).
//
// From then on SIGPIPE no longer kills the process: a write to a closed standard
// error gives an error instead. It is caught, not ignored, because children would
// inherit the latter. stop releases the signals.
func Signals(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)

	ending := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) {
		ending = append(ending, syscall.SIGHUP)
	}
	first := make(chan os.Signal, 1)
	signal.Notify(first, ending...)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)

	stopped := make(chan struct{})
	go func() {
		select {
		case s := <-first:
			signal.Stop(first)
			cancel(&SignalError{Signal: s})
		case <-ctx.Done():
		case <-stopped:
		}
	}()
	var once sync.Once
	return ctx, func() {
		once.Do(func() {
			signal.Stop(first)
			signal.Stop(pipe)
			close(stopped)
			cancel(context.Canceled)
		})
	}
}
