//go:build linux

package fleet

// This file kills what the remote half of the topup contract depends on, in the
// middle of an evaluation and of a push: ssh, sshd's process for the connection, the
// daemon over there, the front end. Whoever waits is told soon and what becomes of the
// work; the next call connects by itself; nothing is left on either side.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/test/bed"
)

// told bounds the time in which whoever waits hears of a broken connection, on a busy
// machine: less than any wait for an answer that does not come.
const told = 15 * time.Second

// A pair is a front end and the host it works on.
type pair struct {
	*testing.T
	form string
	host *fleettest.Server
	home string
	tmp  string // of the front end
	env  []string
	*topup
}

func newPair(t *testing.T, form string) *pair {
	t.Helper()
	p := &pair{T: t, form: form, home: t.TempDir()}
	var err error
	if p.tmp, err = os.MkdirTemp("/tmp", "tu"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p.tmp) })
	bin := filepath.Join(p.home, "bin")
	config := filepath.Join(p.home, "ssh_config")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\nexec /usr/bin/ssh -F "+config+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.host = startHost(t, config, "box", form)
	p.env = nearSide(p.home, "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+p.tmp)
	p.front()
	p.must(t, "eval", map[string]any{"host": "box", "source": "let there = 42;;"})
	return p
}

// front starts a front end and connects it.
func (p *pair) front() {
	p.Helper()
	f, err := runTopup(p.env)
	if err != nil {
		p.Fatal(err)
	}
	p.topup = f
	p.Cleanup(f.kill)
	f.must(p, "start_session", map[string]any{"host": "box"})
}

// sshs are the front end's processes of ssh.
func (p *pair) sshs() []int { return childrenNamed(p.cmd.Process.Pid, "ssh") }

func childrenNamed(parent int, name string) []int {
	var out []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(stat), "("+name+")") {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
		if fields[1] == strconv.Itoa(parent) && fields[0] != "Z" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			out = append(out, pid)
		}
	}
	return out
}

// daemons are the host's servers.
func (p *pair) daemons() []int {
	if p.form == "topside" {
		return p.host.Processes("fleet-daemon")
	}
	var out []int
	for _, pid := range p.host.Processes("topup --socket") {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(comm)) == "topup" {
			out = append(out, pid)
		}
	}
	return out
}

