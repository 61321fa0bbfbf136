package session

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSpillBound: the oldest files go when there are more than the bound allows, and the reply says so.
func TestSpillBound(t *testing.T) {
	w := open(t, func(o *Options) { o.Spill.most = 100_000 })
	long := func() Result { return w.eval("print_string (String.make 40000 'o');;") }
	first, second, third := long(), long(), long()
	if len(first.Notes)+len(second.Notes) > 0 || len(third.Notes) != 1 || !strings.HasPrefix(third.Notes[0], "1 older long outputs") {
		t.Errorf("%v %v %v", first.Notes, second.Notes, third.Notes)
	}
	if _, err := os.Stat(first.Stdout.Path); !os.IsNotExist(err) {
		t.Errorf("the first is there: %v", err)
	}
	for _, r := range []Result{second, third} {
		if b, err := os.ReadFile(r.Stdout.Path); err != nil || len(b) != 40000 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
	// One alone may be longer than the bound.
	if r := w.eval("print_string (String.make 200000 'o');;"); r.Stdout.Path == "" || len(r.Notes) != 1 {
		t.Errorf("%v", r.Notes)
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(third.Stdout.Path), "*.txt"))
	if len(files) != 1 {
		t.Errorf("%v", files)
	}
}

// TestLogCatchesUp: what could not be written is written later, whole and in order.
func TestLogCatchesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.ml")
	l := newLog(path)
	add := func(text string) error { return l.add([]entry{{text: text}}) }
	if err := add("let a = 1;;\n"); err != nil {
		t.Fatal(err)
	}
	good := l.file
	var err error
	if l.file, err = os.Open(path); err != nil { // which cannot be written to
		t.Fatal(err)
	}
	for _, text := range []string{"let b = 2;;\n", "let c = 3;;\n"} {
		if add(text) == nil {
			t.Error("written")
		}
	}
	l.file.Close()
	l.file = good
	if err := add("let d = 4;;\n"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "let a = 1;;\nlet b = 2;;\nlet c = 3;;\nlet d = 4;;\n" {
		t.Errorf("%q", b)
	}
	// A log that could not be replaced is replaced by the next write, and not appended to.
	blocker := path + ".tmp"
	os.Mkdir(blocker, 0o700)
	if l.replace([]entry{{text: "let e = 5;;\n"}}, "") == nil {
		t.Error("replaced")
	}
	if add("let f = 6;;\n") == nil {
		t.Error("written")
	}
	os.Remove(blocker)
	if err := add("let g = 7;;\n"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "let e = 5;;\nlet f = 6;;\nlet g = 7;;\n" {
		t.Errorf("%q", b)
	}
	if b, _ := os.ReadFile(path + ".1"); !bytes.HasSuffix(b, []byte("let d = 4;;\n")) {
		t.Errorf("the old one: %q", b)
	}
	l.close()
}

// TestRestoredExcerpt: the compiler shows the line of a restored file, as of any other.
func TestRestoredExcerpt(t *testing.T) {
	w := open(t, nil)
	os.MkdirAll(w.o.CheckpointDir, 0o700)
	os.WriteFile(filepath.Join(w.o.CheckpointDir, "warns.ml"), []byte("let a = 1;;\nlet f = function 0 -> a;;\n"), 0o600)
	r, err := w.Restore(w.ctx, "warns")
	if err != nil || r.Err != nil || len(r.Warnings) != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	if !strings.Contains(r.Stderr.Head, "2 | let f = function 0 -> a") {
		t.Errorf("%s", r.Stderr.Head)
	}
	w.Session.Close()
	w = openIn(t, w.dir, func(o *Options) { o.Resume = true })
	if got := w.value("f 0;;"); got != "1" {
		t.Error(got)
	}
}

// TestPrewarmLimit: a prewarm file that does not end is stopped, also where a log is evaluated after it.
func TestPrewarmLimit(t *testing.T) {
	old := prewarmLimit
	prewarmLimit = 300 * time.Millisecond
	defer func() { prewarmLimit = old }()
	dir := t.TempDir()
	w := openIn(t, dir, nil)
	w.eval("let a = 1;;")
	w.Session.Close()
	endless := filepath.Join(dir, "endless.ml")
	os.WriteFile(endless, []byte("while true do try while true do () done with _ -> () done"), 0o600)
	_, err := Open(w.ctx, Options{Language: caml(), LogPath: filepath.Join(dir, "history.ml"), Resume: true, Prewarm: endless})
	if want := fmt.Sprintf("not ready after 0 s: %s", endless); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	w = openIn(t, dir, func(o *Options) { o.Resume = true })
	if got := w.value("a;;"); got != "1" {
		t.Error(got)
	}
}

// TestReplayTime: each phrase has the time that it needs; the quick ones are evaluated together.
func TestReplayTime(t *testing.T) {
	quick, slow := entry{text: "a"}, entry{text: "b", took: 30 * time.Second}
	if got := slow.again(); got != replayEach+300*time.Second {
		t.Error(got)
	}
	if got := replayTime([]entry{quick, slow, quick, slow}); got != replayLimit+2*slow.again() {
		t.Error(got)
	}
	w := open(t, nil)
	if got := w.batch([]entry{quick, quick, slow, quick}, &suspect{}); got != 2 {
		t.Errorf("%d in a batch", got)
	}
	w.eval("let a = 1;;")
	w.eval("let b = Unix.sleepf 0.3; 2;;")
	if e := w.Log().entries; e[0].took > quickPhrase || e[1].took < 300*time.Millisecond {
		t.Errorf("%v %v", e[0].took, e[1].took)
	}
}

// Directives that fail are failures, whatever they print.
func TestFailingDirectives(t *testing.T) {
	w := open(t, nil)
	w.eval("let x = 1;; let f y = y + 1;;")
	for source, want := range map[string]string{
		"#trace x;;": "x is not a function.", "#trace nosuch;;": "Unbound value nosuch.", "#untrace f;;": "f was not traced.",
		"#labels 3;;": "Wrong type of argument for directive `labels'.", "#show_type nosuch;;": "nosuch",
	} {
		r := w.eval(source)
		if r.Err == nil || !strings.Contains(r.Err.Message, want) {
			t.Errorf("%s: %+v %q", source, r.Err, r.Stdout.Head)
		}
	}
	for _, source := range []string{"#trace f;;", "#trace f;;", "f 1;;", "#untrace f;;", "#untrace_all;;", "#show f;;", "#print_depth 3;;"} {
		if r := w.eval(source); r.Err != nil {
			t.Errorf("%s: %+v", source, r.Err)
		}
	}
}
