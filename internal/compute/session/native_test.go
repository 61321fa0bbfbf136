package session

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"topside/internal/compute/engine/ocaml"
)

// TestNative: sessions that ask for native phrases have the same results, natively or by the fallback.
func TestNative(t *testing.T) {
	w := open(t, func(o *Options) { o.Language = &ocaml.Language{Cache: camlCache, Native: true} })
	if got := w.value("exception E of int;; let r = ref 1;; incr r;; !r;;"); got != "2" {
		t.Error(got)
	}
	if r := w.eval("raise (E 3);;"); r.Err == nil || r.Err.Message != "E(3)" {
		t.Errorf("%+v", r.Err)
	}
	if got := w.value("module F (X : sig val n : int end) = struct let m = X.n * 2 end;; module G = F (struct let n = 21 end);; G.m;;"); got != "42" {
		t.Error(got)
	}
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "plug.ml"), []byte("let answer = 42\n"), 0o600)
	for _, args := range [][]string{{"ocamlopt", "-shared", "-o", "plug.cmxs", "plug.ml"}, {"ocamlc", "-a", "-o", "plug.cma", "plug.ml"}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if _, err := w.Load(w.ctx, filepath.Join(dir, "plug.cma")); err == nil || err.Error() != "load: "+filepath.Join(dir, "plug.cma")+" has extension .cma; this driver accepts .cmxs (got Sys.backend_type = Native)" {
		t.Error(err)
	}
	if r, err := w.Load(w.ctx, filepath.Join(dir, "plug.cmxs")); err != nil || r.Err != nil {
		t.Fatalf("%v %+v", err, r.Err)
	}
	if got := w.value("Plug.answer;;"); got != "42" {
		t.Error(got)
	}
}

// TestLoad is section 5.7; an archive is there again after a crash.
func TestLoad(t *testing.T) {
	w := open(t, nil)
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "plug.ml"), []byte("let answer = 42\n"), 0o600)
	cmd := exec.Command("ocamlc", "-a", "-o", "plug.cma", "plug.ml")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path, want := range map[string]string{
		"x.cmxs":          "load: x.cmxs has extension .cmxs; this driver accepts .cma (got Sys.backend_type = Bytecode)",
		"x":               "load: x has extension (none); this driver accepts .cma (got Sys.backend_type = Bytecode)",
		"/no/such/it.cma": "load: file not found: /no/such/it.cma",
	} {
		if _, err := w.Load(w.ctx, path); err == nil || err.Error() != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	broken := filepath.Join(dir, "broken.cma")
	os.WriteFile(broken, nil, 0o600)
	if r, err := w.Load(w.ctx, broken); err != nil || r.Err == nil || r.Err.Phase != "runtime" {
		t.Errorf("%v %+v", err, r.Err)
	}
	if r, err := w.Load(w.ctx, filepath.Join(dir, "plug.cma")); err != nil || r.Err != nil {
		t.Fatalf("%v %+v", err, r.Err)
	}
	w.eval("let a = Plug.answer;;")
	w.current().Close()
	if got := w.value("a + Plug.answer;;"); got != "84" {
		t.Error(got)
	}
	if w.log() != "let a = Plug.answer;;\na + Plug.answer;;\n" {
		t.Errorf("%q", w.log())
	}
}
