//go:build linux

package compute

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const usage = "usage: topup-mcp [--socket <path> | --proxy <path> | --remote <host> [--remote-socket <path>]]\n"

// runs executes the program and returns what it said on stderr, and its status.
func runs(t *testing.T, home string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"topup"}, args...)...)
	cmd.Env = environment(home)
	var said strings.Builder
	cmd.Stderr = &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return said.String(), cmd.ProcessState.ExitCode()
}

// TestCommandLine is section 1.1.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := shortDir(t)
	for _, line := range []string{"--help", "-h", "--version", "x", "--socket", "--socket a b", "--proxy", "--remote", "--remote h --remote-socket", "--remote-socket p --remote h", "--socket=x", "--remote h --socket x"} {
		if said, status := runs(t, home, strings.Fields(line)...); said != usage || status != 2 {
			t.Errorf("%s: %d %q", line, status, said)
		}
	}
	link := filepath.Join(dir, "link")
	os.Symlink("/nosuch", link)
	for _, c := range []struct {
		args, said string
		status     int
	}{
		{"--socket " + link, "topup-mcp: refusing to bind: " + link + " is a symlink\n", 1},
		{"--socket " + dir, "", 1},
		{"--socket " + dir + "/no/parent", "", 1},
		{"--socket " + dir + "/" + strings.Repeat("x", 200), "", 1},
		{"--remote -x", "invalid host: host must not begin with '-' (ssh would parse it as an option)\n", 1},
		{"--remote nosuchhost", "", 1},
		{"--proxy " + dir, "", 1},
	} {
		said, status := runs(t, home, strings.Fields(c.args)...)
		if status != c.status || c.said != "" && said != c.said || said == "" || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: %d %q", c.args, status, said)
		}
	}
	// The program is topup by its name too.
	alias := filepath.Join(dir, "topup-opt")
	os.Symlink(binary, alias)
	cmd := exec.Command(alias, "--help")
	if out, _ := cmd.CombinedOutput(); string(out) != usage {
		t.Errorf("%q", out)
	}
	if os.Getuid() != 0 {
		closed := filepath.Join(dir, "closed")
		os.Mkdir(closed, 0)
		if said, status := runs(t, home, "--socket", closed+"/s"); status != 1 || said != "topup-mcp: cannot stat "+closed+"/s: Permission denied\n" {
			t.Errorf("%d %q", status, said)
		}
	}
}

