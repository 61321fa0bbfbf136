//go:build linux

package fleet

// This file tests the command "topside hosts": the registry, checks, and topside
// onto another machine.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"topside/internal/fleet/fleettest"
	"topside/test/bed"
)

// A person runs commands with a home of its own, whose configuration makes ssh
// take the tests' keys.
type person struct {
	t    *testing.T
	home string
}

func newPerson(t *testing.T, s *fleettest.Server) person {
	t.Helper()
	p := person{t, t.TempDir()}
	folder := filepath.Join(p.home, ".config", "topside")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "{}"
	if s != nil {
		text = fmt.Sprintf(`{"fleet": {"ssh_config": %q}}`, s.Config)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a command and returns what it printed on both streams, and its status.
func (p person) run(input string, args ...string) (out string, status int) {
	p.t.Helper()
	c := exec.Command(bed.Binary(), args...)
	c.Env = append(os.Environ(), "HOME="+p.home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "TOPSIDE_HOSTS_FILE="+filepath.Join(p.home, ".topside", "hosts.json"))
	c.Stdin = strings.NewReader(input)
	text, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		p.t.Fatal(err)
	}
	return string(text), c.ProcessState.ExitCode()
}

// expect runs a command and checks its status, and that it says all of the words.
func (p person) expect(status int, input string, args []string, words ...string) string {
	p.t.Helper()
	out, got := p.run(input, args...)
	if got != status {
		p.t.Errorf("topside %s: status %d, want %d; it says:\n%s", strings.Join(args, " "), got, status, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			p.t.Errorf("topside %s does not say %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

func TestRegistryOfHosts(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	hosts := func(args ...string) []string { return append([]string{"hosts"}, args...) }
	p.expect(0, "", hosts(), "No hosts yet", "topside hosts add")
	p.expect(0, "", hosts("add", "build1", "--tag", "ci,fast", "--description", "builds", "--read-only"), "added build1")
	p.expect(0, "", hosts("add", "build1", "--read-only=false", "--deny", "process_kill"), "changed build1")
	p.expect(0, "", hosts("tag", "build1", "eu"), "ci, fast, eu")
	p.expect(0, "", hosts("tag", "build1", "fast", "--remove"), "build1: ci, eu")
	p.expect(0, "", hosts(), "build1", "ci,eu", "not process_kill", "builds", "never")

	var list struct{ Hosts []map[string]any }
	if err := json.Unmarshal([]byte(p.expect(0, "", hosts("list", "--json"))), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Hosts) != 1 || list.Hosts[0]["read_only"] != false || list.Hosts[0]["last_seen"] != nil {
		t.Errorf("the list is %v", list)
	}
	info, err := os.Stat(filepath.Join(p.home, ".topside", "hosts.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the registry is %v, %v", info, err)
	}
	p.expect(0, "", hosts("remove", "build1"), "removed build1")
	p.expect(1, "", hosts("remove", "build1"), "unknown host", "topside hosts add")
}

func TestHostsRefuses(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	for _, c := range []struct {
		status int
		args   string
		says   string
	}{
		{2, "add\x00--\x00-oProxyCommand=x", "begin with '-'"},
		{2, "add\x00a b", "may only contain"},
		{2, "add\x00a\nb", "may only contain"},
		{2, "add\x00", "is this machine"},
		{2, "add\x00local", "is this machine"},
		{2, "add", "takes one host"},
		{2, "add\x00a\x00--socket\x00relative", "absolute"},
		{2, "add\x00a\x00--deny\x00[", "no pattern"},
		{2, "add\x00a\x00--allow\x00eval\n[", "no pattern"},
		{2, "add\x00a\x00--tag\x00x\ny", "no tag"},
		{2, "add\x00a\x00--tag\x00ok,a b", "no tag"},
		{2, "tag\x00a\x00*", "no tag"},
		{2, "tag\x00a\x00tag:x", "no tag"},
		{2, "tag\x00a\x00\x1b]0;x", "no tag"},
		{2, "tag\x00a", "at least one tag"},
		{1, "tag\x00a\x00b", "unknown host"},
		{1, "check\x00a", "unknown host"},
		{1, "check\x00tag:a", "unknown tag"},
		{2, "nonsense", "no command hosts"},
	} {
		p.expect(c.status, "", append([]string{"hosts"}, strings.Split(c.args, "\x00")...), c.says)
	}
	if _, err := os.Stat(filepath.Join(p.home, ".topside", "hosts.json")); err == nil {
		t.Error("a refused command wrote the registry")
	}
}

// TestHostsOfTwoSources checks what is said of hosts that the configuration of ssh
// names too.
func TestHostsOfTwoSources(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	config := filepath.Join(p.home, "ssh_config")
	set := func(path string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.home, ".config", "topside", "config.json"), fmt.Appendf(nil, `{"fleet": {"ssh_config": %q}}`, path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set(config)
	if err := os.WriteFile(config, []byte("Host web db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hosts := func(args ...string) []string { return append([]string{"hosts"}, args...) }
	p.expect(1, "", hosts("tag", "nowhere", "x"), `unknown host "nowhere"; known are db, web`)
	p.expect(1, "", hosts("remove", "web"), "not in the registry", "fleet.ssh_config")
	p.expect(0, "", hosts("tag", "web", "eu"), "web: eu")
	p.expect(0, "", hosts("remove", "web"), "removed web from the registry; it stays known")
	set(config + ".absent")
	p.expect(1, "", hosts(), "fleet.ssh_config", "no such file")
}

// TestInstallation brings topside onto a host that has none, and calls it there.
func TestInstallation(t *testing.T) {
	t.Parallel()
	s := fleettest.Start(t, fleettest.Options{Hosts: []string{"build1"}})
	p := newPerson(t, s)
	there := filepath.Join(s.Home, ".local", "bin", "topside")

	p.expect(1, "", []string{"hosts", "check"}, "unreachable", "topside hosts install build1")
	p.expect(1, "n\n", []string{"hosts", "install", "build1"}, "sha256", "nothing was installed")
	p.expect(1, "", []string{"hosts", "install", "build1"}, "nothing was installed")
	if _, err := os.Stat(there); err == nil {
		t.Fatal("it was installed without a yes")
	}
	p.expect(0, "y\n", []string{"hosts", "install", "build1"}, "installed "+there)
	p.expect(0, "", []string{"hosts", "install", "build1"}, "has this version already")
	left, err := os.ReadDir(filepath.Dir(there))
	if err != nil || len(left) != 1 {
		t.Errorf("beside it there are %v, %v", left, err)
	}

	p.expect(0, "", []string{"hosts", "check"}, "build1", "connected", "0.0.0-test", " ms")
	p.expect(0, "", []string{"hosts"}, "0.0.0-test", "linux")
	if len(s.Processes("fleet-daemon")) != 1 {
		t.Error("no daemon runs after a check")
	}
	p.expect(0, "", []string{"hosts", "stop", "build1"}, "told to end")
	fleettest.Eventually(t, waitLong, "the daemon ends", func() bool { return len(s.Processes("fleet-daemon")) == 0 })
}

// TestBrokenInstallation checks that a program that does not run there replaces
// nothing.
func TestBrokenInstallation(t *testing.T) {
	t.Parallel()
	s := fleettest.Start(t, fleettest.Options{Hosts: []string{"build1"}})
	p := newPerson(t, s)
	there := filepath.Join(s.Home, ".local", "bin", "topside")
	if err := os.MkdirAll(filepath.Dir(there), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(there, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.expect(1, "", []string{"hosts", "install", "build1", "--yes", "--from", broken}, "replace on build1", "does not run", "nothing was installed")
	p.expect(1, "", []string{"hosts", "install", "build1", "--yes", "--from", broken + ".absent"}, "no such file")
	p.expect(1, "", []string{"hosts", "install", "build1", "--yes", "--from", "/bin/true"}, "/bin/true is not topside", "nothing was installed")
	p.expect(1, "", []string{"hosts", "check", "build1"}, "ended", "status 0", "ssh build1 topside version")
	text, err := os.ReadFile(there)
	if err != nil || !strings.HasPrefix(string(text), "#!/bin/sh") {
		t.Errorf("what was there is %q, %v", text, err)
	}
	left, _ := os.ReadDir(filepath.Dir(there))
	if len(left) != 1 {
		t.Errorf("beside it there are %v", left)
	}
}
