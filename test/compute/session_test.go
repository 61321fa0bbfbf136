//go:build linux

package compute

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

type started struct {
	OK      bool
	Session string
	Socket  string `json:"local_socket"`
	Pool    int
}

func TestNamedSessions(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.call("start_local_session", "session", "w", "pool", 3)
	if !regexp.MustCompile(`^\{"ok":true,"session":"w","local_socket":"/tmp/topup-session-w-[0-9a-f]{16}\.sock","pool":3\}$`).MatchString(r.text) {
		t.Fatalf("%+v", r)
	}
	w := parse[started](t, r)
	if info, err := os.Stat(w.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info, err)
	}
	s.eval("let mine = 1;;", "session", "w")
	if got := s.value("mine;;"); !strings.Contains(got, "Unbound") {
		t.Errorf("not isolated: %s", got)
	}
	s.call("checkpoint", "session", "w", "label", "branch")
	if r := parse[result](t, s.call("restore", "session", "w.1", "label", "branch")); r.Error != nil {
		t.Error(r.message())
	}
	if got := s.value("mine;;", "session", "w.1"); got != "1" {
		t.Error(got)
	}
	if got := s.value("mine;;", "session", "w.2"); !strings.Contains(got, "Unbound") {
		t.Error(got)
	}
	s.call("reset", "session", "w")
	if got := s.value("mine;;", "session", "w.1"); got != "1" {
		t.Errorf("reset of a sibling: %s", got)
	}
	// A live one is left as it is; the number is repeated verbatim.
	s.eval("let again = 2;;", "session", "w")
	for _, c := range []struct {
		pool any
		want int
	}{{-4, -4}, {0, 0}, {2.7, 2}, {"x", 1}} {
		if again := parse[started](t, s.call("start_local_session", "session", "w", "pool", c.pool)); again.Pool != c.want || again.Socket != w.Socket {
			t.Errorf("pool %v: %+v", c.pool, again)
		}
	}
	if got := s.value("again;;", "session", "w"); got != "2" {
		t.Error(got)
	}
	// Restart: the same path, no bindings, no pool in the reply.
	if r := s.call("restart_local_session", "session", "w"); r != (reply{`{"ok":true,"session":"w","local_socket":"` + w.Socket + `"}`, false}) {
		t.Errorf("%+v", r)
	}
	if got := s.value("again;;", "session", "w"); !strings.Contains(got, "Unbound") {
		t.Error(got)
	}
	// The socket serves the session with the same protocol.
	c := dial(t, w.Socket)
	c.eval("let through = 3;;")
	c.in.Close()
	if got := s.value("through;;", "session", "w"); got != "3" {
		t.Error(got)
	}
	// Any name is accepted.
	if r := parse[started](t, s.call("start_local_session", "session", "ä b/../c")); !strings.HasPrefix(r.Socket, "/tmp/topup-session-__b_.._c-") && !r.OK {
		t.Errorf("%+v", r)
	}
	if got := s.value("1;;", "session", "ä b/../c"); got != "1" {
		t.Error(got)
	}
	if got := s.end(); got != 0 {
		t.Errorf("status %d", got)
	}
	if _, err := os.Lstat(w.Socket); err == nil {
		t.Error("the socket is left")
	}
}