func TestSocketLife(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "s.sock")
	os.WriteFile(socket, []byte("a plain file"), 0o644) // replaced
	d := listen(t, socket)
	if info, _ := os.Stat(socket); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	a := dial(t, socket)
	a.eval("let state = 7;;")
	// A second client waits until the first has gone.
	b := dial(t, socket)
	early := b.begin("eval", args("source", "state;;"))
	a.call("env")
	b.mu.Lock()
	if len(b.order) > 0 {
		t.Error("two clients are served at once")
	}
	b.mu.Unlock()
	if said, status := runs(t, t.TempDir(), "--socket", socket); status != 1 || said != "topup-mcp: socket "+socket+" is in use by another process\n" {
		t.Errorf("%d %q", status, said)
	}
	// A half close: what is pending is still answered.
	late := a.begin("eval", args("source", "Unix.sleepf 0.2; state + 1;;"))
	a.in.Close()
	if r := parse[result](t, a.finish(late)); r.value() != "8" {
		t.Errorf("%+v", r)
	}
	if r := parse[result](t, b.finish(early)); r.value() != "7" {
		t.Errorf("%+v", r)
	}
	// A client that goes away in the middle: its evaluation runs to its end.
	b.begin("eval", args("source", "Unix.sleepf 0.3;; let finished = 1;;"))
	b.call("cancel", "session", "nosuch")
	b.conn.Close()
	c := dial(t, socket)
	if got := c.value("finished;;"); got != "1" {
		t.Error(got)
	}
	c.send("{broken")
	if got := c.value("state;;"); got != "7" {
		t.Error(got)
	}
	c.begin("eval", args("source", "while true do () done;;"))
	c.call("cancel", "session", "nosuch")
	children := descendants(d.cmd.Process.Pid)
	begun := time.Now()
	d.signal(syscall.SIGTERM)
	d.cmd.Wait()
	if d.cmd.ProcessState.ExitCode() != 0 || time.Since(begun) > 3*time.Second {
		t.Errorf("SIGTERM: %v after %v", d.cmd.ProcessState, time.Since(begun))
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left")
	}
	gone(t, children)
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGHUP: 0, syscall.SIGINT: 2} {
		socket := filepath.Join(shortDir(t), "s.sock")
		d := listen(t, socket)
		d.signal(sig)
		d.cmd.Wait()
		if got := d.cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: status %d", sig, got)
		}
		if _, err := os.Lstat(socket); err == nil {
			t.Errorf("%v: the socket is left", sig)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		s := start(t)
		s.call("start_local_session", "session", "w")
		children := descendants(s.cmd.Process.Pid)
		s.begin("eval", args("source", "while true do () done;;"))
		s.signal(sig)
		s.cmd.Wait()
		status := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != sig {
			t.Errorf("stdio, %v: %v", sig, s.cmd.ProcessState)
		}
		gone(t, children)
	}
	// After SIGKILL the children are gone, and the next start replaces the socket.
	socket := filepath.Join(shortDir(t), "s.sock")
	d := listen(t, socket)
	c := dial(t, socket)
	c.call("start_local_session", "session", "w")
	c.begin("eval", args("source", "while true do () done;;"))
	children := descendants(d.cmd.Process.Pid)
	d.cmd.Process.Kill()
	d.cmd.Wait()
	gone(t, children)
	listen(t, socket)
	if got := dialed(t, socket).value("1;;"); got != "1" {
		t.Error(got)
	}
}

// dialed waits for somebody to listen.
func dialed(t *testing.T, socket string) *server {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			return dial(t, socket)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "p.sock")
	p := start(t, setting{"args", "--proxy " + socket}) // it waits for the daemon
	id := p.begin("eval", args("source", "let x = 5;;"))
	second := p.begin("eval", args("source", "x + 1;;"))
	d := listen(t, socket)
	if r := parse[result](t, p.finish(id)); r.value() != "5" {
		t.Errorf("%+v", r)
	}
	if r := parse[result](t, p.finish(second)); r.value() != "6" {
		t.Errorf("%+v", r)
	}
	if got := p.end(); got != 0 {
		t.Errorf("status %d", got)
	}
	q := start(t, setting{"args", "--proxy " + socket})
	if got := q.value("x;;"); got != "5" {
		t.Error(got)
	}
	d.cmd.Process.Kill()
	q.cmd.Wait()
	if got := q.cmd.ProcessState.ExitCode(); got != 0 {
		t.Errorf("death of the daemon: status %d", got)
	}
	if testing.Short() {
		return
	}
	said, status := runs(t, t.TempDir(), "--proxy", socket+"x")
	if want := fmt.Sprintf("topup-mcp: timed out after 10.0s waiting for socket %sx\n", socket); said != want || status != 1 {
		t.Errorf("%d %q", status, said)
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "r.sock")
	listen(t, socket)
	s := start(t, setting{"args", "--remote box"}, setting{"TOPUP_HOST_SOCKET_BOX", socket})
	s.eval("let there = 1;;")
	if got := s.value("there;;", "host", "box"); got != "1" {
		t.Error(got)
	}
	if got := s.value("there;;", "host", "local"); !strings.Contains(got, "Unbound") {
		t.Error(got)
	}
	s.call("start_local_session", "session", "w")
	if got := s.value("3;;", "session", "w"); got != "3" {
		t.Error(got)
	}
	file := s.write("f", "x")
	if r := s.call("push_file", "local_path", file); r.isError {
		t.Errorf("%+v", r)
	}
	busy := s.begin("eval", args("source", "while true do () done;;"))
	time.Sleep(100 * time.Millisecond)
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	if r := parse[result](t, s.finish(busy)); r.message() != "runtime: evaluation cancelled" {
		t.Error(r.message())
	}
}
