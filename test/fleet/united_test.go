//go:build linux

package fleet

// The united surface on other hosts: one host, many, lists of many, and what is said
// of hosts.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/host"
	"topside/test/bed"
)

// listed is tools/list: input schemas by tool, and the whole as it came.
func listed(t *testing.T, s *bed.Server) (map[string]map[string]any, []byte) {
	t.Helper()
	reply := s.Do("tools/list", nil)
	var list struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(reply.Result, &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for _, tool := range list.Tools {
		all[tool.Name] = tool.InputSchema.Properties
	}
	return all, reply.Result
}

func TestUnitedOnOneHost(t *testing.T) {
	t.Parallel()
	w := newUnited(t)
	s := w.serve()
	tools, _ := listed(t, s)
	if tools["eval"]["host"] != nil || tools["push_file"] != nil || tools["list_hosts"] == nil {
		t.Errorf("without a host the tools are %v", tools)
	}
	if text := bed.ResultOf(t, s.Call("list_hosts", nil)).Text(); !strings.Contains(text, "topside hosts add") {
		t.Errorf("list_hosts does not teach: %s", text)
	}
	refused(t, s, "get_system_summary", bed.Arguments{"host": "alpha"}, -32602, "unknown argument")

	// A host that is added while the server runs.
	w.add(farHost{name: "alpha", entry: func(e *host.Entry) { e.Description, e.Tags = "the first", []string{"web"} }})
	tools, raw := listed(t, s)
	if tools["eval"]["host"] == nil || tools["eval"]["hosts"] == nil || tools["reset"]["hosts"] != nil || tools["get_system_summary"]["hosts"] == nil || tools["push_file"] == nil {
		t.Errorf("with a host the tools are %v", tools)
	}
	if len(raw) > 20_000 {
		t.Errorf("the list of tools has %d characters", len(raw))
	}

	var summary struct {
		Snapshot struct {
			ID string `json:"snapshot_id"`
		}
		Data map[string]any
	}
	s.Get("get_system_summary", bed.Arguments{"host": "alpha", "max_age_ms": 0}, &summary)
	if summary.Snapshot.ID == "" || summary.Data["counts"] == nil {
		t.Errorf("a summary of alpha: %+v", summary)
	}
	// The snapshot is alpha's: it is found there, and not here.
	var list struct{ Data []map[string]any }
	s.Get("list_resources", bed.Arguments{"host": "alpha", "snapshot_id": summary.Snapshot.ID, "limit": "3"}, &list)
	if len(list.Data) != 3 {
		t.Errorf("%d rows", len(list.Data))
	}
	fails(t, s, "list_resources", bed.Arguments{"snapshot_id": summary.Snapshot.ID}, "snapshot_unavailable")
	fails(t, s, "list_resources", bed.Arguments{"host": "alpha", "snapshot_id": "nope"}, "snapshot_unavailable")
	s.Get("get_system_summary", bed.Arguments{"host": "local"}, &summary)
	s.Get("get_system_summary", bed.Arguments{"host": ""}, &summary)

	// Sessions are the host's own.
	var value struct {
		Value      string `json:"value_repr"`
		Generation int
	}
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "var x = 40; x", "engine": "javascript", "session": "s"}, &value)
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "x + 2", "session": "s"}, &value)
	if value.Value != "42" {
		t.Errorf("a session over there says %+v", value)
	}
	fails(t, s, "eval", bed.Arguments{"source": "x", "session": "s"}, "unknown_session")

	// Errors: ours before anything is sent, theirs with the host named.
	refused(t, s, "list_resources", bed.Arguments{"host": "alpha", "limit": 5000}, -32602, "0 to 1000")
	refused(t, s, "eval", bed.Arguments{"host": "alpha", "source": "1", "timeout": -1}, -32602, "host alpha", "timeout")
	refused(t, s, "eval", bed.Arguments{"host": "alpha", "hosts": []string{"alpha"}, "source": "1"}, -32602, "cannot be combined")
	fails(t, s, "get_system_summary", bed.Arguments{"host": "beta"}, "unknown_host", "alpha", "topside hosts add")
	for _, name := range []string{"-oProxyCommand=id", "a b", "a\nb", "a\x00b", strings.Repeat("x", 300), "a;id", "$(id)"} {
		refused(t, s, "get_system_summary", bed.Arguments{"host": name}, -32602, "host")
	}

	// A host that is removed is let go.
	w.add(farHost{name: "brief"})
	s.Get("threshold_get", bed.Arguments{"host": "brief"}, &struct{}{})
	before := len(w.nearSSH())
	w.unregister("brief")
	fails(t, s, "threshold_get", bed.Arguments{"host": "brief"}, "unknown_host")
	if after := len(w.nearSSH()); after >= before {
		t.Errorf("%d of %d ssh are left", after, before)
	}

	run := w.call("get_system_summary", "host=alpha")
	if run.Status != 0 || !strings.Contains(run.Stdout, "cpu") {
		t.Errorf("topside call: %+v", run)
	}
	if run := w.call("get_system_summary", "hosts=*"); run.Status != 0 || !strings.Contains(run.Stdout, "== local: ok") || !strings.Contains(run.Stdout, "== alpha: ok") {
		t.Errorf("topside call on all: %+v", run)
	}
	if run := w.call("get_system_summary", "host=nope"); run.Status != 1 || !strings.Contains(run.Stderr, "unknown host") {
		t.Errorf("topside call on none: %+v", run)
	}

	if status, took := s.Close(5 * time.Second); status != 0 || took > 2*time.Second {
		t.Errorf("ended with %d after %v", status, took)
	}
	w.quiet()
}