func TestSessionErrors(t *testing.T) {
	t.Parallel()
	s := start(t)
	const local = "session 'local' is the in-process session; "
	s.fails("missing 'session' argument", "start_local_session")
	s.fails("missing 'session' argument", "restart_local_session")
	s.fails("missing 'session' argument", "update_local_session")
	for _, name := range []string{"", "local"} {
		s.fails(local+"start_local_session is for named subprocesses", "start_local_session", "session", name)
		s.fails(local+"restart_local_session is for named subprocesses", "restart_local_session", "session", name)
		s.fails("session 'local' has no mutable metadata", "update_local_session", "session", name)
	}
	s.fails(`{"error":{"phase":"connect","session":"x","message":"session not registered: x"}}`, "restart_local_session", "session", "x")
	s.fails("session not registered: x", "update_local_session", "session", "x")
	s.fails("session not registered: x (call start_local_session { session: x } first)", "eval", "session", "x", "source", "1;;")
	s.fails("session not registered: x (call start_local_session { session: x } first)", "cancel", "session", "x")
	id := s.begin("restart_local_session", args("session", "x"))
	if line := string(s.wait(id)); !strings.Contains(line, `"result":{"isError":true,"content":[`) {
		t.Errorf("isError is not first: %s", line)
	}
	// Prewarm files that fail, in every way.
	for name, content := range map[string]string{"type": "let z = 1 + true", "raise": `let () = failwith "prewarm boom"`, "syntax": "let ="} {
		file := s.write(name+".ml", content)
		r := s.call("start_local_session", "session", name, "prewarm", file)
		if !r.isError || !strings.HasPrefix(r.text, `{"error":{"phase":"connect","session":"`+name+`","message":"prewarm `+name+`: `) {
			t.Errorf("%s: %+v", name, r)
		}
		s.fails(fmt.Sprintf("session not registered: %s (call start_local_session { session: %s } first)", name, name), "eval", "session", name, "source", "1;;")
	}
	if r := s.call("start_local_session", "session", "m", "prewarm", "/nosuch.ml"); !r.isError || !strings.Contains(r.text, "prewarm m: ") {
		t.Errorf("%+v", r)
	}
	if r := s.call("start_local_session", "session", "raise", "prewarm", s.home+"/raise.ml"); !strings.Contains(r.text, `prewarm raise: Failure(\"prewarm boom\")`) {
		t.Errorf("%+v", r)
	}
}

