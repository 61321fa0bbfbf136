//go:build linux

package fleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"topside/test/bed"
)

// Files that cross between machines are written down as what is done to processes is:
// those that were let through, with what became of them, and those that were not.
func TestTransfersAreWrittenDown(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"}, farHost{name: "prod-1"})
	w.write(".config/topside/policy", "deny tool=push_file host=prod-* because \"no code there\"\n")
	s := w.serve()
	local := filepath.Join(w.home, "file")
	noise(t, local, 100, 0o600)
	var m movedFile
	s.Get("push_file", bed.Arguments{"host": "alpha", "local_path": local, "remote_path": "~/there"}, &m)
	s.Get("pull_file", bed.Arguments{"host": "alpha", "remote_path": "~/there", "local_path": local + "2"}, &m)
	fails(t, s, "pull_file", bed.Arguments{"host": "alpha", "remote_path": "~/nope"}, "missing")
	fails(t, s, "push_file", bed.Arguments{"host": "prod-1", "local_path": local}, "denied")

	type entry struct {
		Stage, Tool, Host, Verdict, Outcome, Reason, Local, Remote string
	}
	text, err := os.ReadFile(filepath.Join(w.home, ".local", "state", "topside", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	var got []entry
	for line := range strings.Lines(string(text)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []entry{
		{"decided", "push_file", "alpha", "allow", "", "", local, "~/there"},
		{"done", "push_file", "alpha", "allow", "done", "", local, "~/there"},
		{"decided", "pull_file", "alpha", "allow", "", "", local + "2", "~/there"},
		{"done", "pull_file", "alpha", "allow", "done", "", local + "2", "~/there"},
		{"decided", "pull_file", "alpha", "allow", "", "", "", "~/nope"},
		{"done", "pull_file", "alpha", "allow", "failed", "no such file", "", "~/nope"},
		{"decided", "push_file", "prod-1", "deny", "", "no code there", local, ""},
	}
	if len(got) != len(want) {
		t.Fatalf("%d entries:\n%s", len(got), text)
	}
	for i, e := range got {
		if !strings.Contains(e.Reason, want[i].Reason) || (want[i].Reason == "") != (e.Reason == "") {
			t.Errorf("entry %d: reason %q", i, e.Reason)
		}
		if e.Reason = want[i].Reason; e != want[i] {
			t.Errorf("entry %d: %+v, want %+v", i, e, want[i])
		}
	}

	// What cannot be written down is not done.
	log := filepath.Join(w.home, ".local", "state", "topside", "audit.log")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(log, 0o700); err != nil {
		t.Fatal(err)
	}
	fails(t, s, "push_file", bed.Arguments{"host": "alpha", "local_path": local, "remote_path": "~/unwritten"}, "audit_failed", "nothing was done")
	if _, err := os.Stat(filepath.Join(w.hosts["alpha"].Home, "unwritten")); !os.IsNotExist(err) {
		t.Errorf("it was sent all the same: %v", err)
	}
}
