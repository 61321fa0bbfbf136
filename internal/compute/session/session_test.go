//go:build unix

package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"topside/internal/compute/engine"
)

// TestValues is the contract's table of which value and which type an evaluation reports (section 4.3).
func TestValues(t *testing.T) {
	w := open(t, nil)
	const none = "\x00"
	for _, c := range []struct{ source, value, typ string }{
		{"1+1;;", "2", "int"},
		{"();;", "()", "unit"},
		{"let x = 42;;", "42", "int"},
		{"let x = 1 and y = 2;;", "2", "int"},
		{"let e = 5 let f = 6;;", "6", "int"},
		{`let (a, b) = (1, "two");;`, `"two"`, "string"},
		{"let rec even n = n = 0 || odd (n-1) and odd n = n <> 0 && even (n-1);;", "<fun>", "int -> bool"},
		{"let _ = 5;;", "5", "int"},
		{`let _ = 3 and _ = "x";;`, none, none},
		{"let () = ();;", none, none},
		{`external len : string -> int = "caml_ml_string_length";;`, none, "string -> int"},
		{"type t = A;;", none, none},
		{"exception My of int * string;;", none, none},
		{"module M = struct let add a b = a + b end;;", none, none},
		{"open List;;", none, none},
		{"include struct let q = 7 end;;", "7", "int"},
		{"open struct let h = 1 end;;", "1", "int"},
		{`let a = 1 let b = "x" type t = A;;`, `"x"`, "string"},
		{"let a = 1;; type t = A;;", "1", "int"},
		{"1 + 1", "2", "int"}, // a missing terminator is accepted
		{"", none, none},
		{"  \n", none, none},
		{"(* only a comment *)", none, none},
		{";;", none, none},
		{"1;; (* after *)", "1", "int"},
		{"fun x -> x;;", "<fun>", "'a -> 'a"},
		{"`A 3;;", "`A 3", "[> `A of int ]"},
		{"(nan, infinity, -0.);;", "(nan, infinity, -0.)", "float * float * float"},
		{"0.1 +. 0.2;;", "0.300000000000000044", "float"},
		{"Some (Ok 3);;", "Some (Ok 3)", "(int, 'a) result option"},
		{"lazy (1+1);;", "<lazy>", "int lazy_t"},
		{"object method m = 1 end;;", "<obj>", "< m : int >"},
		{`"h\195\169llo\n";;`, `"héllo\n"`, "string"},
		{"type _ g = I : int -> int g | B : bool -> bool g;; I 3;;", "I 3", "int g"},
		{"module F (X : sig val n : int end) = struct let m = X.n + 1 end;; module G = F (struct let n = 2 end);; G.m;;", "3", "int"},
		{"class c = object val mutable n = 0 method incr = n <- n + 1 method get = n end;; let o = new c;; o#incr; o#get;;", "1", "int"},
	} {
		r := w.eval(c.source)
		if r.Err != nil {
			t.Errorf("%q: %v", c.source, r.Err)
			continue
		}
		if got := head(r.Value, none); got != c.value {
			t.Errorf("%q: value %q, want %q", c.source, got, c.value)
		}
		if got := head(r.Type, none); got != c.typ {
			t.Errorf("%q: type %q, want %q", c.source, got, c.typ)
		}
	}
}

func head(t *Text, none string) string {
	if t == nil {
		return none
	}
	return t.Head
}

