//go:build unix

package ocaml

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"topside/internal/compute/engine"
)

// TestNativeToplevel: what an installation has decides, and what it lacks is said.
func TestNativeToplevel(t *testing.T) {
	all := []string{"compiler-libs/ocamlcommon.cmxa", "compiler-libs/ocamloptcomp.cmxa", "compiler-libs/toploop.cmi", "compiler-libs/topdirs.cmi", "dynlink.cmxa", "unix.cmxa"}
	ours := bytecode
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		ours = own
	}
	for name, c := range map[string]struct {
		release release
		config  string
		without string
		with    []string
		path    bool
		want    toplevel
		why     string
	}{
		"4.13":                {release: release{4, 13}, path: true, want: ours},
		"4.13 with flambda":   {release: release{4, 13}, config: "version: 4.13.1\nflambda: true\n", path: true, why: "not for flambda"},
		"4.12":                {release: release{4, 12}, path: true, why: "has no native toplevel library"},
		"5.3 with library":    {release: release{5, 3}, with: []string{"compiler-libs/ocamltoplevel.cmxa"}, path: true, want: shipped},
		"5.3 without library": {release: release{5, 3}, path: true, why: "has no native toplevel library"},
		"no ocamlopt":         {release: release{4, 13}, without: "ocamlopt", path: true, why: "there is no ocamlopt beside"},
		"no dynlink":          {release: release{4, 13}, without: "dynlink.cmxa", path: true, why: "dynlink.cmxa is missing"},
		"no binutils":         {release: release{4, 13}, why: "apt-get install binutils"},
	} {
		dir := t.TempDir()
		for _, file := range append(append([]string{"ocamlopt"}, all...), c.with...) {
			if file != c.without {
				os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700)
				os.WriteFile(filepath.Join(dir, file), nil, 0o600)
			}
		}
		tools := t.TempDir()
		if c.path {
			for _, tool := range []string{"as", "ld"} {
				os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\n"), 0o700)
			}
		}
		t.Setenv("PATH", tools)
		got, why := (&compiler{path: filepath.Join(dir, "ocamlc"), version: "X", release: c.release, stdlib: dir, config: c.config}).nativeToplevel()
		if ours == bytecode && c.release == (release{4, 13}) {
			continue // no such toplevel here at all
		}
		if got != c.want || !strings.Contains(why, c.why) || (got == bytecode) != (why != "") {
			t.Errorf("%s: %d %q", name, got, why)
		}
	}
}

// TestNativeFallback: where the native toplevel does not compile, phrases run as bytecode and the note says why.
func TestNativeFallback(t *testing.T) {
	dir := t.TempDir()
	reference := &Language{}
	if _, err := reference.Probe(context.Background()); err != nil {
		t.Fatal(err)
	}
	real := reference.found
	os.WriteFile(filepath.Join(dir, "ocamlopt"), []byte("#!/bin/sh\necho it is broken >&2\nexit 2\n"), 0o700)
	if err := os.Symlink(real.path, filepath.Join(dir, "ocamlc")); err != nil {
		t.Fatal(err)
	}
	l := &Language{Compiler: filepath.Join(dir, "ocamlc"), Cache: t.TempDir(), Native: true}
	c := start(t, l)
	var call engine.Call
	r, err := c.Eval(context.Background(), 1, "Sys.backend_type;;", "", false, 5*time.Second, &call)
	if err != nil || r.Value == nil || *r.Value != "Sys.Bytecode" {
		t.Errorf("%+v %v", r, err)
	}
	info, err := l.Probe(context.Background())
	if err != nil || !strings.Contains(info.Note, "phrases run as bytecode, with the same results") {
		t.Errorf("%+v %v", info, err)
	}
}
