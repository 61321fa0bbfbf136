//go:build linux

package compute

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// agreed are sources to which native phrases and bytecode must answer the same.
var agreed = []string{
	// What has a value and a type, and what has not.
	`1+1;;`, `let x = 42;;`, `();;`, `let x = 1 and y = 2;;`, `let e = 5 let f = 6;;`, `let (a, b) = (1, "two");;`, `let _ = 5;;`,
	`let _ = 3 and _ = "x";;`, `let () = print_string "hi";;`, `external len : string -> int = "caml_ml_string_length";;`, `len "abc";;`,
	`let rec even n = n = 0 || odd (n-1) and odd n = n <> 0 && even (n-1);;`, `include struct let q = 7 end;;`, `open struct let h = 1 end;;`,
	`let a = 1 let b = "x" type t = A;;`, `1 + 1;; let y = 2;; y + "s";;`, `let r = ref [];;`, `r := [1];;`, `r;;`, `(fun x -> x : 'foo -> 'foo);;`,
	// Values of every kind.
	`type t = A | B of int;;`, `[A; B 3];;`, `Array.init 300 Fun.id;;`, `List.init 500 Fun.id;;`, `(1, String.make 250 'y', [String.make 300 'x'; "b"]);;`,
	`Bytes.of_string "ab";;`, `(nan, infinity, -0.), (1L, 1l, 1n), 'c', 0.1 +. 0.2;;`, `Some (Ok 3);;`, "[`A 3; `B];;", `let l = lazy (1+1);;`, `Lazy.force l;;`, `l;;`,
	`object method m = 3 end;;`, `type r = {name: string; mutable age: int};;`, `{name="a"; age=3};;`, `type p = {x: float; y: float};;`, `{x=1.; y=2.};;`,
	`type u = U of int [@@unboxed];;`, `U 3;;`, `type ir = I of {a:int; b:string} | J;;`, `[I {a=1;b="x"}; J];;`, `[|1.;2.|];;`, `[||];;`,
	`type _ g = Int : int -> int g | Pair : 'a g * 'b g -> ('a * 'b) g;;`, `Pair (Int 3, Int 4);;`, `type ex = Ex : 'a -> ex;;`, `Ex 3;;`,
	`type 'a tree = Leaf | Node of 'a tree * 'a * 'a tree;;`, `let rec deep n = if n = 0 then Leaf else Node (deep (n-1), n, Leaf);;`, `deep 20;;`,
	`let rec c = 1 :: c;;`, `type cyc = {mutable next: cyc option};;`, `let k = {next=None} in k.next <- Some k; k;;`, `stdout;;`, `Complex.one;;`,
	`module Rec = struct type r = {fa: int} type v = VA | VB of int end;;`, `{Rec.fa=1}, Rec.VB 2;;`, `type priv = private int;;`, `Lexing.dummy_pos;;`,
	`type 'a l = Nil | Cons of {hd: 'a; mutable tl: 'a l};;`, `let rec xs = Cons {hd=1; tl=xs};;`, `"a\nb\t\001\255", '\n', min_int, max_float;;`,
	// Modules, functors, classes.
	`module type S = sig val x : int end;;`, `let m = (module struct let x = 3 end : S);;`, `let module X = (val m : S) in X.x;;`,
	`module F (X : S) = struct let y = X.x + 1 exception FE of int end;;`, `module FX = F (struct let x = 41 end);;`, `FX.y;;`, `raise (FX.FE 2);;`, `FX.FE 3;;`,
	`class c = object val mutable n = 0 method incr = n <- n + 1 method get = n end;;`, `let o = new c;;`, `o#incr; o#get;;`, `new c;;`,
	// Exceptions: unqualified, with their place.
	`exception My of int * string;;`, `raise (My (3, "x"));;`, `Printexc.to_string (My (4, "t"));;`, `try raise (My (1, "q")) with e -> e;;`,
	`module M = struct exception E of int let v = 3 module N = struct exception F end end;;`, `raise (M.E 3);;`, `raise M.N.F;;`, `M.E 4, M.N.F;;`,
	`failwith "boom";;`, `1/0;;`, `[|1|].(5);;`, `raise Exit;;`, `assert false;;`, `match Some 1 with None -> 0;;`, `let f = function 1 -> 2;;`, `f 3;;`,
	`let g x = f (x+1) + 1;;`, `g 10;;`, `let exception Loc of int in raise (Loc 3);;`, `type ext = ..;;`, `type ext += X1 | X2 of int;;`, `[X1; X2 4];;`,
	`exception R = Not_found;;`, `R;;`, `raise R;;`, `raise Sys.Break;;`, `let [a;b] = [1];;`, `let pa = 1 let pb = failwith "y" let pc = 2;;`, `pa;;`,
	// What the compiler says.
	`foo;;`, `1 + "a";;`, `let x = ;;`, `(1;;`, "1 +\n 2 +\n \"s\";;", `Lsit.map;;`, `raise 3;;`, `open Nosuch;;`, `x.foo;;`, `"unterminated`, `(* unterminated`,
	`let f = function Some x -> x;;`, `module D = struct let v = 1 [@@deprecated "use w"] end;;`, `D.v;;`, `#warnings "+26";;`, `let f () = let unused = 3 in 1;;`,
	`#warn_error "+26";;`, `let f () = let unused = 3 in 1;;`, `#warn_error "-a";;`, `#warnings "-26";;`, `Str.regexp "a";;`, `Domain.spawn;;`,
	`external nope : int -> int = "no_such_primitive";;`, `nope 3;;`,
	// Directives.
	`#nosuch;;`, `#require 3;;`, `#show List.map;;`, `#show_val nosuch;;`, `#show nosuch;;`, `#show_type list;;`, `#show_module M;;`, `#show My;;`, `#show_class c;;`,
	`#show_module_type S;;`, `#show list;;`, `#show Stdlib.Seq;;`, `#show_constructor Some;;`, `#show_type g;;`, `#show Not_found;;`,
	`#print_depth 2;;`, `deep 5;;`, `#print_depth 10;;`, `#print_length 5;;`, `[1;2;3;4;5;6;7];;`, `#print_length 200;;`,
	`type money = Money of int;;`, `let pp ppf (Money n) = Format.fprintf ppf "$%d" n;;`, `#install_printer pp;;`, `[Money 1; Money 2];;`, `#remove_printer pp;;`,
	`Money 3;;`, `#remove_printer pp;;`, `#install_printer nosuch;;`, `#install_printer List.map;;`, `let old (Money n) = print_int n;;`, `#install_printer old;;`, `Money 5;;`,
	`#remove_printer old;;`, `type 'a box = Box of 'a;;`, `let ppb f ppf (Box x) = Format.fprintf ppf "[%a]" f x;;`, `#install_printer ppb;;`, `Box (Some (Box "x"));;`,
	`let bad ppf (_ : int) = failwith "p";;`, `#install_printer bad;;`, `[1;2];;`, `#remove_printer bad;;`, `#load "nosuch.cma";;`, `#use "nosuch";;`, `#mod_use "nosuch";;`,
	`#labels true;;`, `#labels false;;`, `#quit;;`, `#require "no_such_pkg";;`, `#require "str";;`, `Str.split (Str.regexp ",") "a,b";;`, `#require "unix";;`,
	`#require "threads.posix";;`, `Thread.join (Thread.create print_string "in thread");;`, `Unix.gettimeofday () > 1.;;`,
	`#use "u.ml";;`, `uz;;`, `#use "uexn.ml";;`, `before;;`, `after;;`, `#mod_use "FOLDER/mu.ml";;`, `Mu.v, Mu.T;;`,
	// Output.
	`Format.printf "a@.b@.";;`, `prerr_string "e";;`, `Sys.command "echo child";;`, `(* only a comment *)`, `;;`,
}