// TestErrors is section 4.5: phases, places and texts.
func TestErrors(t *testing.T) {
	w := open(t, nil)
	w.eval("exception My of int * string;;")
	for _, c := range []struct {
		source, phase, message string
		place                  engine.Location // zero: none is asked for
	}{
		{"1 + ;;", "typecheck", "Syntax error", engine.Location{Line: 1, ColStart: 4, LineEnd: 1, ColEnd: 6}},
		{"let x =", "typecheck", "Syntax error", engine.Location{Line: 1, ColStart: 7, LineEnd: 1, ColEnd: 7}},
		{"let y = 1;;\n\n  foo + 1;;", "typecheck", "Unbound value foo", engine.Location{Line: 3, ColStart: 2, LineEnd: 3, ColEnd: 5}},
		{"1 + \"a\";;", "typecheck", "This expression has type string", engine.Location{Line: 1, ColStart: 4, LineEnd: 1, ColEnd: 7}},
		{"Lsit.map;;", "typecheck", "Unbound module Lsit\nHint: Did you mean List?", engine.Location{Line: 1, ColStart: 0, LineEnd: 1, ColEnd: 8}},
		{"(* open", "typecheck", "Comment not terminated", engine.Location{Line: 1, ColStart: 0, LineEnd: 1, ColEnd: 2}},
		{"\"open", "typecheck", "String literal not terminated", engine.Location{Line: 1, ColStart: 0, LineEnd: 1, ColEnd: 1}},
		{"1\x002;;", "typecheck", "Illegal character (\\000)", engine.Location{}},
		{"failwith \"boom\";;", "runtime", `Failure("boom")`, engine.Location{}},
		{"raise Not_found;;", "runtime", "Not_found", engine.Location{}},
		{"raise Exit;;", "runtime", "Stdlib.Exit", engine.Location{}},
		{"1/0;;", "runtime", "Division_by_zero", engine.Location{}},
		{"[|1|].(3);;", "runtime", `Invalid_argument("index out of bounds")`, engine.Location{}},
		{"raise (My (3, \"x\"));;", "runtime", `My(3, "x")`, engine.Location{}},
		{"assert false;;", "runtime", `File "<eval>", line 1, characters 0-6: Assertion failed`, engine.Location{}},
		{"let rec f x = 1 + f x;; f 1;;", "runtime", "Stack overflow", engine.Location{}},
		{"raise Sys.Break;;", "runtime", "evaluation cancelled", engine.Location{}},
		{"#quit;;", "runtime", "Compenv.Exit_with_status(0)", engine.Location{}},
		{"#nosuch;;", "typecheck", "Unknown directive `nosuch'.", engine.Location{}},
		{"#use \"/\";;", "typecheck", "I/O error: Is a directory", engine.Location{}},
		{"#use \"nosuch.ml\";;", "runtime", "Cannot find file nosuch.ml.", engine.Location{}},
		{"#load \"nosuch.cma\";;", "runtime", "Cannot find file nosuch.cma.", engine.Location{}},
		{"#require \"no_such_pkg\";;", "runtime", "No such package: no_such_pkg", engine.Location{}},
		{"#install_printer nosuch;;", "typecheck", "Unbound value nosuch.", engine.Location{}},
		{"let f x = x / 0 + 1;;\nf 1 + 1;;", "runtime", "Division_by_zero", engine.Location{Line: 2, ColStart: 0, LineEnd: 2, ColEnd: 7}},
	} {
		r := w.eval(c.source)
		if r.Err == nil {
			t.Errorf("%q: no error", c.source)
			continue
		}
		if r.Err.Phase != c.phase || !strings.HasPrefix(r.Err.Message, c.message) {
			t.Errorf("%q: %s: %q, want %s: %q", c.source, r.Err.Phase, r.Err.Message, c.phase, c.message)
		}
		if c.place == (engine.Location{}) {
			continue
		}
		if r.Err.Location == nil {
			t.Errorf("%q: no place", c.source)
			continue
		}
		c.place.File = evalName
		if *r.Err.Location != c.place {
			t.Errorf("%q: at %+v, want %+v", c.source, *r.Err.Location, c.place)
		}
	}
	if got := w.value("1+1;;"); got != "2" {
		t.Errorf("afterwards 1+1 is %q", got)
	}
}

// TestPartialSource: phrases before a failing one count, in the state, the reply and the log.
func TestPartialSource(t *testing.T) {
	w := open(t, nil)
	r := w.eval("let partial = 7;; print_string \"out\";; partial + \"s\";; let never = 1;;")
	if r.Err == nil || head(r.Value, "") != "()" || r.Stdout.Head != "out" {
		t.Fatalf("%+v", r)
	}
	if got := w.value("partial;;"); got != "7" {
		t.Errorf("partial is %s", got)
	}
	if want := "let partial = 7;;\nprint_string \"out\";;\n"; w.log() != want {
		t.Errorf("log %q, want %q", w.log(), want)
	}
}

func TestWarnings(t *testing.T) {
	w := open(t, nil)
	r := w.eval("let f = function None -> 1;;")
	if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0].Name, "8") || r.Warnings[0].Location.ColStart != 8 {
		t.Fatalf("%+v", r.Warnings)
	}
	if !strings.HasPrefix(r.Stderr.Head, "File \"<eval>\", line 1, characters 8-26:\nWarning 8") {
		t.Errorf("stderr %q", r.Stderr.Head)
	}
	r = w.eval("module D : sig val v : int [@@deprecated \"use w\"] end = struct let v = 1 end;; D.v;;")
	if len(r.Warnings) != 1 || r.Warnings[0].Kind != "alert" || r.Warnings[0].Name != "deprecated" {
		t.Errorf("%+v", r.Warnings)
	}
	r = w.eval("#warn_error \"+26\";; #warnings \"+26\";; let g () = let unused = 1 in 2;;")
	if r.Err == nil || !strings.Contains(r.Stderr.Head, "Error (warning 26") {
		t.Errorf("%+v", r)
	}
}

func TestOutput(t *testing.T) {
	w := open(t, nil)
	for _, c := range []struct{ source, stdout, stderr string }{
		{`print_string "no newline";;`, "no newline", ""},
		{`prerr_string "e"; print_string "o";;`, "o", "e"},
		{`Format.printf "@[a@ b@]";;`, "a b", ""},
		{`ignore (Sys.command "echo from a child; echo bad >&2");;`, "from a child\n", "bad\n"},
		{`print_string "before"; failwith "x";;`, "before", ""},
		{`let line = try read_line () with End_of_file -> "none";; print_string line;;`, "none", ""},
	} {
		r := w.eval(c.source)
		if r.Stdout.Head != c.stdout || r.Stderr.Head != c.stderr {
			t.Errorf("%s: %q and %q", c.source, r.Stdout.Head, r.Stderr.Head)
		}
	}
	begin := time.Now()
	if w.eval(`ignore (Sys.command "(sleep 3; echo late) &");;`); time.Since(begin) > 2*time.Second {
		t.Error("a background process delays the reply")
	}
	w.eval(`ignore (Sys.command "(sleep 0.1; echo late) &");;`)
	time.Sleep(300 * time.Millisecond)
	if r := w.eval("1;;"); r.LateStdout.Head != "late\n" || r.Stdout.Total != 0 {
		t.Errorf("late output: %q, now %q", r.LateStdout.Head, r.Stdout.Head)
	}
}

