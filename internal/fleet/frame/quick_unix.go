//go:build unix && !linux

package frame

import (
	"io"

	"golang.org/x/sys/unix"
)

func quickReader(io.Reader) io.Reader { return nil }

// directWriter returns a function that writes to w what the system takes without
// waiting, or nil where w is not a file or socket that the runtime polls.
func directWriter(w io.Writer) func([]byte) (int, error) {
	raw := polled(w)
	if raw == nil {
		return nil
	}
	return func(b []byte) (n int, err error) {
		if outer := raw.Write(func(fd uintptr) bool {
			n, err = unix.Write(int(fd), b)
			return true
		}); outer != nil {
			return 0, outer
		}
		switch err {
		case unix.EAGAIN, unix.EINTR:
			return 0, nil
		}
		return max(n, 0), err
	}
}
