//go:build unix

package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"topside/internal/compute/engine"
)

// slowLog is a log that takes a moment to be evaluated again.
const slowLog = "let a = 1;;\nlet () = Unix.sleepf 1.;;\nlet z = 26;;\n"

// slow writes the slow log into a folder and returns the options that resume it.
func slow(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Language: caml(), LogPath: filepath.Join(dir, "history.ml"), Resume: true}
	if err := os.WriteFile(o.LogPath, []byte(slowLog), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

func checkWhole(t *testing.T, o Options) {
	t.Helper()
	if b, err := os.ReadFile(o.LogPath); err != nil || string(b) != slowLog {
		t.Errorf("the log: %q %v", b, err)
	}
	if _, err := os.Stat(o.LogPath + ".1"); err == nil {
		t.Error("the log was put aside")
	}
}

// TestResumeCancelled: a replay that its caller ends leaves the log whole; the next use begins it again.
func TestResumeCancelled(t *testing.T) {
	o := slow(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(400*time.Millisecond, cancel)
	s, err := Open(ctx, o)
	if err == nil {
		s.Close()
		t.Fatal("a session that is not restored was opened")
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	checkWhole(t, o)
	s, err = Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Eval(context.Background(), Request{Source: "a + z;;"}); err != nil || head(r.Value, "") != "27" || len(r.Notes) > 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// TestResumeKilled: a process that somebody kills during the replay, or interrupts, is replaced and the replay begun again.
func TestResumeKilled(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			o := slow(t)
			o.Child = func(ctx context.Context) (*engine.Child, error) {
				c, err := engine.Start(ctx, o.Language, o.Engine)
				if err == nil {
					time.AfterFunc(400*time.Millisecond, func() { syscall.Kill(c.Pid(), signal) })
				}
				return c, err
			}
			s, err := Open(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r, err := s.Eval(context.Background(), Request{Source: "a + z;;"})
			if err != nil || head(r.Value, "") != "27" || r.Generation != 2 || s.Log().Len() != 4 {
				t.Errorf("%+v %v, %d phrases", r, err, s.Log().Len())
			}
			if b, _ := os.ReadFile(o.LogPath); !strings.HasPrefix(string(b), slowLog) {
				t.Errorf("the log: %q", b)
			}
		})
	}
}

// TestResumeKilledAgain: when every replay is killed the session is not opened, and the log stays.
func TestResumeKilledAgain(t *testing.T) {
	o := slow(t)
	var child atomic.Pointer[engine.Child]
	o.Child = func(ctx context.Context) (*engine.Child, error) {
		c, err := engine.Start(ctx, o.Language, o.Engine)
		if err == nil {
			child.Store(c)
		}
		return c, err
	}
	done := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-tick.C:
				if c := child.Load(); c != nil && c.Alive() {
					syscall.Kill(c.Pid(), syscall.SIGKILL)
				}
			case <-done:
				tick.Stop()
				return
			}
		}
	})
	s, err := Open(context.Background(), o)
	close(done)
	killer.Wait()
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	checkWhole(t, o)
}

// TestRecoveryCancelled: a cancel while the log is evaluated again after a death loses nothing.
func TestRecoveryCancelled(t *testing.T) {
	w := open(t, nil)
	w.eval("let a = 1;;")
	w.eval("let () = Unix.sleepf 0.7;;")
	w.eval("let z = 26;;")
	w.current().Close()
	time.AfterFunc(400*time.Millisecond, func() { w.Session.Cancel() })
	if r, err := w.Session.Eval(w.ctx, Request{Source: "a;;"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v %v", r, err)
	}
	r := w.eval("a + z;;")
	if head(r.Value, "") != "27" || r.Recovery == nil || len(r.Recovery.Failed) > 0 {
		t.Errorf("%+v %+v", r.Recovery, r.Err)
	}
}
