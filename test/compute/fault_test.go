//go:build linux

package compute

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestDeaths: what ended the original's server ends an evaluation, and the state
// from before it is back.
func TestDeaths(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.call("start_local_session", "session", "other")
	s.eval("let theirs = 1;;", "session", "other")
	s.eval("let kept = ref 5;; let big = Array.init 100000 Fun.id;;")
	s.eval("kept := 6;;")
	const closed = "closed standard input, output or error"
	for _, c := range []struct{ source, says string }{
		{`print_string "last words"; exit 3;;`, "exited with code 3"},
		{`let s : string = Obj.magic 0 in String.length s;;`, "segmentation fault"},
		{`Unix.kill (Unix.getpid ()) Sys.sigkill;;`, "kill"},
		{`Unix.kill (Unix.getpid ()) Sys.sigterm;;`, ""},
		{`let rec f x = f x in Unix.kill 0 Sys.sigkill;;`, ""},
		{`close_out stdout;;`, closed},
		{`close_in stdin;;`, closed},
		{`Unix.close Unix.stderr;;`, closed},
		{`Unix.close Unix.stdout; Unix.close Unix.stderr;;`, ""},
		{`for i = 0 to 20 do try Unix.close (Obj.magic i) with _ -> () done;;`, ""},
		{`if Unix.fork () = 0 then () else ignore (Unix.wait ());;`, ""},
		{`ignore (Unix.write_substring (Obj.magic 4) "junk" 0 4);;`, ""},
		{`let rec grow l = grow (Bytes.make 100_000_000 'x' :: l) in grow [];;`, ""},
	} {
		r := s.eval(c.source, "timeout", 10)
		if c.says != "" && !strings.Contains(r.message()+r.Stdout+r.Stderr, c.says) {
			t.Errorf("%s: %s", c.source, r.message())
		}
		if strings.Contains(c.source, "last words") && (r.Stdout != "last words" || r.Recovery == nil || r.Recovery.Generation < 2) {
			t.Errorf("output and recovery: %+v", r)
		}
		if got := s.value("!kept + big.(99999);;"); got != "100005" {
			t.Errorf("after %s: %s", c.source, got)
		}
		if r := s.eval("print_string \"still\";;"); r.Stdout != "still" {
			t.Errorf("after %s nothing is printed: %+v", c.source, r)
		}
	}
	if got := s.value("theirs;;", "session", "other"); got != "1" {
		t.Error(got)
	}
	if len(s.strays) > 0 {
		t.Errorf("on the protocol's stream: %q", s.strays)
	}
	if got := s.end(); got != 0 {
		t.Errorf("status %d", got)
	}
}

// TestNothingLeft: what a session's code put into the background, wherever it went,
// ends with the session and with the server, however that ends.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	sources := []string{
		`Sys.command "setsid sh -c 'echo $$; exec sleep 1000' &";;`,
		`(match Unix.fork () with
		  | 0 -> ignore (Unix.setsid ());
		    (match Unix.fork () with 0 -> Unix.execvp "sleep" [|"sleep"; "1000"|] | pid -> Printf.printf "%d\n%!" pid; Unix._exit 0)
		  | pid -> ignore (Unix.waitpid [] pid));;`,
		`Sys.command "setsid sh -c 'env -i sleep 1000 & echo $!; wait' &";;`,
	}
	background := func(s *server, pairs ...any) (pids []int) {
		for _, source := range sources {
			r := s.eval(source, pairs...)
			for text := r.Stdout; ; {
				if pid, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
					pids = append(pids, pid)
					break
				}
				r = s.eval("Unix.sleepf 0.01;;", pairs...)
				text = r.LateStdout + r.Stdout
			}
		}
		for _, pid := range pids {
			if !running(pid) {
				t.Errorf("process %d does not run", pid)
			}
		}
		return pids
	}
	for _, groups := range []string{"on", "off"} {
		for name, end := range map[string]func(*server){
			"restart": func(s *server) { s.call("restart_local_session", "session", "w") },
			"input":   func(s *server) { s.in.Close(); <-s.ended },
			"SIGTERM": func(s *server) { s.signal(syscall.SIGTERM); <-s.ended },
			"SIGKILL": func(s *server) { s.signal(syscall.SIGKILL); <-s.ended },
		} {
			t.Run(name+", control groups "+groups, func(t *testing.T) {
				t.Parallel()
				s := start(t, setting{"TOPSIDE_CGROUPS", groups})
				s.call("start_local_session", "session", "w")
				theirs, ours := background(s, "session", "w"), background(s)
				end(s)
				gone(t, theirs)
				if name != "restart" {
					gone(t, ours)
				} else if !running(ours[0]) {
					t.Error("the other session's process ended")
				}
			})
		}
	}
}