func TestUnitedOnManyHosts(t *testing.T) {
	t.Parallel()
	w := newUnited(t,
		farHost{name: "alpha", entry: func(e *host.Entry) { e.Tags = []string{"web"} }},
		farHost{name: "beta", entry: func(e *host.Entry) { e.Tags = []string{"web", "db"} }},
		farHost{name: "ro", entry: func(e *host.Entry) { e.ReadOnly = true }},
		farHost{name: "old", program: "#!/bin/sh\necho nothing like topside here >&2; exit 127\n"},
	)
	s := w.serve()
	var all manyAnswer
	s.Get("get_system_summary", bed.Arguments{"hosts": "*", "max_age_ms": 0}, &all)
	if all.Answered != 4 || all.Failed != 1 || len(all.Hosts) != 5 || all.Hosts[0].Host != "local" {
		t.Fatalf("all: %+v", all)
	}
	if p := all.of(t, "beta"); p.Status != "ok" || p.Result["snapshot"] == nil && p.Text == "" {
		t.Errorf("beta: %+v", p)
	}
	if p := all.of(t, "old"); p.Status != "unreachable" || !strings.Contains(p.Error.Message+p.Error.Hint, "install") {
		t.Errorf("old: %+v", p)
	}
	s.Get("get_system_summary", bed.Arguments{"hosts": []string{"tag:db", "nope", "alpha"}}, &all)
	if len(all.Hosts) != 3 || all.of(t, "nope").Status != "unknown_host" || all.Hosts[0].Host != "beta" || all.Hosts[1].Host != "alpha" {
		t.Errorf("a selection: %+v", all)
	}
	refused(t, s, "get_system_summary", bed.Arguments{"hosts": []string{}}, -32602, "at least one")
	refused(t, s, "get_system_summary", bed.Arguments{"hosts": []string{"-x"}}, -32602, "begin with '-'")
	refused(t, s, "list_resources", bed.Arguments{"hosts": "*", "snapshot_id": "x"}, -32602, "belongs to one")
	refused(t, s, "reset", bed.Arguments{"hosts": "*"}, -32602, "unknown argument")

	// A broadcast: the same source on many, with one that forbids it.
	s.Get("eval", bed.Arguments{"hosts": []string{"local", "alpha", "beta", "ro"}, "source": "var n = 7; n * 6", "engine": "javascript"}, &all)
	for _, name := range []string{"local", "alpha", "beta"} {
		if p := all.of(t, name); p.Status != "ok" || p.Result["value_repr"] != "42" {
			t.Errorf("eval on %s: %+v", name, p)
		}
	}
	if p := all.of(t, "ro"); p.Status != "denied" || !strings.Contains(p.Error.Message, "read-only") {
		t.Errorf("eval on ro: %+v", p)
	}
	fails(t, s, "eval", bed.Arguments{"host": "ro", "source": "1"}, "denied", "read-only")

	// Many that run are stopped at once.
	begun := time.Now()
	s.Get("eval", bed.Arguments{"hosts": []string{"alpha", "beta"}, "source": "while (true) {}", "engine": "javascript", "wait": 0.2}, &all)
	for _, name := range []string{"alpha", "beta"} {
		if p := all.of(t, name); p.Result["state"] != "running" {
			t.Errorf("an endless eval on %s: %+v", name, p)
		}
	}
	s.Get("list_sessions", bed.Arguments{"hosts": []string{"alpha", "beta"}}, &all)
	session := "javascript"
	for _, entry := range all.of(t, "alpha").Result["sessions"].([]any) {
		if name, _ := entry.(map[string]any)["session"].(string); strings.Contains(name, "javascript") {
			session = name
		}
	}
	s.Get("cancel", bed.Arguments{"hosts": "tag:web", "session": session}, &all)
	for _, name := range []string{"alpha", "beta"} {
		if p := all.of(t, name); p.Result["cancelled"] != true {
			t.Errorf("cancel on %s: %+v", name, p)
		}
	}
	if took := time.Since(begun); took > waitLong {
		t.Errorf("it took %v", took)
	}

	// Lists of many are sorted and limited together.
	var merged struct {
		manyAnswer
		Matched, Returned int
		LeftOut           int `json:"left_out"`
		NextOffset        int `json:"next_offset"`
		Data              []struct {
			Host       string
			ResourceID string `json:"resource_id"`
			Usage      struct {
				Memory float64 `json:"memory_bytes"`
				Name   string
			}
		}
	}
	r := s.Get("list_resources", bed.Arguments{"hosts": []string{"alpha", "beta", "local"}, "sort_by": "memory", "limit": 9, "resource_kind": "process", "max_age_ms": 0}, &merged)
	if merged.Returned != 9 || len(merged.Data) != 9 || merged.NextOffset != 9 || merged.Matched != merged.Returned+merged.LeftOut {
		t.Errorf("merged: %+v", merged)
	}
	hosts := map[string]bool{}
	for i, row := range merged.Data {
		hosts[row.Host] = true
		if i > 0 && row.Usage.Memory > merged.Data[i-1].Usage.Memory {
			t.Errorf("row %d is not in its place: %+v", i, merged.Data)
		}
		if row.ResourceID == "" || !strings.Contains(r.Text(), row.ResourceID) {
			t.Errorf("the text lacks row %d", i)
		}
	}
	if len(hosts) != 3 || merged.of(t, "alpha").SnapshotID == "" || merged.of(t, "alpha").Matched == 0 {
		t.Errorf("rows of %v, %+v", hosts, merged.Hosts)
	}
	// Its ids work where they are from.
	s.Get("inspect_resource", bed.Arguments{"host": merged.Data[0].Host, "snapshot_id": merged.of(t, merged.Data[0].Host).SnapshotID, "resource_id": merged.Data[0].ResourceID}, &struct{}{})
	first := merged.Data[3].ResourceID
	s.Get("list_resources", bed.Arguments{"hosts": []string{"alpha", "beta", "local"}, "sort_by": "memory", "limit": 3, "offset": 3, "resource_kind": "process"}, &merged)
	if len(merged.Data) != 3 || merged.Data[0].ResourceID != first {
		t.Errorf("the second page begins with %+v, not %s", merged.Data, first)
	}
	refused(t, s, "list_resources", bed.Arguments{"hosts": "*", "limit": 1000, "offset": 1}, -32602, "1000")

	// What a host permits holds for lists of it, too.
	w.register("beta", func(e *host.Entry) { e.Deny = []string{"list_*"} })
	s.Get("list_resources", bed.Arguments{"hosts": []string{"alpha", "beta"}, "limit": 1}, &merged)
	if merged.of(t, "beta").Status != "denied" || merged.of(t, "alpha").Status != "ok" || len(merged.Data) != 1 {
		t.Errorf("a list of a host that denies it: %+v", merged)
	}
}

