//go:build linux

package steer

// This file calls the steer toolset of the united surface. Every reply is held
// against the schema that its tool declares.

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"topside/test/bed"
)

// A united is a server of the united surface.
type united struct {
	*bed.Server
	t       testing.TB
	schemas map[string]*jsonschema.Resolved
	names   []string
	tools   map[string]map[string]any
}

func startUnited(t testing.TB, h home, args ...string) *united {
	t.Helper()
	u := &united{
		Server: bed.Start(t, append([]string{"mcp", "--no-engines", "--interval-ms", "200"}, args...), h.env()), t: t,
		schemas: map[string]*jsonschema.Resolved{}, tools: map[string]map[string]any{},
	}
	var list struct{ Tools []map[string]any }
	if err := json.Unmarshal(u.Do("tools/list", nil).Result, &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		name := tool["name"].(string)
		u.names, u.tools[name] = append(u.names, name), tool
		var s jsonschema.Schema
		encoded, err := json.Marshal(tool["outputSchema"])
		if err == nil {
			err = json.Unmarshal(encoded, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		if u.schemas[name], err = s.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// call calls a tool; failed is its code where it failed.
func (u *united) call(tool, arguments string) (out map[string]any, failed string) {
	u.t.Helper()
	reply := u.Do("tools/call", map[string]any{"name": tool, "arguments": json.RawMessage(arguments)})
	if reply.Error != nil {
		return nil, fmt.Sprint(reply.Error.Code, " ", reply.Error.Message)
	}
	r := bed.ResultOf(u.t, reply)
	if err := json.Unmarshal(r.Structured, &out); err != nil {
		u.t.Fatalf("%s: %s", tool, reply.Line)
	}
	if err := u.schemas[tool].Validate(any(out)); err != nil {
		u.t.Errorf("%s %s: the reply does not conform: %v", tool, arguments, err)
	}
	if len(r.Content) != 1 || r.Content[0].Text == "" {
		u.t.Errorf("%s %s: %s", tool, arguments, reply.Line)
	}
	if r.Failed() {
		return out, fmt.Sprint(out["error"].(map[string]any)["code"])
	}
	return out, ""
}

func (u *united) ok(tool, arguments string) map[string]any {
	u.t.Helper()
	out, failed := u.call(tool, arguments)
	if failed != "" {
		u.t.Fatalf("%s %s: %s", tool, arguments, failed)
	}
	return out
}

var seven = []string{"process_kill", "process_alerts", "alerts_status", "threshold_get", "threshold_set", "config_get", "config_set"}

func TestSteerTools(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := startUnited(t, h, "--toolsets", "steer")
	if !slices.Equal(u.names, seven) {
		t.Errorf("the tools are %v", u.names)
	}
	for name, tool := range u.tools {
		a := tool["annotations"].(map[string]any)
		reads := slices.Contains([]string{"alerts_status", "threshold_get", "config_get"}, name)
		if a["readOnlyHint"] != reads || a["destructiveHint"] != (name == "process_kill") || a["openWorldHint"] != false ||
			a["idempotentHint"] != slices.Contains([]string{"process_alerts", "threshold_set", "config_set"}, name) {
			t.Errorf("%s: %v", name, a)
		}
	}
	reading := startUnited(t, h, "--toolsets", "steer", "--read-only")
	if want := []string{"process_alerts", "alerts_status", "threshold_get", "config_get"}; !slices.Equal(reading.names, want) {
		t.Errorf("the reading tools are %v", reading.names)
	}
	if _, failed := reading.call("process_alerts", `{"suppress":true,"rule":"orphan_process"}`); !strings.Contains(failed, "unknown argument") {
		t.Errorf("a reading server suppresses: %s", failed)
	}
	all := startUnited(t, h, "--toolsets", "xtop")
	if want := append(slices.Clone(seven), "system_summary", "processes_top", "processes_search", "process_info", "plugin_status"); !slices.Equal(all.names, want) {
		t.Errorf("with the xtop toolset the tools are %v", all.names)
	}
	for _, call := range [][2]string{
		{"system_summary", `{}`}, {"processes_top", `{"count":"3"}`}, {"processes_search", `{"pattern":".","fields":"name, cmd"}`},
		{"process_info", `{"pid":1}`}, {"plugin_status", `{}`},
	} {
		all.ok(call[0], call[1])
	}
	titled := exec.Command("sleep", "60")
	titled.Args[0] = "worker --password=hunter2"
	titled.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := titled.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = titled.Process.Kill(); _ = titled.Wait() })
	if r := all.ok("process_info", fmt.Sprintf(`{"pid":%d}`, titled.Process.Pid)); strings.Contains(fmt.Sprint(r), "hunter2") {
		t.Errorf("a secret is shown: %v", r)
	}
	if r := all.ok("processes_search", `{"pattern":"hunter2","fields":"cmd"}`); len(r["processes"].([]any)) != 0 {
		t.Errorf("a secret can be searched for: %v", r)
	}
	if _, failed := all.call("process_info", `{"pid":4194304}`); failed != "failed" {
		t.Errorf("an absent process: %s", failed)
	}
	everything := startUnited(t, h)
	if !slices.Contains(everything.names, "process_kill") || slices.Contains(everything.names, "system_summary") {
		t.Errorf("all tools are %v", everything.names)
	}
}

// stubborn starts a process that does not end at TERM.
func stubborn(t testing.TB) *exec.Cmd {
	t.Helper()
	c := exec.Command("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); _ = c.Wait() })
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSteerKill(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := startUnited(t, h, "--toolsets", "see,steer")
	expect := func(arguments, outcome string, killed bool) map[string]any {
		t.Helper()
		r := u.ok("process_kill", arguments)
		if r["outcome"] != outcome || r["killed"] != killed {
			t.Errorf("process_kill %s: %v, want %s", arguments, r, outcome)
		}
		return r
	}
	c := target(t, "sleep", "60")
	pid := c.Process.Pid
	expect(fmt.Sprintf(`{"pid":"%d","signal":"stop"}`, pid), "signalled", true)
	expect(fmt.Sprintf(`{"pid":%d.0,"signal":"CONT"}`, pid), "signalled", true)
	if r := expect(fmt.Sprintf(`{"pid":%d,"wait_ms":5000}`, pid), "exited", true); r["exited_after_ms"] == nil {
		t.Errorf("%v", r)
	}
	_ = c.Wait()
	expect(fmt.Sprintf(`{"pid":%d}`, pid), "no such process", false)

	s := stubborn(t)
	expect(fmt.Sprintf(`{"pid":%d,"wait_ms":300}`, s.Process.Pid), "still alive", true)
	if r := expect(fmt.Sprintf(`{"pid":%d,"wait_ms":200,"escalate":true}`, s.Process.Pid), "exited", true); r["escalated"] != true {
		t.Errorf("%v", r)
	}

	// By resource: the identity is that of the snapshot.
	c = target(t, "sleep", "3217")
	list := u.ok("list_resources", `{"max_age_ms":0,"match":"sleep 3217"}`)
	row := list["data"].([]any)[0].(map[string]any)
	byID := fmt.Sprintf(`{"resource_id":%q,"snapshot_id":%q,"wait_ms":5000}`, row["resource_id"], list["snapshot"].(map[string]any)["snapshot_id"])
	expect(byID, "exited", true)
	_ = c.Wait()
	expect(byID, "no such process", false)
	if _, failed := u.call("process_kill", `{"resource_id":"x","snapshot_id":"y"}`); failed != "snapshot_unavailable" {
		t.Errorf("an unknown snapshot: %s", failed)
	}

	for name, pid := range map[string]int{"process 1": 1, "the server": u.PID(), "the client": os.Getpid(), "the client's parent": os.Getppid()} {
		if r := expect(fmt.Sprintf(`{"pid":%d,"signal":"KILL"}`, pid), "denied", false); r["reason"] == nil {
			t.Errorf("%s: %v", name, r)
		}
	}
	for _, bad := range []string{
		`{}`, `{"pid":0}`, `{"pid":-5}`, `{"pid":99999999999}`, `{"pid":5.5}`, `{"pid":"x"}`, `{"pid":true}`, `{"pid":[5]}`, `{"pid":1,"signal":"SEGV"}`,
		`{"pid":1,"wait_ms":-1}`, `{"pid":1,"wait_ms":30001}`, `{"pid":1,"resource_id":"x","snapshot_id":"y"}`, `{"resource_id":"x"}`, `{"pid":1,"snapshot_id":"y"}`,
		`{"pid":4194000,"signal":"KILL","escalate":true}`, `{"pid":1,"force":true}`,
	} {
		if _, failed := u.call("process_kill", bad); !strings.HasPrefix(failed, "-32602 process_kill: ") {
			t.Errorf("process_kill %s: %s", bad, failed)
		}
	}
}

func TestSteerDryRun(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := startUnited(t, h, "--toolsets", "steer")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	c := exec.Command("sh", "-c", "sleep 61 & wait")
	c.ExtraFiles = []*os.File{f}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); _ = c.Wait() })
	f.Close()
	listener.Close()
	var r map[string]any
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		r = u.ok("process_kill", fmt.Sprintf(`{"pid":%d,"dry_run":true}`, c.Process.Pid))
		if children, _ := r["children"].([]any); len(children) == 1 && children[0].(map[string]any)["args"] == "sleep 61" || time.Now().After(deadline) {
			break
		}
	}
	if r["outcome"] != "would signal" || r["killed"] != false || len(r["children"].([]any)) != 1 || !slices.Contains(r["listening"].([]any), any(address)) && !strings.Contains(fmt.Sprint(r["listening"]), address) {
		t.Errorf("%v, the address is %s", r, address)
	}
	if !alive(c.Process.Pid) || !strings.Contains(h.audit(t), `"dry_run":true`) {
		t.Error("a dry run must do nothing, and is written down")
	}
}

