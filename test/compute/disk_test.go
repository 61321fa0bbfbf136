//go:build linux

package compute

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFullDisk: when there is no room, evaluations go on and say what is not kept;
// what was kept before stays, and what could not be written is written later.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := start(t, setting{"disk", "900"})
	s.eval("let a = 1;;")
	if r := s.call("checkpoint", "label", "good"); r.isError {
		t.Fatalf("%+v; %s", r, s.stderr)
	}
	// The third long output takes the place of the first.
	var paths []string
	for range 3 {
		r := s.eval("print_string (String.make 400_000 'x');;")
		if r.StdoutOverflow == nil {
			t.Fatalf("not kept: %.300q %v", r.Stdout, r.Notes)
		}
		paths = append(paths, r.StdoutOverflow.Path)
	}
	if got := s.value(fmt.Sprintf("List.map Sys.file_exists [%q; %q; %q];;", paths[0], paths[1], paths[2])); got != "[false; true; true]" {
		t.Errorf("outputs that are there: %s", got)
	}
	fill := s.eval(`let junk = Filename.concat (Sys.getenv "HOME") "junk";;
		let () = let oc = open_out junk in try while true do output_string oc (String.make 500 'z'); flush oc done with Sys_error e -> close_out_noerr oc; print_string e;;`)
	if fill.Stdout != "No space left on device" {
		t.Fatalf("%+v", fill)
	}
	var notes []string
	for i := range 300 {
		r := s.eval(fmt.Sprintf("let v%d = \"%s\";;", i, strings.Repeat("y", 100)))
		if r.Error != nil {
			t.Fatal(r.message())
		}
		notes = append(notes, r.Notes...)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "the phrase log cannot be written: ") || !strings.Contains(notes[0], "no space left on device") {
		t.Errorf("%v", notes)
	}
	if r := s.call("checkpoint", "label", "good"); !r.isError || !strings.HasPrefix(r.text, "checkpoint: ") {
		t.Errorf("%+v", r)
	}
	if r := s.call("start_local_session", "session", "w"); r.isError {
		t.Errorf("%+v", r)
	}
	if got := s.value("1;;", "session", "w"); got != "1" {
		t.Error(got)
	}
	if got := s.value("exit 3;;"); !strings.Contains(got, "exited with code 3") {
		t.Error(got)
	}
	if got := s.value("String.length v299 + a;;"); got != "101" {
		t.Errorf("after a recovery: %s", got)
	}
	s.eval("Sys.remove junk;;")
	s.eval("let late = 2;;")
	if r := s.call("checkpoint", "label", "all"); r.isError {
		t.Errorf("%+v", r)
	}
	if r := s.eval(`let lines f = let ic = open_in (Filename.concat (Sys.getenv "HOME") f) in
		let rec go n = match input_line ic with _ -> go (n + 1) | exception End_of_file -> n in go 0;;
		lines ".topup/history.ml" - lines ".topup/checkpoints/all.ml", lines ".topup/checkpoints/good.ml";;`); r.value() != "(0, 1)" {
		t.Errorf("lines that the log has more, and of the first checkpoint: %s %s", r.value(), r.message())
	}
	if r := parse[result](t, s.call("restore", "label", "all")); r.Error != nil {
		t.Error(r.message())
	}
	if got := s.value("String.length v299 + a + late;;"); got != "103" {
		t.Error(got)
	}
	if got := s.end(); got != 0 {
		t.Errorf("status %d", got)
	}
}

// TestOddPaths: variables that name what they must not. The server works, says what
// it cannot keep, and leaves what is there alone.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ variable, kind, says string }{
		{"TOPUP_LOG", "folder", "the phrase log cannot be written"},
		{"TOPUP_LOG", "below a file", "the phrase log cannot be written"},
		{"TOPUP_LOG", "device", "the phrase log cannot be written"},
		{"TOPUP_LOG", "missing", ""},
		{"TOPUP_CHECKPOINT_DIR", "file", "checkpoint: "},
		{"TOPUP_CHECKPOINT_DIR", "missing", ""},
		{"TOPUP_SPILL_DIR", "file", "long output could not be kept"},
		{"TOPUP_SPILL_DIR", "missing", ""},
		{"TOPUP_SESSIONS_FILE", "folder", "remembered by this server only"},
		{"TOPUP_SESSIONS_FILE", "below a file", "remembered by this server only"},
		{"TOPUP_SESSIONS_FILE", "garbage", ""},
		{"TOPUP_SESSIONS_FILE", "missing", ""},
	} {
		t.Run(c.variable+" "+c.kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "it")
			switch c.kind {
			case "folder":
				os.Mkdir(path, 0o700)
			case "file", "garbage":
				os.WriteFile(path, []byte("{mine"), 0o600)
			case "below a file":
				os.WriteFile(path, []byte("{mine"), 0o600)
				path += "/x/y"
			case "device":
				path = "/dev/full"
			case "missing":
				path += "/deep/er"
			}
			s := start(t, setting{c.variable, path})
			var told strings.Builder
			r := s.eval("let a = 1;;")
			fmt.Fprintln(&told, r.message(), r.Notes)
			r = s.eval("print_string (String.make 9000 'x');;")
			fmt.Fprintln(&told, r.message(), r.Notes)
			fmt.Fprintln(&told, s.call("checkpoint", "label", "l").text)
			if r := s.call("start_local_session", "session", "w"); r.isError {
				t.Errorf("%+v", r)
			}
			if got := s.value("a;;"); got != "1" {
				t.Error(got)
			}
			if got := s.end(); got != 0 {
				t.Errorf("status %d", got)
			}
			told.WriteString(s.stderr.String())
			for _, trouble := range []string{"the phrase log cannot be written", "checkpoint: ", "long output could not be kept", "remembered by this server only"} {
				if strings.Contains(told.String(), trouble) != (trouble == c.says) {
					t.Errorf("says %q: %v\n%s", trouble, trouble != c.says, told.String())
				}
			}
			if info, err := os.Stat(path); c.kind == "folder" && (err != nil || !info.IsDir()) {
				t.Errorf("the folder is gone: %v", err)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "it")); c.kind == "file" && string(b) != "{mine" {
				t.Errorf("the file is another: %q %v", b, err)
			}
		})
	}
}

// TestWithoutBuilder: a missing dune is named, with its package.
func TestWithoutBuilder(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.eval("let main () = print_endline \"42\";;")
	out := filepath.Join(s.home, "out")
	bare := start(t, setting{"HOME", s.home}, setting{"PATH", onlyOCaml(t)})
	bare.eval("let main () = print_endline \"42\";;")
	if r := bare.call("compile_to_binary", "entry", "main", "out", out); !r.isError || !strings.HasPrefix(r.text, "compile_to_binary: dune: ") || !strings.Contains(r.text, "apt-get install ocaml-dune") {
		t.Errorf("%+v", r)
	}
	if got := bare.value("1;;"); got != "1" {
		t.Error(got)
	}
}
