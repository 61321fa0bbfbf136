//go:build unix

package session

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// detached are ways to leave a session: the group, the parents, the environment. Each prints the pid of a process that
// sleeps for long.
var detached = map[string]string{
	"setsid in OCaml": `(match Unix.fork () with
		| 0 -> ignore (Unix.setsid ());
		  (match Unix.fork () with
		   | 0 -> Unix.execvp "sleep" [|"sleep"; "1000"|]
		   | pid -> Printf.printf "%d\n%!" pid; Unix._exit 0)
		| pid -> ignore (Unix.waitpid [] pid));;`,
	"sh -c setsid":     `Sys.command "setsid sh -c 'echo $$; exec sleep 1000' &";;`,
	"plain background": `Sys.command "sleep 1000 & echo $!";;`,
	"below a daemon":   `Sys.command "setsid sh -c 'env -i sleep 1000 & echo $!; wait' &";;`,
}

func sleeper(t *testing.T, w *world, source string) int {
	t.Helper()
	r := w.eval(source)
	for begun := time.Now(); ; {
		text := strings.TrimSpace(r.Stdout.Head + r.LateStdout.Head)
		if pid, err := strconv.Atoi(text); err == nil {
			return pid
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("no pid: %+v", r)
		}
		r = w.eval("Unix.sleepf 0.02;;")
	}
}

func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z")
}

// Programs that a session's code started in the background live through a reset, and end with the session, wherever
// they went.
func TestLeftovers(t *testing.T) {
	for _, cells := range []string{"on", "off"} {
		t.Setenv("TOPSIDE_CGROUPS", cells)
		testLeftovers(t, cells)
	}
}

func testLeftovers(t *testing.T, cells string) {
	for name, source := range detached {
		t.Run(name+", control groups "+cells, func(t *testing.T) {
			w := open(t, nil)
			pid := sleeper(t, w, source)
			if !isRunning(pid) {
				t.Fatal("it does not run")
			}
			if err := w.Reset(w.ctx); err != nil {
				t.Fatal(err)
			}
			second := sleeper(t, w, source)
			if !isRunning(pid) {
				t.Error("it ended with the reset")
			}
			w.Close()
			for _, pid := range []int{pid, second} {
				if isRunning(pid) {
					t.Errorf("process %d is left", pid)
				}
			}
		})
	}
}

// Processes that leave the session's group count, and end with an evaluation that has too many.
func TestDetachedFlood(t *testing.T) {
	for _, cells := range []string{"on", "off"} {
		t.Run("control groups "+cells, func(t *testing.T) {
			t.Setenv("TOPSIDE_CGROUPS", cells)
			w := open(t, func(o *Options) { o.Engine.Limits.Processes = 40 })
			w.eval("let kept = 5;;")
			settle()
			nap := fmt.Sprintf("777.%d", os.Getpid()) // nobody else's
			r, err := w.Eval(w.ctx, Request{Source: `for i = 1 to 150 do
				if Unix.fork () = 0 then (ignore (Unix.setsid ()); Unix.execvp "sleep" [|"sleep"; "` + nap + `"|])
			done; Unix.sleep 30;;`, Timeout: 20 * time.Second})
			if err != nil || r.Err == nil || r.Recovery == nil && !strings.Contains(r.Err.Message, "EAGAIN") {
				t.Fatalf("%+v %v", r, err)
			}
			if got := w.value("kept;;"); got != "5" {
				t.Error(got)
			}
			if r.Recovery != nil && strings.Contains(string(ran(t, "ps", "-eo", "args")), "sleep "+nap) {
				t.Error("sleepers are left")
			}
		})
	}
}

func ran(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A source that takes the session's own descriptors ends with the process, and is not in the log: evaluated again it
// would end the next one too.
func TestTakenDescriptors(t *testing.T) {
	w := open(t, nil)
	w.eval("let kept = 5;;")
	for _, source := range []string{
		"Unix.close (Obj.magic 3);;", "Unix.close (Obj.magic 4);;", "Unix.close (Obj.magic 5);;", "Unix.dup2 Unix.stdin (Obj.magic 3);;",
		"for i = 0 to 50 do try Unix.close (Obj.magic i : Unix.file_descr) with _ -> () done;;",
	} {
		r := w.eval(source)
		// Without descriptor 4 the server may end the process before it can say why.
		says := strings.Contains(r.Stderr.Head, "closed or replaced a descriptor") || strings.HasPrefix(source, "for") || strings.Contains(source, "4")
		if r.Err == nil || r.Recovery == nil || !says {
			t.Errorf("%s: %+v %q", source, r.Err, r.Stderr.Head)
		}
		if got := w.value("kept;;"); got != "5" {
			t.Errorf("after %s: %s", source, got)
		}
	}
	if got := w.log(); got != "let kept = 5;;\n" {
		t.Errorf("%q", got)
	}
}
