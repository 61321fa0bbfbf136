//go:build linux

package compute

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestSlots is the table of which value and type are reported (section 4.3), and
// of the text forms that are the same in every OCaml (section 4.4).
func TestSlots(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.eval(`type tree = Leaf | Node of tree * int * tree;; type person = { name : string; age : int };;`)
	file := s.write("f.ml", "let from_file = 12\n")
	for _, c := range []struct{ source, value, typ string }{
		{`1+1;;`, `2`, `int`},
		{`();;`, `()`, `unit`},
		{`print_string "";;`, `()`, `unit`},
		{`let x = 42;;`, `42`, `int`},
		{`let x = 1 and y = 2;;`, `2`, `int`},
		{`let e = 5 let f = 6;;`, `6`, `int`},
		{`let (a, b) = (1, "two");;`, `"two"`, `string`},
		{`let rec even n = n = 0 || odd (n - 1) and odd n = n <> 0 && even (n - 1);;`, `<fun>`, `int -> bool`},
		{`let _ = 5;;`, `5`, `int`},
		{`let _ = 3 and _ = "x";;`, `null`, `null`},
		{`let () = ();;`, `null`, `null`},
		{`type t = A;;`, `null`, `null`},
		{`exception My of int * string;;`, `null`, `null`},
		{`module M = struct let z = 3 end;;`, `null`, `null`},
		{`let a = 1;; type t = A;;`, `1`, `int`},
		{`let a = 1 let b = "x" type t = A;;`, `"x"`, `string`},
		{`include struct let q = 7 end;;`, `7`, `int`},
		{`#use "` + file + `";;`, `12`, `int`},
		{``, `null`, `null`},
		{`  `, `null`, `null`},
		{`(* c *)`, `null`, `null`},
		{`;;`, `null`, `null`},
		{`1;; (* behind *)`, `1`, `int`},
		{`fun x -> x;;`, `<fun>`, `'a -> 'a`},
		{`ref 0;;`, `{contents = 0}`, `int ref`},
		{"`A 3;;", "`A 3", "[> `A of int ]"},
		{`(nan, infinity, -0.);;`, `(nan, infinity, -0.)`, `float * float * float`},
		{`0.1 +. 0.2;;`, `0.300000000000000044`, `float`},
		{`(1L, 1l, 1n);;`, `(1L, 1l, 1n)`, `int64 * int32 * nativeint`},
		{`Node (Leaf, 1, Leaf);;`, `Node (Leaf, 1, Leaf)`, `tree`},
		{`{ name = "a"; age = 3 };;`, `{name = "a"; age = 3}`, `person`},
		{`Some (Ok 3 : (int, string) result);;`, `Some (Ok 3)`, `(int, string) result option`},
		{`"héllo\n";;`, `"héllo\n"`, `string`},
		{`Hashtbl.create 1;;`, `<abstr>`, `('_weak1, '_weak2) Hashtbl.t`},
		{`object method m = 1 end;;`, `<obj>`, `< m : int >`},
		{`lazy (List.length [1]);;`, `<lazy>`, `int lazy_t`},
		{`1 + 1`, `2`, `int`}, // defect 22 mended
		{`let c = 3`, `3`, `int`},
	} {
		r := s.eval(c.source)
		if r.value() != c.value || r.typed() != c.typ || r.Error != nil {
			t.Errorf("%s\n got %s : %s, %s\nwant %s : %s", c.source, r.value(), r.typed(), r.message(), c.value, c.typ)
		}
	}
	r := s.eval(`1 + 1;; let y = 2;; y + "s";;`)
	if r.value() != "2" || r.typed() != "int" || r.Error == nil || r.Error.Phase != "typecheck" {
		t.Errorf("a source that fails in part: %+v", r)
	}
	if got := s.value(`y;;`); got != "2" {
		t.Errorf("an earlier phrase of it: %s", got)
	}
}

