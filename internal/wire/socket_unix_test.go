//go:build unix

package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func serveSocket(t *testing.T, path string) (cancel context.CancelFunc, done chan error) {
	t.Helper()
	s, err := ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done = make(chan error, 1)
	server := testServer(nil)
	go func() { done <- s.Serve(ctx, func() *mcp.Server { return server }, Options{Logger: quiet}) }()
	return cancel, done
}

func dial(t *testing.T, path string) (*net.UnixConn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.UnixConn), bufio.NewReader(c)
}

func TestSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	cancel, done := serveSocket(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	// Several clients at once; the end of one is not the end of another's call.
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c, r := dial(t, path)
			fmt.Fprintln(c, toolCall("1", "sleep", `{"ms":100}`))
			if i%2 == 0 {
				_ = c.Close()
				return
			}
			_ = c.CloseWrite()
			line, err := r.ReadString('\n')
			if err != nil || !strings.Contains(line, "slept") {
				t.Errorf("client %d: %q %v", i, line, err)
			}
			if _, err := r.ReadString('\n'); !errors.Is(err, io.EOF) {
				t.Errorf("client %d: %v after the last reply", i, err)
			}
		})
	}
	all.Wait()

	var inUse *SocketInUseError
	if _, err := ListenSocket(path); !errors.As(err, &inUse) || err.Error() != "socket "+path+" is in use by another process" {
		t.Errorf("second server: %v", err)
	}

	_, open := dial(t, path)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := open.ReadString('\n'); err == nil {
		t.Error("a client outlives the server")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSocketFrameTooLarge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	s, err := ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	server := testServer(nil)
	go func() {
		done <- s.Serve(ctx, func() *mcp.Server { return server }, Options{Logger: quiet, MaxFrame: 1000})
	}()
	c, r := dial(t, path)
	// The client writes all of it before it reads.
	if _, err := io.WriteString(c, strings.Repeat("x", 2e6)+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := r.ReadString('\n')
	if err != nil || !strings.Contains(line, "-32600") {
		t.Errorf("%q %v", line, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSocketStale(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	// So would a server killed while it started leave its lock.
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ListenSocket(path)
	if err != nil {
		t.Fatalf("a stale socket is not replaced: %v", err)
	}
	// Replaced by somebody else: not ours to remove.
	_ = os.Remove(path)
	if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if b, err := os.ReadFile(path); err != nil || string(b) != "other" {
		t.Errorf("another's file: %q %v", b, err)
	}
}

func TestSocketRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link, sub := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "sub")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ path, says string }{
		{file, "regular file"},
		{link, "symbolic link"},
		{sub, "directory"},
		{filepath.Join(dir, strings.Repeat("n", 200)), "too long"},
		{filepath.Join(dir, "no", "such", "place"), "no such file"},
		{"", "empty"},
	}
	for _, test := range tests {
		_, err := ListenSocket(test.path)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want one that says %q", test.path, err, test.says)
		}
	}
	for _, path := range []string{file, link, sub} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s was removed", path)
		}
	}
}

// TestSocketRace: of many servers that start at once on one path, free or stale,
// one wins, and it can be reached.
func TestSocketRace(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		path := filepath.Join(t.TempDir(), "s.sock")
		if round%2 == 1 {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		var winners []*Socket
		for range 8 {
			all.Go(func() {
				s, err := ListenSocket(path)
				mu.Lock()
				defer mu.Unlock()
				var inUse *SocketInUseError
				if err == nil {
					winners = append(winners, s)
				} else if !errors.As(err, &inUse) {
					t.Errorf("loser: %v", err)
				}
			})
		}
		all.Wait()
		if len(winners) != 1 {
			t.Fatalf("%d winners", len(winners))
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("the winner cannot be reached: %v", err)
		}
		_ = c.Close()
		_ = winners[0].Close()
	}
}