// TestSteerKeepers: the processes that keep sessions, and the one that guards them,
// are not hit.
func TestSteerKeepers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := startUnited(t, h, "--toolsets", "steer,compute", "--engine", "javascript")
	u.ok("eval", `{"source":"1+1"}`)
	u.ok("start_local_session", `{"session":"second"}`)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", u.PID(), u.PID()))
	if err != nil {
		t.Fatal(err)
	}
	kept, guarded := 0, 0
	count := func(pid string) {
		r := u.ok("process_kill", `{"pid":`+pid+`,"signal":"KILL"}`)
		switch reason, _ := r["reason"].(string); {
		case r["outcome"] != "denied":
		case strings.Contains(reason, "guards"):
			guarded++
		case strings.Contains(reason, "session"):
			kept++
		}
	}
	for entry := range strings.FieldsSeq(string(children)) {
		count(entry)
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", u.PID()))
	for _, task := range tasks[1:] {
		others, _ := os.ReadFile(task)
		for entry := range strings.FieldsSeq(string(others)) {
			count(entry)
		}
	}
	if kept < 2 {
		t.Errorf("%d keepers of sessions were refused, not two", kept)
	}
	if guarded != 1 {
		t.Errorf("%d guardians of sessions were refused, not one", guarded)
	}
}