// Structured content conforms to what a tool declares, whoever it is from.
func TestUnitedAnswersConform(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	s := w.serve()
	var tools struct {
		Tools []struct {
			Name         string
			OutputSchema *jsonschema.Schema
		}
	}
	if err := json.Unmarshal(s.Do("tools/list", nil).Result, &tools); err != nil {
		t.Fatal(err)
	}
	declared := map[string]*jsonschema.Resolved{}
	for _, tool := range tools.Tools {
		resolved, err := tool.OutputSchema.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		declared[tool.Name] = resolved
	}
	for _, c := range []struct {
		tool string
		a    bed.Arguments
	}{
		{"get_system_summary", bed.Arguments{}},
		{"list_resources", bed.Arguments{"limit": 2}},
		{"process_alerts", bed.Arguments{}},
		{"alerts_status", bed.Arguments{}},
		{"threshold_get", bed.Arguments{}},
		{"config_get", bed.Arguments{}},
		{"eval", bed.Arguments{"source": "1", "engine": "javascript"}},
		{"eval", bed.Arguments{"source": "throw 1", "engine": "javascript"}},
		{"poll", bed.Arguments{}},
		{"cancel", bed.Arguments{}},
		{"list_sessions", bed.Arguments{}},
		{"read_output", bed.Arguments{"path": "/nope"}},
		{"inspect_resource", bed.Arguments{"snapshot_id": "x", "resource_id": "y"}},
	} {
		for _, where := range []bed.Arguments{{}, {"host": "alpha"}, {"hosts": []string{"alpha"}}, {"host": "nope"}, {"hosts": []string{"nope"}}} {
			a := bed.Arguments{}
			for _, from := range []bed.Arguments{c.a, where} {
				for k, v := range from {
					a[k] = v
				}
			}
			r := bed.ResultOf(t, s.Call(c.tool, a))
			var v any
			if err := json.Unmarshal(r.Structured, &v); err != nil {
				t.Fatalf("%s %v: %v", c.tool, a, err)
			}
			if err := declared[c.tool].Validate(v); err != nil {
				t.Errorf("%s %v does not conform: %v: %.300s", c.tool, a, err, r.Structured)
			}
			if r.Text() == "" {
				t.Errorf("%s %v has no text", c.tool, a)
			}
		}
	}
	// One host's answer is the same as that of its own server, byte for byte.
	direct := bed.ResultOf(t, s.Call("config_get", bed.Arguments{"host": "alpha"}))
	again := bed.ResultOf(t, s.Call("config_get", bed.Arguments{"host": "alpha"}))
	if !bytes.Equal(direct.Structured, again.Structured) {
		t.Errorf("%s\n%s", direct.Structured, again.Structured)
	}
}

