//go:build linux

package session

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// processesBelow lists the processes of a session: all that work in its folder.
func processesBelow(t *testing.T, dir string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd")); err == nil && cwd == dir {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestResetsInARow: each gives a new process without bindings, libraries and changes of the standard library's state,
// and none leaves a process behind.
func TestResetsInARow(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, func(o *Options) { o.Engine.Dir = dir })
	last, generation := w.Status().Pid, w.Status().Generation
	for i := range 30 {
		if i%3 == 0 {
			w.eval("#require \"str\";; let r = Str.regexp \"a\";; Random.self_init ();; Sys.chdir \"/\";;")
		}
		if i%3 == 1 {
			settle() // a keeper is forked
		}
		if err := w.Reset(w.ctx); err != nil {
			t.Fatal(err)
		}
		st := w.Status()
		if st.Pid == last || st.Generation != generation+1 || st.Phrases != 0 {
			t.Fatalf("%+v after process %d, generation %d", st, last, generation)
		}
		last, generation = st.Pid, st.Generation
	}
	if r := w.eval("Str.regexp;;"); r.Err == nil {
		t.Error("a library survives a reset")
	}
	if got := w.value("Sys.getcwd ();;"); got != strconv.Quote(dir) {
		t.Error(got)
	}
	settle()
	for i := 0; ; i++ {
		left := processesBelow(t, dir)
		if len(left) <= 3 { // the engine, its keeper, its origin
			break
		}
		if i == 100 {
			t.Fatalf("processes %v", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.Close()
	if left := processesBelow(t, dir); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// TestResetWithoutOrigin: when the process that waits for a reset was killed, a fresh one is started.
func TestResetWithoutOrigin(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, func(o *Options) { o.Engine.Dir = dir })
	w.eval("let x = 1;;")
	for _, pid := range processesBelow(t, dir) {
		if pid != w.Status().Pid {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err := w.Reset(w.ctx); err != nil {
		t.Fatal(err)
	}
	if r := w.eval("x;;"); r.Err == nil {
		t.Error("bindings survive a reset")
	}
	if got := w.value("1 + 1;;"); got != "2" {
		t.Error(got)
	}
	// The next one has an origin again.
	w.eval("let x = 1;;")
	if err := w.Reset(w.ctx); err != nil {
		t.Fatal(err)
	}
	if r := w.eval("x;;"); r.Err == nil || !strings.Contains(r.Err.Message, "Unbound value x") {
		t.Errorf("%+v", r)
	}
}

// TestStrayKeeper: a keeper that the server was not told of, because its engine was killed in between, waits at the
// same pipe; it must not take the place of the one that is called.
func TestStrayKeeper(t *testing.T) {
	w := open(t, nil)
	w.eval("let kept = ref 1;;")
	settle()
	// A copy that waits like a keeper, with a state of its own.
	w.eval(`kept := 2;; if Unix.fork () = 0 then begin
		ignore (Unix.setsid ()); kept := 666;
		let b = Bytes.create 8 in
		ignore (Unix.read (Obj.magic 5 : Unix.file_descr) b 0 8);
		let stray = "\000\000\000\013d2:op5:straye" in
		ignore (Unix.write_substring (Obj.magic 4 : Unix.file_descr) stray 0 (String.length stray));
		Unix.kill (Unix.getpid ()) Sys.sigkill
	end;;`)
	settle()
	r := w.eval("exit 3;;")
	if r.Recovery == nil || r.Recovery.By != ByKeeper {
		t.Errorf("%+v", r.Recovery)
	}
	if got := w.value("!kept;;"); got != "2" {
		t.Error(got)
	}
}

// TestDeathsInARow: each evaluation ends the process, at once or after a pause, and the state is there each time.
func TestDeathsInARow(t *testing.T) {
	w := open(t, nil)
	if r := w.eval("exit 1;;"); r.Recovery == nil || r.Recovery.Replayed != 0 {
		t.Errorf("at the beginning: %+v", r.Recovery)
	}
	w.eval("let x = 41;;")
	for i := range 20 {
		if i%4 == 3 {
			settle()
		}
		source := []string{"exit 3;;", "Unix.kill (Unix.getpid ()) Sys.sigkill;;"}[i%2]
		if r := w.eval(source); r.Recovery == nil || len(r.Recovery.Failed) > 0 {
			t.Fatalf("%d: %+v", i, r.Recovery)
		}
	}
	if got := w.value("x + 1;;"); got != "42" {
		t.Error(got)
	}
}