// TestResultShape holds the nine members to their order.
func TestResultShape(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.call("eval", "source", "3;;")
	want := `{"value_repr":"3","value_repr_overflow":null,"type":"int","stdout":"","stdout_overflow":null,"stderr":"","stderr_overflow":null,"warnings":[],"error":null}`
	if r.isError || r.text != want {
		t.Errorf("got %s", r.text)
	}
	line := string(s.wait(s.begin("eval", args("source", "4;;"))))
	if !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"value_repr\":\"4\",`) || !strings.HasSuffix(line, "\"}],\"isError\":false}}\n") {
		t.Errorf("envelope: %s", line)
	}
	if line := string(s.wait(s.begin("eval", args("source", "fun x -> x;;")))); !strings.Contains(line, `<fun>`) || !strings.Contains(line, `'a -> 'a`) {
		t.Errorf("not written raw: %s", line)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct {
		source, phase, message string // message is a regular expression
		at                     *location
	}{
		{"let a = 1;;\nlet b = a + \"x\";;", "typecheck", `string.*int`, &location{"<eval>", 2, 12, 15}},
		{`foo;;`, "typecheck", `^Unbound value foo$`, &location{"<eval>", 1, 0, 3}},
		{`let y = ;;`, "typecheck", `^Syntax error`, &location{"<eval>", 1, 8, 10}},
		{`Lsit.map;;`, "typecheck", `(?s)^Unbound module Lsit.*Did you mean List\?`, &location{"<eval>", 1, 0, 8}},
		{`(* open`, "typecheck", `(?i)comment not terminated`, &location{"<eval>", 1, 0, 2}},
		{`"open`, "typecheck", `(?i)string literal not terminated`, &location{"<eval>", 1, 0, 1}},
		{`failwith "boom";;`, "runtime", `^Failure\("boom"\)$`, nil},
		{`raise Not_found;;`, "runtime", `^Not_found$`, nil},
		{`raise Exit;;`, "runtime", `^Stdlib\.Exit$`, nil},
		{`1 / 0;;`, "runtime", `^Division_by_zero$`, nil},
		{`[|1|].(2);;`, "runtime", `^Invalid_argument\("index out of bounds"\)$`, nil},
		{`exception My of int * string;; raise (My (3, "x"));;`, "runtime", `^My\(3, "x"\)$`, nil},
		{`let rec f x = 1 + f x in f 1;;`, "runtime", `^Stack overflow$`, nil},
		{`assert false;;`, "runtime", `^File "<eval>", line 1, characters 0-\d+: Assertion failed$`, nil},
		{`raise Sys.Break;;`, "runtime", `^evaluation cancelled$`, nil},
		{`read_line ();;`, "runtime", `^End_of_file$`, nil},
		{`#use "/";;`, "", `(?i)is a directory`, nil},
		{`#nosuch;;`, "", `(?i)unknown directive`, nil},
		{`#require "no_such_pkg";;`, "", `(?i)no such package: no_such_pkg`, nil},
		{`#load "nosuch.cma";;`, "", `(?i)cannot find file nosuch.cma`, nil},
		{`#install_printer nosuch;;`, "", `Unbound value nosuch`, nil},
		{`#quit;;`, "runtime", `^Compenv\.Exit_with_status\(0\)$`, nil},
	} {
		r := s.eval(c.source)
		if r.Error == nil {
			t.Errorf("%s: no error, %+v", c.source, r)
			continue
		}
		if c.phase != "" && r.Error.Phase != c.phase || !regexp.MustCompile(c.message).MatchString(r.Error.Message) {
			t.Errorf("%s: %s", c.source, r.message())
		}
		if c.at != nil && (r.Error.Location == nil || *r.Error.Location != *c.at) {
			t.Errorf("%s: at %+v, want %+v", c.source, r.Error.Location, c.at)
		}
		if r.Error.Related == nil {
			t.Errorf("%s: related is null", c.source)
		}
	}
	if got := s.value("List.length [1; 2];;"); got != "2" {
		t.Errorf("after all these errors: %s", got)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.eval("let f = function Some x -> x;;")
	want := "File \"<eval>\", line 1, characters 8-28:\nWarning 8"
	if !strings.HasPrefix(r.Stderr, want) || !strings.Contains(r.Stderr, "None\n") {
		t.Errorf("stderr %q", r.Stderr)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "8") || !strings.Contains(r.Warnings[0], "exhaustive") {
		t.Errorf("warnings %q", r.Warnings)
	}
	if r := s.eval("#warnings \"-8\";; let f = function Some x -> x;;"); len(r.Warnings) != 0 || r.Stderr != "" {
		t.Errorf("with the warning off: %q %q", r.Warnings, r.Stderr)
	}
	if r := s.eval("#warnings \"+8\";; #warn_error \"+8\";; let f = function Some x -> x;;"); r.Error == nil {
		t.Errorf("as an error: %+v", r)
	}
}

func TestDirectives(t *testing.T) {
	t.Parallel()
	s := start(t)
	if r := s.eval("#show List.map;;"); !strings.HasPrefix(r.Stdout, "val map : ") || r.Error != nil {
		t.Errorf("#show: %+v", r)
	}
	if r := s.eval(`#require "str";;`); r.Error != nil || r.Stdout != "" || r.Stderr != "" {
		t.Errorf("#require: %+v", r)
	}
	if got := s.value(`Str.string_match (Str.regexp "a+") "aaa" 0;;`); got != "true" {
		t.Errorf("str: %s", got)
	}
	s.eval(`type money = Money of int;; let pp ppf (Money n) = Format.fprintf ppf "$%d" n;; #install_printer pp;;`)
	if got := s.value("Money 3;;"); got != "$3" {
		t.Errorf("printer: %s", got)
	}
	broken := s.write("broken.ml", "let good = 1\nlet bad = 1 + true\n")
	if r := s.eval(`#use "` + broken + `";;`); r.Error == nil && !strings.Contains(r.Stdout, "bool") {
		t.Errorf("#use of a file with a type error: %+v", r)
	}
	if got := s.value("good;;"); got != "1" {
		t.Errorf("what the file had before: %s", got)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.eval(`print_string "no newline"; prerr_endline "err"; ignore (Sys.command "echo child; echo childerr >&2"); 7;;`)
	if !strings.Contains(r.Stdout, "no newline") || !strings.Contains(r.Stdout, "child\n") || !strings.Contains(r.Stderr, "err\n") || !strings.Contains(r.Stderr, "childerr\n") || r.value() != "7" {
		t.Errorf("%+v", r)
	}
	if r := s.eval(`print_string "before"; failwith "x";;`); r.Stdout != "before" || r.Error == nil {
		t.Errorf("output before an error: %+v", r)
	}
	begun := time.Now()
	if r := s.eval(`Sys.command "sleep 3 &";;`); r.Error != nil || time.Since(begun) > 2500*time.Millisecond {
		t.Errorf("a grandchild keeps the reply for %v: %+v", time.Since(begun), r)
	}
	if r := s.eval(`print_string "\xff\xfeA\000\027";;`); !strings.Contains(r.Stdout, "\uFFFD") || !strings.HasSuffix(r.Stdout, "A\x00\x1b") {
		t.Errorf("bytes: %q", r.Stdout)
	}
}

// TestOversize is section 4.9.
func TestOversize(t *testing.T) {
	t.Parallel()
	s := start(t)
	if r := s.eval(`print_string (String.make 8192 'o');;`); len(r.Stdout) != 8192 || r.StdoutOverflow != nil {
		t.Errorf("8192 bytes are cut: %d", len(r.Stdout))
	}
	r := s.eval(`print_string (String.make 8193 'o');;`)
	if r.StdoutOverflow == nil || r.StdoutOverflow.Total != 8193 || r.Stdout != strings.Repeat("o", 8192)+"…[+1 bytes; full at "+r.StdoutOverflow.Path+"]" {
		t.Errorf("8193 bytes: %q", r.Stdout[8100:])
	}
	r = s.eval(`prerr_string (String.make 20000 'e');;`)
	if r.StderrOverflow == nil || !strings.HasSuffix(r.Stderr, "…[+11808 bytes; full at "+r.StderrOverflow.Path+"]") {
		t.Fatalf("20000 bytes: %q", r.Stderr[8100:])
	}
	content, err := os.ReadFile(r.StderrOverflow.Path)
	if err != nil || string(content) != strings.Repeat("e", 20000) {
		t.Errorf("spill: %d bytes, %v", len(content), err)
	}
	if info, _ := os.Stat(r.StderrOverflow.Path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if !strings.HasPrefix(r.StderrOverflow.Path, s.home+"/.topup/spill/") || !regexp.MustCompile(`/\d\d+-stderr\.txt$`).MatchString(r.StderrOverflow.Path) {
		t.Errorf("path %s", r.StderrOverflow.Path)
	}
	r = s.eval(`print_string (String.make 12000000 'x');;`)
	if info, err := os.Stat(r.StdoutOverflow.Path); err != nil || info.Size() != 10485789 || r.StdoutOverflow.Total != 12000000 {
		t.Errorf("12 MB: %v %+v", info, r.StdoutOverflow)
	}
	r = s.eval(`for i = 1 to 8191 do print_char 'a' done; print_string "é";;`)
	if !strings.HasPrefix(r.Stdout, strings.Repeat("a", 8191)+"…[+2 bytes") {
		t.Errorf("a character is split: %q", r.Stdout[8180:])
	}
	if r := s.eval(`List.init 300 Fun.id;;`); !strings.HasSuffix(r.value(), "...]") {
		t.Errorf("a long list: %s", r.value())
	}
	off := start(t, setting{"TOPUP_SPILL_DIR", "off"})
	if r := off.eval(`print_string (String.make 9000 'x');;`); r.StdoutOverflow != nil || !strings.HasSuffix(r.Stdout, "x…[+808 bytes]") {
		t.Errorf("without spilling: %q %v", r.Stdout[8180:], r.StdoutOverflow)
	}
}

// TestTimeouts: each comes in time, and the session goes on with its state.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.eval("let kept = 5;;")
	for _, source := range []string{
		"while true do () done;;", "let rec f x = f x in f 1;;", "Unix.sleepf 20.;;",
		"while true do print_string \"spam\" done;;", `ignore (Sys.command "sleep 20");;`,
		"let rec g () = try while true do ignore (Sys.opaque_identity 1) done with _ -> g () in g ();;",
		"Sys.set_signal Sys.sigint Sys.Signal_ignore; while true do () done;;",
	} {
		begun := time.Now()
		r := s.eval(source, "timeout", 0.3)
		if r.message() != "runtime: evaluation timed out" {
			t.Errorf("%s: %s", source, r.message())
		}
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("%s: took %v", source, took)
		}
		if got := s.value("kept;;"); got != "5" {
			t.Errorf("after %s: %s", source, got)
		}
	}
	for _, limit := range []any{0, -1, 0.0} {
		if r := s.eval("1;;", "timeout", limit); r.message() != "runtime: evaluation timed out" {
			t.Errorf("timeout %v: %+v", limit, r)
		}
	}
	for _, limit := range []any{"soon", nil, true, 1e300} {
		if got := s.value("1;;", "timeout", limit); got != "1" {
			t.Errorf("timeout %v: %s", limit, got)
		}
	}
	begun := time.Now()
	if got := s.value("1;;", "timeout", 30); got != "1" || time.Since(begun) > 10*time.Second {
		t.Errorf("a timeout that is not reached: %s after %v", got, time.Since(begun))
	}
	b := parse[struct {
		Results []result
		Stopped bool `json:"stopped_on_error"`
	}](t, s.call("eval_batch", "sources", []string{"1;;", "while true do () done;;", "2;;"}, "timeout", 0.3))
	if len(b.Results) != 2 || !b.Stopped || b.Results[1].message() != "runtime: evaluation timed out" {
		t.Errorf("batch: %+v", b)
	}
}

// TestCancel: by the tool and by the notification, with and without a request.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.eval("let kept = 5;;")
	for name, cancel := range map[string]func(id string){
		"tool":         func(string) { s.call("cancel") },
		"notification": func(string) { s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`) },
		"notification, params": func(string) {
			s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"host":"local","session":""}}`)
		},
		"notification, request": func(id string) {
			s.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		},
	} {
		id := s.begin("eval", args("source", "while true do () done;;"))
		cancel(id)
		if r := parse[result](t, s.finish(id)); r.message() != "runtime: evaluation cancelled" {
			t.Errorf("%s: %s", name, r.message())
		}
		if got := s.value("kept;;"); got != "5" {
			t.Errorf("after %s: %s", name, got)
		}
	}
	// Of nothing: no effect.
	for range 5 {
		if r := s.call("cancel"); r != (reply{"ok", false}) {
			t.Errorf("%+v", r)
		}
		s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99999}}`)
		s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"session":"nosuch"}}`)
		s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"session":"a","host":"b"}}`)
	}
	if got := s.value("kept;;"); got != "5" {
		t.Error(got)
	}
	// Another request than the one that runs: that one goes on; one that waits never begins.
	runs := s.begin("eval", args("source", "let t = Unix.gettimeofday () in while Unix.gettimeofday () -. t < 1. do () done; 8;;"))
	waits := s.begin("eval", args("source", "let begun = 1;;"))
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, waits))
	if r := parse[result](t, s.finish(waits)); r.message() != "runtime: evaluation cancelled" {
		t.Error(r.message())
	}
	if r := parse[result](t, s.finish(runs)); r.value() != "8" {
		t.Errorf("%+v", r)
	}
	if got := s.value("begun;;"); !strings.Contains(got, "Unbound value begun") {
		t.Error(got)
	}
}