func TestListHosts(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha", entry: func(e *host.Entry) { e.Description, e.Tags = "the \x1b[31mfirst", []string{"web"} }}, farHost{name: "gone", program: "#!/bin/sh\nexit 127\n"})
	s := w.serve()
	type row struct {
		Host, State, Version, OS, Arch, Description string
		Tags                                        []string
		Latency                                     float64 `json:"latency_ms"`
		Sessions                                    *int
		LastSeen                                    string `json:"last_seen"`
		LastError                                   string `json:"last_error"`
	}
	var list struct {
		Version string
		Hosts   []row
	}
	s.Get("list_hosts", nil, &list)
	if len(list.Hosts) != 2 || list.Hosts[0].State != "disconnected" || list.Hosts[0].Description != "the first" || list.Version == "" || list.Hosts[0].Sessions != nil {
		t.Errorf("before: %+v", list)
	}
	s.Get("list_hosts", bed.Arguments{"check": true}, &list)
	alpha, gone := list.Hosts[0], list.Hosts[1]
	if alpha.State != "connected" || alpha.Latency <= 0 || alpha.Version == "" || alpha.OS != "linux" || alpha.Arch == "" || alpha.Sessions == nil || alpha.Tags[0] != "web" {
		t.Errorf("alpha: %+v", alpha)
	}
	if gone.State != "broken" || !strings.Contains(gone.LastError, "topside hosts install gone") {
		t.Errorf("gone: %+v", gone)
	}
	fails(t, s, "get_system_summary", bed.Arguments{"host": "gone"}, "unreachable", "topside hosts install gone")
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "1", "engine": "javascript"}, &struct{}{})
	s.Get("list_hosts", nil, &list)
	if list.Hosts[0].LastSeen == "" {
		t.Errorf("alpha was not seen: %+v", list.Hosts[0])
	}
	s.Get("list_hosts", bed.Arguments{"check": true}, &list)
	if sessions := list.Hosts[0].Sessions; sessions == nil || *sessions != 1 {
		t.Errorf("alpha has a session: %+v", list.Hosts[0])
	}
	s.Close(waitLong)
	s = w.serve()
	s.Get("list_hosts", nil, &list)
	if alpha := list.Hosts[0]; alpha.State != "disconnected" || alpha.Version == "" || alpha.OS != "linux" || alpha.LastSeen == "" {
		t.Errorf("another server knows of alpha: %+v", alpha)
	}
}

