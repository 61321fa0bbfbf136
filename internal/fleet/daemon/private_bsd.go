//go:build unix && !linux

package daemon

import (
	"net"
	"syscall"
)

// listenPrivate makes the socket under a umask, so that it is owner-only (0600) from
// the moment it exists. The daemon does nothing else yet.
func listenPrivate(path string) (*net.UnixListener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by name; the owner of the lock looks whose it is
	return l, nil
}