// TestNativeAgrees: native phrases have the results of bytecode, in every key of the reply.
func TestNativeAgrees(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"u.ml":    "let ux = 1\nlet uy = ux + 1;;\n#show List.hd;;\nlet uz = \"z\"\n",
		"uexn.ml": "let before = 1;; failwith \"inuse\";; let after = 2",
		"mu.ml":   "let v = 3 type t = T",
	} {
		os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)
	}
	byteServer, native := start(t), start(t, setting{"name", "topup-opt"})
	if got := native.value("Sys.backend_type;;"); got != "Sys.Native" {
		t.Fatalf("phrases are %s", got)
	}
	sources := append([]string{fmt.Sprintf("Sys.chdir %q;;", folder)}, agreed...)
	for _, source := range sources {
		source = strings.ReplaceAll(source, "FOLDER", folder)
		want, got := byteServer.call("eval", "source", source), native.call("eval", "source", source)
		if want != got {
			t.Errorf("%s\n  bytecode: %.600s\n  native:   %.600s", source, want.text, got.text)
		}
	}
	for _, c := range []struct{ tool, key, value string }{
		{"lookup", "name", "x"}, {"lookup", "name", "M.v"}, {"lookup", "name", "List.map"}, {"lookup", "name", "M"}, {"lookup", "name", "t"},
		{"lookup", "name", "My"}, {"lookup", "name", "_$"}, {"lookup", "name", "nosuch"}, {"env", "filter", "_$"},
	} {
		if want, got := byteServer.call(c.tool, c.key, c.value), native.call(c.tool, c.key, c.value); want != got {
			t.Errorf("%s %s\n  bytecode: %s\n  native:   %s", c.tool, c.value, want.text, got.text)
		}
	}
	names := func(s *server) map[string]string {
		all := map[string]string{}
		for _, b := range parse[[]struct {
			Name    string
			Type    string
			Preview *string
		}](t, s.call("env")) {
			text, _ := json.Marshal(b)
			all[b.Name] = string(text)
		}
		return all
	}
	if want, got := names(byteServer), names(native); fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("env\n  bytecode: %v\n  native:   %v", want, got)
	}
}