// Hosts that need no registry: those of the OpenSSH configuration, and those that
// the configuration allows.
func TestHostsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha", unknown: true})
	w.write(".config/topside/config.json", fmt.Sprintf(`{"fleet":{"ssh":%q,"allow":["al*"]}}`, w.ssh()))
	s := w.serve()
	s.Get("get_system_summary", bed.Arguments{"host": "alpha"}, &struct{}{})
	fails(t, s, "get_system_summary", bed.Arguments{"host": "beta"}, "unknown_host")
	var many manyAnswer
	s.Get("get_system_summary", bed.Arguments{"hosts": []string{"alpha"}}, &many)
	if many.Answered != 1 {
		t.Errorf("%+v", many)
	}
	s.Close(waitLong)
	w.write(".config/topside/config.json", fmt.Sprintf(`{"fleet":{"ssh_config":%q}}`, w.config))
	s = w.serve()
	s.Get("get_system_summary", bed.Arguments{"hosts": "*"}, &many)
	if many.Answered != 2 {
		t.Errorf("%+v", many)
	}
	s.Close(waitLong)
	w.write(".config/topside/config.json", `{"fleet":{"sssh_config":true}}`)
	s = w.serve()
	if text := bed.ResultOf(t, s.Call("list_hosts", nil)).Text(); !strings.Contains(text, "sssh_config") || !strings.Contains(text, "takes ssh_config") {
		t.Errorf("a configuration with a slip: %s", text)
	}
}

// A client that keeps the list of tools hears when it changes: with the first host that
// is known, and when the last one is gone.
func TestClientsHearOfHosts(t *testing.T) {
	t.Parallel()
	w := newUnited(t)
	s := w.serve()
	told := func() (n int) {
		for _, line := range s.Lines() {
			if strings.Contains(line, `"notifications/tools/list_changed"`) {
				n++
			}
		}
		return n
	}
	offers := func() bool {
		tools, _ := listed(t, s)
		_, there := tools["push_file"]
		return there
	}
	if offers() {
		t.Error("files are moved without hosts")
	}
	for i, change := range []func(){
		func() { w.register("alpha", nil) },
		func() { w.register("beta", nil); w.unregister("alpha") }, // the list is the same
		func() { w.unregister("beta") },
	} {
		change()
		want := []int{1, 1, 2}[i]
		fleettest.Eventually(t, 20*time.Second, "word of the change", func() bool { return told() >= want })
		if there := offers(); there != (i < 2) {
			t.Errorf("after change %d files are moved: %v", i, there)
		}
	}
	if n := told(); n != 2 {
		t.Errorf("the client was told %d times", n)
	}
}

// A registry that cannot be understood may hold what keeps tools from hosts: it is left
// alone, what was known stays, and who starts knows no host.
func TestABrokenRegistryOpensNothing(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha", entry: func(e *host.Entry) { e.ReadOnly = true }})
	w.write(".config/topside/config.json", fmt.Sprintf(`{"fleet":{"ssh_config":%q,"allow":["*"]}}`, w.config))
	running := w.serve()
	fails(t, running, "eval", bed.Arguments{"host": "alpha", "source": "1"}, "denied", "read-only")
	w.write(".topside/hosts.json", `{"hosts": [{"name": "alpha", "read_only": true},]}`)
	fails(t, running, "eval", bed.Arguments{"host": "alpha", "source": "1"}, "denied", "read-only")
	if text := bed.ResultOf(t, running.Call("list_hosts", nil)).Text(); !strings.Contains(text, "alpha") || !strings.Contains(text, "hosts.json cannot be read") {
		t.Errorf("the hosts are %s", text)
	}
	started := w.serve()
	if tools, _ := listed(t, started); tools["push_file"] != nil {
		t.Error("hosts are offered")
	}
	if text := bed.ResultOf(t, started.Call("list_hosts", nil)).Text(); !strings.Contains(text, "0 hosts") || !strings.Contains(text, "hosts.json cannot be read") {
		t.Errorf("the hosts are %s", text)
	}
	w.write(".topside/hosts.json", `{"hosts": [{"name": "alpha", "read_only": true}]}`)
	fails(t, started, "eval", bed.Arguments{"host": "alpha", "source": "1"}, "denied", "read-only")
}
