package cli

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSweepSessionSockets: what nobody listens on goes, everything else stays.
func TestSweepSessionSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listen := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
		return l
	}
	const stale, served, fresh, other, file = "topup-session-a-0123456789abcdef.sock", "topup-session-b-0123456789abcdef.sock",
		"topup-session-c-0123456789abcdef.sock", "somebody-0123456789abcdef.sock", "topup-session-d-0123456789abcdef.sock"
	for _, name := range []string{stale, fresh, other} {
		listen(name).Close()
	}
	listen(served)
	if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Minute)
	for _, name := range []string{stale, served, other, file} {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweepSessionSockets(dir)
	for name, want := range map[string]bool{stale: false, served: true, fresh: true, other: true, file: true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", name, err == nil, want)
		}
	}
}
