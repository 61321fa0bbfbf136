//go:build unix && !linux

package socket

import (
	"net"
	"os"
	"syscall"
)

// Listen binds and listens at path with mode 0600. These systems give a socket's file
// no other mode than the umask's, which is narrowed for the moment of the bind; the
// start of a server makes no other files meanwhile. Closing the listener leaves the
// file: whoever closes it looks whose it is.
func Listen(path string) (*net.UnixListener, error) {
	old := syscall.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(old)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}
