//go:build linux

package e2e

// The Unix socket: whose it is, what it replaces, and what it leaves alone.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"topside/test/bed"
)

// serveSocket starts a server on a socket and waits until it is there.
func serveSocket(t *testing.T, args []string, path string) *bed.Server {
	t.Helper()
	s := bed.Start(t, append(append([]string{}, args...), "--socket", path))
	serves(t, s, "socket at "+path, func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s
}

// serves waits until a server is there for clients.
func serves(t *testing.T, s *bed.Server, what string, there func() bool) {
	t.Helper()
	deadline := time.Now().Add(bed.Patience)
	for !there() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s: %s", what, s.Stderr())
		}
		select {
		case <-s.Ended():
			t.Fatalf("the server ended: %s", s.Stderr())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A client of a socket.
type socketClient struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, path string) *socketClient {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &socketClient{c, bufio.NewReaderSize(c, 1<<20)}
}

func (c *socketClient) do(request string) (bed.Reply, error) {
	var reply bed.Reply
	if err := c.SetDeadline(time.Now().Add(bed.Patience)); err != nil {
		return reply, err
	}
	if _, err := fmt.Fprintln(c, request); err != nil {
		return reply, err
	}
	line, err := c.lines.ReadString('\n')
	if err != nil {
		return reply, err
	}
	reply.Line = line
	return reply, json.Unmarshal([]byte(line), &reply)
}

const listRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestSocketIsTheOwnersAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		path := filepath.Join(t.TempDir(), "s")
		s := serveSocket(t, args, path)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 || info.Mode()&os.ModeSocket == 0 {
			t.Errorf("the socket is %v, %v; want srw-------", info.Mode(), err)
		}
		if lines := s.Lines(); len(lines) > 0 {
			t.Errorf("a socket server wrote to its output: %q", lines)
		}
	})
}

func TestSocketOfADeadServerIsReplaced(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		serveSocket(t, args, path)
		if reply, err := dial(t, path).do(listRequest); err != nil || reply.Error != nil {
			t.Errorf("tools/list: %v %s", err, reply.Line)
		}
	})
}

func TestSocketPathsThatAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		used := filepath.Join(dir, "used")
		serveSocket(t, args, used)
		links := map[string]string{"to-file": file, "to-socket": used, "to-nothing": filepath.Join(dir, "nothing")}
		for name, target := range links {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, test := range []struct{ path, says string }{
			{file, "not a socket"},
			{dir, "directory"},
			{used, "in use"},
			{filepath.Join(dir, "to-file"), "symbolic link"},
			{filepath.Join(dir, "to-socket"), "symbolic link"},
			{filepath.Join(dir, "to-nothing"), "symbolic link"},
			{filepath.Join(dir, "no", "such", "folder"), "there is no folder"},
			{filepath.Join(dir, strings.Repeat("x", 120)), "too long"},
			{"", "empty"},
		} {
			r := bed.RunBinary(t, append(append([]string{}, args...), "--socket", test.path)...)
			if r.Status == 0 || r.Stdout != "" || !strings.Contains(r.Stderr, test.says) {
				t.Errorf("--socket %q: status %d, %q on stderr; want a refusal with %q", test.path, r.Status, r.Stderr, test.says)
			}
		}
		if content, err := os.ReadFile(file); err != nil || string(content) != "kept" {
			t.Errorf("the file at the path was touched: %q %v", content, err)
		}
		for name, target := range links {
			if to, err := os.Readlink(filepath.Join(dir, name)); err != nil || to != target {
				t.Errorf("the link %s was touched: %q %v", name, to, err)
			}
		}
		if reply, err := dial(t, used).do(listRequest); err != nil || reply.Error != nil {
			t.Errorf("the server in use was disturbed: %v %s", err, reply.Line)
		}
	})
}

func TestSeveralClientsOfOneSocket(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		path := filepath.Join(t.TempDir(), "s")
		s := serveSocket(t, args, path)
		var clients sync.WaitGroup
		for range 10 {
			c := dial(t, path)
			clients.Go(func() {
				for i := range 20 {
					reply, err := c.do(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_resources","arguments":{"limit":1}}}`, i))
					if err != nil || reply.Error != nil || string(reply.ID) != fmt.Sprint(i) {
						t.Errorf("call %d: %v %.200s", i, err, reply.Line)
						return
					}
				}
			})
		}
		// One that breaks off, one that sends rubbish and one that says nothing.
		dial(t, path).Close()
		silent := dial(t, path)
		if reply, err := dial(t, path).do("rubbish"); err != nil || reply.Error == nil || reply.Error.Code != -32700 {
			t.Errorf("rubbish: %v %s", err, reply.Line)
		}
		clients.Wait()
		_ = silent
		if reply, err := dial(t, path).do(listRequest); err != nil || reply.Error != nil {
			t.Errorf("afterwards: %v %s", err, reply.Line)
		}
		if !bed.Alive(s.PID()) {
			t.Error("the server is gone")
		}
	})
}

// A snapshot that one client took can be read by another: it is one machine.
func TestSocketClientsShareSnapshots(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		path := filepath.Join(t.TempDir(), "s")
		serveSocket(t, args, path)
		reply, err := dial(t, path).do(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_system_summary","arguments":{}}}`)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Snapshot snapshot }
		if err := json.Unmarshal(bed.ResultOf(t, reply).Structured, &answer); err != nil {
			t.Fatal(err)
		}
		reply, err = dial(t, path).do(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_system_summary","arguments":{"snapshot_id":%q}}}`, answer.Snapshot.ID))
		if err != nil {
			t.Fatal(err)
		}
		if r := bed.ResultOf(t, reply); r.Failed() {
			t.Errorf("another client cannot read the snapshot: %s", r.Text())
		}
	})
}

func TestSignalsUnlinkTheSocket(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			onBoth(t, func(t *testing.T, args []string) {
				dir := t.TempDir()
				path := filepath.Join(dir, "s")
				s := serveSocket(t, args, path)
				c := dial(t, path)
				if _, err := c.do(listRequest); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				if err := s.Cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				if status := s.AwaitEnd(5 * time.Second); status != 0 {
					t.Errorf("status %d", status)
				}
				if took := time.Since(begun); took > time.Second+slack {
					t.Errorf("the end took %v", took)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left behind: %v %v", left, err)
				}
			})
		})
	}
}
