//go:build unix

package cli

import (
	"io/fs"
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

// ours tells whether a file belongs to the user that we run as.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
