//go:build !unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

var errUnsupported = errors.New("this system can drive other hosts, but not be one: the daemon needs Unix sockets that carry descriptors")

// Run is not supported here.
func Run(context.Context, Config, func()) error { return errUnsupported }

// RelayMain is not supported here.
func RelayMain(_ []string, _, _ *os.File, stderr io.Writer) int {
	fmt.Fprintf(stderr, "topside: %v\n", errUnsupported)
	return 1
}

// DaemonMain is not supported here.
func DaemonMain(_ []string, _ Config, stderr io.Writer) int {
	fmt.Fprintf(stderr, "topside: %v\n", errUnsupported)
	return 1
}