func TestSteerSettings(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := startUnited(t, h, "--toolsets", "steer")
	other := startXtop(t, h)
	get := u.ok("threshold_get", `{}`)
	if get["cpu"] != 90.0 || len(get["metrics"].([]any)) != 10 {
		t.Errorf("threshold_get: %v", get)
	}
	set := u.ok("threshold_set", `{"cpu":"81.5","swap":50,"psi_memory":0}`)
	if set["set"] != true || set["limits"].(map[string]any)["cpu"] != 81.5 {
		t.Errorf("threshold_set: %v", set)
	}
	if got := other.object("threshold_get", ``); got["cpu"] != 81.5 {
		t.Errorf("another server has %v", got)
	}
	for _, bad := range []string{`{}`, `{"cpu":101}`, `{"cpu":-1}`, `{"cpu":"NaN"}`, `{"mem":"Infinity"}`, `{"disk":1e400}`, `{"temperature":[1]}`, `{"fan":3}`} {
		if _, failed := u.call("threshold_set", bad); !strings.HasPrefix(failed, "-32") {
			t.Errorf("threshold_set %s: %s", bad, failed)
		}
	}
	r := u.ok("config_set", `{"theme":"oslo","layout":"Memory Focus","interval_ms":"250"}`)
	if r["set"] != true || r["theme"] != "oslo" || r["layout"] != "Memory Focus" || r["interval_ms"] != 250.0 {
		t.Errorf("config_set: %v", r)
	}
	if r := u.ok("config_set", `{"theme":"none","interval_ms":300}`); r["set"] != false || r["interval_ms"] != 300.0 || !strings.Contains(r["reason"].(string), "tokio") {
		t.Errorf("config_set: %v", r)
	}
	for _, bad := range []string{`{}`, `{"interval_ms":-1}`, `{"colour":"red"}`} {
		if _, failed := u.call("config_set", bad); !strings.HasPrefix(failed, "-32602") {
			t.Errorf("config_set %s: %s", bad, failed)
		}
	}
}