// TestManyProcesses: an evaluation that starts more processes than a session may
// have is stopped. They sleep, and end by themselves: a real fork bomb would put the
// machine that runs the tests at stake.
func TestManyProcesses(t *testing.T) {
	s := start(t)
	s.eval("let kept = 5;;")
	r := s.eval("for _ = 1 to 600 do if Unix.fork () = 0 then (Unix.sleep 5; Unix.kill (Unix.getpid ()) Sys.sigkill) done; Unix.sleep 3;;", "timeout", 10)
	if r.Error == nil {
		t.Errorf("%+v", r)
	}
	if got := s.value("kept;;"); got != "5" {
		t.Error(got)
	}
	s.end()
}

// TestSources: big, empty and odd ones.
func TestSources(t *testing.T) {
	t.Parallel()
	s := start(t)
	var big strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&big, "let v%d = %d;; (* padding padding padding *)\n", i, i)
	}
	if got := s.value(big.String()); got != "19999" {
		t.Errorf("1 MB of phrases: %.200s", got)
	}
	if got := s.value(`String.length "` + strings.Repeat("x", 1<<20) + `";;`); got != "1048576" {
		t.Errorf("a long string: %.200s", got)
	}
	for _, source := range []string{"\x00", "let a = \x00;;", "é;;", "\"\\255\";;", "let", "(*", "\"", "{|", strings.Repeat("(", 2000), strings.Repeat("[", 100000), ";;;;;;", "#", "# 1 + 1;;", "#use;;", "#load 3;;"} {
		s.call("eval", "source", source)
		if got := s.value("1;;"); got != "1" {
			t.Errorf("after %.20q: %s", source, got)
		}
	}
	if r := s.eval(`print_string (String.make 10_000_000 'x');;`); r.StdoutOverflow == nil || r.StdoutOverflow.Total != 10_000_000 {
		t.Errorf("10 MB: %+v", r.StdoutOverflow)
	}
	// Output between calls does not disturb the stream, and arrives.
	s.eval(`#thread;;`)
	s.eval(`ignore (Sys.command "(sleep 0.2; echo late) &");;`)
	time.Sleep(500 * time.Millisecond)
	if r := s.eval("();;"); r.LateStdout != "late\n" && r.Stdout != "late\n" {
		t.Errorf("late output: %+v", r)
	}
}

// TestUnwritable: nothing of the home folder can be written.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "file")
	os.WriteFile(home, nil, 0o600)
	s := start(t, setting{"HOME", home})
	if got := s.value("let a = 1;;"); got != "1" {
		t.Error(got)
	}
	if r := s.eval(`print_string (String.make 9000 'x');;`); r.StdoutOverflow != nil || !strings.HasSuffix(r.Stdout, "…[+808 bytes]") {
		t.Errorf("%q", r.Stdout[8190:])
	}
	if r := s.call("checkpoint", "label", "a"); !r.isError || !strings.HasPrefix(r.text, "checkpoint: ") {
		t.Errorf("%+v", r)
	}
	if got := s.value("a;;"); got != "1" {
		t.Error(got)
	}
	s.end()
	if n := strings.Count(s.stderr.String(), "not available"); n == 0 || n > 4 {
		t.Errorf("stderr: %s", s.stderr)
	}
	none := start(t, setting{"HOME", ""}, setting{"TOPUP_LOG", ""})
	if got := none.value("1;;"); got != "1" {
		t.Error(got)
	}
}

// TestWithoutOCaml: the calls say what to install, and the server lives.
func TestWithoutOCaml(t *testing.T) {
	t.Parallel()
	s := start(t, setting{"PATH", "/nosuch"})
	for range 2 {
		if r := s.call("eval", "source", "1;;"); !r.isError || !strings.Contains(r.text, "apt-get install ocaml") {
			t.Errorf("%+v", r)
		}
	}
	if r := s.call("start_local_session", "session", "w"); !r.isError || !strings.Contains(r.text, `"phase":"connect"`) || !strings.Contains(r.text, "ocaml") {
		t.Errorf("%+v", r)
	}
	if got := s.end(); got != 0 {
		t.Errorf("status %d", got)
	}
}

