package session

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPromote: redefined names and types, weak types and required packages do not stand in the way.
func TestPromote(t *testing.T) {
	w := open(t, nil)
	out := filepath.Join(w.dir, "out")
	if _, err := w.Promote(w.ctx, "main", out, nil); err == nil || !strings.HasPrefix(err.Error(), "phrase log not found at ") {
		t.Error(err)
	}
	w.eval("#require \"str\";;")
	w.eval("type t = A;; let x = A;;")
	w.eval("type t = B of int;; let y = B 1;; let store = ref [];;")
	w.eval("module M = struct let v = 20 end;; module M = struct let v = 42 end;;")
	w.eval("#show List.map;; 1 + 1;; let unused = 3")
	w.eval("let main () = print_int (if Str.string_match (Str.regexp \"a+\") \"aaa\" 0 then M.v else 0);;")
	r, err := w.Promote(w.ctx, "main", out, nil)
	if err != nil || !r.OK {
		t.Fatalf("%v\n%s", err, r.BuildLog)
	}
	if got, err := exec.Command(r.BinaryPath).Output(); err != nil || string(got) != "42" {
		t.Errorf("%q %v", got, err)
	}
	if b, _ := os.ReadFile(filepath.Join(out, "main.ml")); !strings.HasSuffix(string(b), "\nlet () = ignore (main ())\n") {
		t.Errorf("%s", b)
	}
	if b, _ := os.ReadFile(filepath.Join(out, "dune")); string(b) != "(executable\n (name main)\n (libraries str))\n" {
		t.Errorf("%s", b)
	}
	r, err = w.Promote(w.ctx, "nosuch", out, nil)
	if err != nil || r.OK || !strings.Contains(r.BuildLog, "Unbound value") || !strings.Contains(r.BuildLog, "nosuch") {
		t.Errorf("%v %+v", err, r)
	}
	dirty := t.TempDir()
	os.WriteFile(filepath.Join(dirty, "mine"), nil, 0o600)
	for _, c := range []struct{ entry, out, library, want string }{
		{"", out, "", "entry must be non-empty"},
		{"1x", out, "", "entry must begin with a letter or underscore"},
		{"M.main", out, "", "entry may only contain [A-Za-z0-9_']"},
		{"main", out, "a b", "invalid library name a b (allowed: [A-Za-z0-9._-])"},
		{"main", "rel", "", "out must be an absolute path"},
		{"main", filepath.Join(dirty, "mine"), "", "out exists and is not a directory: " + filepath.Join(dirty, "mine")},
		{"main", dirty, "", "out directory is not empty and lacks the .topup-promote marker; refuse to clobber: " + dirty},
	} {
		var libs []string
		if c.library != "" {
			libs = []string{c.library}
		}
		if _, err := w.Promote(w.ctx, c.entry, c.out, libs); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestPromoteFiles: the files that a session used are in its program; an error of the entry is one of the program.
func TestPromoteFiles(t *testing.T) {
	w := open(t, nil)
	write := func(name, text string) string {
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w.value("#mod_use \"" + write("one.ml", "let v = 40\n") + "\";;")
	w.value("#use \"" + write("two.ml", "#require \"str\"\nlet two = if Str.string_match (Str.regexp \"a\") \"a\" 0 then 2 else 0\n") + "\";;")
	w.value("let main () = print_int (One.v + two);; let main () = main ();;")
	out := filepath.Join(w.dir, "out")
	r, err := w.Promote(w.ctx, "main", out, nil)
	if err != nil || !r.OK {
		t.Fatalf("%v\n%s", err, r.BuildLog)
	}
	if got, err := exec.Command(r.BinaryPath).Output(); err != nil || string(got) != "42" {
		t.Errorf("%q %v", got, err)
	}
	r, err = w.Promote(w.ctx, "nosuch", out, nil)
	if err != nil || r.OK || !strings.Contains(r.BuildLog, "File \"main.ml\"") {
		t.Errorf("%v %s", err, r.BuildLog)
	}
}

// TestPromoteWithoutDune builds through ocamlfind.
func TestPromoteWithoutDune(t *testing.T) {
	w := open(t, nil)
	w.eval("#require \"unix\";; let main () = print_string (string_of_bool (Unix.getpid () > 0));;")
	bin := t.TempDir()
	for _, tool := range []string{"ocamlfind", "ocamlopt", "ocamlopt.opt", "gcc", "as", "ld", "sh", "x86_64-linux-gnu-gcc", "x86_64-linux-gnu-as", "x86_64-linux-gnu-ld", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-as", "aarch64-linux-gnu-ld"} {
		if path, err := exec.LookPath(tool); err == nil {
			os.Symlink(path, filepath.Join(bin, tool))
		}
	}
	t.Setenv("PATH", bin)
	r, err := w.Promote(w.ctx, "main", filepath.Join(w.dir, "out"), nil)
	if err != nil || !r.OK {
		t.Fatalf("%v\n%s", err, r.BuildLog)
	}
	if got, err := exec.Command(r.BinaryPath).Output(); err != nil || string(got) != "true" {
		t.Errorf("%q %v", got, err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := w.Promote(w.ctx, "main", filepath.Join(w.dir, "other"), nil); err == nil || !strings.Contains(err.Error(), "install it with") {
		t.Errorf("%v", err)
	}
}

// A session has the unix library without asking for it; so does its binary.
func TestPromoteUsesUnixUnasked(t *testing.T) {
	w := open(t, nil)
	out := filepath.Join(w.dir, "out")
	w.eval("let main () = print_string (string_of_bool (Unix.getpid () > 1));;")
	r, err := w.Promote(w.ctx, "main", out, nil)
	if err != nil || !r.OK {
		t.Fatalf("%v\n%s", err, r.BuildLog)
	}
	if got, err := exec.Command(r.BinaryPath).Output(); err != nil || string(got) != "true" {
		t.Errorf("%q %v", got, err)
	}
}
