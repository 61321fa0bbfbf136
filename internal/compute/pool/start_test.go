package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func prewarmFile(t *testing.T, text string) *string {
	path := filepath.Join(t.TempDir(), "warm.ml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &path
}

// TestEndlessPrewarm: the start can be cancelled, ends with its time, and keeps no other waiting.
func TestEndlessPrewarm(t *testing.T) {
	p := open(t, t.TempDir(), nil)
	endless := prewarmFile(t, "while true do () done")
	failed := make(chan error, 1)
	go func() { failed <- p.Start(context.Background(), StartRequest{Name: "slow", Prewarm: endless}) }()
	for !p.Starting("slow") {
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	if err := p.Start(context.Background(), StartRequest{Name: "quick"}); err != nil || time.Since(begin) > 8*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if !p.CancelStart("slow") || p.CancelStart("nosuch") {
		t.Error("cancelled the wrong start")
	}
	err := <-failed
	var connect *ConnectError
	if !errors.As(err, &connect) || err.Error() != "prewarm slow: the start was cancelled: "+*endless {
		t.Error(err)
	}
	if p.Starting("slow") || p.Registered("slow") {
		t.Error("a cancelled start is left")
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 300*time.Millisecond, errStartLimit)
	defer cancel()
	if err := p.Start(ctx, StartRequest{Name: "slow", Prewarm: endless}); err == nil || err.Error() != "prewarm slow: not ready after 20 s: "+*endless {
		t.Error(err)
	}
}

func TestPrewarmIsAFile(t *testing.T) {
	p := open(t, t.TempDir(), nil)
	device := "/dev/zero"
	if err := p.Start(context.Background(), StartRequest{Name: "d", Prewarm: &device}); err == nil || err.Error() != "prewarm d: not a regular file: /dev/zero" {
		t.Error(err)
	}
}

// TestUnwritableRegistry: the sessions run, and the error is one of the registry.
func TestUnwritableRegistry(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	os.WriteFile(blocked, nil, 0o600)
	p := open(t, dir, func(o *Options) { o.RegistryPath = filepath.Join(blocked, "sessions.json") })
	var registry *RegistryError
	if err := p.Start(context.Background(), StartRequest{Name: "w", Pool: 2}); !errors.As(err, &registry) {
		t.Error(err)
	}
	named(t, p, "w")
	named(t, p, "w.1")
}

// TestRegistryIsAFolder: what is no registry's file stays as it is.
func TestRegistryIsAFolder(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	os.Mkdir(folder, 0o700)
	p := open(t, dir, func(o *Options) { o.RegistryPath = folder })
	var registry *RegistryError
	if err := p.Start(context.Background(), StartRequest{Name: "w"}); !errors.As(err, &registry) {
		t.Error(err)
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		t.Error(err)
	}
}

// TestFailedRestart: the session is registered still, and only does not run.
func TestFailedRestart(t *testing.T) {
	p := open(t, t.TempDir(), nil)
	warm := prewarmFile(t, "let a = 1")
	if err := p.Start(context.Background(), StartRequest{Name: "w", Prewarm: warm}); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(*warm, []byte("nosuch"), 0o600)
	if err := p.Restart(context.Background(), "w"); err == nil {
		t.Error("restarted")
	}
	if _, err := p.Session("w"); err == nil || !strings.HasPrefix(err.Error(), "session not running: w (call start_local_session") {
		t.Error(err)
	}
	os.WriteFile(*warm, []byte("let a = 2"), 0o600)
	if err := p.Start(context.Background(), StartRequest{Name: "w"}); err != nil {
		t.Error(err)
	}
	named(t, p, "w")
}
