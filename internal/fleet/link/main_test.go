package link_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
		case "hostile":
			os.Exit(fleettest.Hostile(os.Args[2]))
		case "topup":
			os.Exit(fleettest.Topup(os.Args[3]))
		case "front":
			os.Exit(front(os.Args[2]))
		case daemon.RelayCommand:
			os.Exit(daemon.RelayMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case daemon.DaemonCommand:
			os.Exit(daemon.DaemonMain(os.Args[2:], daemon.Config{
				Version: "test", Serve: fleettest.Tools, Plain: "plain", Idle: idle(), Keep: time.Minute,
				Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
			}, os.Stderr))
		}
	}
	goleak.VerifyTestMain(m)
}

func idle() time.Duration {
	d, err := time.ParseDuration(os.Getenv("FLEETTEST_IDLE"))
	if err != nil {
		return 30 * time.Second
	}
	return d
}

// front is a front end as a process of its own, to be killed: it makes a call that
// takes long and says so.
func front(config string) int {
	d := ssh.Dialer{Client: ssh.Client{Config: config}, Host: "far"}
	l := link.New(link.Options{Host: "far", Dial: d.Dial, Surface: "test"})
	if err := l.Connect(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("connected", l.State().PID)
	_, _ = l.Call(context.Background(), "sleep", json.RawMessage(`{"ms":60000}`))
	return 0
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, fmt.Errorf("test ran out of %v", d))
	t.Cleanup(cancel)
	return ctx
}
