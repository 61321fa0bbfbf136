//go:build linux

package fleet

// What goes wrong on the way to other hosts, as a client of the united surface sees
// it: killed connections and daemons, hosts that misbehave, and older versions.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/test/bed"
)

// nearSSH lists the ssh processes that this side runs.
func (w *united) nearSSH() []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var out []int
	for _, d := range dirs {
		text, err := os.ReadFile(d)
		if err == nil && strings.Contains(string(text), w.config) && strings.Contains(string(text), "ssh") {
			var pid int
			if _, err := fmt.Sscanf(d, "/proc/%d/", &pid); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

func kill(pids []int) int {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(pids)
}

// A connection that dies in the middle of an evaluation: the call says that the work
// goes on, and the same call again, or poll, collects it; nothing runs twice.
func TestAConnectionDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"ssh", "sshd"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newUnited(t, farHost{name: "alpha"})
			s := w.serve()
			s.Get("eval", bed.Arguments{"host": "alpha", "source": "var runs = 0", "engine": "javascript", "session": "s"}, &struct{}{})
			source := "runs++; var end = Date.now() + 2500; while (Date.now() < end) {} 'done ' + runs"
			id := s.AskCall("eval", bed.Arguments{"host": "alpha", "source": source, "session": "s"})
			time.Sleep(500 * time.Millisecond)
			pids := w.nearSSH()
			if what == "sshd" {
				pids = w.hosts["alpha"].Sessions()
			}
			if kill(pids) == 0 {
				t.Fatal("there is nothing to kill")
			}
			began := time.Now()
			r := bed.ResultOf(t, s.Await(id))
			if !r.Failed() || !strings.Contains(r.Text(), "broken: ") || !strings.Contains(r.Text(), "the work goes on there") || !strings.Contains(r.Text(), "poll") {
				t.Errorf("the call says %s", r.Text())
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it noticed after %v", took)
			}
			var value struct {
				Value string `json:"value_repr"`
			}
			again := bed.Arguments{"host": "alpha", "source": source, "session": "s"}
			reply := bed.ResultOf(t, s.Call("eval", again))
			if last := reply.Content[len(reply.Content)-1].Text; !strings.Contains(string(reply.Structured), "done 1") || !strings.Contains(last, "nothing was run again") {
				t.Errorf("collected: %s, %s", reply.Structured, last)
			}
			s.Get("eval", bed.Arguments{"host": "alpha", "source": "runs", "session": "s"}, &value)
			if value.Value != "1" {
				t.Errorf("it ran %s times", value.Value)
			}
			// Once poll has brought the result, the same call is a new one.
			id = s.AskCall("eval", again)
			time.Sleep(500 * time.Millisecond)
			kill(w.nearSSH())
			if r := bed.ResultOf(t, s.Await(id)); !r.Failed() {
				t.Errorf("the second time it says %s", r.Text())
			}
			s.Get("poll", bed.Arguments{"host": "alpha", "session": "s", "wait": 20}, &value)
			if !strings.Contains(value.Value, "done 2") {
				t.Errorf("polled: %+v", value)
			}
			s.Get("eval", again, &value)
			if !strings.Contains(value.Value, "done 3") {
				t.Errorf("after poll the same call gives %+v", value)
			}
			s.Close(waitLong)
			w.quiet()
		})
	}
}

func TestADaemonDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	s := w.serve()
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "var x = 5", "engine": "javascript", "session": "s"}, &struct{}{})
	id := s.AskCall("eval", bed.Arguments{"host": "alpha", "source": "while (true) {}", "session": "s"})
	time.Sleep(300 * time.Millisecond)
	if kill(w.hosts["alpha"].Processes("fleet-daemon")) == 0 {
		t.Fatal("there is no daemon")
	}
	r := bed.ResultOf(t, s.Await(id))
	if !r.Failed() || !strings.Contains(r.Text(), "broken: ") || strings.Contains(r.Text(), "goes on") {
		t.Errorf("the call says %s", r.Text())
	}
	// The next call connects to another daemon, and the session comes back.
	var value struct {
		Value string `json:"value_repr"`
	}
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "x", "session": "s"}, &value)
	if value.Value != "5" {
		t.Errorf("the session says %+v", value)
	}
}

