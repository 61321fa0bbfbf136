//go:build linux

package compute

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostile: sources that attack what a session stands on. Each has its reply, the
// session has what it had, and nothing of them is evaluated again later.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.eval("let kept = 5;;")
	for _, c := range []struct{ source, message, value string }{
		{"input_line stdin;;", "runtime: End_of_file", "null"},
		{`Sys.command "cat | wc -c >/dev/null";;`, "", "0"},
		{"let rec f x = 1 + f x in f 0;;", "runtime: Stack overflow", "null"},
		{"Array.make 2_000_000_000 0.;;", "runtime: Out of memory", "null"},
		{"Sys.set_signal Sys.sigint Sys.Signal_ignore; while true do () done;;", "runtime: evaluation timed out", "null"},
		{"while true do try while true do () done with _ -> () done;;", "runtime: evaluation timed out", "null"},
		{"Unix.kill (Unix.getpid ()) Sys.sigstop;;", "runtime: evaluation timed out", "null"},
		{`Sys.command "yes";;`, "runtime: evaluation timed out", "null"},
		{"while true do print_string \"flood\" done;;", "runtime: evaluation timed out", "null"},
		{"if Unix.fork () = 0 then failwith \"child\" else ignore (Unix.wait ());;", "", "()"},
		{"match Unix.fork () with 0 -> exit 3 | p -> snd (Unix.waitpid [] p);;", "", "Unix.WEXITED 3"},
		{"Unix.close (Obj.magic 3);;", "runtime: the toplevel's process", "null"},
		{"Unix.close (Obj.magic 4);;", "runtime: the toplevel's process", "null"},
		{"Unix.close (Obj.magic 5);;", "runtime: the toplevel's process", "null"},
		{"Unix.dup2 Unix.stdin (Obj.magic 3);;", "runtime: the toplevel's process", "null"},
		{"for i = 0 to 200 do try Unix.close (Obj.magic i : Unix.file_descr) with _ -> () done;;", "runtime: the toplevel's process", "null"},
		{`Unix.execv "/bin/true" [|"true"|];;`, "runtime: the toplevel's process exited with code 0", "null"},
		{"at_exit (fun () -> while true do () done); exit 1;;", "runtime: ", "null"},
		{"(* never closed", "typecheck: Comment not terminated", "null"},
		{"\"never closed", "typecheck: String literal not terminated", "null"},
		{"let a = \x00;;", "typecheck: Illegal character (\\000)", "null"},
	} {
		r := s.eval(c.source, "timeout", 1)
		if !strings.HasPrefix(r.message(), c.message) || c.message == "" && r.Error != nil || r.Error == nil && r.value() != c.value {
			t.Errorf("%s: %q %s, not %q %s", c.source, r.message(), r.value(), c.message, c.value)
		}
		if got := s.value("kept;;"); got != "5" {
			t.Fatalf("after %s: %s", c.source, got)
		}
	}
	s.end()
	again := start(t, setting{"HOME", s.home})
	if r := parse[result](t, again.call("restore", "label", "previous")); r.Error != nil {
		t.Error(r.message())
	}
	if got := again.value("kept;;"); got != "5" {
		t.Errorf("after a restart: %s", got)
	}
}

// TestFailingFiles: a checkpoint whose replay fails and a prewarm file that fails lose
// nothing that was stored.
func TestFailingFiles(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.eval("let mine = 1;;")
	s.call("checkpoint", "label", "good")
	bad := s.write(".topup/checkpoints/bad.ml", "let first = 1;;\nlet second = first + true;;\nlet third = 3;;\n")
	r := parse[result](t, s.call("restore", "label", "bad"))
	if r.Error == nil || r.Error.Location == nil || r.Error.Location.File != bad || r.Error.Location.Line != 2 {
		t.Errorf("%+v", r.Error)
	}
	if got := s.value("first;;"); got != "1" {
		t.Error(got)
	}
	if b, err := os.ReadFile(bad); err != nil || !strings.Contains(string(b), "third") {
		t.Errorf("the checkpoint: %q %v", b, err)
	}
	for _, label := range []string{"previous", "good"} {
		if r := parse[result](t, s.call("restore", "label", label)); r.Error != nil || s.value("mine;;") != "1" {
			t.Errorf("%s: %s", label, r.message())
		}
	}
	s.call("start_local_session", "session", "w")
	s.eval("let w = 2;;", "session", "w")
	s.call("update_local_session", "session", "w", "prewarm", bad)
	if r := s.call("restart_local_session", "session", "w"); !r.isError || !strings.Contains(r.text, "prewarm w: ") || !strings.Contains(r.text, `"phase":"connect"`) {
		t.Errorf("%+v", r)
	}
	s.call("update_local_session", "session", "w", "prewarm", "")
	if r := s.call("restart_local_session", "session", "w"); r.isError {
		t.Errorf("%+v", r)
	}
	if r := parse[result](t, s.call("restore", "label", "previous", "session", "w")); r.Error != nil || s.value("w;;", "session", "w") != "2" {
		t.Errorf("%s", r.message())
	}
}

// TestEarlierRun: what an earlier server and a second one have left is not mixed into
// a session, and comes back when it is asked for.
func TestEarlierRun(t *testing.T) {
	t.Parallel()
	first := start(t)
	second := start(t, setting{"HOME", first.home})
	first.eval("let a = 1;;")
	second.eval("let b = 2;;")
	second.end()
	first.end()
	s := start(t, setting{"HOME", first.home})
	r := s.eval("let c = 3;;")
	if notes := strings.Join(r.Notes, "\n"); len(r.Notes) != 2 || !strings.Contains(notes, `"previous"`) || !strings.Contains(notes, "history-second-") {
		t.Errorf("%q", r.Notes)
	}
	for _, name := range []string{"a", "b"} {
		if r := s.eval(name + ";;"); r.Error == nil {
			t.Errorf("%s is there", name)
		}
	}
	s.call("checkpoint", "label", "now")
	if got := s.read1(".topup/checkpoints/now.ml"); got != "let c = 3;;\n" {
		t.Errorf("%q", got)
	}
	if r := parse[result](t, s.call("restore", "label", "previous")); r.Error != nil || s.value("a;;") != "1" {
		t.Error(r.message())
	}
	left, err := filepath.Glob(filepath.Join(s.home, ".topup/checkpoints/history-second-*.ml"))
	if err != nil || len(left) != 1 {
		t.Fatalf("%v %v", left, err)
	}
	label := strings.TrimSuffix(filepath.Base(left[0]), ".ml")
	if r := parse[result](t, s.call("restore", "label", label)); r.Error != nil || s.value("b;;") != "2" {
		t.Error(r.message())
	}
}
