package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/fleet"
	"topside/internal/fleet/backchannel"
	"topside/internal/fleet/daemon"
	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/host"
	"topside/internal/fleet/install"
	"topside/internal/fleet/link"
	"topside/internal/fleet/route"
	"topside/internal/fleet/ssh"
	"topside/internal/fleet/transfer"
)

// TestMain makes this program the far side as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "--version":
			fmt.Println("topside test")
			os.Exit(0)
		case daemon.RelayCommand:
			os.Exit(fleet.RelayMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case daemon.DaemonCommand:
			os.Exit(fleet.DaemonMain(os.Args[2:], daemon.Config{Version: "test", Serve: fleettest.Tools, Idle: 30 * time.Second}, os.Stderr))
		}
	}
	goleak.VerifyTestMain(m)
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func newFleet(t testing.TB, o fleet.Options) *fleet.Fleet {
	t.Helper()
	o.Version, o.Surface = "near", "test"
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestTwoHosts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"alpha", "beta"}
	var config string
	var homes []string
	for _, name := range names {
		s := fleettest.Start(t, fleettest.Options{Hosts: []string{name}, Programs: map[string]string{"topside": self(t)}})
		text, err := os.ReadFile(s.Config)
		if err != nil {
			t.Fatal(err)
		}
		config += string(text)
		homes = append(homes, s.Home)
	}
	if err := os.WriteFile(dir+"/config", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	registry, err := host.Open(dir+"/hosts.json", host.Topside)
	if err != nil {
		t.Fatal(err)
	}
	back := backchannel.Options{Root: dir + "/back"}
	f := newFleet(t, fleet.Options{
		Registry: registry, SSHConfig: dir + "/config", SSH: ssh.Client{Config: dir + "/config"}, State: dir + "/state",
		Requests: func(ctx context.Context, _, method string, params json.RawMessage) (json.RawMessage, error) {
			return back.Serve(ctx, method, params)
		},
	})
	ctx := within(t, 60*time.Second)

	socket, err := f.Start(ctx, "alpha", "")
	if err != nil || !strings.HasPrefix(socket, homes[0]+"/.topside/run-") {
		t.Fatalf("start: %q, %v", socket, err)
	}
	if again, err := f.Start(ctx, "alpha", "/another.sock"); err != nil || again != socket {
		t.Errorf("start again: %q, %v", again, err)
	}
	hosts := f.Hosts()
	if len(hosts) != 2 || hosts[0].Name != "alpha" || hosts[0].Link.Phase != link.Connected || hosts[0].OS != "linux" || hosts[0].Version != "test" ||
		hosts[1].Source != host.SSHConfigSource || hosts[1].Link.Phase != link.Disconnected || hosts[1].Sessions != -1 {
		t.Errorf("hosts: %+v", hosts)
	}

	// beta is connected by its first call.
	if err := registry.Update("beta", true, func(e *host.Entry) { e.ReadOnly, e.Tags = true, []string{"ro"} }); err != nil {
		t.Fatal(err)
	}
	all, err := f.Select([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	out := f.Everywhere(ctx, all, 20*time.Second, "list", true, nil, func(context.Context) (json.RawMessage, error) { return json.RawMessage(`"here"`), nil })
	if len(out) != 3 || out[0].Status != route.OK || string(out[0].Result) != `"here"` {
		t.Errorf("everywhere: %+v", out)
	}
	for _, o := range out[1:] {
		if o.Status != route.Failed || o.Err.Error() != "method not found: tools/call" {
			t.Errorf("%+v", o)
		}
	}
	var denied *host.PolicyError
	if _, err := f.Tool(ctx, "beta", "eval", false, nil); !errors.As(err, &denied) {
		t.Errorf("a read-only host: %v", err)
	}
	if _, err := f.Call(ctx, "gamma", "echo", nil); !errors.Is(err, host.ErrUnknown) {
		t.Errorf("an unknown host: %v", err)
	}
	if _, err := f.Call(ctx, "-x", "echo", nil); err == nil || !strings.Contains(err.Error(), "invalid host") {
		t.Errorf("an option: %v", err)
	}

	// A session over there writes and reads here, within bounds.
	for path, want := range map[string]string{"/etc/new": `"isError":false`, "../../evil": "path escapes back-channel root"} {
		params := fmt.Sprintf(`{"method":"tools/call","params":{"name":"_recv_blob","arguments":{"path":%q,"data":"aGk="}}}`, path)
		if got, err := f.Call(ctx, "alpha", "ask", json.RawMessage(params)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("back-channel to %s: %s, %v", path, got, err)
		}
	}
	if got, err := os.ReadFile(dir + "/back/etc/new"); err != nil || string(got) != "hi" {
		t.Errorf("back-channel wrote %q, %v", got, err)
	}

	// From one host to the other.
	if err := os.WriteFile(homes[0]+"/f", []byte("moved"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Pull(ctx, "alpha", "~/f", "", dir+"/xfer", transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	r, err := f.Push(ctx, "beta", dir+"/xfer/f", "", transfer.Options{})
	if err != nil || r.Path != homes[1]+"/.topside/xfer/f" {
		t.Fatalf("push: %+v, %v", r, err)
	}
	if got, err := os.ReadFile(r.Path); err != nil || string(got) != "moved" {
		t.Errorf("moved %q, %v", got, err)
	}

	before := f.Started("alpha").State().Far.Instance
	if again, err := f.Restart(ctx, "alpha", true); err != nil || again != socket {
		t.Errorf("restart: %q, %v", again, err)
	}
	if f.Started("alpha").State().Far.Instance == before {
		t.Error("the daemon was not ended")
	}
	if _, err := f.Restart(ctx, "gamma", true); !errors.Is(err, host.ErrUnknown) {
		t.Errorf("restart of an unknown host: %v", err)
	}
}

func TestAFailedStartRegistersNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	registry, err := host.Open(dir+"/hosts.json", host.Topup)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, fleet.Options{Registry: registry, SSH: ssh.Client{Config: "/dev/null", Options: []string{"-p", "1"}}})
	ctx := within(t, 20*time.Second)
	if _, err := f.Start(ctx, "127.0.0.1", ""); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
	if len(registry.List()) != 0 || f.Started("127.0.0.1") != nil {
		t.Error("it is registered")
	}
	for name, want := range map[string]string{
		"": "not a remote host", "local": "not a remote host", "-a": "invalid host: host must not begin with '-'", "a b": "host may only contain",
	} {
		if _, err := f.Start(ctx, name, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := f.Start(ctx, "a", "rel"); err == nil || !strings.Contains(err.Error(), "invalid remote_socket") {
		t.Errorf("socket: %v", err)
	}
}

// The contract's override variable leads to a socket of this machine, without ssh.
func TestTheOverride(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", dir+"/t.sock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { _ = fleettest.Tools(ctx, "", c) })
		}
	})
	defer group.Wait()
	defer cancel()
	defer l.Close()
	t.Setenv("TOPUP_HOST_SOCKET_T", dir+"/t.sock")
	t.Setenv("TOPUP_HOST_SOCKET_GONE", dir+"/gone.sock")
	f := newFleet(t, fleet.Options{Overrides: true, DefaultSocket: "~/.topup/sockets/topup.sock"})
	wait := within(t, 20*time.Second)
	if socket, err := f.Start(wait, "t", "/there.sock"); err != nil || socket != "/there.sock" {
		t.Fatalf("start: %q, %v", socket, err)
	}
	if got, err := f.Call(wait, "t", "echo", json.RawMessage(`[1]`)); err != nil || string(got) != "[1]" {
		t.Errorf("echo: %s, %v", got, err)
	}
	if _, err := f.Start(wait, "gone", ""); err == nil || !strings.Contains(err.Error(), "remote gone: connect "+dir+"/gone.sock") {
		t.Errorf("gone: %v", err)
	}
	// A peer that accepts and stays silent.
	silent, err := net.Listen("unix", dir+"/silent.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	t.Setenv("TOPUP_HOST_SOCKET_MUTE", dir+"/silent.sock")
	began := time.Now()
	if _, err := f.Start(wait, "mute", ""); err == nil || !strings.Contains(err.Error(), "handshake timed out") || time.Since(began) > 4*time.Second {
		t.Errorf("mute: %v after %v", err, time.Since(began))
	}
}

func TestInstallation(t *testing.T) {
	t.Parallel()
	s := fleettest.Start(t, fleettest.Options{})
	f := newFleet(t, fleet.Options{SSH: s.Client})
	ctx := within(t, 60*time.Second)
	if _, err := f.Start(ctx, "far", ""); err == nil || !strings.Contains(err.Error(), "topside hosts install far") {
		t.Fatalf("before: %v", err)
	}
	var asked install.Platform
	binary := func(p install.Platform) (string, error) {
		asked = p
		return self(t), nil
	}
	p, err := f.PlanInstall(ctx, "far", binary)
	if err != nil {
		t.Fatal(err)
	}
	if asked.OS != "linux" || asked.Arch == "" || p.Path != s.Home+"/.local/bin/topside" || p.Installed != "" || p.UpToDate() || p.OnPath {
		t.Errorf("plan %+v", p)
	}
	damaged := p
	damaged.SHA256 = strings.Repeat("0", 64)
	if err := f.Install(ctx, damaged); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged copy: %v", err)
	}
	script := s.Dir + "/not-a-program"
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	wrong, err := f.PlanInstall(ctx, "far", func(install.Platform) (string, error) { return script, nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Install(ctx, wrong); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("a program that does not run: %v", err)
	}
	if left, err := filepath.Glob(s.Home + "/.local/bin/*"); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if left, err := filepath.Glob(s.Home + "/.local/bin/.*.new"); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := f.Install(ctx, p); err != nil {
		t.Fatal(err)
	}
	p, err = f.PlanInstall(ctx, "far", binary)
	if err != nil || !p.UpToDate() {
		t.Errorf("plan after it: %+v, %v", p, err)
	}
	if _, err := f.Start(ctx, "far", ""); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// Who installs topside on a host, or checks it, with another program, spares the
// next call of a running server the pause that failures have earned.
func TestAnInstallationEndsThePause(t *testing.T) {
	t.Parallel()
	s := fleettest.Start(t, fleettest.Options{Hosts: []string{"alpha"}})
	path := t.TempDir() + "/hosts.json"
	open := func() *host.Registry {
		r, err := host.Open(path, host.Topside)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	registry := open()
	if err := registry.Update("alpha", true, func(*host.Entry) {}); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, fleet.Options{Registry: registry, SSH: s.Client})
	ctx := within(t, 60*time.Second)
	l, err := f.Link("alpha")
	if err != nil {
		t.Fatal(err)
	}
	for range 6 { // a pause of 16 s
		if err := l.Connect(ctx); err == nil {
			t.Fatal("connected to a host without topside")
		}
	}
	if err := f.Refresh(); err != nil || l.State().RetryIn < 5*time.Second {
		t.Fatalf("a pause of %v, %v", l.State().RetryIn, err)
	}
	s.Install(t, "topside", self(t))
	if err := open().Update("alpha", false, func(e *host.Entry) { e.LastSeen = time.Now() }); err != nil {
		t.Fatal(err)
	}
	if err := f.Refresh(); err != nil || l.State().RetryIn != 0 {
		t.Errorf("still a pause of %v, %v", l.State().RetryIn, err)
	}
	if _, err := f.Call(ctx, "alpha", "echo", json.RawMessage(`[1]`)); err != nil {
		t.Error(err)
	}
}
