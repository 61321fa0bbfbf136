package session

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"topside/internal/compute/engine/javascript"
)

// TestJavaScript: the same session around the other engine. Recovery is by replay.
func TestJavaScript(t *testing.T) {
	w := open(t, func(o *Options) {
		o.Language = &javascript.Language{}
		o.LogPath = strings.TrimSuffix(o.LogPath, ".ml") + ".js"
	})
	w.eval("let n = 1; const add = (a, b) => a + b")
	w.eval("function twice(x) { return add(x, x) }\nclass Box { constructor(v) { this.v = v } }")
	if got := w.value("let n = twice(21)\nnew Box(n)"); got != "Box { v: 42 }" {
		t.Error(got)
	}
	if r := w.eval("let kept = 5; nosuch(); let never = 6"); r.Err == nil || r.Err.Location.Line != 1 {
		t.Errorf("%+v", r.Err)
	}
	r := w.eval("console.log('bye'); exit(3)")
	if r.Err == nil || r.Err.Message != "the toplevel's process exited with code 3" || r.Stdout.Head != "bye\n" || r.Recovery == nil || r.Recovery.By != ByReplay || len(r.Recovery.Failed) > 0 {
		t.Errorf("%+v %+v", r.Err, r.Recovery)
	}
	if got := w.value("kept + n"); got != "47" {
		t.Error(got)
	}
	r = w.eval("console.error('mine'); 1n << (1n << 38n)")
	if r.Err == nil || r.Err.Message != "the engine's process ended: out of memory" || r.Stderr.Head != "mine\n" || r.Recovery == nil {
		t.Errorf("%+v %+v %q", r.Err, r.Recovery, r.Stderr.Head)
	}
	if r = w.eval("kept + n"); r.LateStderr.Head != "" || r.Value == nil || r.Value.Head != "47" {
		t.Errorf("%+v %q", r.Value, r.LateStderr.Head)
	}
	before := w.Log().Len()
	if w.value("kept"); w.Log().Len() != before {
		t.Errorf("a query is in the log: %q", w.log())
	}
	path, err := w.Checkpoint(w.ctx, "js")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	head, program, _ := strings.Cut(string(b), "\n\n")
	if !strings.HasPrefix(program, "var n = 1;\nvar add = (a, b) => a + b;\nvar twice = function") || filepath.Ext(path) != ".js" {
		t.Errorf("%s", b)
	}
	for line := range strings.Lines(head) {
		if !strings.HasPrefix(line, "// ") {
			t.Errorf("not a comment: %s", line)
		}
	}
	if !strings.HasPrefix(head, `// topside: checkpoint js of the session "local", 20`) || !strings.Contains(head, "node FILE") || !strings.Contains(head, "goja") {
		t.Errorf("%s", head)
	}
	run := exec.Command("node", "-")
	run.Stdin = strings.NewReader(string(b) + "\nconsole.log(n, kept, new Box(3).v)")
	if out, err := run.CombinedOutput(); err != nil || string(out) != "42 5 3\n" {
		t.Errorf("node: %v %s", err, out)
	}
	w.eval("n = 0")
	if r, err := w.Restore(w.ctx, "js"); err != nil || r.Err != nil {
		t.Fatalf("%v %+v", err, r.Err)
	}
	if got := w.value("n"); got != "42" {
		t.Error(got)
	}
	if path, err = w.Checkpoint(w.ctx, "again"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); strings.Count(string(b), "// topside: ") != 1 {
		t.Errorf("headers: %s", b)
	}
	bs, err := w.Env(w.ctx, false, "")
	if err != nil || len(bs) != 5 {
		t.Errorf("%+v %v", bs, err)
	}
	res, err := w.Session.Eval(w.ctx, Request{Source: "while (true) {}", Timeout: 100 * time.Millisecond})
	if err != nil || res.Err == nil || res.Err.Message != "evaluation timed out" || res.Recovery != nil {
		t.Errorf("%+v %v", res.Err, err)
	}
	if _, err := w.Promote(w.ctx, "main", "/tmp/x", nil); err == nil {
		t.Error("a JavaScript session was promoted")
	}
	if r, err := w.EvalBatch(w.ctx, []string{"1", "await 2", "x ="}, 0); err != nil || len(r) != 3 || r[2].Err.Phase != "typecheck" {
		t.Errorf("%+v %v", r, err)
	}
}
