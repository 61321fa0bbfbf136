//go:build linux

package fleet

// This file is a world of the united surface: this side with a home of its own, hosts
// behind real sshds, and the binary as a server between a client and them.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/host"
	"topside/test/bed"
)

// A united is this side and its hosts.
type united struct {
	t      testing.TB
	home   string
	config string // of ssh
	hosts  map[string]*fleettest.Server
}

// A farHost is a host of a world.
type farHost struct {
	name    string
	program string // topside there; the binary if empty
	entry   func(*host.Entry)
	unknown bool // ssh knows it, the registry does not
}

// newUnited starts hosts and registers them.
func newUnited(t testing.TB, hosts ...farHost) *united {
	t.Helper()
	w := &united{t: t, home: t.TempDir(), hosts: map[string]*fleettest.Server{}}
	w.config = filepath.Join(w.home, "ssh_config")
	w.write(".config/topside/config.json", fmt.Sprintf(`{"fleet":{"ssh":%q}}`, w.ssh()))
	for _, h := range hosts {
		w.add(h)
	}
	return w
}

// ssh is a program that is ssh with the tests' keys.
func (w *united) ssh() string {
	path := filepath.Join(w.home, "ssh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec /usr/bin/ssh -F "+w.config+" \"$@\"\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *united) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// add starts a host.
func (w *united) add(h farHost) *fleettest.Server {
	w.t.Helper()
	program := h.program
	if program == "" {
		program = bed.Binary()
	}
	s := fleettest.Start(w.t, fleettest.Options{Hosts: []string{h.name}, Programs: map[string]string{"topside": program}})
	text, err := os.ReadFile(s.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	f, err := os.OpenFile(w.config, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		w.t.Fatal(err)
	}
	w.hosts[h.name] = s
	if !h.unknown {
		w.register(h.name, h.entry)
	}
	return s
}

// register puts a host into the registry, as "topside hosts" does.
func (w *united) register(name string, change func(*host.Entry)) {
	w.t.Helper()
	r, err := host.Open(filepath.Join(w.home, ".topside", "hosts.json"), host.Topside)
	if err != nil {
		w.t.Fatal(err)
	}
	if change == nil {
		change = func(*host.Entry) {}
	}
	if err := r.Update(name, true, change); err != nil {
		w.t.Fatal(err)
	}
}

func (w *united) unregister(name string) {
	w.t.Helper()
	r, err := host.Open(filepath.Join(w.home, ".topside", "hosts.json"), host.Topside)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := r.Remove(name); err != nil {
		w.t.Fatal(err)
	}
}

func (w *united) env() []string {
	return []string{
		"HOME=" + w.home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_CACHE_HOME=" + cache(),
		"TOPSIDE_HOSTS_FILE=" + filepath.Join(w.home, ".topside", "hosts.json"),
	}
}

// serve starts the server and makes the handshake.
func (w *united) serve(args ...string) *bed.Server {
	w.t.Helper()
	s := bed.Start(w.t, append([]string{"mcp", "--no-engines", "--engine", "javascript"}, args...), bed.Env(w.env()...))
	s.Handshake("2025-11-25")
	return s
}

// call runs "topside call".
func (w *united) call(args ...string) bed.Run {
	w.t.Helper()
	c := exec.Command(bed.Binary(), append([]string{"call"}, args...)...)
	c.Env = append(os.Environ(), w.env()...)
	return bed.RunCommand(w.t, c)
}

// A manyAnswer is the structured content of a call on many hosts.
type manyAnswer struct {
	Answered, Failed int
	Hosts            []manyPart
}

type manyPart struct {
	Host, Status string
	TookMS       int64 `json:"took_ms"`
	Result       map[string]any
	Text         string
	LeftOut      int    `json:"left_out"`
	SnapshotID   string `json:"snapshot_id"`
	Matched      int
	Error        struct{ Code, Message, Hint string }
}

func (a manyAnswer) of(t *testing.T, name string) manyPart {
	t.Helper()
	for _, p := range a.Hosts {
		if p.Host == name {
			return p
		}
	}
	t.Fatalf("no answer of %s in %+v", name, a)
	return manyPart{}
}

// fails expects a tool's failure with a code, and that it says all of the words.
func fails(t *testing.T, s *bed.Server, tool string, a bed.Arguments, code string, words ...string) string {
	t.Helper()
	r := bed.ResultOf(t, s.Call(tool, a))
	var body struct {
		Error struct{ Code, Message, Hint string }
	}
	if err := json.Unmarshal(r.Structured, &body); err != nil || !r.Failed() || body.Error.Code != code {
		t.Errorf("%s %v: %s, not %s", tool, a, r.Structured, code)
	}
	for _, word := range words {
		if !strings.Contains(r.Text(), word) {
			t.Errorf("%s %v does not say %q: %s", tool, a, word, r.Text())
		}
	}
	return r.Text()
}

// refused expects a JSON-RPC error, and that it says all of the words.
func refused(t *testing.T, s *bed.Server, tool string, a bed.Arguments, code int, words ...string) {
	t.Helper()
	reply := s.Call(tool, a)
	if reply.Error == nil || reply.Error.Code != code {
		t.Errorf("%s %v: %v, %.300s", tool, a, reply.Error, reply.Result)
		return
	}
	for _, word := range words {
		if !strings.Contains(reply.Error.Message, word) {
			t.Errorf("%s %v does not say %q: %s", tool, a, word, reply.Error.Message)
		}
	}
}

// quiet waits until nothing that the server started is left on this side.
func (w *united) quiet() {
	w.t.Helper()
	fleettest.Eventually(w.t, 5*time.Second, "ssh is left behind", func() bool {
		dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, d := range dirs {
			text, err := os.ReadFile(d)
			if err == nil && strings.Contains(string(text), w.config) {
				return false
			}
		}
		return true
	})
}
