//go:build linux

package steer

// This file lets policies ask a person: through clients that can, in both forms
// of the protocol, and through one that cannot.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/test/bed"
)

// The newest protocol with a handshake, and the one without.
const (
	withHandshake = "2025-11-25"
	stateless     = "2026-07-28"
)

// dial connects the SDK's client to the binary. A nil person is a client that
// cannot ask one.
func dial(t *testing.T, h home, protocol string, person func(message string) string) *mcp.ClientSession {
	t.Helper()
	o := &mcp.ClientOptions{}
	if person != nil {
		o.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: person(r.Params.Message)}, nil
		}
	}
	c := exec.Command(bed.Binary(), "mcp", "--toolsets", "see,steer", "--no-engines", "--interval-ms", "200")
	c.Env = append(os.Environ(), "HOME="+string(h), "XDG_CONFIG_HOME=", "XDG_STATE_HOME=")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "person", Version: "7"}, o).
		Connect(t.Context(), &mcp.CommandTransport{Command: c}, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != protocol {
		t.Fatalf("the protocol is %s, not %s", got, protocol)
	}
	return session
}

func killWith(t *testing.T, s *mcp.ClientSession, arguments map[string]any) map[string]any {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "process_kill", Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	out, ok := r.StructuredContent.(map[string]any)
	if !ok || r.IsError {
		t.Fatalf("%+v", r)
	}
	return out
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestPersonIsAsked(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{withHandshake, "2025-06-18", stateless} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write(t, "policy", "confirm name=sleep because \"it is night\"\n")
			var asked atomic.Int32
			var answer atomic.Value
			s := dial(t, h, protocol, func(message string) string {
				asked.Add(1)
				if !strings.Contains(message, "TERM") || !strings.Contains(message, "sleep") || !strings.Contains(message, "it is night") {
					t.Errorf("the person is asked %q", message)
				}
				return answer.Load().(string)
			})
			c := target(t, "sleep", "60")
			for _, no := range []string{"decline", "cancel"} {
				answer.Store(no)
				if r := killWith(t, s, map[string]any{"pid": c.Process.Pid}); r["outcome"] != "denied" || r["killed"] != false || !alive(c.Process.Pid) {
					t.Errorf("%s: %v", no, r)
				}
			}
			answer.Store("accept")
			if r := killWith(t, s, map[string]any{"pid": c.Process.Pid, "dry_run": true}); r["outcome"] != "would signal" || r["needs_confirmation"] != true {
				t.Errorf("a dry run: %v", r)
			}
			if n := asked.Load(); n != 2 {
				t.Errorf("asked %d times, not twice", n)
			}
			if r := killWith(t, s, map[string]any{"pid": c.Process.Pid, "wait_ms": 5000}); r["outcome"] != "exited" || r["killed"] != true {
				t.Errorf("accepted: %v", r)
			}
			// A word holds for one action.
			next := target(t, "sleep", "60")
			answer.Store("decline")
			if r := killWith(t, s, map[string]any{"pid": next.Process.Pid}); r["outcome"] != "denied" || asked.Load() != 4 {
				t.Errorf("the next action: %v, asked %d times", r, asked.Load())
			}
			log := h.audit(t)
			for _, want := range []string{`"client":"person 7"`, `"confirmed":true`, `"stage":"declined"`, `the person declined`, `"outcome":"exited"`} {
				if !strings.Contains(log, want) {
					t.Errorf("the audit log does not have %s:\n%s", want, log)
				}
			}
			if info, err := os.Stat(filepath.Join(string(h), ".local", "state", "topside", "audit.log")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the audit log: %v %v", info, err)
			}
		})
	}
}

