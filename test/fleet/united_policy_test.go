//go:build linux

package fleet

// What may be done on other hosts: questions to a person, the policies of both sides,
// audit logs, and the options that narrow a server.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/host"
	"topside/test/bed"
)

// victim is a process that may be hit.
func victim(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
	})
	return c
}

// asking starts a server whose client shows questions to a person.
func (w *united) asking() *bed.Server {
	w.t.Helper()
	s := bed.Start(w.t, []string{"mcp", "--no-engines", "--engine", "javascript"}, bed.Env(w.env()...))
	reply := s.Do("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{"elicitation": map[string]any{}},
		"clientInfo": map[string]any{"name": "bed", "version": "1"},
	})
	if reply.Error != nil {
		w.t.Fatal(reply.Error)
	}
	s.Note("notifications/initialized", nil)
	return s
}

// question waits for the n-th question of a server and answers it.
func question(t *testing.T, s *bed.Server, n int, action string) string {
	t.Helper()
	var found struct {
		ID     json.RawMessage
		Method string
		Params struct{ Message string }
	}
	fleettest.Eventually(t, bed.Patience, "a question", func() bool {
		seen := 0
		for _, line := range s.Lines() {
			if strings.Contains(line, `"elicitation/create"`) {
				if seen++; seen == n {
					return json.Unmarshal([]byte(line), &found) == nil
				}
			}
		}
		return false
	})
	s.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":%q,"content":{}}}`, found.ID, action))
	return found.Params.Message
}

