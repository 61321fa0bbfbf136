//go:build unix

package socket

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxPath is the longest path of a socket here, in bytes, without its final NUL
// (sun_path has 108 bytes on Linux, 104 on the BSDs).
var MaxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// State is what stands at the path of a socket.
type State int

// The states.
const (
	Absent    State = iota // nothing
	Stale                  // a socket that nobody listens on
	Served                 // a socket that somebody serves, as far as can be told
	Link                   // a symbolic link
	NotSocket              // a file of another kind
	Foreign                // a socket that this user may not connect to
)

// probeWait bounds the connection that finds out whether a socket is served.
const probeWait = time.Second

// Probe looks what stands at path. info is that of the file, nil if there is none; err
// is set where it cannot be looked at, and for Foreign says why.
func Probe(path string) (state State, info fs.FileInfo, err error) {
	info, err = os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Absent, nil, nil
	case err != nil:
		return Absent, nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return Link, info, nil
	case info.Mode()&fs.ModeSocket == 0:
		return NotSocket, info, nil
	}
	c, err := net.DialTimeout("unix", path, probeWait)
	switch {
	case err == nil:
		_ = c.Close()
		return Served, info, nil
	case errors.Is(err, fs.ErrNotExist):
		return Absent, nil, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return Stale, info, nil
	case errors.Is(err, fs.ErrPermission):
		return Foreign, info, err
	}
	return Served, info, nil // a full backlog, a listener of another kind: somebody is there
}