// TestOversize is section 4.9.
func TestOversize(t *testing.T) {
	w := open(t, nil)
	if r := w.eval(`print_string (String.make 8192 'o');;`); r.Stdout.Cut != 0 || r.Stdout.Path != "" {
		t.Errorf("8192 bytes are cut: %+v", r.Stdout)
	}
	r := w.eval(`print_string (String.make 20000 'o');;`)
	if want := "…[+11808 bytes; full at " + r.Stdout.Path + "]"; !strings.HasSuffix(r.Stdout.Marked(), want) || r.Stdout.Total != 20000 {
		t.Errorf("%q", r.Stdout.Marked()[8000:])
	}
	if b, err := os.ReadFile(r.Stdout.Path); err != nil || string(b) != strings.Repeat("o", 20000) {
		t.Errorf("spill file: %d bytes, %v", len(b), err)
	}
	if info, err := os.Stat(r.Stdout.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	begin := time.Now()
	r = w.eval(`for i = 1 to 12000 do print_string (String.make 1000 'x') done;;`)
	t.Logf("12 MB in %v", time.Since(begin))
	if info, err := os.Stat(r.Stdout.Path); err != nil || info.Size() != SpillCap+int64(len("\n…[+1514240 bytes dropped]\n")) || r.Stdout.Total != 12000000 {
		t.Errorf("%v %v %+v", info, err, r.Stdout.Total)
	}
	r = w.eval(`print_string (String.make 8191 'a' ^ "é" ^ String.make 10 'b');;`)
	if !strings.HasPrefix(r.Stdout.Marked()[8191:], "…[+12 bytes") {
		t.Errorf("cut inside a character: %q", r.Stdout.Marked()[8180:])
	}
}

func TestFullSpill(t *testing.T) {
	w := open(t, func(o *Options) {
		blocker := filepath.Join(t.TempDir(), "file")
		os.WriteFile(blocker, nil, 0o600)
		o.Spill = NewSpill(filepath.Join(blocker, "spill"))
	})
	r := w.eval(`print_string (String.make 20000 'o');;`)
	if !strings.HasSuffix(r.Stdout.Marked(), "…[+11808 bytes]") || len(r.Notes) != 1 {
		t.Errorf("%q %v", r.Stdout.Marked()[8000:], r.Notes)
	}
}

// TestFlood: endless output neither fills the memory nor stops the timeout.
func TestFlood(t *testing.T) {
	w := open(t, nil)
	r, err := w.Eval(w.ctx, Request{Source: `let s = String.make 100000 'y';; while true do print_string s done;;`, Timeout: 700 * time.Millisecond})
	if err != nil || r.Err == nil || r.Err.Message != "evaluation timed out" {
		t.Fatalf("%+v %v", r.Err, err)
	}
	t.Logf("%d MB printed", r.Stdout.Total>>20)
	if r.Stdout.Tail == "" || strings.Trim(r.Stdout.Tail, "y") != "" {
		t.Errorf("tail %q", r.Stdout.Tail)
	}
	if got := w.value("1;;"); got != "1" {
		t.Error(got)
	}
}

func TestTimeouts(t *testing.T) {
	w := open(t, nil)
	w.eval("let r = ref 1;;")
	settle()
	for _, c := range []struct {
		source string
		killed bool
	}{
		{"while true do () done;;", false},
		{"Unix.sleepf 30.;;", false},
		{"let rec loop () = loop () in loop ();;", false},
		{"while true do try while true do () done with _ -> () done;;", true},
		{"r := 2; ignore (Sys.command \"sleep 30\");;", false},
	} {
		begin := time.Now()
		r, err := w.Session.Eval(w.ctx, Request{Source: c.source, Timeout: 200 * time.Millisecond})
		if err != nil || r.Err == nil || r.Err.Message != "evaluation timed out" || r.Err.Phase != "runtime" {
			t.Fatalf("%s: %+v %v", c.source, r.Err, err)
		}
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("%s took %v", c.source, d)
		}
		if (r.Recovery != nil) != c.killed {
			t.Errorf("%s: recovery %+v", c.source, r.Recovery)
		}
		settle()
	}
	begin := time.Now()
	if r, _ := w.Session.Eval(w.ctx, Request{Source: "1+1;;", Timeout: 5 * time.Second}); time.Since(begin) > time.Second || r.Err != nil {
		t.Error("a timeout that is not reached costs its length")
	}
}

// settle gives the child the moment of quiet in which it forks its keeper.
func settle() { time.Sleep(300 * time.Millisecond) }