func TestNobodyCanBeAsked(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{withHandshake, stateless} {
		h := newHome(t)
		h.write(t, "policy", "confirm signal=KILL\n")
		s := dial(t, h, protocol, nil)
		c := target(t, "sleep", "60")
		r := killWith(t, s, map[string]any{"pid": c.Process.Pid, "signal": "KILL"})
		if r["outcome"] != "denied" || !strings.Contains(r["reason"].(string), "cannot ask") || !alive(c.Process.Pid) {
			t.Errorf("%s: %v", protocol, r)
		}
		if r := killWith(t, s, map[string]any{"pid": c.Process.Pid, "escalate": true}); r["outcome"] != "denied" || !alive(c.Process.Pid) {
			t.Errorf("%s: escalation to what needs a word: %v", protocol, r)
		}
		if r := killWith(t, s, map[string]any{"pid": c.Process.Pid, "wait_ms": 5000}); r["outcome"] != "exited" {
			t.Errorf("%s: TERM needs no word: %v", protocol, r)
		}
	}
}

// TestStateOfAQuestion: what the client sends back counts for the action that
// was asked about, once.
func TestStateOfAQuestion(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, "policy", "confirm name=sleep\n")
	s := bed.Start(t, []string{"mcp", "--toolsets", "steer"}, h.env())
	c, other := target(t, "sleep", "60"), target(t, "sleep", "60")
	call := func(arguments map[string]any, state, action string) map[string]any {
		t.Helper()
		params := map[string]any{"name": "process_kill", "arguments": arguments, "_meta": map[string]any{
			mcp.MetaKeyProtocolVersion:    stateless,
			mcp.MetaKeyClientCapabilities: map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
		}}
		if state != "" {
			params["requestState"] = state
		}
		if action != "" {
			params["inputResponses"] = map[string]any{"confirm": map[string]any{"action": action}}
		}
		var out map[string]any
		reply := s.Do("tools/call", params)
		if reply.Error != nil {
			t.Fatal(reply.Error)
		}
		if err := json.Unmarshal(reply.Result, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	ask := func() string {
		t.Helper()
		out := call(map[string]any{"pid": c.Process.Pid}, "", "")
		state, _ := out["requestState"].(string)
		request, _ := out["inputRequests"].(map[string]any)["confirm"].(map[string]any)
		if out["resultType"] != "input_required" || state == "" || request["method"] != "elicitation/create" || out["content"] != nil {
			t.Fatalf("%v", out)
		}
		return state
	}
	outcome := func(out map[string]any) any {
		content, _ := out["structuredContent"].(map[string]any)
		return content["outcome"]
	}
	for name, try := range map[string]func() map[string]any{
		"another process": func() map[string]any { return call(map[string]any{"pid": other.Process.Pid}, ask(), "accept") },
		"another signal": func() map[string]any {
			return call(map[string]any{"pid": c.Process.Pid, "signal": "KILL"}, ask(), "accept")
		},
		"an escalation": func() map[string]any {
			return call(map[string]any{"pid": c.Process.Pid, "escalate": true}, ask(), "accept")
		},
		"an invented state": func() map[string]any { return call(map[string]any{"pid": c.Process.Pid}, "invented", "accept") },
		"no answer":         func() map[string]any { return call(map[string]any{"pid": c.Process.Pid}, ask(), "") },
		"a strange answer":  func() map[string]any { return call(map[string]any{"pid": c.Process.Pid}, ask(), "maybe") },
		"a word that is used": func() map[string]any {
			state := ask()
			call(map[string]any{"pid": c.Process.Pid}, state, "decline")
			return call(map[string]any{"pid": c.Process.Pid}, state, "accept")
		},
	} {
		if got := try(); outcome(got) != "denied" || !alive(c.Process.Pid) || !alive(other.Process.Pid) {
			t.Errorf("%s: %v", name, got)
		}
	}
	// The process that the person was asked about ended meanwhile.
	state := ask()
	_ = c.Process.Kill()
	_ = c.Wait()
	if got := call(map[string]any{"pid": c.Process.Pid}, state, "accept"); outcome(got) != "no such process" {
		t.Errorf("an ended process: %v", got)
	}
	c = target(t, "sleep", "60")
	if got := call(map[string]any{"pid": c.Process.Pid, "wait_ms": 5000}, ask(), "accept"); outcome(got) != "exited" {
		t.Errorf("the same process and signal: %v", got)
	}
	for deadline := time.Now().Add(5 * time.Second); alive(c.Process.Pid) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}
