//go:build linux

package compute

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// appends is a phrase that writes a line to a file and counts in the session: it may run once.
func appends(file string) string {
	return fmt.Sprintf(`incr r; let oc = open_out_gen [Open_append; Open_creat] 0o600 %q in output_string oc "x\n"; close_out oc;;`, file)
}

// TestEffectsRunOnce: what writes to files is not evaluated again for a process that ends right after it, however
// quickly the calls follow each other, and the state has it.
func TestEffectsRunOnce(t *testing.T) {
	for name, session := range map[string]string{"local": "local", "named": "w"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			if session != "local" {
				s.call("start_local_session", "session", session)
			}
			file := filepath.Join(s.home, "lines")
			s.eval("let r = ref 0;;", "session", session)
			want := 0
			for i := range 15 {
				want += 2
				calls := []string{
					s.begin("eval", args("source", appends(file), "session", session)),
					s.begin("eval", args("source", "let pure = List.map succ [1; 2; 3];;", "session", session)),
					s.begin("eval_batch", args("sources", []string{"1 + 1;;", appends(file), "let after = !r;;"}, "session", session)),
					s.begin("eval", args("source", []string{"exit 3;;", "Unix.kill (Unix.getpid ()) 9;;"}[i%2], "session", session)),
				}
				for _, id := range calls {
					s.finish(id)
				}
				if got := s.value("!r;;", "session", session); got != fmt.Sprint(want) {
					t.Fatalf("round %d: !r = %s, not %d", i, got, want)
				}
				if got := s.value("after;;", "session", session); got != fmt.Sprint(want) {
					t.Fatalf("round %d: after = %s", i, got)
				}
			}
			if n := strings.Count(s.read1("lines"), "x\n"); n != want {
				t.Errorf("%d lines of %d", n, want)
			}
		})
	}
}

// TestReachThroughNames: functions, modules, operators and references that reach outside are known as such wherever
// they are named from.
func TestReachThroughNames(t *testing.T) {
	for name, c := range map[string]struct{ setup, phrase string }{
		"function":           {"let f () = %s;;", "f ();;"},
		"function of one":    {"let f () = %s;; let g () = f ();;", "g ();;"},
		"module":             {"module M = struct let f () = %s end;;", "M.f ();;"},
		"module of a module": {"module M = struct let f () = %s end;; module N = M;;", "N.f ();;"},
		"opened":             {"module M = struct let f () = %s end;; open M;;", "f ();;"},
		"locally opened":     {"module M = struct let f () = %s end;;", "let open M in f ();;"},
		"included":           {"module M = struct let f () = %s end;; include M;;", "f ();;"},
		"functor":            {"module F (X : sig end) = struct let f () = %s end;;", "let module M = F (struct end) in M.f ();;"},
		"reference":          {"let h = ref (fun () -> ());; h := (fun () -> %s);;", "!h ();;"},
		"alias of a reference": {
			"let h = ref (fun () -> ());; let k = h;; let set f = h := f;; set (fun () -> %s);;", "!k ();;"},
		"operator":           {"let ( !! ) () = %s;;", "!! ();;"},
		"object":             {"class c = object method f () = %s end;; let o = new c;;", "o#f ();;"},
		"lazy":               {"let l = lazy (%s);;", "Lazy.force l;;"},
		"shadowed module":    {"module List = struct let f () = %s end;;", "let open List in f ();;"},
		"first-class module": {"module type S = sig val f : unit -> unit end;; let m = (module struct let f () = %s end : S);;", "let (module M) = m in M.f ();;"},
		"command":            {"let file = \"%[2]s\";;", "ignore (Sys.command (\"echo x >> \" ^ file));;"},
		"let module":         {"let file = \"%[2]s\";;", "let module F = Filename in let module S = Sys in ignore (S.command (\"echo x >> \" ^ F.quote file));;"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			file := filepath.Join(s.home, "lines")
			write := fmt.Sprintf(`let oc = open_out_gen [Open_append; Open_creat] 0o600 %q in output_string oc "x\n"; close_out oc`, file)
			setup := c.setup
			if strings.Contains(setup, "%[2]s") {
				setup = strings.ReplaceAll(setup, "%[2]s", file)
			} else {
				setup = strings.ReplaceAll(setup, "%s", write)
			}
			if r := s.eval(setup); r.Error != nil {
				t.Fatal(r.message())
			}
			time.Sleep(50 * time.Millisecond)
			first := s.begin("eval", args("source", c.phrase))
			second := s.begin("eval", args("source", "exit 3;;"))
			if r := parse[result](t, s.finish(first)); r.Error != nil {
				t.Fatal(r.message())
			}
			s.finish(second)
			if got := s.value("1 + 1;;"); got != "2" {
				t.Error(got)
			}
			if n := strings.Count(s.read1("lines"), "x\n"); n != 1 {
				t.Errorf("it ran %d times", n)
			}
		})
	}
}
