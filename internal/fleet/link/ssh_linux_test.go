package link_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

func farHost(t testing.TB, o fleettest.Options) *fleettest.Server {
	t.Helper()
	if o.Programs == nil {
		o.Programs = map[string]string{"topside": self(t)}
	}
	return fleettest.Start(t, o)
}

func linkTo(t testing.TB, s *fleettest.Server, change func(*link.Options)) *link.Link {
	t.Helper()
	d := ssh.Dialer{Client: s.Client, Host: "far"}
	o := link.Options{Host: "far", Dial: d.Dial, Surface: "test", Version: "near"}
	if change != nil {
		change(&o)
	}
	l := link.New(o)
	t.Cleanup(l.Close)
	return l
}

func TestCallsTravelOverSSH(t *testing.T) {
	t.Parallel()
	s := farHost(t, fleettest.Options{})
	l := linkTo(t, s, nil)
	ctx := within(t, 30*time.Second)
	got, err := l.Call(ctx, "echo", json.RawMessage(`{"a":"é\u0001"}`))
	if err != nil || string(got) != `{"a":"é\u0001"}` {
		t.Fatalf("echo: %s, %v", got, err)
	}
	st := l.State()
	if st.Phase != link.Connected || !st.Framed || st.Far.Version != "test" || st.Far.PID == 0 || st.PID == 0 {
		t.Errorf("state: %+v", st)
	}
	if _, err := l.Call(ctx, "nonsense", nil); err == nil || err.Error() != "method not found: nonsense" {
		t.Errorf("an error of the far side: %v", err)
	}
	big, err := l.Call(ctx, "big", json.RawMessage(`{"bytes":5000000}`))
	if err != nil || len(big) != 5000002 {
		t.Errorf("big: %d, %v", len(big), err)
	}
}

// inFlight starts a call that takes long, and returns when the far side has said
// that it runs.
func inFlight(t *testing.T, l *link.Link, ms int) <-chan error {
	t.Helper()
	ctx := within(t, 60*time.Second)
	if err := l.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := l.Call(ctx, "sleep", json.RawMessage(fmt.Sprintf(`{"ms":%d}`, ms)))
		done <- err
	}()
	time.Sleep(600 * time.Millisecond) // the daemon says so after 250 ms
	return done
}

func kill(t *testing.T, pids ...int) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("nothing to kill")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill %d: %v", pid, err)
		}
	}
}

// A process of the connection dies in the middle of a call: the error comes at once
// and says what became of the work, and the next call works.
func TestAKilledPartOfTheConnection(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		victims func(s *fleettest.Server, l *link.Link) []int
		work    link.Work
	}{
		{"ssh", func(_ *fleettest.Server, l *link.Link) []int { return []int{l.State().PID} }, link.GoesOn},
		{"sshd", func(s *fleettest.Server, _ *link.Link) []int { return s.Sessions() }, link.GoesOn},
		{"relay", func(s *fleettest.Server, _ *link.Link) []int { return s.Processes("fleet-relay") }, link.GoesOn},
		{"daemon", func(s *fleettest.Server, _ *link.Link) []int { return s.Processes("fleet-daemon") }, link.Ended},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := farHost(t, fleettest.Options{})
			l := linkTo(t, s, nil)
			done := inFlight(t, l, 2500)
			first := l.State().Far
			kill(t, tt.victims(s, l)...)
			began := time.Now()
			var b *link.BrokenError
			select {
			case err := <-done:
				if !errors.As(err, &b) || b.Work != tt.work {
					t.Fatalf("got %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the call hangs")
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("noticed after %v", took)
			}
			ctx := within(t, 30*time.Second)
			if got, err := l.Call(ctx, "echo", json.RawMessage(`[1]`)); err != nil || string(got) != "[1]" {
				t.Fatalf("the next call: %s, %v", got, err)
			}
			again := l.State().Far
			if tt.work == link.Ended {
				if again.Instance == first.Instance || again.Resumed {
					t.Error("the killed daemon answers")
				}
				return
			}
			if again.Instance != first.Instance || !again.Resumed {
				t.Errorf("another daemon, or another session: %+v", again)
			}
			if got, err := l.Collect(ctx, b.Ticket); err != nil || string(got) != `"slept"` {
				t.Errorf("the reply of the broken call: %s, %v", got, err)
			}
			if _, err := l.Collect(ctx, b.Ticket); err == nil {
				t.Error("collected twice")
			}
		})
	}
}

func TestAKilledFrontEndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := farHost(t, fleettest.Options{Sshd: []string{"AcceptEnv FLEETTEST_IDLE"}})
	cmd := exec.Command(self(t), "front", s.Config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var word string
	var pid int
	if _, err := fmt.Fscan(out, &word, &pid); err != nil {
		_ = cmd.Process.Kill()
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	kill(t, cmd.Process.Pid)
	fleettest.Eventually(t, 5*time.Second, "ssh and the relay are gone", func() bool {
		return syscall.Kill(pid, 0) != nil && len(s.Processes("fleet-relay")) == 0 && len(s.Sessions()) == 0
	})
	if n := len(s.Processes("fleet-daemon")); n != 1 {
		t.Errorf("%d daemons", n)
	}
}

func TestADaemonRunsOnce(t *testing.T) {
	t.Parallel()
	s := farHost(t, fleettest.Options{})
	var group sync.WaitGroup
	instances := make([]string, 6)
	for i := range instances {
		l := linkTo(t, s, nil)
		group.Go(func() {
			if err := l.Connect(within(t, 30*time.Second)); err != nil {
				t.Error(err)
			}
			instances[i] = l.State().Far.Instance
		})
	}
	group.Wait()
	slices.Sort(instances)
	if got := slices.Compact(instances); len(got) != 1 || got[0] == "" {
		t.Errorf("daemons: %q", got)
	}
	// One that found the socket taken ends by itself, a little later.
	left := time.Now().Add(20 * time.Second)
	for len(s.Processes("fleet-daemon")) > 1 && time.Now().Before(left) {
		time.Sleep(20 * time.Millisecond)
	}
	if n := len(s.Processes("fleet-daemon")); n != 1 {
		t.Errorf("%d daemons run", n)
	}
	socket := s.Home + "/.topside"
	err := filepath.WalkDir(socket, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnEndedDaemonTakesItsSessions(t *testing.T) {
	t.Parallel()
	s := farHost(t, fleettest.Options{})
	l := linkTo(t, s, nil)
	ctx := within(t, 30*time.Second)
	if err := l.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	first := l.State().Far.Instance
	done := inFlight(t, l, 30000)
	l.Drop(ctx, true)
	var b *link.BrokenError
	if err := <-done; !errors.As(err, &b) || b.Work != link.Ended {
		t.Errorf("the call under way: %v", err)
	}
	if err := l.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	if l.State().Far.Instance == first {
		t.Error("the same daemon")
	}
}

// Why a connection cannot be made reaches the caller, with what to do.
func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := farHost(t, fleettest.Options{})
	bare := fleettest.Start(t, fleettest.Options{})
	edit := func(from, to string) ssh.Client {
		text, err := os.ReadFile(s.Config)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.CreateTemp(s.Dir, "client-")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(strings.Replace(string(text), from, to, 1)); err != nil {
			t.Fatal(err)
		}
		return ssh.Client{Config: f.Name()}
	}
	other, err := os.ReadFile(bare.Dir + "/host.pub")
	if err != nil {
		t.Fatal(err)
	}
	changed := s.Dir + "/known-changed"
	if err := os.WriteFile(changed, fmt.Appendf(nil, "[127.0.0.1]:%s %s", s.Port, other), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		client ssh.Client
		cause  ssh.Cause
		says   string
	}{
		{"unknown key", edit("UserKnownHostsFile "+s.Dir+"/known", "UserKnownHostsFile /dev/null"), ssh.UnknownHostKey, "run `ssh far` once"},
		{"changed key", edit("UserKnownHostsFile "+s.Dir+"/known", "UserKnownHostsFile "+changed), ssh.ChangedHostKey, `-R "[127.0.0.1]:`},
		{"no key", edit("IdentityFile "+s.Dir+"/user", "IdentityFile "+bare.Dir+"/user"), ssh.Denied, "ssh-copy-id far"},
		{"closed port", edit("Port "+s.Port, "Port 1"), ssh.Refused, "nothing listens there"},
		{"no such name", edit("HostName 127.0.0.1", "HostName nowhere.invalid"), ssh.NameUnknown, "check the spelling"},
		{"no topside", bare.Client, ssh.CommandNotFound, "topside hosts install far"},
		{"no ssh", ssh.Client{Program: "no-such-ssh"}, ssh.NoClient, "install OpenSSH"},
		{"bad configuration", edit("Port", "Nonsense"), ssh.BadConfig, "ssh -G far"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := ssh.Dialer{Client: tt.client, Host: "far"}
			l := link.New(link.Options{Host: "far", Dial: d.Dial, Surface: "test"})
			defer l.Close()
			began := time.Now()
			_, err := l.Call(within(t, 30*time.Second), "echo", nil)
			var e *ssh.Error
			if !errors.As(err, &e) || e.Cause != tt.cause || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("took %v", took)
			}
			var c *link.ConnectError
			if !errors.As(err, &c) || c.RetryIn == 0 || l.State().Phase != link.Broken {
				t.Errorf("no backoff: %#v", err)
			}
		})
	}
}