func TestAPersonIsAskedForAnotherHost(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	remote := filepath.Join(w.hosts["alpha"].Home, ".config", "topside")
	if err := os.MkdirAll(remote, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(remote, "policy"), []byte("confirm signal=KILL\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type kill struct {
		Outcome, Reason string
		Killed          bool
	}
	var got kill
	read := func(reply bed.Reply) kill {
		t.Helper()
		var k kill
		if err := json.Unmarshal(bed.ResultOf(t, reply).Structured, &k); err != nil {
			t.Fatal(err)
		}
		return k
	}

	// A client that cannot ask: it fails closed.
	v := victim(t)
	deaf := w.serve()
	deaf.Get("process_kill", bed.Arguments{"host": "alpha", "pid": v.Process.Pid, "signal": "KILL"}, &got)
	if got.Killed || got.Outcome != "denied" || !strings.Contains(got.Reason, "cannot ask") {
		t.Errorf("nobody was asked: %+v", got)
	}

	s := w.asking()
	id := s.AskCall("process_kill", bed.Arguments{"host": "alpha", "pid": v.Process.Pid, "signal": "KILL"})
	if message := question(t, s, 1, "decline"); !strings.HasPrefix(message, "On host alpha: Send KILL") {
		t.Errorf("the question is %q", message)
	}
	if got := read(s.Await(id)); got.Killed || got.Outcome != "denied" || !strings.Contains(got.Reason, "declined") {
		t.Errorf("declined: %+v", got)
	}

	// The policy here asks as well: both questions, one after the other.
	w.write(".config/topside/policy", "confirm signal=KILL host=alpha because \"it is far\"\n")
	id = s.AskCall("process_kill", bed.Arguments{"host": "alpha", "pid": v.Process.Pid, "signal": "KILL"})
	if message := question(t, s, 2, "accept"); !strings.Contains(message, "Call process_kill on host alpha") || !strings.Contains(message, "it is far") {
		t.Errorf("the first question is %q", message)
	}
	if message := question(t, s, 3, "accept"); !strings.HasPrefix(message, "On host alpha") {
		t.Errorf("the second question is %q", message)
	}
	if got := read(s.Await(id)); !got.Killed {
		t.Errorf("agreed: %+v", got)
	}
	if err := os.Remove(filepath.Join(w.home, ".config/topside/policy")); err != nil {
		t.Fatal(err)
	}

	// The protocol without a handshake: the question is a result.
	v = victim(t)
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "bed", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
	}
	params := map[string]any{"name": "process_kill", "arguments": bed.Arguments{"host": "alpha", "pid": v.Process.Pid, "signal": "KILL"}, "_meta": meta}
	var asked struct {
		ResultType   string `json:"resultType"`
		RequestState string `json:"requestState"`
	}
	ask := func() {
		t.Helper()
		reply := s.Do("tools/call", params)
		if err := json.Unmarshal(reply.Result, &asked); err != nil || asked.ResultType != "input_required" || asked.RequestState == "" {
			t.Fatalf("%v %s", reply.Error, reply.Result)
		}
	}
	again := func(arguments bed.Arguments) kill {
		t.Helper()
		return read(s.Do("tools/call", map[string]any{
			"name": "process_kill", "arguments": arguments, "_meta": meta, "requestState": asked.RequestState,
			"inputResponses": map[string]any{"confirm": map[string]any{"action": "accept", "content": map[string]any{}}},
		}))
	}
	ask()
	other := victim(t)
	if got := again(bed.Arguments{"host": "alpha", "pid": other.Process.Pid, "signal": "KILL"}); got.Killed {
		t.Errorf("a word for one process was taken for another: %+v", got)
	}
	ask()
	if got := again(bed.Arguments{"host": "alpha", "pid": v.Process.Pid, "signal": "KILL"}); !got.Killed {
		t.Errorf("agreed: %+v", got)
	}

	log, err := os.ReadFile(filepath.Join(w.home, ".local", "state", "topside", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"host":"alpha"`, `"stage":"decided"`, `"stage":"done"`, fmt.Sprintf(`"pid":%d`, v.Process.Pid), `"confirmed":true`} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the audit log here has no %s:\n%s", want, log)
		}
	}
	there, err := os.ReadFile(filepath.Join(w.hosts["alpha"].Home, ".local", "state", "topside", "audit.log"))
	if err != nil || !strings.Contains(string(there), "bed 1 through topside") {
		t.Errorf("the audit log there: %s, %v", there, err)
	}
}

func TestPoliciesForOtherHosts(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha", entry: func(e *host.Entry) { e.Deny = []string{"threshold_*"} }}, farHost{name: "prod-1"})
	w.write(".config/topside/policy", `deny tool=eval,push_file host=prod-* because "no code there"
confirm tool=reset host=prod-*
deny tool=config_get host=alpha
`)
	s := w.serve()
	fails(t, s, "eval", bed.Arguments{"host": "prod-1", "source": "1"}, "denied", "no code there", "line 1")
	fails(t, s, "push_file", bed.Arguments{"host": "prod-1", "local_path": w.config}, "denied", "no code there")
	fails(t, s, "reset", bed.Arguments{"host": "prod-1"}, "denied", "wants a person's word", "cannot ask")
	fails(t, s, "config_get", bed.Arguments{"host": "alpha"}, "denied", "line 3")
	fails(t, s, "threshold_get", bed.Arguments{"host": "alpha"}, "denied", "its entry denies")
	s.Get("threshold_get", bed.Arguments{"host": "prod-1"}, &struct{}{})
	var many manyAnswer
	s.Get("eval", bed.Arguments{"hosts": []string{"alpha", "prod-1"}, "source": "6*7", "engine": "javascript"}, &many)
	if many.of(t, "alpha").Status != "ok" || many.of(t, "prod-1").Status != "denied" {
		t.Errorf("%+v", many)
	}
	// A policy that nobody can read lets nothing out.
	w.write(".config/topside/policy", "deny toll=eval\n")
	fails(t, s, "get_system_summary", bed.Arguments{"host": "prod-1"}, "denied", "policy")
}

func TestNarrowedServersAreNarrowElsewhere(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	s := w.serve("--read-only", "--exclude-tools", "list_children")
	tools, _ := listed(t, s)
	for _, name := range []string{"eval", "push_file", "pull_file", "process_kill", "list_children"} {
		if tools[name] != nil {
			t.Errorf("%s is offered", name)
		}
		refused(t, s, name, bed.Arguments{"host": "alpha"}, -32602, "unknown tool")
	}
	refused(t, s, "process_alerts", bed.Arguments{"host": "alpha", "acknowledge": "x"}, -32602, "unknown argument")
	s.Get("process_alerts", bed.Arguments{"host": "alpha"}, &struct{}{})
	if tools["list_hosts"] == nil {
		t.Error("list_hosts is not offered")
	}
	only := w.serve("--toolsets", "fleet")
	if tools, _ := listed(t, only); len(tools) != 3 {
		t.Errorf("the toolset fleet is %v", tools)
	}
}

// Calls on one session of a host keep their order; those on other hosts and here do
// not wait for them.
func TestOrderOnOtherHosts(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"}, farHost{name: "stuck", program: "#!/bin/sh\nexec sleep 600\n"})
	s := w.serve()
	stuck := s.AskCall("eval", bed.Arguments{"host": "stuck", "source": "1"})
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "var log = []", "engine": "javascript", "session": "s"}, &struct{}{})
	var ids []string
	for i := range 40 {
		ids = append(ids, s.AskCall("eval", bed.Arguments{"host": "alpha", "session": "s", "source": fmt.Sprintf("log.push(%d)", i)}))
	}
	begun := time.Now()
	s.Get("eval", bed.Arguments{"source": "1", "engine": "javascript"}, &struct{}{})
	s.Get("get_system_summary", nil, &struct{}{})
	for _, id := range ids {
		if r := bed.ResultOf(t, s.Await(id)); r.Failed() {
			t.Fatal(r.Text())
		}
	}
	var value struct {
		Value string `json:"value_repr"`
	}
	s.Get("eval", bed.Arguments{"host": "alpha", "session": "s", "source": `log.join(",")`}, &value)
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprint(i))
	}
	if !strings.Contains(value.Value, strings.Join(want, ",")) {
		t.Errorf("the order was %s", value.Value)
	}
	if took := time.Since(begun); took > waitLong || s.Answered(stuck) {
		t.Errorf("a host that hangs delayed others: %v", took)
	}
	// Many at once: the one that hangs costs its own deadline only.
	id := s.AskCall("threshold_get", bed.Arguments{"hosts": []string{"alpha", "stuck"}})
	s.Note("notifications/cancelled", map[string]any{"requestId": json.RawMessage(id), "reason": "enough"})
	s.Get("threshold_get", bed.Arguments{"host": "alpha"}, &struct{}{})
	if status, took := s.Close(waitLong); status != 0 || took > 3*time.Second {
		t.Errorf("ended with %d after %v", status, took)
	}
	w.quiet()
}

// A made-up answer opens nothing that the policy here wants a person's word for.
func TestForgedAnswersOpenNothing(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	w.write(".config/topside/policy", "confirm tool=config_set,process_kill host=*\n")
	s := w.asking()
	v := victim(t)
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "bed", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
	}
	for _, state := range []string{"there::x", "there:x:y", "there:", "here:", "here:x", "x", ":"} {
		for tool, a := range map[string]bed.Arguments{
			"config_set":   {"host": "alpha", "interval_ms": 2000},
			"process_kill": {"host": "alpha", "pid": v.Process.Pid},
		} {
			r := bed.ResultOf(t, s.Do("tools/call", map[string]any{
				"name": tool, "arguments": a, "_meta": meta, "requestState": state,
				"inputResponses": map[string]any{"confirm": map[string]any{"action": "accept", "content": map[string]any{}}},
			}))
			if !r.Failed() || !strings.Contains(r.Text(), "wants a person's word") {
				t.Errorf("%s with %q: %s", tool, state, r.Text())
			}
		}
	}
	if err := v.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process was hit: %v", err)
	}
	// What is agreed to is done, by the older form of the question.
	id := s.AskCall("config_set", bed.Arguments{"host": "alpha", "interval_ms": 2000})
	question(t, s, 1, "accept")
	if r := bed.ResultOf(t, s.Await(id)); r.Failed() {
		t.Errorf("agreed: %s", r.Text())
	}
	refused(t, s, "process_alerts", bed.Arguments{"hosts": "*", "suppress": true, "rule": "x"}, -32602, "only lists alerts")
}

// What a host tells of a call reaches the client that asked to hear it.
func TestProgressOfAnotherHost(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	s := w.serve()
	source := "var end = Date.now() + 3500; while (Date.now() < end) {} 1"
	id := s.Ask("tools/call", map[string]any{
		"name": "eval", "arguments": bed.Arguments{"host": "alpha", "source": source, "engine": "javascript"}, "_meta": map[string]any{"progressToken": "mine"},
	})
	if r := bed.ResultOf(t, s.Await(id)); r.Failed() {
		t.Fatal(r.Text())
	}
	heard := 0
	for _, line := range s.Lines() {
		if strings.Contains(line, `"notifications/progress"`) {
			heard++
			if !strings.Contains(line, `"progressToken":"mine"`) || !strings.Contains(line, "host alpha: ") {
				t.Errorf("a strange one: %s", line)
			}
		}
	}
	if heard == 0 {
		t.Error("nothing was told")
	}
}
