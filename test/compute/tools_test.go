//go:build linux

package compute

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

type binding struct {
	Name, Type string
	Location   *location
	Preview    *string
}

func (s *server) names(pairs ...any) []string {
	s.t.Helper()
	var names []string
	for _, b := range parse[[]binding](s.t, s.call("env", pairs...)) {
		names = append(names, b.Name)
	}
	sort.Strings(names)
	return names
}

func same(a, b []string) bool { return strings.Join(a, " ") == strings.Join(b, " ") }

func TestEnvAndLookup(t *testing.T) {
	t.Parallel()
	s := start(t)
	if r := s.call("env"); r != (reply{"[]", false}) {
		t.Errorf("an empty session: %+v", r)
	}
	s.eval(`let alpha = "x";; let beta = [1; 2];; let ( +++ ) a b = a + b;; type t = A;; module M = struct let inner = 3 end;;`)
	if got := s.names(); !same(got, []string{"+++", "alpha", "beta"}) {
		t.Errorf("env: %v", got)
	}
	if got := s.names("filter", "al"); !same(got, []string{"alpha"}) {
		t.Errorf("prefix: %v", got)
	}
	if got := s.names("filter", "ph"); !same(got, []string{"alpha"}) {
		t.Errorf("substring: %v", got)
	}
	if got := s.names("filter", "AL"); len(got) != 0 {
		t.Errorf("case: %v", got)
	}
	if got := s.names("filter", 7, "all", "yes"); len(got) != 3 {
		t.Errorf("other types count as absent: %v", got)
	}
	if got := s.names("all", true); len(got) < 100 {
		t.Errorf("all: %d", len(got))
	}
	if got := s.names("all", true, "filter", "print_en"); !same(got, []string{"print_endline"}) {
		t.Errorf("all with a filter: %v", got)
	}
	b := parse[binding](t, s.call("lookup", "name", "alpha"))
	if b.Type != "string" || b.Location == nil || *b.Location != (location{"<eval>", 1, 4, 9}) || b.Preview == nil || *b.Preview != `"x"` {
		t.Errorf("lookup: %+v", b)
	}
	for _, name := range []string{"nosuch", "", "Nosuch.x"} {
		if r := s.call("lookup", "name", name); r != (reply{"null", false}) {
			t.Errorf("lookup %q: %+v", name, r)
		}
	}
	for _, name := range []string{"+++", "print_endline", "M.inner", "List.map"} {
		if b := parse[*binding](t, s.call("lookup", "name", name)); b == nil || b.Type == "" {
			t.Errorf("lookup %q: %+v", name, b)
		}
	}
	s.fails("missing 'name' argument", "lookup")
	if r := s.call("reset"); r != (reply{"ok", false}) {
		t.Errorf("reset: %+v", r)
	}
	if got := s.value("alpha;;"); !strings.Contains(got, "Unbound value alpha") {
		t.Error(got)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	s := start(t)
	type batch struct {
		Results []result
		Stopped bool `json:"stopped_on_error"`
	}
	for _, c := range []struct {
		sources []string
		results int
		stopped bool
	}{
		{[]string{"let q = 1;;", "q + 1;;"}, 2, false},
		{[]string{"1;;", "nosuch;;", "2;;"}, 2, true},
		{[]string{"1;;", "nosuch;;"}, 2, false},
	} {
		b := parse[batch](t, s.call("eval_batch", "sources", c.sources))
		if len(b.Results) != c.results || b.Stopped != c.stopped {
			t.Errorf("%v: %+v", c.sources, b)
		}
	}
	const wrong = "'sources' must be an array of strings"
	s.fails(wrong, "eval_batch")
	s.fails(wrong, "eval_batch", "sources", "1;;")
	s.fails(wrong, "eval_batch", "sources", []any{"let never = 1;;", 3})
	s.fails("'sources' must be non-empty", "eval_batch", "sources", []string{})
	s.fails("missing 'source' argument", "eval")
	s.fails("missing 'source' argument", "eval", "source", 7)
	if got := s.value("never;;"); !strings.Contains(got, "Unbound") {
		t.Error(got)
	}
}

// TestLog is section 6 with defects 19 and 21 mended.
func TestLog(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.eval(`let a = 1;;`)
	s.eval(`let partial = 7;; nosuch;;`)
	s.eval(`nosuch;;`)
	s.eval(`#require "str";; let r = Str.regexp "x";;`)
	file := s.write("used.ml", "let used = 3\n")
	s.eval(`#use "` + file + `";;`)
	log := s.read1(".topup/history.ml")
	for _, want := range []string{"let a = 1;;\n", "let partial = 7;;\n", "#require \"str\";;\n", "let r = Str.regexp \"x\";;\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "nosuch") {
		t.Errorf("the log has what failed:\n%s", log)
	}
	if r := s.call("checkpoint", "label", "v1.2-rc_3"); r != (reply{`{"ok":true,"label":"v1.2-rc_3"}`, false}) {
		t.Errorf("%+v", r)
	}
	s.call("reset")
	s.eval("let fresh = 1;;")
	if log := s.read1(".topup/history.ml"); strings.Contains(log, "let a") {
		t.Errorf("reset keeps the old log:\n%s", log)
	}
	if r := parse[result](t, s.call("restore", "label", "v1.2-rc_3")); r.Error != nil {
		t.Fatalf("restore: %s", r.message())
	}
	if got := s.value("a + partial;;"); got != "8" {
		t.Error(got)
	}
	if got := s.value("fresh;;"); !strings.Contains(got, "Unbound") {
		t.Error(got)
	}
	if got := s.names("filter", "partial"); !same(got, []string{"partial"}) {
		t.Errorf("restored names are hidden: %v", got)
	}
	if info, err := os.Stat(filepath.Join(s.home, ".topup/checkpoints/v1.2-rc_3.ml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	// A second server on the same log has a log of its own, and a third starts anew.
	other := start(t, setting{"HOME", s.home})
	other.eval("let theirs = 1;;")
	if log := s.read1(".topup/history.ml"); strings.Contains(log, "theirs") || !strings.Contains(log, "let a = 1") {
		t.Errorf("two servers share a log:\n%s", log)
	}
}

func TestCheckpointErrors(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tool := range []string{"checkpoint", "restore"} {
		s.fails("missing 'label' argument", tool)
		s.fails("label must be non-empty", tool, "label", "")
		s.fails("label must not start with '.'", tool, "label", "../etc")
		s.fails("label must not start with '.'", tool, "label", ".hidden")
		s.fails("label must not contain '..'", tool, "label", "foo..bar")
		s.fails("label may only contain [A-Za-z0-9._-]", tool, "label", "a/b")
		s.fails("label may only contain [A-Za-z0-9._-]", tool, "label", "a b")
		s.fails("label may only contain [A-Za-z0-9._-]", tool, "label", "a\x00")
	}
	s.fails("no such checkpoint: none", "restore", "label", "none")
	s.eval("let kept = 1;;")
	s.write(".topup/checkpoints/bad.ml", "let one = 1\nlet two = 1 + true\nlet three = 3\n")
	if r := parse[result](t, s.call("restore", "label", "bad")); r.Error == nil || r.Error.Phase != "typecheck" || r.Error.Location == nil || r.Error.Location.Line != 2 {
		t.Errorf("a type error in a checkpoint: %+v", r)
	}
	if got := s.value("one;;"); got != "1" {
		t.Errorf("the phrases before it: %s", got)
	}
	s.write(".topup/checkpoints/raises.ml", "let one = 10\nlet () = failwith \"no\"\n")
	if r := parse[result](t, s.call("restore", "label", "raises")); r.message() != `runtime: Failure("no")` {
		t.Errorf("an exception in a checkpoint: %+v", r)
	}
	quiet := start(t, setting{"TOPUP_LOG", "off"})
	quiet.fails("checkpoint requires phrase logging (TOPUP_LOG is off)", "checkpoint", "label", "a")
	quiet.fails("restore requires phrase logging (TOPUP_LOG is off)", "restore", "label", "a")
	quiet.fails("compile_to_binary requires phrase logging (TOPUP_LOG is off)", "compile_to_binary", "entry", "main", "out", "/tmp/x")
	nowhere := start(t, setting{"TOPUP_CHECKPOINT_DIR", "off"})
	nowhere.fails("checkpoint disabled (TOPUP_CHECKPOINT_DIR=off)", "checkpoint", "label", "a")
	nowhere.fails("restore disabled (TOPUP_CHECKPOINT_DIR=off)", "restore", "label", "a")
}

func TestLoad(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.fails("missing 'path' argument", "load")
	s.fails("load: /x/a.cmxs has extension .cmxs; this driver accepts .cma (got Sys.backend_type = Bytecode)", "load", "path", "/x/a.cmxs")
	s.fails("load: /x/a has extension (none); this driver accepts .cma (got Sys.backend_type = Bytecode)", "load", "path", "/x/a")
	s.fails("load: file not found: /x/a.cma", "load", "path", "/x/a.cma")
	s.write("mylib.ml", "let answer = 42\n")
	build := exec.Command("ocamlfind", "ocamlc", "-a", "-o", "mylib.cma", "mylib.ml")
	build.Dir = s.home
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	if r := parse[result](t, s.call("load", "path", filepath.Join(s.home, "mylib.cma"))); r.Error != nil || r.value() != "null" {
		t.Errorf("load: %+v", r)
	}
	if got := s.value("Mylib.answer;;"); got != "42" {
		t.Error(got)
	}
	corrupt := s.write("corrupt.cma", "")
	if r := parse[result](t, s.call("load", "path", corrupt)); r.Error == nil {
		t.Errorf("a corrupt archive: %+v", r)
	}
	if got := s.value("Mylib.answer;;"); got != "42" {
		t.Error(got)
	}
}

type compiled struct {
	OK         bool
	BinaryPath *string `json:"binary_path"`
	BuildLog   string  `json:"build_log"`
}

func TestCompile(t *testing.T) {
	t.Parallel()
	s := start(t)
	out := filepath.Join(s.home, "out")
	s.fails("missing 'entry' argument", "compile_to_binary", "out", out)
	s.fails("missing 'out' argument", "compile_to_binary", "entry", "main")
	s.eval(`let unused = 1;; let r = ref [];; let k = 4;; type t = A;; type t = B;; let k = 5;;`)
	s.eval(`#require "str";; let main () = r := [k]; ignore (Str.regexp "a"); print_int (List.hd !r);;`)
	s.fails("entry must be non-empty", "compile_to_binary", "entry", "", "out", out)
	s.fails("entry must begin with a letter or underscore", "compile_to_binary", "entry", "1a", "out", out)
	s.fails("entry may only contain [A-Za-z0-9_']", "compile_to_binary", "entry", "M.main", "out", out)
	s.fails("library name must be non-empty", "compile_to_binary", "entry", "main", "out", out, "libraries", []string{""})
	s.fails("invalid library name a b (allowed: [A-Za-z0-9._-])", "compile_to_binary", "entry", "main", "out", out, "libraries", []string{"a b"})
	s.fails("out must be an absolute path", "compile_to_binary", "entry", "main", "out", "rel")
	file := s.write("file", "x")
	s.fails("out exists and is not a directory: "+file, "compile_to_binary", "entry", "main", "out", file)
	s.fails("out directory is not empty and lacks the .topup-promote marker; refuse to clobber: "+s.home, "compile_to_binary", "entry", "main", "out", s.home)
	for range 2 { // a second time into the same folder
		c := parse[compiled](t, s.call("compile_to_binary", "entry", "main", "out", out))
		if !c.OK || *c.BinaryPath != out+"/main.exe" || !strings.Contains(c.BuildLog, "Entering directory") {
			t.Fatalf("%+v", c)
		}
		if printed, err := exec.Command(*c.BinaryPath).Output(); string(printed) != "5" {
			t.Errorf("%q %v", printed, err)
		}
	}
	if main, _ := os.ReadFile(out + "/main.ml"); !strings.HasSuffix(string(main), "let () = ignore (main ())\n") {
		t.Errorf("main.ml ends otherwise:\n%s", main)
	}
	for _, entry := range []string{"nosuch", "let"} {
		c := parse[compiled](t, s.call("compile_to_binary", "entry", entry, "out", out))
		if c.OK || c.BinaryPath != nil || !strings.Contains(c.BuildLog, "Error") {
			t.Errorf("%s: %+v", entry, c)
		}
	}
	fresh := start(t)
	fresh.fails("phrase log not found at "+fresh.home+"/.topup/history.ml", "compile_to_binary", "entry", "main", "out", fresh.home+"/o")
	tools := t.TempDir() // a PATH with OCaml and without dune and ocamlfind
	for _, name := range []string{"ocamlc", "ocamlrun", "ocamlopt", "ocaml", "as", "gcc", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			os.Symlink(path, filepath.Join(tools, name))
		}
	}
	bare := start(t, setting{"PATH", tools})
	bare.eval("let main () = ();;")
	if r := bare.call("compile_to_binary", "entry", "main", "out", bare.home+"/o"); !r.isError || !strings.HasPrefix(r.text, "compile_to_binary: ") || !strings.Contains(r.text, "dune") {
		t.Errorf("without dune: %+v", r)
	}
}

// TestBlobs: the hidden tools answer by name.
func TestBlobs(t *testing.T) {
	t.Parallel()
	s := start(t, setting{"TOPUP_XFER_MAX_BYTES", " 0x6_4 "}) // 100
	s.write("f.txt", "hello")
	path := filepath.Join(s.home, "f.txt")
	if r := s.call("_send_blob", "path", "~/f.txt"); r != (reply{`{"path":"` + path + `","data":"aGVsbG8=","bytes":5}`, false}) {
		t.Errorf("%+v", r)
	}
	target := filepath.Join(s.home, "a/b/g")
	if r := s.call("_recv_blob", "path", target, "data", "aGVsbG8="); r != (reply{`{"path":"` + target + `","bytes":5}`, false}) {
		t.Errorf("%+v", r)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	s.fails("missing 'path' argument", "_send_blob")
	s.fails("missing 'path' argument", "_recv_blob", "data", "")
	s.fails("missing 'data' argument", "_recv_blob", "path", "/x")
	s.fails("no such file: /nosuch", "_send_blob", "path", "/nosuch")
	s.fails("not a regular file: /dev/null", "_send_blob", "path", "/dev/null")
	s.fails("base64 decode: Wrong padding", "_recv_blob", "path", target, "data", "aGVsb")
	big := base64.StdEncoding.EncodeToString(make([]byte, 200))
	s.fails("payload too large: 200 bytes; cap is 100 (TOPUP_XFER_MAX_BYTES)", "_recv_blob", "path", target, "data", big)
	large := s.write("large", strings.Repeat("x", 101))
	s.fails("file too large: "+large+" is 101 bytes; cap is 100 (TOPUP_XFER_MAX_BYTES)", "_send_blob", "path", large)
	// The same from within a session, without a peer.
	if got := s.value(`Bytes.to_string (Topup.read_back "` + path + `");;`); got != `"hello"` {
		t.Error(got)
	}
	s.call("reset")
	s.eval(`Topup.write_back "` + path + `" (Bytes.of_string "a\000b");;`)
	if b, _ := os.ReadFile(path); string(b) != "a\x00b" {
		t.Errorf("%q", b)
	}
	if got := s.value(`Topup.read_back "/nosuch";;`); got != `runtime: Failure("Topup.read_back: no such file: /nosuch")` {
		t.Error(got)
	}
}

// TestList holds the list of tools to the contract: names, order, bare schemas.
func TestList(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.send(`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`)
	line := string(s.wait(`"l"`))
	var m struct {
		Result map[string][]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || len(m.Result) != 1 {
		t.Fatalf("%v: %s", err, line)
	}
	schemas := strings.Split(strings.TrimSpace(`
eval {"source":{"type":"string"},"timeout":{"type":"number"},"host":{"type":"string"},"session":{"type":"string"}} ["source"]
eval_batch {"sources":{"type":"array","items":{"type":"string"}},"timeout":{"type":"number"},"host":{"type":"string"},"session":{"type":"string"}} ["sources"]
env {"filter":{"type":"string"},"all":{"type":"boolean"},"host":{"type":"string"},"session":{"type":"string"}} []
lookup {"name":{"type":"string"},"host":{"type":"string"},"session":{"type":"string"}} ["name"]
reset {"host":{"type":"string"},"session":{"type":"string"}} []
cancel {"host":{"type":"string"},"session":{"type":"string"}} []
load {"path":{"type":"string"},"host":{"type":"string"},"session":{"type":"string"}} ["path"]
checkpoint {"label":{"type":"string"},"host":{"type":"string"},"session":{"type":"string"}} ["label"]
restore {"label":{"type":"string"},"host":{"type":"string"},"session":{"type":"string"}} ["label"]
compile_to_binary {"entry":{"type":"string"},"out":{"type":"string"},"libraries":{"type":"array","items":{"type":"string"}},"host":{"type":"string"},"session":{"type":"string"}} ["entry","out"]
push_file {"host":{"type":"string"},"local_path":{"type":"string"},"remote_path":{"type":"string"}} ["host","local_path"]
pull_file {"host":{"type":"string"},"remote_path":{"type":"string"},"local_path":{"type":"string"}} ["host","remote_path"]
start_session {"host":{"type":"string"},"remote_socket":{"type":"string"}} ["host"]
restart_session {"host":{"type":"string"}} ["host"]
update_host {"host":{"type":"string"},"description":{"type":"string"},"os":{"type":"string"}} ["host"]
start_local_session {"session":{"type":"string"},"prewarm":{"type":"string"},"pool":{"type":"number"}} ["session"]
restart_local_session {"session":{"type":"string"}} ["session"]
update_local_session {"session":{"type":"string"},"prewarm":{"type":"string"},"pool":{"type":"number"}} ["session"]`), "\n")
	tools := m.Result["tools"]
	if len(tools) != len(schemas) {
		t.Fatalf("%d tools", len(tools))
	}
	for i, want := range schemas {
		word := strings.Fields(want)
		schema := `{"type":"object","properties":` + word[1] + `,"required":` + word[2] + `}`
		if got := string(tools[i]["inputSchema"]); string(tools[i]["name"]) != `"`+word[0]+`"` || got != schema {
			t.Errorf("tool %d is %s\n got %s\nwant %s", i, tools[i]["name"], got, schema)
		}
		if n := len(tools[i]["description"]); n < 180 || n > 1400 || len(tools[i]) != 3 {
			t.Errorf("%s: description of %d bytes, %d members", word[0], n, len(tools[i]))
		}
	}
}
