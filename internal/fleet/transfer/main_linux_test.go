package transfer_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/fleet/daemon"
	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

// TestMain makes this program the relay and the daemon of the far side as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case daemon.RelayCommand:
			os.Exit(daemon.RelayMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case daemon.DaemonCommand:
			os.Exit(daemon.DaemonMain(os.Args[2:], daemon.Config{
				Version: "test", Serve: fleettest.Tools, Idle: 30 * time.Second, Keep: time.Minute,
			}, os.Stderr))
		}
	}
	goleak.VerifyTestMain(m)
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// near is a link to a daemon in this process.
func near(t testing.TB) *link.Link {
	t.Helper()
	socket := fleettest.RunDaemon(t, daemon.Config{})
	l := link.New(link.Options{Host: "near", Surface: "test", Dial: fleettest.DialSocket(socket)})
	t.Cleanup(l.Close)
	return l
}

// far is a link through a real sshd.
func far(t testing.TB) (*fleettest.Server, *link.Link) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := fleettest.Start(t, fleettest.Options{Programs: map[string]string{"topside": self}})
	d := ssh.Dialer{Client: s.Client, Host: "far"}
	l := link.New(link.Options{Host: "far", Surface: "test", Dial: d.Dial})
	t.Cleanup(l.Close)
	return s, l
}
