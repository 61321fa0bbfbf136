package link_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"topside/internal/fleet/daemon"
	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/transfer"
)

// hostileLink is a link to a hostile program, through a real ssh.
func hostileLink(t *testing.T, mode string, change func(*link.Options)) *link.Link {
	t.Helper()
	s := fleettest.Start(t, fleettest.Options{Programs: map[string]string{
		"topside": "#!/bin/sh\nexec " + self(t) + " hostile " + mode + "\n",
	}})
	return linkTo(t, s, func(o *link.Options) {
		o.ConnectWait = 8 * time.Second
		o.Ping, o.Patience = 100*time.Millisecond, 2*time.Second
		if change != nil {
			change(o)
		}
	})
}

// Nothing hangs beyond its deadline, whatever the far side does.
func TestHostileFarSidesCostTheirDeadlineAtMost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mode string
		want string // in the error, a regular expression
	}{
		{"garbage", "not the protocol of topside"},
		{"noise", "not the protocol of topside"},
		{"mute", "no answer: nothing came from topside"},
		{"deaf", "does not answer"},
		{"silent", "no answer in"},
		{"half", "channel: closed before response"},
		{"huge", "exceeds the frame limit"},
		{"large", "does not answer"},
		{"flood", "floods this side|does not answer"},
		{"requests", "floods this side|does not answer"},
		{"future", "no protocol in common; upgrade this side"},
		{"nonsense", "not the protocol of topside"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			l := hostileLink(t, tt.mode, nil)
			ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
			defer cancel()
			began := time.Now()
			_, err := l.Call(ctx, "echo", nil)
			if took := time.Since(began); took > 14*time.Second {
				t.Errorf("took %v", took)
			}
			if err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error()) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestALateAnswerIsDropped(t *testing.T) {
	t.Parallel()
	l := hostileLink(t, "late", func(o *link.Options) { o.Patience = 10 * time.Second })
	ctx := within(t, 10*time.Second)
	if err := l.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := l.Call(short, "echo", nil)
	var d *link.DeadlineError
	if !errors.As(err, &d) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	got, err := l.Call(ctx, "echo", nil)
	if err != nil || string(got) != `"late"` {
		t.Errorf("the call after it: %s, %v", got, err)
	}
	if n := l.State().InFlight; n != 0 {
		t.Errorf("%d calls in flight", n)
	}
}

func TestForgedRepliesReachNobody(t *testing.T) {
	t.Parallel()
	l := hostileLink(t, "replies", func(o *link.Options) { o.Patience = 20 * time.Second })
	got, err := l.Call(within(t, 30*time.Second), "echo", nil)
	if err != nil || string(got) != `"late"` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestAHostChoosesNoPathsHere(t *testing.T) {
	t.Parallel()
	l := hostileLink(t, "escape", func(o *link.Options) { o.Patience = 10 * time.Second })
	ctx := within(t, 20*time.Second)
	for _, name := range []string{"../evil", "/etc/evil", "a/../../evil", "", ".", "..", "a//b", "./a"} {
		to := t.TempDir() + "/got"
		_, err := transfer.Pull(ctx, l, "/list:"+name, to, "", transfer.Options{Attempts: 1})
		if err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

// pipes is a front end and a daemon in one process, with nothing between them.
func pipes(t *testing.T, socket string, change func(*link.Options)) *link.Link {
	t.Helper()
	o := link.Options{Host: "near", Surface: "test", Version: "near", Dial: fleettest.DialSocket(socket)}
	if change != nil {
		change(&o)
	}
	l := link.New(o)
	t.Cleanup(l.Close)
	return l
}

func TestManyCallsShareAConnection(t *testing.T) {
	t.Parallel()
	l := pipes(t, fleettest.RunDaemon(t, daemon.Config{}), nil)
	ctx := within(t, 20*time.Second)
	began := time.Now()
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if got, err := l.Call(ctx, "sleep", json.RawMessage(`{"ms":300}`)); err != nil || string(got) != `"slept"` {
				t.Errorf("sleep: %s, %v", got, err)
			}
		})
	}
	for i := range 500 {
		group.Go(func() {
			want := fmt.Sprintf(`{"i":%d}`, i)
			if got, err := l.Call(ctx, "echo", json.RawMessage(want)); err != nil || string(got) != want {
				t.Errorf("echo: %s, %v", got, err)
			}
		})
	}
	group.Wait()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("50 calls of 300 ms took %v", took)
	}
}

func TestTheFarSideAsks(t *testing.T) {
	t.Parallel()
	l := pipes(t, fleettest.RunDaemon(t, daemon.Config{}), func(o *link.Options) {
		o.Requests = func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			if method == "refused" {
				return nil, &link.RemoteError{Code: -32601, Message: "no"}
			}
			return json.RawMessage(fmt.Sprintf(`{"method":%q,"params":%s}`, method, params)), nil
		}
	})
	ctx := within(t, 10*time.Second)
	got, err := l.Call(ctx, "ask", json.RawMessage(`{"method":"m","params":[1]}`))
	if err != nil || string(got) != `{"method":"m","params":[1]}` {
		t.Errorf("got %s, %v", got, err)
	}
	got, err = l.Call(ctx, "ask", json.RawMessage(`{"method":"refused"}`))
	if err != nil || !strings.Contains(string(got), "-32601") {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestVersionsAgreeOrSayWhatToUpgrade(t *testing.T) {
	t.Parallel()
	socket := fleettest.RunDaemon(t, daemon.Config{Surfaces: []string{"united"}})
	l := pipes(t, socket, nil)
	err := l.Connect(within(t, 10*time.Second))
	if err == nil || !strings.Contains(err.Error(), `has no tools by the name "test"; upgrade it there`) {
		t.Errorf("got %v", err)
	}
}

func TestADaemonWithoutUseEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sessions := 1
	var mu sync.Mutex
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		done <- daemon.Run(context.Background(), daemon.Config{
			Socket: dir + "/d.sock", Serve: fleettest.Tools, Idle: 200 * time.Millisecond, Keep: 100 * time.Millisecond,
			Sessions: func() int { mu.Lock(); defer mu.Unlock(); return sessions },
		}, func() { close(ready) })
	}()
	<-ready
	l := pipes(t, dir+"/d.sock", nil)
	if err := l.Connect(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("it ended with a client and a session: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	l.Close()
	select {
	case err := <-done:
		t.Fatalf("it ended with a session: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	mu.Lock()
	sessions = 0
	mu.Unlock()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it did not end")
	}
	if out, err := exec.Command("ls", dir).Output(); err != nil || strings.Contains(string(out), "d.sock\n") {
		t.Errorf("left: %s, %v", out, err)
	}
}
