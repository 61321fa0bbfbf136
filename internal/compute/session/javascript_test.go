package session

import (
	"os"
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
	before := w.Log().Len()
	if w.value("kept"); w.Log().Len() != before {
		t.Errorf("a query is in the log: %q", w.log())
	}
	path, err := w.Checkpoint(w.ctx, "js")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); !strings.HasPrefix(string(b), "var n = 1;\nvar add = (a, b) => a + b;\nvar twice = function") || filepath.Ext(path) != ".js" {
		t.Errorf("%s", b)
	}
	w.eval("n = 0")
	if r, err := w.Restore(w.ctx, "js"); err != nil || r.Err != nil {
		t.Fatalf("%v %+v", err, r.Err)
	}
	if got := w.value("n"); got != "42" {
		t.Error(got)
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