func TestCancel(t *testing.T) {
	w := open(t, nil)
	if w.Cancel() {
		t.Error("something to cancel in an idle session")
	}
	run := w.Start(Request{Source: "print_string \"begun\"; while true do () done;;"})
	for !w.Progress().Running {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	waiting := make(chan error)
	go func() {
		_, err := w.Eval(ctx, Request{Source: "let never = 1;;"})
		waiting <- err
	}()
	for w.Status().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting call: %v", err)
	}
	p := w.Progress()
	for i := 0; p.Stdout.Head == "" && i < 500; i++ {
		p = w.Progress()
	}
	if p.Stdout.Head != "begun" {
		t.Errorf("progress %+v", p)
	}
	if !w.Cancel() {
		t.Error("nothing to cancel")
	}
	r, err := run.Result()
	if err != nil || r.Err == nil || r.Err.Message != "evaluation cancelled" || r.Stdout.Head != "begun" {
		t.Errorf("%+v %v", r, err)
	}
	if r := w.eval("never;;"); r.Err == nil {
		t.Error("the cancelled call was evaluated")
	}
}

// TestUndisturbed: to look at a running evaluation disturbs none of its system calls; what it printed before it computes
// or sleeps is seen all the same.
func TestUndisturbed(t *testing.T) {
	w := open(t, nil)
	watched := func(source, printed string) {
		t.Helper()
		run := w.Start(Request{Source: source, Timeout: 20 * time.Second, Progress: func(int64, int64) {}})
		seen := false
		for !run.Wait(w.ctx, 10*time.Millisecond) {
			seen = w.Progress().Stdout.Head == printed || seen
		}
		r, err := run.Result()
		if err != nil || r.Err != nil {
			t.Errorf("%s: %+v %v", source, r.Err, err)
		}
		if printed != "" && !seen {
			t.Errorf("%s: nothing was seen", source)
		}
	}
	watched(`let child = Unix.create_process "sleep" [| "sleep"; "0.3" |] Unix.stdin Unix.stdout Unix.stderr;;
		let ended = snd (Unix.waitpid [] child);;`, "")
	watched("let pipe = Unix.pipe ();; Unix.select [ fst pipe ] [] [] 0.3;;", "")
	watched("for _ = 1 to 300 do ignore (Unix.select [ fst pipe ] [] [] 0.001) done;;", "")
	watched("print_string \"a\"; Unix.sleepf 0.3;;", "a")
	watched("let () = print_string \"b\"; let t = Sys.time () in while Sys.time () < t +. 0.3 do () done;;", "b")
}

// TestDeaths: whatever ends the process, the state from before comes back and the reply says so.
func TestDeaths(t *testing.T) {
	for _, c := range []struct{ name, source, message string }{
		{"exit", "incr r; print_string \"bye\"; exit 3;;", "the toplevel's process exited with code 3"},
		{"segfault", "incr r;; print_string (Obj.magic 12345678 : string);;", "the toplevel's process was killed by a signal: segmentation fault"},
		{"kill", "incr r; Unix.kill (Unix.getpid ()) Sys.sigkill;;", "the toplevel's process was killed by a signal: killed"},
		{"closed replies", "incr r; Unix.close (Obj.magic 4 : Unix.file_descr);;", "the toplevel's process"},
		{"closed requests", "incr r; Unix.close (Obj.magic 3 : Unix.file_descr);;", ""},
		{"junk on the replies", "incr r; ignore (Unix.write_substring (Obj.magic 4 : Unix.file_descr) \"\\255junkjunk\" 0 9);;", "the toplevel's process"},
	} {
		for _, quiet := range []bool{true, false} {
			w := open(t, nil)
			w.eval("let r = ref 0;;")
			w.eval("let keep = Random.self_init (); Random.bits ();;")
			if quiet {
				settle()
			}
			before := w.value("keep;;")
			if quiet {
				settle()
			}
			generation := w.Status().Generation
			r := w.eval(c.source)
			if c.message != "" && (r.Err == nil || !strings.HasPrefix(r.Err.Message, c.message)) {
				t.Errorf("%s: %+v", c.name, r.Err)
			}
			if c.message != "" && (r.Recovery == nil || r.Generation <= generation) {
				t.Errorf("%s: recovery %+v, generation %d after %d", c.name, r.Recovery, r.Generation, generation)
			}
			if c.name == "exit" && r.Stdout.Head != "bye" {
				t.Errorf("output of an exiting phrase: %q", r.Stdout.Head)
			}
			if c.message == "" {
				continue
			}
			if quiet && r.Recovery.By != ByKeeper {
				t.Errorf("%s: by %s", c.name, r.Recovery.By)
			}
			if got := w.value("!r;;"); got != "0" {
				t.Errorf("%s: r is %s", c.name, got)
			}
			if got := w.value("keep;;"); quiet && got != before {
				t.Errorf("%s: a value from the past changed from %s to %s", c.name, before, got)
			}
			w.Session.Close()
		}
	}
}

// TestIdleDeath: a process killed between calls comes back too, and so does one whose keeper died with it.
func TestIdleDeath(t *testing.T) {
	w := open(t, nil)
	w.eval("let r = ref 0;;")
	w.eval("incr r;;")
	settle()
	syscall.Kill(w.Status().Pid, syscall.SIGKILL)
	settle()
	r := w.eval("!r;;")
	if r.Recovery == nil || r.Recovery.By != ByKeeper || head(r.Value, "") != "1" {
		t.Errorf("%+v %+v", r.Recovery, r.Value)
	}
	w.current().Close()
	r = w.eval("!r;;")
	if r.Recovery == nil || r.Recovery.By != ByReplay || head(r.Value, "") != "1" {
		t.Errorf("%+v %+v", r.Recovery, r.Value)
	}
}

