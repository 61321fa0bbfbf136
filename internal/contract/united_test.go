package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/fleet"
	"topside/internal/see"
	"topside/internal/tool"
)

var update = flag.Bool("update", false, "write the snapshots of the tool lists anew")

// golden compares a reply with testdata/name, indented for reading.
func golden(t *testing.T, name string, raw json.RawMessage) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("what clients see of the tools has changed; if that is meant, run go test ./internal/contract -update and look at the difference in %s", path)
	}
}

// toolsBudget is in characters of JSON, for all tools and by toolset: a token is
// about four.
const toolsBudget = 20_000

var toolsetBudgets = map[string]int{tool.See: 7000, tool.Steer: 3550, tool.Compute: 7500}

// hosts are those of a fleet that has none, but allows those that match.
func hosts(t testing.TB, allow ...string) *tool.Hosts {
	t.Helper()
	h, err := tool.NewHosts(tool.HostsOptions{Fleet: fleet.Options{Version: "1.2.3", Surface: "topside", Allow: allow}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestUnitedDiscovery(t *testing.T) {
	t.Parallel()
	var c *client
	for name, hosts := range map[string]*tool.Hosts{"united.tools.json": hosts(t), "united.hosts.tools.json": hosts(t, "*")} {
		server, err := United(Config{Version: "1.2.3", Hosts: hosts})
		if err != nil {
			t.Fatal(err)
		}
		c = connect(t, server)
		raw := c.result("tools/list", nil)
		golden(t, name, raw)
		if len(raw) > toolsBudget {
			t.Errorf("the tool list %s has %d characters, more than %d", name, len(raw), toolsBudget)
		}
	}
	for toolset, budget := range toolsetBudgets {
		server, err := United(Config{Toolsets: []string{toolset}})
		if err != nil {
			t.Fatal(err)
		}
		if raw := connect(t, server).result("tools/list", nil); len(raw) > budget {
			t.Errorf("the tools of %s have %d characters, more than %d", toolset, len(raw), budget)
		}
	}
	for _, declared := range Inventory(Config{Hosts: hosts(t)}) {
		if len(declared.Name) > 30 {
			t.Errorf("the name %s is too long for some clients", declared.Name)
		}
	}
	info := decode(t, c.initialized)
	if name := info["serverInfo"].(map[string]any)["name"]; name != "topside" {
		t.Errorf("the server calls itself %v", name)
	}
	if r := c.request("tools/list", map[string]any{"cursor": "x"}); r.Error == nil || r.Error.Code != -32602 {
		t.Errorf("a cursor is answered by %s", r.Result)
	}
}

func TestUnitedChoice(t *testing.T) {
	t.Parallel()
	server, err := United(Config{Toolsets: []string{"see"}, Exclude: []string{"list_children"}, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, server)
	if raw := string(c.result("tools/list", nil)); strings.Contains(raw, `"list_children"`) || !strings.Contains(raw, `"inspect_resource"`) {
		t.Errorf("the list is %s", raw)
	}
	if _, r := c.call("list_children", `{"snapshot_id":"a","resource_id":"b"}`); r.Error == nil || r.Error.Code != -32602 || !strings.Contains(r.Error.Message, "the tools are") {
		t.Errorf("an excluded tool is answered: %+v", r)
	}
	for _, bad := range []Config{{Toolsets: []string{"sea"}}, {Exclude: []string{"x"}}} {
		if _, err := United(bad); err == nil || !strings.Contains(err.Error(), "are") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// schemas are the declared output schemas, by tool.
func schemas(t *testing.T) map[string]*jsonschema.Resolved {
	t.Helper()
	all := map[string]*jsonschema.Resolved{}
	for _, declared := range tool.SeeTools(nil, false) {
		var s jsonschema.Schema
		if err := json.Unmarshal(declared.OutputSchema(), &s); err != nil {
			t.Fatal(err)
		}
		resolved, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		all[declared.Name] = resolved
	}
	return all
}

// exercise makes all kinds of calls and checks that every reply conforms to the
// schema that its tool declares, and that either block is enough alone.
func exercise(t *testing.T, c *client) {
	t.Helper()
	declared := schemas(t)
	snapshot := c.ok("get_system_summary", `{"max_age_ms":0}`)["snapshot"].(map[string]any)["snapshot_id"].(string)
	pinned := fmt.Sprintf(`"snapshot_id":%q`, snapshot)
	calls := [][2]string{
		{"get_system_summary", `{` + pinned + `}`},
		{"get_system_summary", `{"snapshot_id":"nope"}`},
		{"list_resources", `{` + pinned + `,"limit":"1000","sort_by":"Memory","name_contains":null}`},
		{"list_resources", `{` + pinned + `,"limit":0}`},
		{"list_resources", `{` + pinned + `,"match":"^[a-z]","user":"root"}`},
		{"list_resources", `{` + pinned + `,"unit":"ssh","container":"web"}`},
		{"list_resources", `{` + pinned + `,"parent":"nope"}`},
		{"list_children", `{` + pinned + `,"resource_id":"nope"}`},
	}
	seen := map[string]bool{}
	for _, r := range c.ok("list_resources", `{`+pinned+`,"limit":1000}`)["data"].([]any) {
		row := r.(map[string]any)
		usage := row["usage"].(map[string]any)
		kind := fmt.Sprint(usage["kind"], usage["environment"], usage["kernel"])
		if seen[kind] {
			continue // one of each kind is enough
		}
		seen[kind] = true
		calls = append(calls,
			[2]string{"inspect_resource", fmt.Sprintf(`{%s,"resource_id":%q}`, pinned, row["resource_id"])},
			[2]string{"list_children", fmt.Sprintf(`{%s,"resource_id":%q}`, pinned, row["resource_id"])})
	}
	for _, call := range calls {
		res, r := c.call(call[0], call[1])
		if r.Error != nil {
			t.Errorf("%v: %+v", call, r.Error)
			continue
		}
		var v any
		if err := json.Unmarshal(res.Structured, &v); err != nil {
			t.Fatal(err)
		}
		if err := declared[call[0]].Validate(v); err != nil {
			t.Errorf("%v: the reply does not conform: %v\n%.500s", call, err, res.Structured)
		}
		if res.IsError == nil || len(res.Content) != 1 || res.Content[0].Text == "" || strings.ContainsAny(res.Content[0].Text, "\x1b\u202e") {
			t.Errorf("%v: %.500s", call, res.raw)
			continue
		}
		text := res.Content[0].Text
		if !*res.IsError && !strings.Contains(text, snapshot) {
			t.Errorf("%v: the text does not have the snapshot's id: %s", call, text)
		}
		if rows, ok := v.(map[string]any)["data"].([]any); ok {
			for _, row := range rows {
				if id := row.(map[string]any)["resource_id"].(string); !strings.Contains(text, id) {
					t.Errorf("%v: the text does not have the id %s", call, id)
				}
			}
		}
	}
}

func TestUnitedOnThisMachine(t *testing.T) {
	t.Parallel()
	c := serveUnited(t)
	exercise(t, c)
	list := c.ok("list_resources", `{"limit":3}`)
	if list["returned"] != 3.0 || list["matched"].(float64) != 3+list["left_out"].(float64) {
		t.Errorf("matched %v, returned %v, left out %v", list["matched"], list["returned"], list["left_out"])
	}
	self := c.ok("list_resources", fmt.Sprintf(`{"max_age_ms":0,"match":%q}`, regexp.QuoteMeta(filepath.Base(os.Args[0]))))
	if self["matched"].(float64) < 1 {
		t.Error("this test does not find its own process")
	}
}

// TestUnitedOnRecordedTrees serves trees in which rates cannot be known.
func TestUnitedOnRecordedTrees(t *testing.T) {
	t.Parallel()
	trees, err := filepath.Glob(filepath.Join("..", "..", "testdata", "trees", "*", "proc"))
	if err != nil || len(trees) == 0 {
		t.Fatalf("no recorded trees: %v", err)
	}
	for _, root := range trees {
		root = filepath.Dir(root)
		t.Run(filepath.Base(root), func(t *testing.T) {
			t.Parallel()
			server, err := United(Config{Version: "1", Observer: observer(t, see.Options{Root: root, WithoutEngines: true})})
			if err != nil {
				t.Fatal(err)
			}
			c := connect(t, server)
			exercise(t, c)
			if data := c.ok("get_system_summary", "")["data"].(map[string]any); data["host_cpu_percent"] != nil {
				t.Errorf("a tree has a CPU share: %v", data["host_cpu_percent"])
			}
		})
	}
}

func TestUnitedFailuresTeach(t *testing.T) {
	t.Parallel()
	c := serveUnited(t)
	res, _ := c.call("get_system_summary", `{"snapshot_id":"nope"}`)
	detail := decode(t, res.Structured)["error"].(map[string]any)
	if detail["code"] != "snapshot_unavailable" || !strings.Contains(fmt.Sprint(detail["hint"]), "max_age_ms") || !strings.Contains(res.Content[0].Text, "max_age_ms") {
		t.Errorf("%s", res.raw)
	}
	for _, bad := range []struct{ tool, arguments, says string }{
		{"list_resource", `{}`, "list_resources"},
		{"list_resources", `{"pid":1}`, "its arguments are"},
		{"list_resources", `{"match":"("}`, "regular expression"},
		{"list_resources", `{"match":"` + strings.Repeat("x", 513) + `"}`, "512"},
		{"list_resources", `{"limit":1001}`, "0 to 1000"},
		{"list_resources", `{"environment":"wsl"}`, "linux, docker"},
		{"list_resources", `{"snapshot_id":"x","max_age_ms":1}`, "cannot be combined"},
		{"inspect_resource", `{}`, "is required"},
	} {
		if _, r := c.call(bad.tool, bad.arguments); r.Error == nil || r.Error.Code != -32602 || !strings.Contains(r.Error.Message, bad.says) {
			t.Errorf("%s %.60s: %+v", bad.tool, bad.arguments, r.Error)
		}
	}
}

// TestHandlerFaults: a panic and unknown errors are answers, and the server
// answers the next call.
func TestHandlerFaults(t *testing.T) {
	t.Parallel()
	handlers := map[string]tool.Handler{
		"panics": func(context.Context, tool.Call) (tool.Result, error) { panic("on purpose") },
		"fails": func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, errors.New("disk\x1b[31m on fire")
		},
		"cancelled": func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, context.Canceled },
		"unwritable": func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Structured: func() {}}, nil
		},
		"works": func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Structured: map[string]int{"a": 1}, Text: "line\nwith \"quotes\", \\ and \x01\xff"}, nil
		},
	}
	s := &surface{name: "faults", check: tool.CheckLenient, failure: unitedFailure}
	for _, name := range []string{"works", "unwritable", "cancelled", "fails", "panics"} {
		s.tools = append(s.tools, &tool.Tool{Name: name, Description: name, Handler: handlers[name]})
	}
	c := connect(t, s.serve("1"))
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(c.result("tools/list", nil), &list); err != nil || list.Tools[0].Name != "works" || list.Tools[4].Name != "panics" {
		t.Errorf("tools are not in the declared order: %v %v", list, err)
	}
	for _, name := range []string{"panics", "cancelled", "unwritable"} {
		if _, r := c.call(name, ""); r.Error == nil || r.Error.Code != -32603 || strings.Contains(r.Error.Message, "on purpose") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if res, r := c.call("fails", ""); r.Error != nil || !*res.IsError || res.Content[0].Text != "internal: disk on fire" {
		t.Errorf("fails: %+v %s", r.Error, res.raw)
	}
	if res, r := c.call("works", ""); r.Error != nil || res.Content[0].Text != "line\nwith \"quotes\", \\ and \x01\ufffd" {
		t.Errorf("works: %+v %q", r.Error, res.Content)
	}
}

// TestStatelessProtocol speaks the protocol without a handshake, through the
// SDK's own client, whose results say that they are complete.
func TestStatelessProtocol(t *testing.T) {
	t.Parallel()
	server, err := United(Config{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, server)
	meta := map[string]any{mcp.MetaKeyProtocolVersion: "2026-07-28", mcp.MetaKeyClientCapabilities: map[string]any{}}
	raw := c.result("tools/call", map[string]any{"name": "get_system_summary", "arguments": map[string]any{}, "_meta": meta})
	got := decode(t, raw)
	info, _ := got["_meta"].(map[string]any)
	if got["resultType"] != "complete" || info[mcp.MetaKeyServerInfo] == nil {
		t.Errorf("%s", raw)
	}
}

// TestOfficialClient calls through the SDK's own client.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	server, err := United(Config{Version: "1.2.3", Observer: observe(t, false)})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	here, there := mcp.NewInMemoryTransports()
	serving, err := server.Connect(ctx, there, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer serving.Close()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "list_resources", Arguments: map[string]any{"limit": 2}})
	if err != nil || res.IsError || len(res.Content) != 1 {
		t.Fatalf("%v %+v", err, res)
	}
	if rows := res.StructuredContent.(map[string]any)["data"].([]any); len(rows) != 2 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "a\"b\\c\n\t\r\x00\x1f\x7f", "é🙂\u2028", "<&>", "broken \xff\xc3", strings.Repeat("x\"", 1000)} {
		var got string
		if err := json.Unmarshal(appendString(nil, []byte(s)), &got); err != nil || got != strings.ToValidUTF8(strings.ReplaceAll(s, "\xff\xc3", "\ufffd\ufffd"), "\ufffd") {
			t.Errorf("%q became %q, %v", s, got, err)
		}
	}
}
