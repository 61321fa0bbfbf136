package link_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/fleet/daemon"
	"topside/internal/fleet/fleettest"
)

// TestMain makes this program the relay and the daemon of the far side as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case daemon.RelayCommand:
			os.Exit(daemon.RelayMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case daemon.DaemonCommand:
			os.Exit(daemon.DaemonMain(os.Args[2:], daemon.Config{
				Version: "test", Serve: fleettest.Tools, Plain: "plain", Idle: idle(), Keep: 5 * time.Second,
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