func TestFork(t *testing.T) {
	w := open(t, nil)
	r := w.eval("let pid = Unix.fork ();; if pid > 0 then ignore (Unix.waitpid [] pid); pid > 0;;")
	if head(r.Value, "") != "true" {
		t.Errorf("%+v %+v", r.Value, r.Err)
	}
	if got := w.value("1+1;;"); got != "2" {
		t.Error(got)
	}
}

// A fork bomb that ends by itself at two thousand processes, for the sake of the
// machine, is stopped long before.
func TestForkBomb(t *testing.T) {
	w := open(t, func(o *Options) { o.Engine.Limits.Processes = 64 })
	w.eval("let kept = 5;;")
	settle()
	r, err := w.Eval(w.ctx, Request{Source: "for _ = 1 to 11 do ignore (Unix.fork ()); Unix.sleepf 0.05 done; Unix.sleep 5;;", Timeout: 20 * time.Second})
	if err != nil || r.Err == nil || r.Recovery == nil {
		t.Fatalf("%+v %v", r, err)
	}
	if got := w.value("kept;;"); got != "5" {
		t.Error(got)
	}
}

func TestMemory(t *testing.T) {
	w := open(t, func(o *Options) { o.Engine.Limits.Memory = 1 << 30 })
	r := w.eval("let rec grow l = grow (Array.make 1000000 0 :: l) in grow [];;")
	if r.Err == nil || r.Err.Message != "Out of memory" {
		t.Errorf("%+v", r.Err)
	}
	if got := w.value("1+1;;"); got != "2" {
		t.Error(got)
	}
}

func TestEnvAndLookup(t *testing.T) {
	w := open(t, nil)
	os.WriteFile(filepath.Join(w.dir, "u.ml"), []byte("let used = 1"), 0o600)
	w.eval("let alpha = \"a\" let beta = [1;2] let (+++) a b = a + b;; module M = struct let x = 3 end;; type shape = Dot;;")
	w.eval("#use \"" + filepath.Join(w.dir, "u.ml") + "\";;")
	names := func(all bool, filter string) map[string]engine.Binding {
		bs, err := w.Env(w.ctx, all, filter)
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]engine.Binding{}
		for _, b := range bs {
			m[b.Name] = b
		}
		return m
	}
	m := names(false, "")
	if len(m) != 3 || m["alpha"].Type != "string" || *m["beta"].Preview != "[1; 2]" || m["+++"].Name == "" {
		t.Errorf("%+v", m)
	}
	if l := m["alpha"].Location; l == nil || *l != (engine.Location{File: evalName, Line: 1, ColStart: 4, LineEnd: 1, ColEnd: 9}) {
		t.Errorf("%+v", l)
	}
	if m := names(false, "et"); len(m) != 1 {
		t.Errorf("%+v", m)
	}
	if m := names(true, ""); len(m) < 150 || m["used"].Name == "" {
		t.Errorf("%d bindings", len(m))
	}
	for _, c := range []struct{ name, typ string }{
		{"alpha", "string"}, {"M.x", "int"}, {"( + )", "int -> int -> int"}, {"+++", "int -> int -> int"},
		{"List.length", "'a list -> int"}, {"print_endline", "string -> unit"}, {"M", "module M : sig val x : int end"},
		{"shape", "type shape = Dot"}, {"nosuch", ""}, {"", ""}, {"1 +", ""}, {"M.nosuch", ""},
	} {
		b, err := w.Lookup(w.ctx, c.name)
		switch {
		case err != nil:
			t.Errorf("%q: %v", c.name, err)
		case b == nil && c.typ != "", b != nil && b.Type != c.typ:
			t.Errorf("%q: %+v, want %q", c.name, b, c.typ)
		}
	}
	if r := w.eval("1;;"); r.LateStdout.Total != 0 {
		t.Errorf("a lookup printed %q", r.LateStdout.Head)
	}
}

func TestDirectives(t *testing.T) {
	w := open(t, nil)
	if r := w.eval("#show List.length;;"); r.Stdout.Head != "val length : 'a list -> int\n" || r.Err != nil {
		t.Errorf("%+v", r)
	}
	if r := w.eval("#require \"str\";;"); r.Err != nil || r.Stdout.Total != 0 || r.Stderr.Total != 0 {
		t.Errorf("%+v", r)
	}
	w.eval("let re = Str.regexp \"a+\";;")
	if r := w.eval("#require \"threads.posix\";; let t = Thread.create (fun () -> print_string \"threaded\") ();; Thread.join t;;"); r.Err != nil || r.Stdout.Head != "threaded" {
		t.Errorf("%+v %+v", r.Err, r.Stdout)
	}
	w.eval("let pp ppf (_ : bool) = Format.pp_print_string ppf \"YES\";; #install_printer pp;;")
	if got := w.value("true;;"); got != "YES" {
		t.Error(got)
	}
	if got := w.value("let e = exit;; 1;;"); got != "1" {
		t.Error(got)
	}
	want := "#require \"str\";;\nlet re = Str.regexp \"a+\";;\n#require \"threads.posix\";;\n"
	if !strings.HasPrefix(w.log(), want) || strings.Contains(w.log(), "#show") {
		t.Errorf("log %q", w.log())
	}
	bad := filepath.Join(w.dir, "bad.ml")
	os.WriteFile(bad, []byte("let first = 1\n\nlet second = first + true\n"), 0o600)
	r := w.eval("#use \"" + bad + "\";;")
	if r.Err == nil || r.Err.Location == nil || r.Err.Location.File != bad || r.Err.Location.Line != 3 {
		t.Errorf("%+v", r.Err)
	}
	if got := w.value("first;;"); got != "1" {
		t.Error(got)
	}
}