func TestADaemonThatIsToldToEndSaysSo(t *testing.T) {
	t.Parallel()
	s := farHost(t, fleettest.Options{})
	l := linkTo(t, s, nil)
	done := inFlight(t, l, 30000)
	for _, pid := range s.Processes("fleet-daemon") {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	var b *link.BrokenError
	if err := <-done; !errors.As(err, &b) || b.Work != link.Ended {
		t.Errorf("the call under way: %v", err)
	}
	fleettest.Eventually(t, 5*time.Second, "nothing is left", func() bool {
		return len(s.Processes("fleet-")) == 0 && len(s.Sessions()) == 0
	})
}

// An original topup is reached by a forwarded socket, and ends with the tunnel.
func TestAnOriginalTopup(t *testing.T) {
	t.Parallel()
	s := fleettest.Start(t, fleettest.Options{Programs: map[string]string{"topup": "#!/bin/sh\nexec " + self(t) + " topup \"$@\"\n"}})
	l := linkTo(t, s, nil)
	ctx := within(t, 40*time.Second)
	if got, err := l.Call(ctx, "echo", json.RawMessage(`[2]`)); err != nil || string(got) != "[2]" {
		t.Fatalf("echo: %s, %v", got, err)
	}
	st := l.State()
	if st.Framed || st.Socket != s.Home+"/.topup/sockets/topup.sock" || !strings.Contains(string(st.Greeting), "topup") {
		t.Errorf("state: %+v", st)
	}
	if _, err := l.Session(ctx); err == nil || !strings.Contains(err.Error(), "install or upgrade it") {
		t.Errorf("files: %v", err)
	}
	done := inFlight(t, l, 30000)
	kill(t, l.State().PID)
	err := <-done
	var b *link.BrokenError
	if !errors.As(err, &b) || b.Work != link.Ended {
		t.Errorf("got %v", err)
	}
	fleettest.Eventually(t, 5*time.Second, "topup is gone", func() bool { return len(s.Processes("topup")) == 0 })
	if got, err := l.Call(ctx, "echo", json.RawMessage(`[3]`)); err != nil || string(got) != "[3]" {
		t.Fatalf("the next call: %s, %v", got, err)
	}
	l.Close()
	fleettest.Eventually(t, 5*time.Second, "topup is gone", func() bool { return len(s.Processes("topup")) == 0 })
	if _, err := os.Lstat(s.Home + "/.topup/sockets/topup.sock"); err == nil {
		t.Error("its socket is left")
	}
}

// A network that is cut is noticed by the keep-alives, of ssh or of the link; the
// work goes on, and when the network is back its reply is there.
func TestACutNetworkThatComesBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		options  []string
		patience time.Duration
	}{
		{"ssh notices", []string{"-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2"}, time.Minute},
		{"the link notices", nil, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := fleettest.NewNetwork(t)
			s := farHost(t, fleettest.Options{Listen: n.Addr, Netns: n.Name})
			s.Client.Options = append([]string{"-o", "ConnectTimeout=2"}, tt.options...)
			l := linkTo(t, s, func(o *link.Options) {
				o.Ping, o.Patience, o.ConnectWait = 500*time.Millisecond, tt.patience, 10*time.Second
			})
			done := inFlight(t, l, 2500)
			n.Cut(t)
			began := time.Now()
			var b *link.BrokenError
			select {
			case err := <-done:
				if !errors.As(err, &b) || b.Work != link.GoesOn {
					t.Fatalf("got %v", err)
				}
			case <-time.After(15 * time.Second):
				t.Fatal("the cut was not noticed")
			}
			t.Logf("noticed after %v: %v", time.Since(began), b)
			// While it is cut, a call fails for a reason, in time.
			began = time.Now()
			_, err := l.Call(within(t, 8*time.Second), "echo", nil)
			var c *link.ConnectError
			if !errors.As(err, &c) || time.Since(began) > 7*time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			n.Mend(t)
			ctx := within(t, 30*time.Second)
			if err := l.Connect(ctx); err != nil {
				t.Fatal(err)
			}
			if got, err := l.Collect(ctx, b.Ticket); err != nil || string(got) != `"slept"` {
				t.Errorf("the reply: %s, %v", got, err)
			}
			// The far side has noticed as well: one relay is left.
			fleettest.Eventually(t, 10*time.Second, "the old relay is gone", func() bool { return len(s.Processes("fleet-relay")) <= 1 })
		})
	}
}