// A front end that is killed leaves no ssh, and its hosts their sessions.
func TestAFrontEndDies(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	s := w.serve()
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "var x = 5", "engine": "javascript", "session": "s"}, &struct{}{})
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.AwaitEnd(waitLong)
	w.quiet()
	s = w.serve()
	var value struct {
		Value      string `json:"value_repr"`
		Generation int
	}
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "x", "session": "s"}, &value)
	if value.Value != "5" || value.Generation != 1 {
		t.Errorf("another front end finds %+v", value)
	}
}

// Hosts that misbehave: an error within the deadline, and no harm to others.
func TestHostileHostsOfTheUnitedSurface(t *testing.T) {
	t.Parallel()
	modes := []string{"garbage", "mute", "silent", "half", "huge", "flood", "requests", "replies", "late", "future", "nonsense"}
	w := newUnited(t, farHost{name: "good"})
	for _, mode := range modes {
		w.add(farHost{name: mode, program: "#!/bin/sh\nexec env " + hostileVariable + "=" + mode + " " + self(t) + "\n"})
	}
	s := w.serve()
	var wait sync.WaitGroup
	for _, mode := range modes {
		if mode == "silent" {
			continue // its deadline is that of many, below
		}
		id := s.AskCall("threshold_get", bed.Arguments{"host": mode})
		wait.Go(func() {
			reply, err := s.TryAwait(id, 90*time.Second)
			var r bed.ToolResult
			if err == nil && reply.Error == nil {
				err = json.Unmarshal(reply.Result, &r)
			}
			if err != nil || reply.Error != nil || !r.Failed() || !strings.Contains(r.Text(), mode) {
				t.Errorf("%s: %v, %v, %.300s", mode, err, reply.Error, reply.Result)
			}
		})
	}
	for range 5 {
		began := time.Now()
		s.Get("threshold_get", bed.Arguments{"host": "good"}, &struct{}{})
		s.Get("threshold_get", nil, &struct{}{})
		if took := time.Since(began); took > waitLong {
			t.Errorf("the others took %v", took)
		}
	}
	var many manyAnswer
	began := time.Now()
	s.Get("threshold_get", bed.Arguments{"hosts": "*"}, &many)
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("all of them took %v", took)
	}
	if many.of(t, "good").Status != "ok" || many.of(t, "local").Status != "ok" || many.Answered != 2 || many.Failed != len(modes) {
		t.Errorf("%+v", many)
	}
	fails(t, s, "threshold_get", bed.Arguments{"host": "future"}, "incompatible", "upgrade")
	wait.Wait()
	if status, took := s.Close(waitLong); status != 0 || took > 3*time.Second {
		t.Errorf("ended with %d after %v", status, took)
	}
	w.quiet()
}

// An older topside has fewer tools and arguments: the error says what to upgrade.
func TestAnOlderHost(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "old", program: "#!/bin/sh\nexec env " + olderVariable + "=1 " + self(t) + " \"$@\"\n"})
	s := w.serve()
	fails(t, s, "threshold_get", bed.Arguments{"host": "old"}, "incompatible", "does not have the tool threshold_get", "topside hosts install old")
	fails(t, s, "list_resources", bed.Arguments{"host": "old", "limit": 3}, "incompatible", "unknown argument", "older-1", "topside hosts install old")
	refused(t, s, "get_system_summary", bed.Arguments{"host": "old"}, -32011, "host old: out of order")
}

// A server with hosts that are not used pays nothing for them.
func TestHostsAtRestCostNothing(t *testing.T) {
	t.Parallel()
	w := newUnited(t)
	for i := range 50 {
		w.register(fmt.Sprintf("host-%02d", i), nil)
	}
	s := w.serve()
	s.Get("threshold_get", nil, &struct{}{})
	fleettest.Eventually(t, waitLong, "the server is at rest", func() bool { return len(w.nearSSH()) == 0 })
	reply := s.Handshake("2025-11-25")
	if !strings.Contains(string(reply.Result), "host-00") || strings.Contains(string(reply.Result), "host-30") || !strings.Contains(string(reply.Result), "list_hosts") {
		t.Errorf("the instructions do not name some of the hosts: %s", reply.Result)
	}
}