func TestTopupModule(t *testing.T) {
	w := open(t, nil)
	path := filepath.Join(w.dir, "blob")
	if got := w.value(`let () = Topup.write_back "` + path + `" (Bytes.of_string "a\000b");; Bytes.length (Topup.read_back "` + path + `");;`); got != "3" {
		t.Error(got)
	}
	if r := w.eval(`Topup.read_back "/no/such";;`); r.Err == nil || r.Err.Message != `Failure("Topup.read_back: no such file: /no/such")` {
		t.Errorf("%+v", r.Err)
	}
}

type mapBack map[string]string

func (m mapBack) ReadBack(ctx context.Context, path string) ([]byte, error) {
	if s, ok := m[path]; ok {
		return []byte(s), nil
	}
	return nil, errors.New("no such file: " + path)
}

func (m mapBack) WriteBack(ctx context.Context, path string, data []byte) error {
	m[path] = string(data)
	return nil
}

func TestBackChannel(t *testing.T) {
	files := mapBack{"in": "\xff\x00!"}
	w := open(t, func(o *Options) { o.Engine.Back = files })
	if got := w.value(`let b = Topup.read_back "in";; Topup.write_back "out" (Bytes.cat b b);; Bytes.length b;;`); got != "3" || files["out"] != "\xff\x00!\xff\x00!" {
		t.Errorf("%s %q", got, files)
	}
	if r := w.eval(`Topup.read_back "x";;`); r.Err == nil || r.Err.Message != `Failure("Topup.read_back: no such file: x")` {
		t.Errorf("%+v", r.Err)
	}
}

func TestReset(t *testing.T) {
	w := open(t, nil)
	w.eval("let gone = 1;;")
	if err := w.Reset(w.ctx); err != nil {
		t.Fatal(err)
	}
	if r := w.eval("gone;;"); r.Err == nil {
		t.Error("bindings survive a reset")
	}
	w.eval("let now = 2;;")
	if w.log() != "let now = 2;;\n" {
		t.Errorf("log %q", w.log())
	}
	if b, err := os.ReadFile(w.Log().Path() + ".1"); err != nil || string(b) != "let gone = 1;;\n" {
		t.Errorf("the old log: %q %v", b, err)
	}
}

func TestCheckpoints(t *testing.T) {
	w := open(t, nil)
	w.eval("#require \"str\";; let x = 42;; let y = ref [];;")
	path, err := w.Checkpoint(w.ctx, "v1.2-rc_3")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "#use \"topfind\";;\n#require \"str\";;\nlet x = 42;;\nlet y = ref [];;\n" {
		t.Errorf("%q", b)
	}
	if out, err := exec.Command("ocaml", path).CombinedOutput(); err != nil {
		t.Errorf("as plain source: %v %s", err, out)
	}
	w.eval("let x = 43;; y := [x];;")
	r, err := w.Restore(w.ctx, "v1.2-rc_3")
	if err != nil || r.Err != nil {
		t.Fatalf("%v %+v", err, r.Err)
	}
	if got := w.value("x;;"); got != "42" {
		t.Error(got)
	}
	if w.Log().Len() != 3 {
		t.Errorf("%d phrases: %q", w.Log().Len(), w.Log().Text())
	}
	w.eval("let after = Str.regexp \"x\";;")
	if !strings.HasSuffix(w.log(), "let y = ref [];;\nlet after = Str.regexp \"x\";;\n") {
		t.Errorf("%q", w.log())
	}
	bs, _ := w.Env(w.ctx, false, "")
	if len(bs) != 3 {
		t.Errorf("restored bindings in env: %+v", bs)
	}
	// A file edited by hand needs no terminators; a failing one says where.
	os.WriteFile(filepath.Join(w.dir, "checkpoints", "hand.ml"), []byte("(* mine *)\nlet a = 1\nlet b = a + 1\n"), 0o600)
	if r, err := w.Restore(w.ctx, "hand"); err != nil || r.Err != nil || w.value("b;;") != "2" || !strings.HasPrefix(w.log(), "(* mine *)\nlet a") {
		t.Errorf("%v %+v", err, r.Err)
	}
	os.WriteFile(filepath.Join(w.dir, "checkpoints", "bad.ml"), []byte("let c = 1\nlet d = c + true\nlet e = 2\n"), 0o600)
	r, err = w.Restore(w.ctx, "bad")
	if err != nil || r.Err == nil || r.Err.Location.Line != 2 || r.Err.Location.File != filepath.Join(w.dir, "checkpoints", "bad.ml") {
		t.Errorf("%v %+v", err, r.Err)
	}
	if got := w.value("c;;"); got != "1" {
		t.Error(got)
	}
	labels, err := w.Checkpoints()
	if err != nil || strings.Join(labels, " ") != "bad hand v1.2-rc_3" {
		t.Errorf("%v %v", labels, err)
	}
	for label, want := range map[string]string{
		"": "label must be non-empty", "../etc": "label must not start with '.'", "a/b": "label may only contain [A-Za-z0-9._-]",
		".hidden": "label must not start with '.'", "foo..bar": "label must not contain '..'", "a b": "label may only contain [A-Za-z0-9._-]",
		"a\x00": "label may only contain [A-Za-z0-9._-]", "nosuch": "no such checkpoint: nosuch",
		strings.Repeat("x", 300): "label is too long: its file's name would have 303 bytes, and 255 are allowed",
	} {
		if _, err := w.Restore(w.ctx, label); err == nil || err.Error() != want {
			t.Errorf("%q: %v", label, err)
		}
	}
	long := strings.Repeat("x", 252)
	if _, err := w.Checkpoint(w.ctx, long); err != nil {
		t.Errorf("the longest name of a file: %v", err)
	}
	if _, err := w.Restore(w.ctx, long); err != nil {
		t.Error(err)
	}
	w = open(t, func(o *Options) { o.LogPath = "" })
	if _, err := w.Checkpoint(w.ctx, "x"); err == nil || err.Error() != "checkpoint requires phrase logging (TOPUP_LOG is off)" {
		t.Error(err)
	}
}

