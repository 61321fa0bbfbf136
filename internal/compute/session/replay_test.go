//go:build unix

package session

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestReplayFailure: a phrase that cannot be evaluated again is named, and those around it are back.
func TestReplayFailure(t *testing.T) {
	w := open(t, nil)
	file := filepath.Join(w.dir, "there")
	os.WriteFile(file, nil, 0o600)
	for i := range 60 {
		w.eval(fmt.Sprintf("let v%d = %d;;", i, i))
		if i == 30 {
			w.eval(fmt.Sprintf("let size = in_channel_length (open_in %q);;", file))
		}
	}
	os.Remove(file)
	w.current().Close()
	r := w.eval("v0 + v29 + v30 + v31 + v59;;")
	if r.Recovery == nil || r.Recovery.By != ByReplay || r.Recovery.Replayed != 61 || len(r.Recovery.Failed) != 1 || head(r.Value, "") != "149" {
		t.Errorf("%+v %+v", r.Recovery, r.Value)
	}
	if f := r.Recovery.Failed; len(f) == 1 && f[0].Source != fmt.Sprintf("let size = in_channel_length (open_in %q);;\n", file) {
		t.Errorf("%+v", f)
	}
}

// TestDeadlyPhrase: a phrase that ends the process when it is evaluated again is left out, and said to be.
func TestDeadlyPhrase(t *testing.T) {
	w := open(t, nil)
	file := filepath.Join(w.dir, "there")
	os.WriteFile(file, nil, 0o600)
	w.eval("let before = 1;;")
	w.eval(fmt.Sprintf("if not (Sys.file_exists %q) then exit 7;;", file))
	w.eval("let after = 2;;")
	os.Remove(file)
	w.current().Close()
	r := w.eval("before + after;;")
	if r.Recovery == nil || len(r.Recovery.Failed) != 1 || r.Recovery.Failed[0].Message != "not evaluated again: it ends the process" || head(r.Value, "") != "3" {
		t.Errorf("%+v %+v %+v", r.Recovery, r.Value, r.Err)
	}
}
