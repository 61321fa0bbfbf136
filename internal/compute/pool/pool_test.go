package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/compute/engine"
	"topside/internal/compute/engine/javascript"
	"topside/internal/compute/engine/ocaml"
	"topside/internal/compute/session"
)

var camlCache string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == javascript.Argument {
		os.Exit(javascript.Main(os.Args[2:]))
	}
	dir, err := os.MkdirTemp("", "topside-pool-test-")
	if err != nil {
		panic(err)
	}
	camlCache = dir
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func open(t testing.TB, dir string, change func(*Options)) *Pool {
	o := Options{
		Languages: []engine.Language{&ocaml.Language{Cache: camlCache}, &javascript.Language{}},
		LogPath:   filepath.Join(dir, "history.ml"), CheckpointDir: filepath.Join(dir, "checkpoints"),
		SpillDir: filepath.Join(dir, "spill"), RegistryPath: filepath.Join(dir, "sessions.json"),
	}
	if change != nil {
		change(&o)
	}
	p := New(o)
	t.Cleanup(func() { p.Close() })
	return p
}

func eval(t testing.TB, s *session.Session, source string) session.Result {
	t.Helper()
	r, err := s.Eval(context.Background(), session.Request{Source: source})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func value(t testing.TB, s *session.Session, source string) string {
	t.Helper()
	r := eval(t, s, source)
	if r.Err != nil || r.Value == nil {
		return fmt.Sprint("error: ", r.Err)
	}
	return r.Value.Head
}

func named(t testing.TB, p *Pool, name string) *session.Session {
	t.Helper()
	s, err := p.Session(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNamedSessions(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	p := open(t, dir, nil)
	warm := filepath.Join(dir, "warm.ml")
	os.WriteFile(warm, []byte("let warm = 5"), 0o600)
	if _, err := p.Session("w"); err == nil || err.Error() != "session not registered: w (call start_local_session { session: w } first)" {
		t.Error(err)
	}
	if err := p.Start(ctx, StartRequest{Name: "w", Prewarm: &warm, Pool: 3}); err != nil {
		t.Fatal(err)
	}
	w, w1 := named(t, p, "w"), named(t, p, "w.1")
	named(t, p, "w.2")
	eval(t, w, "let mine = 1;;")
	if r := eval(t, w1, "mine;;"); r.Err == nil {
		t.Error("siblings share bindings")
	}
	if got := value(t, w1, "warm;;"); got != "5" {
		t.Error(got)
	}
	// A sibling branches off by way of a checkpoint.
	if _, err := w.Checkpoint(ctx, "branch"); err != nil {
		t.Fatal(err)
	}
	if r, err := w1.Restore(ctx, "branch"); err != nil || r.Err != nil {
		t.Fatalf("%v %+v", err, r.Err)
	}
	if got := value(t, w1, "mine;;"); got != "1" {
		t.Error(got)
	}
	local, err := p.Local(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if r := eval(t, local, "mine;;"); r.Err == nil {
		t.Error("the default session shares bindings")
	}
	other := filepath.Join(dir, "other.ml")
	os.WriteFile(other, []byte("let warm = 6"), 0o600)
	if err := p.Update("w", &other, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	w = named(t, p, "w")
	if got := value(t, w, "warm;;"); got != "6" {
		t.Error("restart uses the old prewarm: " + got)
	}
	if r := eval(t, w, "mine;;"); r.Err == nil {
		t.Error("bindings survive a restart")
	}
	b, err := os.ReadFile(filepath.Join(dir, "sessions.json"))
	if err != nil || !strings.Contains(string(b), `"name": "w.2"`) || !strings.Contains(string(b), `"pool": 3`) {
		t.Errorf("%s %v", b, err)
	}
	if info, _ := os.Stat(filepath.Join(dir, "sessions.json")); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{p.Start(ctx, StartRequest{Name: "local"}), "session 'local' is the in-process session; start_local_session is for named subprocesses"},
		{p.Restart(ctx, ""), "session 'local' is the in-process session; restart_local_session is for named subprocesses"},
		{p.Restart(ctx, "nosuch"), "session not registered: nosuch"},
		{p.Update("local", nil, nil), "session 'local' has no mutable metadata"},
		{p.Update("nosuch", nil, nil), "session not registered: nosuch"},
		{p.Start(ctx, StartRequest{Name: "x", Engine: "cobol"}), `no engine "cobol" here; available: ocaml, javascript`},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
	bad := filepath.Join(dir, "bad.ml")
	os.WriteFile(bad, []byte(`failwith "prewarm boom"`), 0o600)
	err = p.Start(ctx, StartRequest{Name: "b", Prewarm: &bad})
	var connect *ConnectError
	if !errors.As(err, &connect) || err.Error() != `prewarm b: Failure("prewarm boom")` {
		t.Error(err)
	}
	if _, err := p.Session("b"); err == nil {
		t.Error("a failed start is registered")
	}
}

// TestServerRestart: named sessions are known to the next server, and come back with their state when asked for it.
func TestServerRestart(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	p := open(t, dir, nil)
	if err := p.Start(ctx, StartRequest{Name: "a b/é", Engine: "javascript"}); err != nil {
		t.Fatal(err)
	}
	eval(t, named(t, p, "a b/é"), "let x = 1; function f() { return x + 1 }")
	p.Close()
	p = open(t, dir, nil)
	l := p.List()
	if len(l) != 1 || l[0].Live || l[0].Name != "a b/é" || l[0].LastSeen.IsZero() {
		t.Fatalf("%+v", l)
	}
	if err := p.Start(ctx, StartRequest{Name: "a b/é", Resume: true}); err != nil {
		t.Fatal(err)
	}
	if got := value(t, named(t, p, "a b/é"), "f()"); got != "2" {
		t.Error(got)
	}
}

// TestTwoServers: one registry, one configured log, two servers.
func TestTwoServers(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	a, b := open(t, dir, nil), open(t, dir, nil)
	for i, p := range []*Pool{a, b} {
		if err := p.Start(ctx, StartRequest{Name: "same"}); err != nil {
			t.Fatal(err)
		}
		if err := p.Start(ctx, StartRequest{Name: fmt.Sprint("own", i)}); err != nil {
			t.Fatal(err)
		}
		eval(t, named(t, p, "same"), fmt.Sprintf("let who = %d;;", i))
	}
	for i, p := range []*Pool{a, b} {
		log, err := os.ReadFile(named(t, p, "same").Log().Path())
		if err != nil || string(log) != fmt.Sprintf("let who = %d;;\n", i) {
			t.Errorf("server %d: %q %v", i, log, err)
		}
	}
	c := open(t, dir, nil)
	if l := c.List(); len(l) != 3 {
		t.Errorf("%+v", l)
	}
}

func TestCorruptRegistry(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "sessions.json"), []byte("{nonsense"), 0o600)
	p := open(t, dir, nil)
	if err := p.Start(context.Background(), StartRequest{Name: "w"}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "sessions.json.corrupt")); err != nil || string(b) != "{nonsense" {
		t.Errorf("%q %v", b, err)
	}
}

func TestSpares(t *testing.T) {
	p := open(t, t.TempDir(), func(o *Options) { o.Spares = 1 })
	for i := range 5 {
		if err := p.Start(context.Background(), StartRequest{Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if got := value(t, named(t, p, fmt.Sprint(i)), "1+1;;"); got != "2" {
				t.Error(got)
			}
		})
	}
	wg.Wait()
	begin := time.Now()
	p.Close()
	t.Logf("closed in %v", time.Since(begin))
	if _, err := p.Local(context.Background()); !errors.Is(err, session.ErrClosed) {
		t.Error(err)
	}
}
