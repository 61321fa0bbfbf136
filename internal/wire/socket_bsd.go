//go:build unix && !linux

package wire

import (
	"net"
	"os"
	"syscall"
)

// listenPrivate binds and listens at path with mode 0600. These systems give a
// socket's file no other mode than the umask's, which is narrowed for the moment
// of the bind; the start of a server makes no other files meanwhile.
func listenPrivate(path string) (*net.UnixListener, error) {
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
	return l, nil
}