func TestPrewarmAndRegistry(t *testing.T) {
	t.Parallel()
	s := start(t)
	warm := s.write("warm.ml", "let warm = 5\n")
	other := s.write("other.ml", "let warm = 6\n")
	s.call("start_local_session", "session", "b", "prewarm", warm, "pool", 2)
	s.call("start_local_session", "session", "a")
	for _, name := range []string{"b", "b.1"} {
		if got := s.value("warm;;", "session", name); got != "5" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := s.names("session", "b"); len(got) != 0 {
		t.Errorf("prewarmed names are listed: %v", got)
	}
	if r := s.call("update_local_session", "session", "b", "prewarm", other); r != (reply{"ok", false}) {
		t.Errorf("%+v", r)
	}
	if got := s.value("warm;;", "session", "b"); got != "5" {
		t.Errorf("an update changes the running session: %s", got)
	}
	s.call("restart_local_session", "session", "b")
	if got := s.value("warm;;", "session", "b"); got != "6" {
		t.Errorf("the update is not applied: %s", got)
	}
	s.call("update_local_session", "session", "a", "prewarm", "")
	if r := s.call("restart_local_session", "session", "a"); r.isError {
		t.Errorf("an empty prewarm: %+v", r)
	}
	listed := regexp.MustCompile(`(?s)\nKnown hosts:\n- local \[in-process\]\nKnown sessions:\n- a \[topup 0\.1\.0\] \[last: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\]\n- b \[topup 0\.1\.0\] \[prewarm: [^]]*other\.ml\] \[pool: 2\] \[last: [^]]*Z\]\n- b\.1 \[topup 0\.1\.0\] \[prewarm: [^]]*warm\.ml\] \[last: [^]]*\]$`)
	if got := s.instructions(); !listed.MatchString(got) {
		t.Errorf("%q", got)
	}
	var file struct{ Sessions []map[string]any }
	text := s.read1(".topup/sessions.json")
	if err := json.Unmarshal([]byte(text), &file); err != nil || len(file.Sessions) != 3 || file.Sessions[0]["name"] != "a" || file.Sessions[0]["prewarm"] != nil || file.Sessions[1]["pool"] != 2. {
		t.Errorf("%v %s", err, text)
	}
	if info, _ := os.Stat(filepath.Join(s.home, ".topup/sessions.json")); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	s.end()
	// The next server knows them, disconnected; a start brings one up with its prewarm.
	next := start(t, setting{"HOME", s.home})
	if got := next.instructions(); !strings.Contains(got, "- b [disconnected] [prewarm: ") {
		t.Errorf("%q", got)
	}
	next.fails("session not registered: b (call start_local_session { session: b } first)", "eval", "session", "b", "source", "1;;")
	next.call("start_local_session", "session", "b")
	if got := next.value("warm;;", "session", "b"); got != "6" {
		t.Error(got)
	}
	// A corrupt registry counts as empty.
	next.end()
	next.write(".topup/sessions.json", "{nonsense")
	third := start(t, setting{"HOME", s.home})
	if got := third.instructions(); strings.Contains(got, "Known sessions") {
		t.Errorf("%q", got)
	}
	if r := third.call("start_local_session", "session", "c"); r.isError {
		t.Errorf("%+v", r)
	}
}

// TestParallel: a busy session keeps nobody else waiting, and is cancelled alone.
func TestParallel(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.call("start_local_session", "session", "w")
	s.call("start_local_session", "session", "v")
	busy := s.begin("eval", args("session", "w", "source", "while true do () done;;"))
	begun := time.Now()
	if got := s.value("1;;"); got != "1" || time.Since(begun) > 5*time.Second {
		t.Errorf("%s after %v", got, time.Since(begun))
	}
	if got := s.value("2;;", "session", "v"); got != "2" {
		t.Error(got)
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`) // the local one, which is idle
	s.call("cancel", "session", "v")
	if r := s.call("cancel", "session", "w"); r.text != "ok" {
		t.Errorf("%+v", r)
	}
	if r := parse[result](t, s.finish(busy)); r.message() != "runtime: evaluation cancelled" {
		t.Error(r.message())
	}
	busy = s.begin("eval", args("session", "w", "source", "while true do () done;;"))
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"session":"w"}}`)
	if r := parse[result](t, s.finish(busy)); r.message() != "runtime: evaluation cancelled" {
		t.Error(r.message())
	}
}

// TestSessionSocketOverride: a session behind a socket that a variable names.
func TestSessionSocketOverride(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "d.sock")
	daemon := listen(t, socket)
	silent := filepath.Join(shortDir(t), "s.sock")
	l, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := start(t, setting{"TOPUP_SESSION_SOCKET_W", socket}, setting{"TOPUP_SESSION_SOCKET_MUTE", silent})
	warm := s.write("warm.ml", "let warm = 5\n")
	if r := s.call("start_local_session", "session", "w", "prewarm", warm); r != (reply{`{"ok":true,"session":"w","local_socket":"` + socket + `","pool":1}`, false}) {
		t.Fatalf("%+v", r)
	}
	if got := s.value("warm;;", "session", "w"); got != "5" {
		t.Error(got)
	}
	if got := s.value("warm;;"); !strings.Contains(got, "Unbound") {
		t.Error(got)
	}
	busy := s.begin("eval", args("session", "w", "source", "while true do () done;;"))
	time.Sleep(100 * time.Millisecond)
	s.call("cancel", "session", "w")
	if r := parse[result](t, s.finish(busy)); r.message() != "runtime: evaluation cancelled" {
		t.Error(r.message())
	}
	begun := time.Now()
	if r := s.call("start_local_session", "session", "mute"); !r.isError || !strings.Contains(r.text, "handshake timed out") || time.Since(begun) > 10*time.Second {
		t.Errorf("a silent peer: %+v after %v", r, time.Since(begun))
	}
	daemon.cmd.Process.Kill()
	daemon.cmd.Wait()
	if r := s.call("eval", "session", "w", "source", "1;;"); !r.isError {
		t.Errorf("a dead peer: %+v", r)
	}
}

