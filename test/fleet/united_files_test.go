//go:build linux

package fleet

// push_file and pull_file: files and folders, refusals, what goes on after the reply,
// and what a broken connection leaves.

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/host"
	"topside/test/bed"
)

// A movedFile is the answer of a transfer.
type movedFile struct {
	State, Path, BLAKE3   string
	Bytes                 int64
	Files, Folders, Links int
	Total                 int64 `json:"total_bytes"`
	Resumed, Unchanged    bool
	Skipped               []struct{ Path, Why string }
}

// noise is a file whose bytes cannot be guessed.
func noise(t *testing.T, path string, size int, mode os.FileMode) string {
	t.Helper()
	b := make([]byte, size)
	var seed [32]byte
	copy(seed[:], path)
	_, _ = rand.NewChaCha8(seed).Read(b)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, mode); err != nil {
		t.Fatal(err)
	}
	sum := blake3.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestFilesAcross(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"}, farHost{name: "ro", entry: func(e *host.Entry) { e.ReadOnly = true }})
	there := w.hosts["alpha"].Home
	s := w.serve()
	local := filepath.Join(w.home, "big.bin")
	sum := noise(t, local, 20<<20, 0o750) // more than the topup contract's cap

	var m movedFile
	s.Get("push_file", bed.Arguments{"host": "alpha", "local_path": local}, &m)
	if m.State != "done" || m.Path != there+"/.topside/xfer/big.bin" || m.Bytes != 20<<20 || m.BLAKE3 != sum {
		t.Errorf("pushed: %+v", m)
	}
	if info, err := os.Stat(m.Path); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("over there: %v, %v", info, err)
	}
	fails(t, s, "push_file", bed.Arguments{"host": "alpha", "local_path": local}, "exists", "overwrite=true")
	m = movedFile{}
	s.Get("push_file", bed.Arguments{"host": "alpha", "local_path": local, "overwrite": true}, &m)
	if !m.Unchanged || m.Resumed || m.BLAKE3 != sum {
		t.Errorf("what is there already: %+v", m)
	}
	m = movedFile{}
	s.Get("push_file", bed.Arguments{"host": "alpha", "local_path": "~/big.bin", "remote_path": "~/sub/other.bin"}, &m)
	if m.Path != there+"/sub/other.bin" || m.Unchanged {
		t.Errorf("homes: %+v", m)
	}
	back := filepath.Join(w.home, "back.bin")
	s.Get("pull_file", bed.Arguments{"host": "alpha", "remote_path": "~/sub/other.bin", "local_path": back}, &m)
	if m.BLAKE3 != sum || m.Path != back {
		t.Errorf("pulled: %+v", m)
	}
	a, _ := os.ReadFile(local)
	b, _ := os.ReadFile(back)
	if !bytes.Equal(a, b) {
		t.Error("what came back differs")
	}
	s.Get("pull_file", bed.Arguments{"host": "alpha", "remote_path": "~/sub/other.bin"}, &m)
	if m.Path != filepath.Join(w.home, ".topside", "xfer", "other.bin") {
		t.Errorf("the default place here: %+v", m)
	}

	// Folders.
	tree := filepath.Join(w.home, "tree")
	noise(t, filepath.Join(tree, "a", "one"), 100, 0o600)
	noise(t, filepath.Join(tree, "b", "two"), 3<<20, 0o755)
	if err := os.Symlink("../a/one", filepath.Join(tree, "b", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(tree, "out")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(tree, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Get("push_file", bed.Arguments{"host": "alpha", "local_path": tree, "remote_path": "~/tree"}, &m)
	if m.Files != 2 || m.Links != 1 || len(m.Skipped) != 2 {
		t.Errorf("a folder: %+v", m)
	}
	s.Get("pull_file", bed.Arguments{"host": "alpha", "remote_path": "~/tree", "local_path": filepath.Join(w.home, "tree2")}, &m)
	if text, err := os.ReadFile(filepath.Join(w.home, "tree2", "b", "link")); err != nil || len(text) != 100 {
		t.Errorf("the folder that came back: %d bytes, %v", len(text), err)
	}

	// What cannot be read is left out, and nobody can overlook it.
	fails(t, s, "push_file", bed.Arguments{"host": "alpha", "local_path": "/proc/sys/kernel/random", "remote_path": "~/random"}, "incomplete", "left out", "boot_id", "file of the kernel")

	// The hint is about the side whose path it was.
	fails(t, s, "push_file", bed.Arguments{"host": "alpha", "local_path": "/nope"}, "missing", "local_path belongs to this machine")
	fails(t, s, "push_file", bed.Arguments{"host": "alpha", "local_path": "/dev/null"}, "not_file", "local_path belongs to this machine")
	fails(t, s, "pull_file", bed.Arguments{"host": "alpha", "remote_path": "/nope"}, "missing", "remote paths belong to the host")

	// Refusals.
	for _, c := range []struct {
		tool string
		a    bed.Arguments
		code string
	}{
		{"push_file", bed.Arguments{"host": "alpha", "local_path": "/nope"}, "missing"},
		{"push_file", bed.Arguments{"host": "alpha", "local_path": "/dev/null"}, "not_file"},
		{"push_file", bed.Arguments{"host": "alpha", "local_path": "a\x00b"}, "invalid"},
		{"push_file", bed.Arguments{"host": "alpha", "local_path": local, "remote_path": strings.Repeat("x", 5000)}, "invalid"},
		{"pull_file", bed.Arguments{"host": "alpha", "remote_path": "/nope"}, "missing"},
		{"pull_file", bed.Arguments{"host": "alpha", "remote_path": "/dev/zero"}, "not_file"},
		{"pull_file", bed.Arguments{"host": "alpha", "remote_path": "~/tree/fifo"}, "missing"},
		{"pull_file", bed.Arguments{"host": "beta", "remote_path": "/etc/passwd"}, "unknown_host"},
		{"push_file", bed.Arguments{"host": "ro", "local_path": local}, "denied"},
	} {
		fails(t, s, c.tool, c.a, c.code)
	}
	refused(t, s, "push_file", bed.Arguments{"host": "local", "local_path": local}, -32602, "this machine")
	refused(t, s, "push_file", bed.Arguments{"host": "-x", "local_path": local}, -32602, "begin with '-'")
	refused(t, s, "push_file", bed.Arguments{"host": "alpha", "local_path": local, "wait": 90}, -32602, "0 to 50")
	refused(t, s, "push_file", bed.Arguments{"local_path": local}, -32602, "required")
	// A host that may not be changed may be read.
	noise(t, filepath.Join(w.hosts["ro"].Home, "f"), 10, 0o600)
	s.Get("pull_file", bed.Arguments{"host": "ro", "remote_path": "~/f", "local_path": filepath.Join(w.home, "from-ro")}, &m)

	if run := w.call("pull_file", "host=alpha", "remote_path=~/sub/other.bin", "local_path="+filepath.Join(w.home, "by-call")); run.Status != 0 || !strings.Contains(run.Stdout, "done: ") {
		t.Errorf("topside call: %+v", run)
	}
}

// A transfer outlives the call that began it, tells how far it is, and goes on after
// its connection is killed; one whose call is cancelled stops.
func TestLongTransfers(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	s := w.serve()
	local := filepath.Join(w.home, "long.bin")
	sum := noise(t, local, 96<<20, 0o600)
	a := bed.Arguments{"host": "alpha", "local_path": local, "wait": 0.05}
	var m movedFile
	text := s.Get("push_file", a, &m).Text()
	if m.State != "running" || !strings.Contains(text, "the same call again follows it") {
		t.Errorf("after a moment: %+v", m)
	}
	// The connection dies, more than once.
	for range 2 {
		for _, pid := range w.hosts["alpha"].Sessions() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(50 * time.Millisecond)
	}
	a["wait"] = 40
	id := s.Ask("tools/call", map[string]any{"name": "push_file", "arguments": a, "_meta": map[string]any{"progressToken": "p"}})
	reply := s.AwaitFor(id, 60*time.Second)
	r := bed.ResultOf(t, reply)
	if r.Failed() || !strings.Contains(r.Text(), sum) {
		t.Errorf("after a broken connection: %s", r.Text())
	}

	// A call that is cancelled stops the transfer, and leaves nothing.
	pulled := filepath.Join(w.home, "in", "long.bin")
	id = s.AskCall("pull_file", bed.Arguments{"host": "alpha", "remote_path": "~/.topside/xfer/long.bin", "local_path": pulled})
	s.Note("notifications/cancelled", map[string]any{"requestId": id2json(id)})
	fleettest.Eventually(t, waitLong, "the transfer goes on", func() bool {
		left, _ := filepath.Glob(filepath.Join(w.home, "in", "*"))
		hidden, _ := filepath.Glob(filepath.Join(w.home, "in", ".*"))
		return len(left)+len(hidden) == 0
	})
	// And one that is under way does not keep the server.
	s.Get("push_file", bed.Arguments{"host": "alpha", "local_path": local, "remote_path": "~/again.bin", "wait": 0.02}, &m)
	if status, took := s.Close(waitLong); status != 0 || took > 3*time.Second {
		t.Errorf("ended with %d after %v", status, took)
	}
	w.quiet()
	if _, err := os.Stat(w.hosts["alpha"].Home + "/again.bin"); err == nil && m.State == "running" {
		t.Log("the second transfer was fast enough to end") // no fault
	}
}

// id2json is an id as it is sent.
func id2json(id string) any {
	var n int
	if _, err := fmt.Sscan(id, &n); err == nil {
		return n
	}
	return id
}
