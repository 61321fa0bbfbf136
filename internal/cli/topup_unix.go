//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// dieOf ends the process by a signal, as if it had never been caught.
func dieOf(sig os.Signal) int {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return statusFailed
	}
	signal.Reset(number)
	_ = syscall.Kill(os.Getpid(), number)
	time.Sleep(100 * time.Millisecond) // it comes
	return statusSignal + int(number)
}
