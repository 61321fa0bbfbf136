//go:build !linux

package wire

import (
	"io"
	"os"
)

// Stdio claims standard input and output for the protocol. Where descriptors are
// not redirected, the variables are: what prints through os.Stdout goes to
// standard error. Call it once, first thing.
func Stdio() (*Stream, error) {
	in, out := os.Stdin, os.Stdout
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	os.Stdin, os.Stdout = null, os.Stderr
	// Close does not close in: that could wait for a read in progress.
	return &Stream{r: in, w: out, closers: []io.Closer{null}}, nil
}