// onlyOCaml is a folder of programs: a compiler and what it runs.
func onlyOCaml(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, program := range []string{"ocamlc", "ocamlopt", "sh", "gcc", "as", "ld"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(folder, program)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestDoctor: what is there to compute with, and what to install.
func TestDoctor(t *testing.T) {
	t.Parallel()
	folder := onlyOCaml(t)
	for path, want := range map[string]map[string]string{
		os.Getenv("PATH"): {"engine ocaml": "ok: ; its session driver is compiled", "engine javascript": "ok: goja", "compile_to_binary": "ok: dune at "},
		folder:            {"engine ocaml": "ok: ; its session driver is compiled", "compile_to_binary": "missing: apt-get install ocaml-dune"},
		"/nosuch":         {"engine ocaml": "missing: apt-get install ocaml", "engine ocaml-native": "missing: apt-get install ocaml", "engine javascript": "ok: goja"},
	} {
		doctor := exec.Command(binary, "doctor", "--json")
		doctor.Env = environment(t.TempDir(), setting{"PATH", path})
		out, err := doctor.Output()
		if err != nil {
			t.Fatalf("PATH=%s: %v", path, err)
		}
		var report struct {
			Checks []struct{ Name, Status, Finding, Remedy string }
		}
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Checks {
			status, part, _ := strings.Cut(want[c.Name], ": ")
			if want[c.Name] != "" && (c.Status != status || !strings.Contains(c.Finding+" → "+c.Remedy, part)) {
				t.Errorf("PATH=%s: %+v, want %s", path, c, want[c.Name])
			}
			delete(want, c.Name)
		}
		if len(want) > 0 {
			t.Errorf("PATH=%s: nothing about %v", path, want)
		}
	}
}

// TestNative: the same results from native phrases, or from the fallback.
func TestNative(t *testing.T) {
	t.Parallel()
	s := start(t, setting{"name", "topup-opt"})
	if r := s.call("eval", "source", "let rec fib n = if n < 2 then n else fib (n-1) + fib (n-2);; fib 20;;"); !strings.HasPrefix(r.text, `{"value_repr":"6765","value_repr_overflow":null,"type":"int",`) {
		t.Errorf("%+v", r)
	}
	if got := s.value(`exception My of int * string;; raise (My (3, "x"));;`); got != `runtime: My(3, "x")` {
		t.Error(got)
	}
	if r := s.eval("while true do () done;;", "timeout", 0.5); r.message() != "runtime: evaluation timed out" {
		t.Error(r.message())
	}
	if got := s.value("fib 10;;"); got != "55" {
		t.Error(got)
	}
	if got := s.value(`ListLabels.length [1], StringLabels.length "a", ArrayLabels.length [||];;`); got != "(1, 1, 0)" {
		t.Error(got)
	}
	if r := s.call("load", "path", "/x/a.cma"); !r.isError || !strings.Contains(r.text, "this driver accepts .cmxs (got Sys.backend_type = Native)") {
		t.Errorf("%+v", r)
	}
	s.eval(`type money = Money of int;; let pp ppf (Money n) = Format.fprintf ppf "$%d" n;; #install_printer pp;;`)
	if got := s.value("Money 3;;"); got != "$3" {
		t.Error(got)
	}
}

// TestSoak kills the server's children at random moments under load. A value that
// was acknowledged is never lost, and at the end nothing is left.
func TestSoak(t *testing.T) {
	duration := 20 * time.Second
	if testing.Short() {
		duration = 3 * time.Second
	}
	spill := t.TempDir()
	s := start(t, setting{"TOPUP_SPILL_DIR", spill})
	sessions := []string{"", "a", "b"}
	for _, name := range sessions[1:] {
		s.call("start_local_session", "session", name)
	}
	for _, name := range sessions {
		s.eval("let n = ref 0;; let m = 0;;", "session", name)
	}
	var stop atomic.Bool
	var kills, recoveries atomic.Int64
	var load sync.WaitGroup
	for _, name := range sessions {
		load.Go(func() {
			for i := 1; !stop.Load(); i++ {
				// Asked again until it is acknowledged.
				for done := false; !done && !stop.Load(); {
					r := s.call("eval", "source", fmt.Sprintf("let m = %d;; m;;", i), "session", name)
					if r.isError {
						t.Errorf("session %q: %s", name, r.text)
						return
					}
					v := parse[result](t, r)
					if v.Recovery != nil {
						recoveries.Add(1)
					}
					done = v.Error == nil && v.value() == fmt.Sprint(i)
				}
				if stop.Load() {
					return
				}
				v := parse[result](t, s.call("eval", "source", "m;;", "session", name))
				if v.Error == nil && v.value() != fmt.Sprint(i) {
					t.Errorf("session %q: m is %s after %d was acknowledged", name, v.value(), i)
					return
				}
			}
		})
	}
	for end := time.Now().Add(duration); time.Now().Before(end); {
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		children := descendants(s.cmd.Process.Pid)
		if len(children) == 0 {
			continue
		}
		pid := children[rand.IntN(len(children))]
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(comm)) == "sh" {
			continue // the guard that ends the children when the server dies
		}
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			kills.Add(1)
		}
	}
	stop.Store(true)
	load.Wait()
	t.Logf("%d kills, %d recoveries told", kills.Load(), recoveries.Load())
	for _, name := range sessions {
		if r := s.eval("m;;", "session", name); r.Error != nil && r.Recovery == nil {
			t.Errorf("session %q at the end: %s", name, r.message())
		}
	}
	descriptors, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if len(descriptors) > 80 {
		t.Errorf("%d descriptors are open", len(descriptors))
	}
	if got := s.end(); got != 0 {
		t.Errorf("status %d; %s", got, s.stderr)
	}
	if sockets, _ := filepath.Glob("/tmp/topup-session-[ab]-*.sock"); len(sockets) > 0 {
		for _, path := range sockets {
			if own, err := os.Stat(path); err == nil && own.ModTime().After(time.Now().Add(-duration)) {
				t.Logf("a socket of some server: %s", path)
			}
		}
	}
}
