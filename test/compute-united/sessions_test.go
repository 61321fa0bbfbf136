//go:build linux

package united

// This file tests what outlives a call: sessions, servers, clients.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/test/bed"
)

func TestServersRestart(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	c := begin(t, state)
	c.value("let x = 1")
	c.ok("start_local_session", arguments{"session": "w"})
	c.value("let y = ref 2", arguments{"session": "w"})
	c.value("y := 3", arguments{"session": "w"})
	c.value("let z = 4", arguments{"engine": "javascript"})
	c.ok("checkpoint", arguments{"label": "one"})
	c.Cmd.Process.Kill()
	<-c.Ended()

	c = begin(t, state)
	o := c.eval("x")
	c.want("x", o.text("value_repr"), "1")
	if o["recovered"] != true || o.object("recovery").number("replayed") != 1 || o.object("recovery").text("by") != "replay" {
		t.Errorf("the reply does not say what came back: %v", o)
	}
	if o := c.eval("x"); o["recovered"] != nil {
		t.Errorf("it is said again: %v", o)
	}
	if env := c.ok("env", arguments{"session": "w"}); env["recovered"] != true || len(env.list("bindings")) != 1 {
		t.Errorf("w is %v", env)
	}
	c.want("y", c.value("!y", arguments{"session": "w"}), "3")
	c.want("z", c.value("z", arguments{"session": "javascript"}), "4")
	c.eval("let x = 5")
	c.want("the restored x", c.ok("restore", arguments{"label": "one"}).text("value_repr"), "1")
	c.want("a checkpoint of another session", c.ok("restore", arguments{"label": "one", "session": "w"}).text("value_repr"), "1")
	// What was reset stays away.
	c.ok("reset", arguments{})
	c.ok("restart_local_session", arguments{"session": "javascript"})
	c.Close(bed.Patience)

	c = begin(t, state)
	for session, source := range map[string]string{"local": "x", "javascript": "z"} {
		if o := c.eval(source, arguments{"session": session}); session == "local" && o["error"] == nil {
			t.Errorf("%s in %s came back after it was dropped: %v", source, session, o)
		}
	}
	instructions := string(c.Do("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}}).Result)
	if !strings.Contains(instructions, "- w [ocaml]") || !strings.Contains(instructions, "ocaml 4") && !strings.Contains(instructions, "ocaml 5") {
		t.Errorf("the instructions are %s", instructions)
	}
}

// TestEndlessLog: a log whose evaluation has no end keeps nobody from a session: reset begins without it, and it is not
// lost.
func TestEndlessLog(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	c := begin(t, state)
	c.value("let a = 1")
	c.value("var a = 1", arguments{"engine": "javascript"})
	c.ok("start_local_session", arguments{"session": "w"})
	c.value("let a = 1", arguments{"session": "w"})
	c.Close(bed.Patience)
	endless := []struct{ session, file, log string }{
		{"local", "local.ml", "let a = 2;;\nwhile true do () done;;\n"},
		{"javascript", "sessions/javascript.js", "var a = 2;\nwhile (true) {}\n"},
	}
	for _, e := range endless {
		if err := os.WriteFile(filepath.Join(state, e.file), []byte(e.log), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c = begin(t, state)
	for _, e := range endless {
		if o := c.ok("eval", arguments{"source": "a", "session": e.session, "wait": 0.3}); o.text("state") != "opening" {
			t.Errorf("%v", o)
		}
		c.ok("cancel", arguments{"session": e.session})
		c.ok("reset", arguments{"session": e.session})
		c.want("a value after the reset", c.value("40 + 2", arguments{"session": e.session}), "42")
		if b, err := os.ReadFile(filepath.Join(state, e.file+".1")); string(b) != e.log {
			t.Errorf("the old log: %q %v", b, err)
		}
	}
	// A session that nobody has used since the server began loses nothing by it either.
	c.ok("reset", arguments{"session": "w"})
	if left := c.ok("env", arguments{"session": "w"}).list("bindings"); len(left) != 0 {
		t.Errorf("there is %v", left)
	}
	c.ok("restore", arguments{"session": "w", "label": "previous"})
	c.want("a restored value", c.value("a", arguments{"session": "w"}), "1")
}

func TestTwoServers(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	a, b := begin(t, state), begin(t, state)
	for i := range 3 {
		a.value(fmt.Sprintf("let a%d = %d", i, i))
		o := b.eval(fmt.Sprintf("let b%d = %d", i, i))
		if told := strings.Contains(fmt.Sprint(o["notes"]), "another server"); told != (i == 1) && i > 0 {
			t.Logf("notes of the call %d: %v", i, o["notes"])
		}
	}
	a.ok("checkpoint", arguments{"label": "a"})
	b.ok("checkpoint", arguments{"label": "b"})
	for label, own := range map[string]string{"a": "let a0 = 0;;\nlet a1 = 1;;\nlet a2 = 2;;\n", "b": "let b0 = 0;;\nlet b1 = 1;;\nlet b2 = 2;;\n"} {
		text, err := os.ReadFile(filepath.Join(state, "checkpoints", label+".ml"))
		if err != nil || string(text) != own {
			t.Errorf("the checkpoint %s is %q, %v", label, text, err)
		}
	}
	// Long outputs of one are not removed by the other's start.
	path := a.eval("print_string (String.make 9000 'x')").object("stdout_overflow")["path"]
	third := begin(t, state)
	third.value("1")
	if got := a.ok("read_output", arguments{"path": path, "limit": 3}); got.text("text") != "xxx" {
		t.Errorf("the output is %v", got)
	}
}

func TestOddNames(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir(), "--engine", "javascript")
	names := []string{"../../evil", "a b", "-rf", "é😀", "n\nl", "nul\x00", ".", "..", "w", "w~2", "w-2", "W", strings.Repeat("😀", 60), strings.Repeat("😀", 59) + "x"}
	for i, name := range names {
		c.ok("start_local_session", arguments{"session": name})
		c.eval(fmt.Sprintf("let mine = %d", i), arguments{"session": name})
	}
	c.Close(bed.Patience)
	err := filepath.WalkDir(filepath.Dir(c.state), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), "evil") && filepath.Dir(path) != filepath.Join(c.state, "sessions") {
			t.Errorf("there is a file %s", path)
		}
		if info, err := d.Info(); err == nil && strings.HasPrefix(path, c.state+"/") && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may open %s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c = begin(t, c.state, "--engine", "javascript")
	for i, name := range names {
		c.want("the value in "+name, c.value("mine", arguments{"session": name}), fmt.Sprint(i))
	}
}

func TestPrewarmAndPool(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir())
	warm := filepath.Join(t.TempDir(), "warm.ml")
	if err := os.WriteFile(warm, []byte("let warm = 11"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := c.ok("start_local_session", arguments{"session": "p", "prewarm": warm, "pool": "2"})
	if o["ok"] != true || o.number("pool") != 2 {
		t.Errorf("the reply is %v", o)
	}
	c.want("the prewarmed sibling", c.value("warm", arguments{"session": "p.1"}), "11")
	if err := os.WriteFile(warm, []byte("let warm = nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, message := c.refused("restart_local_session", arguments{"session": "p"}); code != "session_failed" || !strings.Contains(message, "nonsense") {
		t.Errorf("a failing prewarm file: %s %s", code, message)
	}
	c.ok("update_local_session", arguments{"session": "p", "prewarm": ""})
	c.ok("restart_local_session", arguments{"session": "p"})
	if o := c.eval("warm", arguments{"session": "p"}); o["error"] == nil {
		t.Errorf("the old prewarm file was used: %v", o)
	}
	if code, message := c.refused("eval", arguments{"source": "1", "session": "p", "engine": "javascript"}); code != "invalid_call" || !strings.Contains(message, "ocaml") {
		t.Errorf("another engine: %s %s", code, message)
	}
}

// TestPoolComesBack: every session of a pool says what came back, whichever is used first.
func TestPoolComesBack(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	c := begin(t, state)
	c.ok("start_local_session", arguments{"session": "w", "pool": 3})
	names := []string{"w", "w.1", "w.2"}
	for _, name := range names {
		c.value("let v = 1", arguments{"session": name})
	}
	c.Close(bed.Patience)
	c = begin(t, state)
	for _, name := range names {
		if o := c.eval("v", arguments{"session": name}); o["recovered"] != true || o.object("recovery").number("replayed") != 1 {
			t.Errorf("%s: %v", name, o)
		}
		if o := c.eval("v", arguments{"session": name}); o["recovered"] != nil {
			t.Errorf("%s again: %v", name, o)
		}
	}
}

func TestBinary(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir())
	c.value("let r = ref []")
	c.value("let greet = \"old\"")
	c.value("let greet = \"hello\"")
	c.value("let main () = print_endline greet; r := 1 :: !r")
	out := filepath.Join(t.TempDir(), "out")
	o := c.ok("compile_to_binary", arguments{"entry": "main", "out": out})
	if o["ok"] != true {
		t.Fatalf("the build is %v", o)
	}
	said, err := exec.Command(o.text("binary_path")).Output()
	if err != nil || string(said) != "hello\n" {
		t.Errorf("the program says %q, %v", said, err)
	}
	if o = c.ok("compile_to_binary", arguments{"entry": "nosuch", "out": out}); o["ok"] != false || !strings.Contains(o.text("build_log"), "nosuch") {
		t.Errorf("a failing build is %v", o)
	}
	c.refused("compile_to_binary", arguments{"entry": "main", "out": "relative"})
	c.refused("compile_to_binary", arguments{"entry": "a-b", "out": out})
}

// TestNothingInstalled has neither a compiler nor a shell on its PATH.
func TestNothingInstalled(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	c := beginWith(t, t.TempDir(), []bed.Option{bed.Env("PATH=" + empty)})
	o := c.eval("const xs = [1, 2, 3]; xs.map(n => n * n)")
	c.want("the engine", o.text("engine"), "javascript")
	c.want("the value", o.text("value_repr"), "[ 1, 4, 9 ]")
	c.want("a binding", c.ok("lookup", arguments{"name": "xs"}).object("binding").text("name"), "xs")
	if code, message := c.refused("eval", arguments{"source": "1", "engine": "ocaml"}); code != "engine_unavailable" || !strings.Contains(message, "ocamlc") {
		t.Errorf("OCaml: %s %s", code, message)
	}
	list := c.Do("tools/list", map[string]any{})
	if strings.Contains(string(list.Result), "Engines: ocaml") {
		t.Error("the description names an engine that is not there")
	}
}

func TestNoHome(t *testing.T) {
	t.Parallel()
	s := bed.Start(t, []string{"mcp", "--toolsets", "compute"}, bed.Env("HOME=", "XDG_STATE_HOME="))
	s.Handshake("2025-11-25")
	if r := bed.ResultOf(t, s.Call("eval", arguments{"source": "1 + 1", "engine": "javascript"})); !strings.Contains(r.Text(), "2") {
		t.Errorf("the reply is %s", r.Text())
	}
	if r := bed.ResultOf(t, s.Call("checkpoint", arguments{"label": "x"})); !r.Failed() || !strings.Contains(r.Text(), "not_kept") {
		t.Errorf("a checkpoint into nowhere: %s", r.Text())
	}
}

// TestUnwritableState has a folder that cannot be: everything works but what is
// kept, and the replies say so.
func TestUnwritableState(t *testing.T) {
	t.Parallel()
	c := begin(t, "/proc/nowhere")
	if o := c.eval("let x = 1"); !strings.Contains(fmt.Sprint(o["notes"]), "cannot be written") {
		t.Errorf("the notes are %v", o["notes"])
	}
	if o := c.ok("start_local_session", arguments{"session": "w"}); !strings.Contains(fmt.Sprint(o["notes"]), "registry") {
		t.Errorf("the notes are %v", o["notes"])
	}
	c.want("the value", c.value("1 + 1", arguments{"session": "w"}), "2")
	if o := c.eval("exit 1"); o["recovered"] != true {
		t.Errorf("the reply is %v", o)
	}
	c.want("the value after a death", c.value("x"), "1")
	over := c.eval("print_string (String.make 9000 'x')").object("stdout_overflow")
	if over.number("total_bytes") != 9000 || over.number("dropped_bytes") == 0 || over["path"] != nil {
		t.Errorf("the overflow is %v", over)
	}
	if code, _ := c.refused("checkpoint", arguments{"label": "x"}); code != "not_kept" {
		t.Errorf("a checkpoint is refused with %s", code)
	}
}

func TestChoiceOfTools(t *testing.T) {
	t.Parallel()
	s := bed.Start(t, []string{"mcp", "--read-only", "--toolsets", "compute", "--state", t.TempDir()})
	s.Handshake("2025-11-25")
	list := string(s.Do("tools/list", map[string]any{}).Result)
	for _, writing := range []string{"eval", "eval_batch", "env", "lookup", "reset", "cancel", "load", "checkpoint", "restore", "compile_to_binary", "start_local_session", "restart_local_session", "update_local_session"} {
		if strings.Contains(list, `"name":"`+writing+`"`) {
			t.Errorf("a read-only server offers %s", writing)
		}
	}
	if reply := s.Call("eval", arguments{"source": "1"}); reply.Error == nil {
		t.Errorf("a read-only server evaluates: %s", reply.Line)
	}
	run := bed.RunBinary(t, "mcp", "--engine", "cobol")
	if run.Status != 2 || !strings.Contains(run.Stderr, "javascript") {
		t.Errorf("an unknown engine: %d %s", run.Status, run.Stderr)
	}
}

// TestClientsOfOneServer has a client that leaves in the middle of an
// evaluation, and another one that collects it.
func TestClientsOfOneServer(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "united")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	socket := filepath.Join(folder, "s")
	bed.Start(t, []string{"mcp", "--toolsets", "compute", "--state", filepath.Join(folder, "state"), "--socket", socket})
	dial := func() (net.Conn, *bufio.Reader) {
		for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			conn, err := net.Dial("unix", socket)
			if err == nil {
				return conn, bufio.NewReader(conn)
			}
			if time.Since(begun) > bed.Patience {
				t.Fatal(err)
			}
		}
	}
	call := func(conn net.Conn, id int, tool string, a arguments) {
		fmt.Fprintln(conn, bed.JSON(t, map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": a}}))
	}
	first, _ := dial()
	call(first, 1, "eval", arguments{"source": "print_endline \"begun\"; Unix.sleepf 0.7; 77"})
	second, replies := dial()
	defer second.Close()
	running := func() bool {
		call(second, 1, "list_sessions", nil)
		line, err := replies.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(line, `"state":"running"`)
	}
	for begun := time.Now(); !running() && time.Since(begun) < bed.Patience; time.Sleep(5 * time.Millisecond) {
	}
	first.Close()
	call(second, 2, "poll", nil)
	line, err := replies.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Result struct {
			Structured object `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(line), &reply); err != nil {
		t.Fatal(err)
	}
	if got := reply.Result.Structured; got.text("value_repr") != "77" || got.text("stdout") != "begun\n" {
		t.Errorf("the evaluation of the client that left is %v", got)
	}
}

// TestEnd ends the server by the end of its input and by a signal, in the middle
// of endless evaluations: both end at once, with every process.
func TestEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*talk){
		"input":  func(c *talk) { c.Stdin.Close() },
		"signal": func(c *talk) { _ = c.Cmd.Process.Signal(syscall.SIGTERM) },
		"kill":   func(c *talk) { _ = c.Cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t, t.TempDir())
			pid := c.value("Unix.getpid ()")
			c.eval("while true do try while true do () done with _ -> () done", arguments{"wait": 0})
			c.eval("while (true) {}", arguments{"engine": "javascript", "wait": 0.2})
			begun := time.Now()
			end(c)
			<-c.Ended()
			if took := time.Since(begun); took > 2500*time.Millisecond {
				t.Errorf("the end took %v", took)
			}
			for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat("/proc/" + pid); err != nil {
					break
				}
				if time.Since(begun) > bed.Patience {
					t.Fatalf("process %s lives on", pid)
				}
			}
		})
	}
}

// A restart is what one asks for when a session hangs: it waits for nothing there.
func TestRestartEndsWhatHangs(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir())
	c.ok("start_local_session", arguments{"session": "w"})
	c.value("let x = 5", arguments{"session": "w"})
	hangs := c.eval("while true do () done", arguments{"session": "w", "wait": 0.2})
	c.want("the evaluation", hangs.text("state"), "running")
	c.eval("x", arguments{"session": "w", "wait": 0})
	c.ok("restart_local_session", arguments{"session": "w"})
	if o := c.ok("poll", arguments{"run": hangs.text("run")}); o["error"] == nil {
		t.Errorf("what hung is %v", o)
	}
	if o := c.eval("x", arguments{"session": "w"}); !strings.Contains(o.object("error").text("message"), "Unbound value x") {
		t.Errorf("after the restart: %v", o)
	}
}