// TestQueriesAreNotLogged: what is certainly without effect need not be evaluated again.
func TestQueriesAreNotLogged(t *testing.T) {
	w := open(t, nil)
	w.eval("let x = 1;; x;; 1;; -1.5e3;; \"s\";; 'c';; ();; [];; None;; Stdlib.max_int;; List.length;; true;;")
	w.eval("x")
	if got := w.log(); got != "let x = 1;;\n" {
		t.Errorf("%q", got)
	}
	w.eval("print_string \"a\";; x + 1;; \"a\" ^ \"b\";; lazy x;;")
	if w.Log().Len() != 5 {
		t.Errorf("%q", w.log())
	}
}

// TestRestart: a session goes on after the server's restart, and the log of a run that is not resumed is put aside.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	w := openIn(t, dir, nil)
	w.eval("let kept = 7;; (* a comment *) let r = ref kept;;")
	w.Session.Close()
	w = openIn(t, dir, func(o *Options) { o.Resume = true })
	if got := w.value("!r + kept;;"); got != "14" {
		t.Error(got)
	}
	w.Session.Close()
	w = openIn(t, dir, nil)
	if r := w.eval("kept;;"); r.Err == nil {
		t.Error("state of a run that was not resumed")
	}
	w.eval("let fresh = 1;;")
	if w.log() != "let fresh = 1;;\n" {
		t.Errorf("%q", w.log())
	}
}

// TestTwoServers: the same configured log, two files.
func TestTwoServers(t *testing.T) {
	dir := t.TempDir()
	a := openIn(t, dir, nil)
	b := openIn(t, dir, nil)
	a.eval("let a = 1;;")
	b.eval("let b = 2;;")
	a.eval("let aa = 1;;")
	if a.log() != "let a = 1;;\nlet aa = 1;;\n" || b.log() != "let b = 2;;\n" {
		t.Errorf("%q %q", a.log(), b.log())
	}
}

// TestLeftLog: the log of a second server becomes a checkpoint when it has ended.
func TestLeftLog(t *testing.T) {
	for _, resume := range []bool{true, false} {
		dir := t.TempDir()
		again := func(o *Options) { o.Resume = resume }
		a := openIn(t, dir, again)
		b := openIn(t, dir, again)
		a.eval("let a = 1;;")
		b.eval("let b = 2;;")
		a.Session.Close()
		a = openIn(t, dir, func(o *Options) { o.Resume = true })
		if r := a.eval("a;;"); len(r.Notes) != 0 {
			t.Errorf("in use: %v", r.Notes)
		}
		a.Session.Close()
		b.Session.Close()
		a = openIn(t, dir, again)
		r := a.eval("1;;")
		labels, err := a.Checkpoints()
		if err != nil || len(labels) != 1 || !strings.HasPrefix(labels[0], "history-second-20") || !strings.Contains(strings.Join(r.Notes, "; "), labels[0]) {
			t.Fatalf("%v %v %v", labels, err, r.Notes)
		}
		if r, err := a.Restore(a.ctx, labels[0]); err != nil || r.Err != nil || a.value("b;;") != "2" {
			t.Errorf("%v %+v", err, r.Err)
		}
		a.Session.Close()
		a = openIn(t, dir, func(o *Options) { o.Resume = true })
		if r := a.eval("b;;"); len(r.Notes) != 0 {
			t.Errorf("told again: %v", r.Notes)
		}
	}
}

