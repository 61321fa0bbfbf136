//go:build linux

// Package united tests the compute toolset of the united surface from outside:
// the real binary, a real OCaml and the JavaScript that is part of it. Every
// reply is held against the schema that its tool declares.
package united

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"topside/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// arguments of a call.
type arguments = bed.Arguments

// object is a structured result.
type object map[string]any

func (o object) text(key string) string {
	s, _ := o[key].(string)
	return s
}

func (o object) object(key string) object {
	m, _ := o[key].(map[string]any)
	return m
}

func (o object) list(key string) []any {
	l, _ := o[key].([]any)
	return l
}

func (o object) number(key string) float64 {
	n, _ := o[key].(float64)
	return n
}

// A talk is a conversation with a server that computes.
type talk struct {
	*bed.Server
	t       testing.TB
	state   string
	schemas map[string]*jsonschema.Resolved
}

// begin starts a server whose sessions are kept in a folder.
func begin(t testing.TB, state string, more ...string) *talk {
	t.Helper()
	return beginWith(t, state, nil, more...)
}

func beginWith(t testing.TB, state string, options []bed.Option, more ...string) *talk {
	t.Helper()
	s := bed.Start(t, append([]string{"mcp", "--toolsets", "compute", "--state", state}, more...), options...)
	c := &talk{Server: s, t: t, state: state, schemas: map[string]*jsonschema.Resolved{}}
	s.Handshake("2025-11-25")
	var listed struct {
		Tools []struct {
			Name         string            `json:"name"`
			OutputSchema jsonschema.Schema `json:"outputSchema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(s.Do("tools/list", map[string]any{}).Result, &listed); err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		resolved, err := tool.OutputSchema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.schemas[tool.Name] = resolved
	}
	return c
}

// longest is the bound of either block of a reply, with the framing.
const longest = 37_000

// check holds a reply against what every reply must be.
func (c *talk) check(tool string, reply bed.Reply) (object, bed.ToolResult) {
	c.t.Helper()
	if reply.Error != nil {
		c.t.Fatalf("%s: %v", tool, reply.Error)
	}
	result := bed.ResultOf(c.t, reply)
	var o object
	var anything any
	if err := json.Unmarshal(result.Structured, &o); err != nil {
		c.t.Fatalf("%s: %v in %.300s", tool, err, reply.Line)
	}
	if err := json.Unmarshal(result.Structured, &anything); err != nil {
		c.t.Fatal(err)
	}
	if err := c.schemas[tool].Validate(anything); err != nil {
		c.t.Errorf("%s: the reply is not as declared: %v\n%.500s", tool, err, result.Structured)
	}
	if text := result.Text(); text == "" || len(text) > longest || len(result.Structured) > longest {
		c.t.Errorf("%s: a text of %d and a structure of %d bytes", tool, len(text), len(result.Structured))
	}
	return o, result
}

// ok makes a call that must succeed.
func (c *talk) ok(tool string, a arguments) object {
	c.t.Helper()
	o, result := c.check(tool, c.Call(tool, a))
	if result.Failed() {
		c.t.Fatalf("%s %v: %s", tool, a, result.Text())
	}
	return o
}

// refused makes a call that must fail in the work itself, and returns its code.
func (c *talk) refused(tool string, a arguments) (code, message string) {
	c.t.Helper()
	o, result := c.check(tool, c.Call(tool, a))
	if !result.Failed() {
		c.t.Fatalf("%s %v is no failure: %s", tool, a, result.Text())
	}
	return o.object("error").text("code"), o.object("error").text("message")
}

// invalid makes a call whose arguments are wrong.
func (c *talk) invalid(tool string, a arguments) string {
	c.t.Helper()
	reply := c.Call(tool, a)
	if reply.Error == nil || reply.Error.Code != -32602 {
		c.t.Fatalf("%s %v is answered by %.300s", tool, a, reply.Line)
	}
	return reply.Error.Message
}

func (c *talk) eval(source string, more ...arguments) object {
	c.t.Helper()
	a := arguments{"source": source}
	for _, m := range more {
		for k, v := range m {
			a[k] = v
		}
	}
	return c.ok("eval", a)
}

// value evaluates and returns the printed value; an error ends the test.
func (c *talk) value(source string, more ...arguments) string {
	c.t.Helper()
	o := c.eval(source, more...)
	if o["error"] != nil {
		c.t.Fatalf("%s: %v", source, o["error"])
	}
	return o.text("value_repr")
}

func (c *talk) want(what, got, want string) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("%s is %q, not %q", what, got, want)
	}
}

func TestEvaluation(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir())
	o := c.eval("let x = 40;; x + 2")
	c.want("the value", o.text("value_repr"), "42")
	c.want("the type", o.text("type"), "int")
	c.want("the state", o.text("state"), "idle")
	c.want("the session", o.text("session"), "local")
	c.want("the engine", o.text("engine"), "ocaml")
	if o.number("generation") != 1 || o.text("run") == "" {
		t.Errorf("generation and run are %v and %v", o["generation"], o["run"])
	}

	o = c.eval("let f = function 0 -> 1")
	warnings := o.list("warnings")
	if len(warnings) != 1 || !strings.Contains(fmt.Sprint(warnings[0]), "partial-match") || object(warnings[0].(map[string]any)).object("location").number("line") != 1 {
		t.Errorf("the warnings are %v", warnings)
	}

	o = c.eval("let a = 1;;\nx ^ \"a\"")
	location := o.object("error").object("location")
	if o.object("error").text("phase") != "typecheck" || location.number("line") != 2 || location.number("col_end") != 1 {
		t.Errorf("the error is %v", o["error"])
	}
	c.want("what was before the error", c.value("a"), "1")

	o = c.eval(`print_string "out1\n"; flush stdout; prerr_string "err\n"; flush stderr`)
	c.want("stdout", o.text("stdout"), "out1\n")
	c.want("stderr", o.text("stderr"), "err\n")
	if len(o.list("output")) != 2 {
		t.Errorf("the ordered output is %v", o["output"])
	}

	b := c.ok("eval_batch", arguments{"sources": []string{"let b = 1", `b + "x"`, "let never = 1"}})
	if len(b.list("results")) != 2 || b["stopped_on_error"] != true || b.number("not_run") != 1 {
		t.Errorf("the batch is %v", b)
	}
	if o := c.ok("lookup", arguments{"name": "never"}); o["found"] != false {
		t.Errorf("what came after the error was evaluated: %v", o)
	}
	c.want("a batch from a string", fmt.Sprint(len(c.ok("eval_batch", arguments{"sources": `["1","2"]`}).list("results"))), "2")

	env := c.ok("env", arguments{})
	names := ""
	for _, b := range env.list("bindings") {
		names += object(b.(map[string]any)).text("name") + " "
	}
	c.want("the names", names, "a b f x ")
	if all := c.ok("env", arguments{"all": "true", "filter": "print_end"}); len(all.list("bindings")) != 1 {
		t.Errorf("print_endline is not found: %v", all)
	}
	found := c.ok("lookup", arguments{"name": "List.map"})
	if found["found"] != true || !strings.Contains(found.object("binding").text("type"), "list") {
		t.Errorf("List.map is %v", found)
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir(), "--engine", "javascript")
	for want, a := range map[string]arguments{
		"source":    {},
		"sauce":     {"sauce": "1"},
		"timeout":   {"source": "1", "timeout": 0},
		"more than": {"source": "1", "timeout": -1},
		"engine":    {"source": "1", "engine": "cobol"},
		"at most":   {"source": "1", "session": strings.Repeat("x", 61)},
	} {
		if message := c.invalid("eval", a); !strings.Contains(message, want) {
			t.Errorf("%v: %s", a, message)
		}
	}
	c.want("coerced arguments", c.value("1 + 1", arguments{"timeout": "5", "wait": "10", "session": nil}), "2")
	for _, label := range []string{"", "../evil", "a/b", ".hidden", "a..b"} {
		c.invalid("checkpoint", arguments{"label": label})
		c.invalid("restore", arguments{"label": label})
	}
	c.invalid("start_local_session", arguments{"session": "local"})
	c.invalid("start_local_session", arguments{"session": "w", "pool": 65})
	c.invalid("eval_batch", arguments{"sources": []string{}})
	for tool, a := range map[string]arguments{
		"eval": {"source": "1", "session": "nowhere"}, "env": {"session": "nowhere"}, "cancel": {"session": "nowhere"},
		"restart_local_session": {"session": "nowhere"}, "update_local_session": {"session": "nowhere"}, "poll": {"session": "nowhere"},
	} {
		if code, message := c.refused(tool, a); code != "unknown_session" || !strings.Contains(message, "nowhere") {
			t.Errorf("%s: %s %s", tool, code, message)
		}
	}
	if code, _ := c.refused("restore", arguments{"label": "none"}); code != "unknown_checkpoint" {
		t.Error(code)
	}
	if code, _ := c.refused("poll", arguments{"run": "x-1"}); code != "unknown_run" {
		t.Error(code)
	}
	if code, message := c.refused("compile_to_binary", arguments{"entry": "main", "out": "/tmp/x"}); code != "invalid_call" || !strings.Contains(message, "OCaml") {
		t.Error(code, message)
	}
	if code, _ := c.refused("load", arguments{"path": "/nowhere.js"}); code != "invalid_call" {
		t.Error(code)
	}
	if code, _ := c.refused("eval", arguments{"source": "1", "session": "local", "engine": "ocaml"}); code != "invalid_call" {
		t.Error(code)
	}
}

func TestWaitAndPoll(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir())
	c.value("1")
	started := time.Now()
	o := c.eval(`print_endline "first"; Unix.sleepf 1.0; print_endline "second"; 7`, arguments{"wait": 0.3})
	if took := time.Since(started); took > 900*time.Millisecond {
		t.Errorf("the reply took %v", took)
	}
	c.want("the state", o.text("state"), "running")
	c.want("what was printed so far", o.text("stdout"), "first\n")
	if list := c.ok("list_sessions", nil); !strings.Contains(fmt.Sprint(list["sessions"]), "sleepf") {
		t.Errorf("what runs is not listed: %v", list["sessions"])
	}
	// Another call waits in the session's queue and says so; another session is free.
	queued := c.eval("8", arguments{"wait": 0})
	c.want("the state of the call behind it", queued.text("state"), "queued")
	c.want("another session", c.value("1 + 1", arguments{"engine": "javascript"}), "2")
	// A call without a run collects the latest; both are collected by name.
	c.want("the second run", c.ok("poll", arguments{"run": queued["run"]}).text("value_repr"), "8")
	done := c.ok("poll", arguments{"run": o["run"]})
	c.want("the collected value", done.text("value_repr"), "7")
	c.want("the whole output", done.text("stdout"), "first\nsecond\n")
	c.want("a second collection", c.ok("poll", arguments{"run": o["run"]}).text("value_repr"), "7")
	// What a background process prints afterwards is told apart.
	c.eval(`ignore (Unix.system "(sleep 0.2; echo late) &")`)
	late := object{}
	for range 40 {
		if late = c.ok("poll", arguments{}); len(late.list("late_output")) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !strings.Contains(fmt.Sprint(late["late_output"]), "late") || late.text("stdout") != "" {
		t.Errorf("the output between calls is %v", late)
	}
}

func TestProgressAndCancellation(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir())
	c.value("1")
	id := c.Ask("tools/call", map[string]any{
		"name": "eval", "arguments": arguments{"source": `for i = 1 to 1000 do Printf.printf "step %d\n%!" i; Unix.sleepf 0.1 done`},
		"_meta": map[string]any{"progressToken": "p1"},
	})
	progress := ""
	for begun := time.Now(); progress == "" && time.Since(begun) < bed.Patience; time.Sleep(20 * time.Millisecond) {
		for _, line := range c.Lines() {
			if strings.Contains(line, "notifications/progress") {
				progress = line
			}
		}
	}
	if !strings.Contains(progress, "step") || !strings.Contains(progress, `"p1"`) {
		t.Errorf("the progress is %q", progress)
	}
	// A poll later tells the time of the run, in the figure and in the text.
	time.Sleep(1100 * time.Millisecond)
	poll := c.Ask("tools/call", map[string]any{
		"name": "poll", "arguments": arguments{"wait": 1.5}, "_meta": map[string]any{"progressToken": "p2"},
	})
	c.Await(poll)
	var note struct {
		Params struct {
			Token    string `json:"progressToken"`
			Progress float64
			Message  string
		}
	}
	for _, line := range c.Lines() {
		if err := json.Unmarshal([]byte(line), &note); err == nil && note.Params.Token == "p2" {
			break
		}
	}
	if p := note.Params; p.Token != "p2" || p.Progress < 2 || !strings.HasPrefix(p.Message, fmt.Sprintf("running for %d s", int(p.Progress))) {
		t.Errorf("the progress of a poll is %+v", p)
	}
	var number any
	if err := json.Unmarshal([]byte(id), &number); err != nil {
		t.Fatal(err)
	}
	c.Note("notifications/cancelled", map[string]any{"requestId": number})
	stopped := time.Now()
	c.want("the session after a cancellation", c.value("2"), "2")
	if took := time.Since(stopped); took > 2*time.Second {
		t.Errorf("the cancellation took %v", took)
	}
	if c.Answered(id) {
		t.Error("a cancelled call was answered")
	}
	// The tool does the same, also where every exception is caught.
	o := c.eval("while true do try while true do () done with _ -> () done", arguments{"wait": 0.1})
	c.want("the state", o.text("state"), "running")
	cancelled := c.ok("cancel", arguments{})
	if cancelled["cancelled"] != true || cancelled.text("state") != "idle" || cancelled.number("generation") != 2 {
		t.Errorf("the cancellation is %v", cancelled)
	}
	done := c.ok("poll", arguments{"run": o["run"]})
	if done.object("error").text("cause") != "cancel" || done["recovered"] != true {
		t.Errorf("the cancelled run is %v", done)
	}
	if again := c.ok("cancel", arguments{}); again["cancelled"] != false {
		t.Errorf("a cancellation of nothing is %v", again)
	}
}

func TestTimeoutsAndDeaths(t *testing.T) {
	t.Parallel()
	for _, e := range []struct {
		engine, define, look, spin, exit string
	}{
		{"ocaml", "let r = ref 1", "!r", "while true do () done", "r := 5; exit 3"},
		{"javascript", "let r = 1", "r", "while (true) {}", "r = 5; process.exit(3)"},
	} {
		t.Run(e.engine, func(t *testing.T) {
			t.Parallel()
			c := begin(t, t.TempDir(), "--engine", e.engine)
			c.eval(e.define)
			begun := time.Now()
			o := c.eval(e.spin, arguments{"timeout": 0.3})
			if took := time.Since(begun); o.object("error").text("message") != "evaluation timed out" || took > 3*time.Second {
				t.Errorf("after %v: %v", took, o["error"])
			}
			c.want("the state after a timeout", c.value(e.look), "1")
			before := c.eval(e.look).number("generation")
			o = c.eval(e.exit)
			if e.engine == "javascript" && o["error"] != nil && strings.Contains(o.object("error").text("message"), "not defined") {
				return // there is no process to exit
			}
			if o["recovered"] != true || o.number("generation") <= before || !strings.Contains(o.object("recovery").text("summary"), "3") {
				t.Errorf("the reply to an exit is %v", o)
			}
			c.want("the state after an exit", c.value(e.look), "1")
		})
	}
	t.Run("segfault", func(t *testing.T) {
		t.Parallel()
		c := begin(t, t.TempDir())
		c.eval("let kept = 9")
		o := c.eval(`print_endline "before"; Unix.kill (Unix.getpid ()) Sys.sigsegv; Unix.sleep 5`)
		if o["error"] == nil || o["recovered"] != true || o.text("stdout") != "" && o.text("stdout") != "before\n" {
			t.Errorf("the reply is %v", o)
		}
		c.want("the state", c.value("kept"), "9")
	})
}

func TestFlood(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir())
	o := c.eval(`for i = 1 to 1_000_000 do Printf.printf "%09d\n" i done`)
	over := o.object("stdout_overflow")
	if over.number("total_bytes") != 10_000_000 || over["dropped_bytes"] != nil {
		t.Fatalf("the overflow is %v", over)
	}
	stdout := o.text("stdout")
	if !strings.HasPrefix(stdout, "000000001\n") || !strings.HasSuffix(stdout, "001000000\n") || !strings.Contains(stdout, "bytes left out") {
		t.Errorf("the preview is %.100q … %q", stdout, stdout[max(0, len(stdout)-100):])
	}
	middle := c.ok("read_output", arguments{"path": over["path"], "offset": 5_000_000, "limit": 20})
	c.want("the middle", middle.text("text"), "000500001\n000500002\n")
	c.want("the next offset", fmt.Sprint(middle.number("next_offset")), "5.00002e+06")
	end := c.ok("read_output", arguments{"path": over["path"], "offset": "-10"})
	c.want("the end", end.text("text"), "001000000\n")
	if end["next_offset"] != nil {
		t.Errorf("there is something behind the end: %v", end)
	}
	for _, path := range []string{"/etc/passwd", "../local.ml", c.state + "/output/../local.ml", "no\x00where", ""} {
		if code, _ := c.refused("read_output", arguments{"path": path}); code != "unknown_output" {
			t.Errorf("%q: %s", path, code)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(c.state, "output", "link")); err != nil {
		t.Fatal(err)
	}
	if code, _ := c.refused("read_output", arguments{"path": "link"}); code != "unknown_output" {
		t.Errorf("a link is followed: %s", code)
	}
	// Hundreds of results, and many long ones, stay within the bound of a reply.
	long := make([]string, 100)
	for i := range long {
		long[i] = fmt.Sprintf("String.make 300 '%c'", 'a'+i%26)
	}
	if b := c.ok("eval_batch", arguments{"sources": long}); b.number("left_out")+float64(len(b.list("results"))) != 100 {
		t.Errorf("%d results and %v left out", len(b.list("results")), b["left_out"])
	}
	if env := c.ok("env", arguments{"all": true}); env.number("matched") < 100 {
		t.Errorf("the library has %v names", env["matched"])
	}
	var many strings.Builder
	for i := range 400 {
		fmt.Fprintf(&many, "let many%d = %d, \"a name of many\";;\n", i, i)
	}
	c.eval(many.String())
	if env := c.ok("env", arguments{"filter": "many"}); env.number("left_out")+float64(len(env.list("bindings"))) != 400 || env.number("left_out") == 0 {
		t.Errorf("the environment: %v matched, %v left out", env["matched"], env["left_out"])
	}
	// Output that is no UTF-8.
	o = c.eval(`print_string "a\255\000b"; prerr_string "\254"`)
	c.want("the broken output", o.text("stdout"), "a\uFFFD\x00b")
}

// TestBadInput gives sessions what breaks servers; each gets its reply, and the
// session lives on with what it had.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for engine, e := range map[string]struct {
		keep, look string
		bad        []string
	}{
		"ocaml": {"let kept = 5", "kept", []string{
			"", " \n", ";;", "(* never closed", `"never closed`, "let s = \"\x00\"", "\xff\xfe", "let x = (", "#nosuch;;", "#require \"no_such_package\"",
			"let rec f x = 1 + f x in f 0", "Array.make 1_000_000_000 0.", "input_line stdin", "Unix.fork ()", "Unix.close Unix.stdout; Unix.close Unix.stderr",
			"raise Exit", "#use \"/nowhere.ml\"", "let big = \"" + strings.Repeat("x", 1<<20) + "\"", `Unix.execv "/bin/false" [|"false"|]`,
		}},
		"javascript": {"let kept = 5", "kept", []string{
			"", ";", "/* never closed", `"never closed`, "\x00", "\xff", "let x = (", "function f() { return f() + 1 } f()",
			"throw new Error('x')", "await new Promise(() => {})", "'x'.repeat(1 << 28).length", "Promise.reject(1)", "null.x", "const big = '" + strings.Repeat("x", 1<<20) + "'",
		}},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			c := begin(t, t.TempDir(), "--engine", engine)
			c.eval(e.keep)
			for _, source := range e.bad {
				o := c.eval(source, arguments{"timeout": 5, "wait": 40})
				if state := o.text("state"); state != "idle" {
					t.Errorf("after %.60q the state is %s: %v", source, state, o["error"])
				}
				if got := c.value(e.look); got != "5" {
					t.Fatalf("after %.60q the session has %s", source, got)
				}
			}
		})
	}
}

// TestParallel has many sessions at work at once, and calls of one in order.
func TestParallel(t *testing.T) {
	t.Parallel()
	c := begin(t, t.TempDir(), "--engine", "javascript")
	ids := map[string]string{}
	for i := range 8 {
		name := fmt.Sprint("p", i)
		c.ok("start_local_session", arguments{"session": name})
		c.eval("const end = Date.now() + 400; while (Date.now() < end) {}; var n = 0", arguments{"session": name, "wait": 0})
		for range 5 {
			ids[c.AskCall("eval", arguments{"source": "n += 1", "session": name})] = name
		}
	}
	for id := range ids {
		c.check("eval", c.Await(id))
	}
	for i := range 8 {
		c.want("the count", c.value("n", arguments{"session": fmt.Sprint("p", i)}), "5")
	}
}