// TestHosts: hosts whose sockets are named, with the same program as the daemon.
func TestHosts(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "h.sock")
	daemon := listen(t, socket)
	s := start(t, setting{"TOPUP_HOST_SOCKET_BOX", socket}, setting{"TOPUP_HOST_SOCKET_GONE", "/nosuch.sock"})
	s.fails("missing 'host' argument", "start_session")
	s.fails("host 'local' is the in-process session; start_session is for remotes", "start_session", "host", "")
	s.fails("host 'local' is the in-process session; restart_session is for remotes", "restart_session", "host", "local")
	s.fails("host 'local' has no mutable metadata", "update_host", "host", "local")
	s.fails("host not registered: x", "update_host", "host", "x")
	connect := func(host, message string) string {
		return `{"error":{"phase":"connect","host":"` + host + `","message":"` + message + `"}}`
	}
	s.fails(connect("x", "host not registered: x"), "restart_session", "host", "x")
	s.fails(connect("-x", "invalid host: host must not begin with '-' (ssh would parse it as an option)"), "start_session", "host", "-x")
	s.fails(connect("a b", "invalid host: host may only contain [A-Za-z0-9._@-]"), "start_session", "host", "a b")
	s.fails(connect("box", "invalid remote_socket: remote_socket must be an absolute path"), "start_session", "host", "box", "remote_socket", "x")
	s.fails(connect("box", "invalid remote_socket: remote_socket must be non-empty"), "start_session", "host", "box", "remote_socket", "")
	s.fails(connect("gone", "remote gone: topup-mcp: timed out after 1.0s waiting for socket /nosuch.sock"), "start_session", "host", "gone")
	s.fails("push_file: 'host' is required (push_file/pull_file cross the local↔remote boundary; same-machine copies don't go through topup)", "push_file", "local_path", "/x")
	s.fails("host and session are mutually exclusive; push_file/pull_file require host (the boundary is local↔remote)", "pull_file", "session", "w", "host", "box")
	s.fails("host not registered: box (call start_session { host: box } first)", "pull_file", "host", "box", "remote_path", "/x")
	if r := s.call("start_session", "host", "box"); r != (reply{`{"ok":true,"host":"box","remote_socket":"` + s.home + `/.topup/sockets/topup.sock"}`, false}) {
		t.Fatalf("%+v", r)
	}
	s.eval("let there = 1;;", "host", "box")
	if got := s.value("there;;"); !strings.Contains(got, "Unbound") {
		t.Error(got)
	}
	if got := s.value("there;;", "host", "box"); got != "1" {
		t.Error(got)
	}
	if r := s.call("update_host", "host", "box", "description", "a box", "os", ""); r.text != "ok" {
		t.Errorf("%+v", r)
	}
	if got := s.instructions(); !regexp.MustCompile(`- local \[in-process\]\n- box \[topup 0\.1\.0\] \[a box\] \[last: [^]]*Z\]$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	file := s.write("f.txt", "hello")
	if r := s.call("push_file", "host", "box", "local_path", file); r != (reply{`{"remote_path":"` + daemon.home + `/.topup/xfer/f.txt","bytes":5}`, false}) {
		t.Errorf("%+v", r)
	}
	if r := s.call("pull_file", "host", "box", "remote_path", "~/.topup/xfer/f.txt"); r != (reply{`{"local_path":"` + s.home + `/.topup/xfer/f.txt","bytes":5}`, false}) {
		t.Errorf("%+v", r)
	}
	s.fails("remote box: no such file: /nosuch", "pull_file", "host", "box", "remote_path", "/nosuch")
	s.fails("missing 'local_path' argument", "push_file", "host", "box")
	s.fails("no such file: /nosuch", "push_file", "host", "box", "local_path", "/nosuch")
	busy := s.begin("eval", args("host", "box", "source", "while true do () done;;"))
	time.Sleep(100 * time.Millisecond)
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"host":"box"}}`)
	if r := parse[result](t, s.finish(busy)); r.message() != "runtime: evaluation cancelled" {
		t.Error(r.message())
	}
	begun := time.Now()
	if r := s.call("restart_session", "host", "box"); r.isError || time.Since(begun) > 10*time.Second {
		t.Errorf("%+v after %v", r, time.Since(begun))
	}
	daemon.cmd.Process.Kill()
	daemon.cmd.Wait()
	if r := s.call("eval", "host", "box", "source", "1;;"); !r.isError || !strings.HasPrefix(r.text, "remote box: remote box: ") {
		t.Errorf("%+v", r)
	}
	if got := s.end(); got != 0 {
		t.Errorf("status %d", got)
	}
	if !strings.Contains(s.read1(".topup/hosts.json"), `"name"`) {
		t.Error("hosts.json is not written")
	}
}