func signalAll(t testing.TB, sig syscall.Signal, what string, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatalf("there is no %s", what)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// kills are what is killed with the front end staying.
var kills = map[string]func(*pair) []int{
	"ssh":    (*pair).sshs,
	"sshd":   func(p *pair) []int { return p.host.Sessions() },
	"daemon": (*pair).daemons,
}

func eachKill(t *testing.T, f func(t *testing.T, form, what string)) {
	t.Parallel()
	for _, form := range []string{"topside", "topup"} {
		for what := range kills {
			t.Run(form+"/"+what, func(t *testing.T) {
				t.Parallel()
				f(t, form, what)
			})
		}
	}
}

// TestKilledInAnEvaluation: a daemon of topside that lives goes on with the work, and
// has the session still; otherwise the session begins anew.
func TestKilledInAnEvaluation(t *testing.T) {
	eachKill(t, func(t *testing.T, form, what string) {
		p := newPair(t, form)
		id, err := p.beginTool("eval", map[string]any{"host": "box", "source": "while true do Unix.sleepf 0.01 done;;"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond) // it runs, and its host has said so
		signalAll(t, syscall.SIGKILL, what, kills[what](p))
		began := time.Now()
		text, isError, err := p.finish(id)
		if err != nil || !isError || !strings.HasPrefix(text, "remote box: remote box: channel: closed before response: ") {
			t.Fatalf("%v %v %s", err, isError, text)
		}
		if took := time.Since(began); took > told {
			t.Errorf("told after %v", took)
		}
		keeps := form == "topside" && what != "daemon"
		if want := map[bool]string{true: "; the work goes on there; ", false: "; the session there ended with the connection; "}[keeps]; !strings.Contains(text, want) {
			t.Errorf("%s\nwithout %q", text, want)
		}
		fleettest.Eventually(t, told, "the host is shown as disconnected", func() bool {
			text, err := p.instructions()
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(text, "- box [disconnected]")
		})
		if keeps {
			p.must(t, "cancel", map[string]any{"host": "box"})
		}
		// The next call connects by itself.
		got := p.must(t, "eval", map[string]any{"host": "box", "source": "there;;"})
		if kept := strings.Contains(got, `"value_repr":"42"`); kept != keeps {
			t.Errorf("the session is kept: %v: %s", kept, got)
		}
		p.must(t, "restart_session", map[string]any{"host": "box"})
		if got := p.must(t, "eval", map[string]any{"host": "box", "source": "there;;"}); !strings.Contains(got, "Unbound value") {
			t.Errorf("after a restart: %s", got)
		}
		p.leavesNothing()
	})
}

// leavesNothing ends the front end, and looks on both sides.
func (p *pair) leavesNothing() {
	p.Helper()
	sshs := p.sshs()
	if status, err := p.end(told); err != nil || status != 0 {
		p.Fatalf("end: %d, %v", status, err)
	}
	for _, pid := range sshs {
		if bed.Alive(pid) {
			p.Errorf("ssh is left: %d", pid)
		}
	}
	p.bothSidesClean()
}

func (p *pair) bothSidesClean() {
	p.Helper()
	if p.form == "topside" {
		// The daemon stays for a while, by design; nothing else does.
		fleettest.Eventually(p, told, "the relay is gone", func() bool { return len(p.host.Processes("fleet-relay")) == 0 })
		if n := len(p.daemons()); n > 1 {
			p.Errorf("%d daemons", n)
		}
	} else {
		fleettest.Eventually(p, told, "nothing is left on the host", func() bool { return len(p.host.Processes("")) == 0 })
		if _, err := os.Lstat(filepath.Join(p.host.Home, ".topup", "sockets", "topup.sock")); err == nil {
			p.Error("the daemon's socket is left")
		}
	}
	if left, _ := os.ReadDir(p.tmp); len(left) > 0 {
		p.Errorf("left in the temporary folder: %v", left)
	}
	out, err := exec.Command("find", p.host.Home, p.home, "-name", "*.tmp").CombinedOutput()
	if err != nil || len(out) > 0 {
		p.Errorf("left: %s %v", out, err)
	}
}

// bigSize is below the cap, and more than the pipes on the way hold.
const bigSize = 6 << 20

// big makes a file that takes a while.
func (p *pair) big() string {
	p.Helper()
	path := filepath.Join(p.home, "big")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcdef", bigSize/16)), 0o600); err != nil {
		p.Fatal(err)
	}
	return path
}

// pushHalf begins a push to a host that has stopped taking it.
func (p *pair) pushHalf() (id, target string) {
	p.Helper()
	path := p.big()
	signalAll(p, syscall.SIGSTOP, "daemon", p.daemons())
	id, err := p.beginTool("push_file", map[string]any{"host": "box", "local_path": path})
	if err != nil {
		p.Fatal(err)
	}
	time.Sleep(400 * time.Millisecond)
	return id, filepath.Join(p.host.Home, ".topup", "xfer", "big")
}

func (p *pair) resume() {
	for _, pid := range p.daemons() {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

func whole(t testing.TB, path string) {
	t.Helper()
	if info, err := os.Stat(path); err == nil && info.Size() != bigSize {
		t.Errorf("%s has %d bytes of %d", path, info.Size(), bigSize)
	}
}

// TestKilledInAPush: the file is there as a whole or not at all. What had not reached
// the host is sent again by itself; otherwise the failure says so, and the next push
// works.
func TestKilledInAPush(t *testing.T) {
	eachKill(t, func(t *testing.T, form, what string) {
		p := newPair(t, form)
		id, target := p.pushHalf()
		signalAll(t, syscall.SIGKILL, what, kills[what](p))
		p.resume()
		began := time.Now()
		text, isError, err := p.finish(id)
		if err != nil || isError && !strings.HasPrefix(text, "remote box: remote box: ") {
			t.Errorf("%v %v %s", err, isError, text)
		}
		if took := time.Since(began); took > told {
			t.Errorf("told after %v: %s", took, text)
		}
		whole(t, target)
		p.must(t, "push_file", map[string]any{"host": "box", "local_path": filepath.Join(p.home, "big")})
		if info, err := os.Stat(target); err != nil || info.Size() != bigSize {
			t.Errorf("%v, %v", info, err)
		}
		p.leavesNothing()
	})
}

// TestKilledFrontEnd: what it started goes with it.
func TestKilledFrontEnd(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"topside", "topup"} {
		for _, doing := range []string{"evaluation", "push"} {
			t.Run(form+"/"+doing, func(t *testing.T) {
				t.Parallel()
				p := newPair(t, form)
				sshs := p.sshs()
				if doing == "push" {
					_, target := p.pushHalf()
					p.topup.kill()
					p.resume()
					defer whole(t, target)
				} else {
					if _, err := p.beginTool("eval", map[string]any{"host": "box", "source": "while true do Unix.sleepf 0.01 done;;"}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(300 * time.Millisecond)
					p.topup.kill()
				}
				fleettest.Eventually(t, told, "ssh is gone", func() bool {
					for _, pid := range sshs {
						if bed.Alive(pid) {
							return false
						}
					}
					return true
				})
				// The next front end finds the host as usual, and sweeps what the last left.
				p.front()
				if form == "topside" {
					p.must(t, "cancel", map[string]any{"host": "box"})
				}
				p.must(t, "eval", map[string]any{"host": "box", "source": "1;;"})
				p.leavesNothing()
			})
		}
	}
}

// TestSignalledFrontEnd: it ends what it started itself.
func TestSignalledFrontEnd(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"topside", "topup"} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
			t.Run(form+"/"+sig.String(), func(t *testing.T) {
				t.Parallel()
				p := newPair(t, form)
				if _, err := p.beginTool("eval", map[string]any{"host": "box", "source": "while true do Unix.sleepf 0.01 done;;"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(300 * time.Millisecond)
				began := time.Now()
				if err := p.cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				<-p.ended
				if took := time.Since(began); took > told {
					t.Errorf("it ended after %v", took)
				}
				p.bothSidesClean()
			})
		}
	}
}
