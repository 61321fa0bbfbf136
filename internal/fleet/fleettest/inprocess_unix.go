//go:build unix

package fleettest

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"topside/internal/fleet/daemon"
	"topside/internal/fleet/frame"
	"topside/internal/fleet/ssh"
)

// RunDaemon runs a daemon with Tools in this process until the test ends, and returns
// its socket.
func RunDaemon(t testing.TB, c daemon.Config) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fleet-")
	if err != nil {
		t.Fatal(err)
	}
	c.Socket = filepath.Join(dir, "d.sock")
	c.Serve, c.Version = Tools, "test"
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- daemon.Run(ctx, c, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return c.Socket
}

// DialSocket connects to a daemon's socket without ssh, with frames.
func DialSocket(socket string) func(context.Context) (*ssh.Conn, error) {
	return func(ctx context.Context) (*ssh.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		mark := make([]byte, len(frame.Mark+frame.Form)+1)
		if _, err = io.WriteString(c, "D"); err == nil {
			_, err = io.ReadFull(c, mark)
		}
		if err != nil {
			c.Close()
			return nil, err
		}
		return ssh.NewConn(c, true), nil
	}
}
