package cli

// This file ends a command when the user or the system asks for it.

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return "interrupted by " + i.signal.String() }

func (i interrupted) number() int {
	if n, ok := i.signal.(syscall.Signal); ok {
		return int(n)
	}
	return int(syscall.SIGINT)
}

// interruptible runs a command under a context that SIGINT and SIGTERM end. A
// second signal ends the process at once.
func interruptible(run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(interrupted{sig})
		case <-done:
		}
	}()
	err := run(ctx)
	close(done)
	signal.Stop(signals)
	<-watched
	// Whatever the interruption made fail, the interruption is what happened.
	var signalled interrupted
	if err != nil && errors.As(context.Cause(ctx), &signalled) {
		err = signalled
	}
	cancel(nil)
	return err
}
