package session

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/compute/engine"
	"topside/internal/compute/engine/javascript"
	"topside/internal/compute/engine/ocaml"
)

// camlCache holds the compiled driver for all tests of the package.
var camlCache string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == javascript.Argument {
		os.Exit(javascript.Main(os.Args[2:]))
	}
	dir, err := os.MkdirTemp("", "topside-session-test-")
	if err != nil {
		panic(err)
	}
	camlCache = dir
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func caml() engine.Language { return &ocaml.Language{Cache: camlCache} }

// world is a session with its folders.
type world struct {
	*testing.T
	*Session
	dir string
	ctx context.Context
}

func open(t *testing.T, change func(*Options)) *world {
	t.Helper()
	return openIn(t, t.TempDir(), change)
}

func openIn(t *testing.T, dir string, change func(*Options)) *world {
	t.Helper()
	o := Options{
		Language: caml(), LogPath: filepath.Join(dir, "history.ml"),
		CheckpointDir: filepath.Join(dir, "checkpoints"), Spill: NewSpill(filepath.Join(dir, "spill")),
	}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	s, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); o.Spill.Close() })
	return &world{t, s, dir, ctx}
}

// eval fails the test when the session does.
func (w *world) eval(source string) Result {
	w.Helper()
	r, err := w.Session.Eval(w.ctx, Request{Source: source, Timeout: 20 * time.Second})
	if err != nil {
		w.Fatalf("eval %q: %v", source, err)
	}
	return r
}

// value evaluates source that must succeed and returns its value.
func (w *world) value(source string) string {
	w.Helper()
	r := w.eval(source)
	if r.Err != nil {
		w.Fatalf("eval %q: %v (stderr %q)", source, r.Err, r.Stderr.Head)
	}
	if r.Value == nil {
		return ""
	}
	return r.Value.Head
}

func (w *world) log() string {
	w.Helper()
	b, err := os.ReadFile(w.Log().Path())
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	return string(b)
}
