package promote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDuneLang(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"2.9.3": "2.9", "3.0.2": "3.0", "3.5.0": "3.5", "3.6.0": "3.6", "3.17.1": "3.6", "4.0": "3.6", "n/a": "3.6"} {
		if got := duneLang(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

// A build inside of another dune is none of its parts, whatever that has left in the environment.
func TestBuildEnviron(t *testing.T) {
	t.Parallel()
	got := buildEnviron([]string{"PATH=/bin", "INSIDE_DUNE=/elsewhere", "INSIDE_DUNE_TOO=1"})
	if strings.Join(got, " ") != "PATH=/bin INSIDE_DUNE_TOO=1" {
		t.Error(got)
	}
}

// TestProgram: directives are no OCaml, and what they mean is kept.
func TestProgram(t *testing.T) {
	t.Parallel()
	used := filepath.Join(t.TempDir(), "used.ml")
	os.WriteFile(used, []byte("let from_file = 1\n"), 0o600)
	p := read([]string{
		"#require \"str, unix\";;\n", "(* why *) #require \"str\";;\n", "#print_depth 5;;\n",
		"#use \"" + used + "\";;\n", "let x = \"#require \\\"no\\\";;\";;\n", "#install_printer pp;;\n",
		"let f o = o#get;;\n",
	})
	if strings.Join(p.libraries, " ") != "str unix" {
		t.Error(p.libraries)
	}
	want := "(* #require \"str, unix\" *)\n(* #require \"str\" *)\n(* #print_depth 5 *)\n# 1 \"" + used + "\"\nlet from_file = 1\n# 7 \"main.ml\"\n" +
		"let x = \"#require \\\"no\\\";;\";;\n(* #install_printer pp *)\nlet f o = o#get;;\n"
	if got := p.verbatim(); got != want {
		t.Errorf("%s", got)
	}
	if got := p.wrapped(); !strings.Contains(got, "module Phrase7_ = struct\n# 1 \"phrase[7]\"\nlet f o = o#get;;\nend open Phrase7_\n") {
		t.Errorf("%s", got)
	}
}

// TestUsedFiles: what a used file says to the toplevel is meant for the program too, and a module of a file is one.
func TestUsedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		os.WriteFile(path, []byte(text), 0o600)
		return path
	}
	inner := write("inner.extra.ml", "let v = 1\n")
	write("outer.ml", "#require \"str\"\n#mod_use \""+inner+"\";;\nlet o = obj\n#print_depth 5;;\n#call 3\n")
	loop := write("loop.ml", "")
	write("loop.ml", "#use \""+loop+"\";;\n")
	p := read([]string{"#directory \"" + dir + "\";;\n", "#use \"outer.ml\";;\n", "#use \"" + loop + "\";;\n", "let last = 2;;\n"})
	want := "(* #directory \"" + dir + "\" *)\n# 1 \"outer.ml\"\n(* #require \"str\" *)\n# 2 \"outer.ml\"\n" +
		"module Inner = struct\n# 1 \"" + inner + "\"\nlet v = 1\nend\n# 3 \"outer.ml\"\nlet o = obj\n(* #print_depth 5 *)\n# 5 \"outer.ml\"\n#call 3\n# 15 \"main.ml\"\n"
	if got := p.verbatim(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "let last = 2;;\n") {
		t.Errorf("%s\nwant %s", got, want)
	}
	if strings.Join(p.libraries, " ") != "str" {
		t.Error(p.libraries)
	}
}

// TestStopped: a build that takes too long is stopped and says so.
func TestStopped(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := Build(ctx, Request{Phrases: []string{"let main () = ();;\n"}, Entry: "main", Out: out, Limit: time.Nanosecond})
	if err == nil && (r.OK || !strings.Contains(r.BuildLog, "build stopped")) {
		t.Errorf("%+v", r)
	}
}