// TestNativeDeaths: whatever ends the process or takes its descriptors, the state is there and phrases compile.
func TestNativeDeaths(t *testing.T) {
	t.Parallel()
	s := start(t, setting{"name", "topup-opt"})
	s.eval("let kept = ref 5;;")
	s.eval("kept := 6;;")
	for _, source := range []string{
		`exit 3;;`, `let s : string = Obj.magic 0 in String.length s;;`, `Unix.kill 0 Sys.sigkill;;`, `close_out stdout;;`, `close_in stdin;;`,
		`for i = 0 to 20 do try Unix.close (Obj.magic i) with _ -> () done;;`, `if Unix.fork () = 0 then () else ignore (Unix.wait ());;`,
		`let rec grow l = grow (Bytes.make 100_000_000 'x' :: l) in grow [];;`, `let rec f n = 1 + f (n + 1) in f 0;;`,
		`while true do try while true do () done with _ -> () done;;`, `Unix.sleepf 60.;;`,
		`Sys.set_signal Sys.sigchld Sys.Signal_ignore;;`, `Unix.putenv "PATH" "";;`, `Sys.chdir "/";;`,
		// More than the compiler's stack holds.
		`let big = [` + strings.Repeat("1;", 200_000) + `1];;`, strings.Repeat("(", 200_000), `let after = 1;;`,
	} {
		r := s.eval(source, "timeout", 3)
		if got := s.value("!kept;;"); got != "6" {
			t.Errorf("after %.60s (%s): %s", source, r.message(), got)
		}
	}
	if got := s.value("Gc.compact ();;"); got != "()" {
		t.Error(got)
	}
	if got := s.end(); got != 0 {
		t.Errorf("status %d", got)
	}
}

// TestNativeLeavesNothing: the objects of phrases have no names, even when the process is killed while it compiles.
func TestNativeLeavesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := start(t, setting{"name", "topup-opt"}, setting{"TMPDIR", folder})
	pid := s.value("Unix.getpid ();;")
	source := strings.Repeat("let f x = x + 1;;\n", 50)
	for range 5 {
		begun := s.begin("eval", args("source", source))
		for range 3 {
			children := descendants(s.cmd.Process.Pid)
			for _, child := range children {
				if process, err := os.FindProcess(child); err == nil {
					process.Kill()
				}
			}
		}
		s.finish(begun)
	}
	// The last of the kills may have hit the process that came back for the reply; the call after it is told so.
	s.call("eval", "source", "0;;")
	if got := s.value("1;;"); got != "1" {
		t.Error(got)
	}
	s.end()
	for _, pattern := range []string{"/dev/shm/.topside-" + pid + "-*", filepath.Join(folder, ".topside-*"), filepath.Join(folder, "topside*.cmxs")} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// TestNativeLoad: shared objects are loaded, and their failures told.
func TestNativeLoad(t *testing.T) {
	t.Parallel()
	s := start(t, setting{"name", "topup-opt"})
	s.fails("load: /x/a.cma has extension .cma; this driver accepts .cmxs (got Sys.backend_type = Native)", "load", "path", "/x/a.cma")
	s.fails("load: /x/a has extension (none); this driver accepts .cmxs (got Sys.backend_type = Native)", "load", "path", "/x/a")
	s.fails("load: file not found: /x/a.cmxs", "load", "path", "/x/a.cmxs")
	s.write("mylib.ml", "let answer = 42\nexception Own of int\nlet fail n = if n > 0 then raise (Own n)\n")
	s.write("failing.ml", `let () = failwith "at its start"`)
	for _, name := range []string{"mylib", "failing"} {
		build := exec.Command("ocamlfind", "ocamlopt", "-shared", "-o", name+".cmxs", name+".ml")
		build.Dir = s.home
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s %v", out, err)
		}
	}
	if r := parse[result](t, s.call("load", "path", filepath.Join(s.home, "mylib.cmxs"))); r.Error != nil || r.value() != "null" {
		t.Errorf("load: %+v", r)
	}
	if got := s.value("Mylib.answer;;"); got != "42" {
		t.Error(got)
	}
	if got := s.value("Mylib.fail 3;;"); got != "runtime: Mylib.Own(3)" {
		t.Error(got)
	}
	if r := parse[result](t, s.call("load", "path", filepath.Join(s.home, "failing.cmxs"))); r.message() != `runtime: Failure("at its start")` {
		t.Error(r.message())
	}
	if r := parse[result](t, s.call("load", "path", s.write("corrupt.cmxs", "x"))); !strings.Contains(r.message(), "error loading shared library") {
		t.Error(r.message())
	}
	// The state comes back without the file being loaded again being asked for.
	if got := s.value("1;;"); got != "1" {
		t.Error(got)
	}
}