// TestSteerBrokenConfiguration: nothing that cannot be read is written over.
func TestSteerBrokenConfiguration(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"truncated": `{"theme":"osl`, "null": "null\n", "list": "[]", "empty": "", "newer": `{"version":99,"theme":"oslo","hologram":true}`, "unknown": `{"theme":"oslo","hologram":true}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write(t, "config.json", content)
			u := startUnited(t, h, "--toolsets", "steer")
			got := u.ok("config_get", `{}`)
			set := u.ok("config_set", `{"theme":"paris"}`)
			after, err := os.ReadFile(filepath.Join(string(h), ".config", "topside", "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			if set["set"] != true || set["theme"] != "paris" || u.ok("config_get", `{}`)["theme"] != "paris" {
				t.Errorf("config_set: %v", set)
			}
			switch name {
			case "truncated", "newer", "null", "list":
				if string(after) != content || set["reason"] == nil || !strings.Contains(set["reason"].(string), "this server only") {
					t.Errorf("the file is %q, config_set %v", after, set)
				}
			case "empty":
				if got["problem"] == nil {
					t.Errorf("config_get: %v", got)
				}
			case "unknown":
				if !strings.Contains(string(after), "hologram") || !strings.Contains(fmt.Sprint(got["remarks"]), "hologram") {
					t.Errorf("the file is %q, config_get %v", after, got)
				}
			}
			if (name == "truncated" || name == "null" || name == "list") && got["problem"] == nil {
				t.Errorf("config_get: %v", got)
			}
		})
	}
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		if err := os.MkdirAll(filepath.Join(string(h), ".config", "topside", "config.json"), 0o700); err != nil {
			t.Fatal(err)
		}
		u := startUnited(t, h, "--toolsets", "steer")
		if got := u.ok("config_get", `{}`); got["problem"] == nil || !strings.Contains(got["problem"].(string), "folder") {
			t.Errorf("config_get: %v", got)
		}
	})
	t.Run("policy", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.write(t, "policy", "allow everything\n")
		u := startUnited(t, h, "--toolsets", "steer")
		c := target(t, "sleep", "60")
		if r := u.ok("process_kill", fmt.Sprintf(`{"pid":%d}`, c.Process.Pid)); r["outcome"] != "denied" || !strings.Contains(r["reason"].(string), "line 1") || !alive(c.Process.Pid) {
			t.Errorf("%v", r)
		}
		if got := u.ok("config_get", `{}`); !strings.Contains(fmt.Sprint(got["remarks"]), "line 1") {
			t.Errorf("%v", got)
		}
	})
	t.Run("audit", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		if err := os.MkdirAll(filepath.Join(string(h), ".local", "state", "topside", "audit.log"), 0o700); err != nil {
			t.Fatal(err)
		}
		u := startUnited(t, h, "--toolsets", "steer")
		c := target(t, "sleep", "60")
		if r := u.ok("process_kill", fmt.Sprintf(`{"pid":%d}`, c.Process.Pid)); r["outcome"] != "denied" || !alive(c.Process.Pid) {
			t.Errorf("without an audit log: %v", r)
		}
	})
}

// TestSteerAlerts makes an alert of a threshold, acknowledges and suppresses it.
func TestSteerAlerts(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	u := startUnited(t, h, "--toolsets", "steer")
	u.ok("threshold_set", `{"disk":0,"inodes":0,"cpu":100,"mem":100}`)
	const threshold = `{"rule":"threshold_disk"}`
	got := u.ok("process_alerts", threshold)
	if got["matched"] != 1.0 {
		t.Fatalf("a filesystem above 0 %% gives no alert: %v", got)
	}
	a := got["alerts"].([]any)[0].(map[string]any)
	if a["severity"] != "Warning" || a["first_seen"] == nil || a["peak"] == nil || a["limit"] != 0.0 {
		t.Errorf("%v", a)
	}
	if s := u.ok("alerts_status", `{}`); s["warning"].(float64) < 1 || s["passes"].(float64) < 1 || len(s["alerts"].([]any)) > 5 {
		t.Errorf("%v", s)
	}
	id, _ := json.Marshal(map[string]any{"acknowledge": a["id"], "note": "known"})
	if r := u.ok("process_alerts", string(id)); !strings.HasPrefix(r["done"].(string), "acknowledged") {
		t.Errorf("%v", r)
	}
	if r := u.ok("process_alerts", threshold); r["matched"] != 0.0 {
		t.Errorf("it is shown after it was acknowledged: %v", r)
	}
	if r := u.ok("process_alerts", `{"rule":"threshold_disk","hidden":true}`); r["matched"] != 1.0 || r["alerts"].([]any)[0].(map[string]any)["note"] != "known" {
		t.Errorf("%v", r)
	}
	if r := u.ok("process_alerts", `{"rule":"threshold_inodes"}`); r["matched"] != 1.0 {
		t.Errorf("%v", r)
	}
	u.ok("process_alerts", `{"suppress":true,"rule":"threshold_inodes","note":"a small disk"}`)
	other := startUnited(t, h, "--toolsets", "steer")
	for _, s := range []*united{u, other} {
		if r := s.ok("process_alerts", `{"rule":"threshold_inodes"}`); r["matched"] != 0.0 {
			t.Errorf("it is shown although it was suppressed: %v", r)
		}
	}
	if r := other.ok("config_get", `{}`); !strings.Contains(fmt.Sprint(r["suppressed"]), "a small disk") {
		t.Errorf("%v", r)
	}
	u.ok("process_alerts", `{"unsuppress":true,"rule":"threshold_inodes"}`)
	if r := u.ok("process_alerts", `{"rule":"threshold_inodes"}`); r["matched"] != 1.0 {
		t.Errorf("%v", r)
	}
	for arguments, says := range map[string]string{
		`{"suppress":true}`: "needs a rule", `{"suppress":true,"rule":"x"}`: "must be one of", `{"limit":-1}`: "limit", `{"severity":"bad"}`: "Critical",
		`{"suppress":true,"unsuppress":true,"rule":"orphan_process"}`: "cannot be combined", `{"acknowledge":""}`: "must be the id", `{"note":"alone"}`: "acknowledge or suppress",
		`{"unsuppress":true,"rule":"fork_bomb"}`: "no suppression", `{"unsuppress":true,"rule":"fork_bomb","note":"x"}`: "note", `{"rule":"nosuch"}`: "orphan_process",
		`{"rule":"threshold_nosuch"}`: "threshold_swap",
	} {
		if _, failed := u.call("process_alerts", arguments); !strings.HasPrefix(failed, "-32602") || !strings.Contains(failed, says) {
			t.Errorf("process_alerts %s: %s", arguments, failed)
		}
	}
	if _, failed := u.call("process_alerts", `{"acknowledge":"nothing"}`); failed != "unknown_alert" {
		t.Errorf("an unknown alert: %s", failed)
	}
	// What was acknowledged is so for a server that starts after the others ended,
	// one of them by force.
	if err := syscall.Kill(u.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := startUnited(t, h, "--toolsets", "steer")
	if r := after.ok("process_alerts", threshold); r["matched"] != 0.0 {
		t.Errorf("the acknowledgement is forgotten: %v", r)
	}
	if r := after.ok("process_alerts", `{"rule":"threshold_disk","hidden":true}`); r["matched"] != 1.0 || r["alerts"].([]any)[0].(map[string]any)["first_seen"] != a["first_seen"] {
		t.Errorf("%v, first %v", r, a["first_seen"])
	}
}

// TestSteerIdles: a server of which nobody asked for alerts does not look for any.
func TestSteerIdles(t *testing.T) {
	t.Parallel()
	u := startUnited(t, newHome(t), "--toolsets", "see,steer")
	u.ok("get_system_summary", `{}`)
	u.ok("config_get", `{}`)
	cpu := func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", u.PID()))
		if err != nil {
			t.Fatal(err)
		}
		_, fields, _ := strings.Cut(string(stat), ") ")
		return strings.Join(strings.Fields(fields)[11:13], " ")
	}
	time.Sleep(500 * time.Millisecond) // the garbage of the first calls
	before := cpu()
	time.Sleep(6 * time.Second)
	var a, b, c, d int
	fmt.Sscan(before, &a, &b)
	fmt.Sscan(cpu(), &c, &d)
	if used := c + d - a - b; used > 2 {
		t.Errorf("an idle server used %d ticks of CPU in six seconds", used)
	}
}