// TestBackChannel: a session on a socket reads and writes the files of its client.
func TestBackChannel(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "b.sock")
	listen(t, socket)
	c := dial(t, socket)
	if r := c.call("_enable_back_channel"); r.text != "ok" {
		t.Fatalf("%+v", r)
	}
	id := c.begin("eval", args("source", `Bytes.to_string (Topup.read_back "data/in");;`))
	request := c.stray()
	if !strings.Contains(request, `"id":1,`) || !strings.Contains(request, `"name":"_send_blob"`) || !strings.Contains(request, `"path":"data/in"`) {
		t.Fatal(request)
	}
	c.send(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"path\":\"x\",\"data\":\"aGVsbG8=\",\"bytes\":5}"}],"isError":false}}`)
	if r := parse[result](t, c.finish(id)); r.value() != `"hello"` {
		t.Errorf("%+v", r)
	}
	id = c.begin("eval", args("source", `Topup.write_back "out" (Bytes.of_string "hello");;`))
	if request := c.stray(); !strings.Contains(request, `"_recv_blob"`) || !strings.Contains(request, `"aGVsbG8="`) {
		t.Error(request)
	}
	c.send(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"path escapes back-channel root (TOPUP_BACKCHANNEL_ROOT)"}],"isError":true}}`)
	if r := parse[result](t, c.finish(id)); r.message() != `runtime: Failure("Topup.write_back: path escapes back-channel root (TOPUP_BACKCHANNEL_ROOT)")` {
		t.Error(r.message())
	}
	c.begin("eval", args("source", `let lost = try Bytes.to_string (Topup.read_back "x") with Failure text -> text;;`))
	c.stray()
	c.in.Close()
	c.conn.Close()
	// Without the channel it opens files itself, and knows what happened to the last one.
	d := dial(t, socket)
	if got := d.value("lost;;"); !strings.Contains(got, "channel: closed before response") {
		t.Error(got)
	}
	if got := d.value(`Topup.read_back "/nosuch";;`); !strings.Contains(got, "no such file: /nosuch") {
		t.Error(got)
	}
}

// stray waits for the next line that is no reply.
func (s *server) stray() string {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		s.mu.Lock()
		if len(s.strays) > 0 {
			line := s.strays[0]
			s.strays = s.strays[1:]
			s.mu.Unlock()
			return line
		}
		s.mu.Unlock()
	}
	s.t.Fatal("no request came")
	return ""
}

// shortDir is a temporary folder whose path is short enough for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// listen runs a daemon on a socket and waits until it listens.
func listen(t testing.TB, socket string, settings ...setting) *server {
	t.Helper()
	s := start(t, append(settings, setting{"args", "--socket " + socket})...)
	t.Cleanup(func() { s.cmd.Process.Kill() })
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if info, err := os.Stat(socket); err == nil && info.Mode()&os.ModeSocket != 0 {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("no socket; %s", s.stderr)
		}
	}
}

// dial is a client on a socket.
func dial(t testing.TB, socket string) *server {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		conn, err = net.Dial("unix", socket) // bound, and not listening yet
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := newServer(t, t.TempDir())
	s.in, s.conn = halfClose{conn.(*net.UnixConn)}, conn
	go s.read(conn)
	return s
}

// halfClose ends what the client says, not what it hears.
type halfClose struct{ *net.UnixConn }

func (h halfClose) Close() error { return h.CloseWrite() }

var _ io.WriteCloser = halfClose{}

// A restart is what one asks for when a session hangs: it waits for nothing there.
func TestRestartEndsWhatHangs(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.call("start_local_session", "session", "w")
	s.call("eval", "session", "w", "source", "let x = 5;;")
	hangs := s.begin("eval", args("session", "w", "source", "while true do () done;;"))
	waits := s.begin("eval", args("session", "w", "source", "x;;"))
	if r := s.call("restart_local_session", "session", "w"); r.isError {
		t.Errorf("restart: %+v", r)
	}
	for _, id := range []string{hangs, waits} {
		if r := s.finish(id); !strings.Contains(r.text, `"error":{`) {
			t.Errorf("what was under way: %+v", r)
		}
	}
	if r := s.call("eval", "session", "w", "source", "x;;"); !strings.Contains(r.text, "Unbound value x") {
		t.Errorf("after the restart: %+v", r)
	}
}