// TestPrevious: the history before this one comes back under its label, whatever put it aside.
func TestPrevious(t *testing.T) {
	dir := t.TempDir()
	w := openIn(t, dir, nil)
	if _, err := w.Restore(w.ctx, Previous); err == nil || err.Error() != "no such checkpoint: previous" {
		t.Errorf("there is none: %v", err)
	}
	previous := func(name, want string) {
		t.Helper()
		if r, err := w.Restore(w.ctx, Previous); err != nil || r.Err != nil {
			t.Fatalf("%v %+v", err, r.Err)
		}
		if got := w.value(name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
	w.eval("let a = 1;;")
	if err := w.Reset(w.ctx); err != nil {
		t.Fatal(err)
	}
	previous("a;;", "1") // before anything else is evaluated
	w.Session.Close()

	w = openIn(t, dir, nil)
	r := w.eval("let b = 2;;")
	if r.Err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], Previous) {
		t.Errorf("%+v", r)
	}
	previous("a;;", "1") // after something else was
	previous("b;;", "2") // and there again
	w.Session.Close()

	w = openIn(t, dir, nil)
	previous("b;;", "2") // before anything was evaluated
	w.Session.Close()

	// A failing one is in the file that was put aside.
	os.WriteFile(w.Log().Path(), []byte("let c = 1;;\nlet d = c + true;;\n"), 0o600)
	w = openIn(t, dir, nil)
	if r, err := w.Restore(w.ctx, Previous); err != nil || r.Err == nil || r.Err.Location.Line != 2 || r.Err.Location.File != w.Log().Path()+".1" {
		t.Errorf("%v %+v", err, r.Err)
	}

	// One that somebody saved under that label comes first.
	os.MkdirAll(filepath.Join(dir, "checkpoints"), 0o700)
	os.WriteFile(filepath.Join(dir, "checkpoints", "previous.ml"), []byte("let mine = 9"), 0o600)
	previous("mine;;", "9")
}

// TestRotation: five logs are kept.
func TestRotation(t *testing.T) {
	w := open(t, nil)
	for i := range 8 {
		w.eval(fmt.Sprintf("let v = %d;;", i))
		if err := w.Session.Reset(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]string{1: "let v = 7;;\n", 5: "let v = 3;;\n", 6: ""} {
		if b, _ := os.ReadFile(fmt.Sprintf("%s.%d", w.Log().Path(), n)); string(b) != want {
			t.Errorf(".%d: %q", n, b)
		}
	}
}

func TestUnwritableLog(t *testing.T) {
	blocker := filepath.Join(t.TempDir(), "file")
	os.WriteFile(blocker, nil, 0o600)
	w := open(t, func(o *Options) { o.LogPath = filepath.Join(blocker, "deep", "history.ml") })
	if r := w.eval("let x = 1;;"); r.Err != nil || len(r.Notes) != 1 {
		t.Errorf("%+v %v", r.Err, r.Notes)
	}
	if r := w.eval("let x = 1;;"); len(r.Notes) != 0 {
		t.Errorf("said twice: %v", r.Notes)
	}
}

func TestPrewarm(t *testing.T) {
	dir := t.TempDir()
	good, bad, raises := filepath.Join(dir, "good.ml"), filepath.Join(dir, "bad.ml"), filepath.Join(dir, "raises.ml")
	os.WriteFile(good, []byte("let warm = 1"), 0o600)
	os.WriteFile(bad, []byte("let warm = 1 + true"), 0o600)
	os.WriteFile(raises, []byte("let () = failwith \"prewarm boom\""), 0o600)
	w := open(t, func(o *Options) { o.Prewarm = good })
	if got := w.value("warm;;"); got != "1" {
		t.Error(got)
	}
	w.current().Close()
	if got := w.value("warm;;"); got != "1" {
		t.Error("not prewarmed again after a death: " + got)
	}
	for path, want := range map[string]string{bad: "This expression has type bool", raises: `Failure("prewarm boom")`, filepath.Join(dir, "none.ml"): "open "} {
		_, err := Open(w.ctx, Options{Language: caml(), Prewarm: path})
		var p *PrewarmError
		if !errors.As(err, &p) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestBatch(t *testing.T) {
	w := open(t, nil)
	rs, err := w.EvalBatch(w.ctx, []string{"let a = 1;;", "a + true;;", "let b = 2;;"}, 0)
	if err != nil || len(rs) != 2 || rs[1].Err == nil {
		t.Errorf("%+v %v", rs, err)
	}
}

// TestOrder: calls of many callers work one at a time, and those of different sessions at the same time.
func TestOrder(t *testing.T) {
	w, v := open(t, nil), open(t, nil)
	w.eval("let n = ref 0;;")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { w.eval("incr n;;") })
	}
	wg.Wait()
	if got := w.value("!n;;"); got != "20" {
		t.Error(got)
	}
	run := w.Start(Request{Source: "Unix.sleepf 5.;;"})
	begin := time.Now()
	v.eval("1;;")
	if time.Since(begin) > 2*time.Second {
		t.Error("a busy session blocks another")
	}
	run.Cancel()
	run.Result()
}

func TestBigSource(t *testing.T) {
	w := open(t, nil)
	if got := w.value("let s = \"" + strings.Repeat("x", 1<<20) + "\";; String.length s;;"); got != "1048576" {
		t.Error(got)
	}
	if r := w.eval(strings.Repeat("(", 100000) + ";;"); r.Err == nil {
		t.Error("no error")
	}
	if got := w.value("\"\xff\xfe\";;"); !strings.Contains(got, "\\255") && !strings.Contains(got, "\uFFFD") {
		t.Errorf("%q", got)
	}
	if got := w.value("1+1;;"); got != "2" {
		t.Error(got)
	}
}
