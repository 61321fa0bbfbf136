package contract

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestWsltopHandshake(t *testing.T) {
	t.Parallel()
	server, err := Wsltop(Config{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, server)
	var got struct {
		ProtocolVersion string
		ServerInfo      map[string]any
		Capabilities    map[string]any
		Instructions    string
	}
	if err := json.Unmarshal(c.initialized, &got); err != nil {
		t.Fatal(err)
	}
	if got.ProtocolVersion != "2025-11-25" || !reflect.DeepEqual(got.ServerInfo, map[string]any{"name": "wsltop", "version": "1.2.3"}) {
		t.Errorf("%s", c.initialized)
	}
	if !reflect.DeepEqual(got.Capabilities, map[string]any{"tools": map[string]any{}}) || got.Instructions == "" {
		t.Errorf("capabilities %v, instructions %q", got.Capabilities, got.Instructions)
	}
	if string(c.result("ping", nil)) != "{}" {
		t.Error("ping is not answered by {}")
	}
}

func TestWsltopDiscovery(t *testing.T) {
	t.Parallel()
	server, err := Wsltop(Config{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, server)
	raw := c.result("tools/list", nil)
	golden(t, "wsltop.tools.json", raw)
	var list struct {
		Tools []struct {
			Name         string
			Title        *string
			Annotations  map[string]any
			InputSchema  map[string]any
			OutputSchema any
		}
		NextCursor *string
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if !reflect.DeepEqual(tool.Annotations, map[string]any{"readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false}) {
			t.Errorf("%s: annotations %v", tool.Name, tool.Annotations)
		}
		if tool.InputSchema["additionalProperties"] != false || tool.InputSchema["required"] == nil || tool.OutputSchema != nil || tool.Title != nil {
			t.Errorf("%s: %v", tool.Name, tool)
		}
		for name, p := range tool.InputSchema["properties"].(map[string]any) {
			if _, has := p.(map[string]any)["default"]; has != (name == "limit") {
				t.Errorf("%s.%s: default %v", tool.Name, name, has)
			}
		}
	}
	if !slices.Equal(names, []string{"get_system_summary", "list_resources", "inspect_resource", "list_children"}) || list.NextCursor != nil {
		t.Errorf("%v, next cursor %v", names, list.NextCursor)
	}
	if r := c.request("tools/list", map[string]any{"cursor": "x"}); r.Error == nil || r.Error.Code != -32602 {
		t.Errorf("a cursor is answered by %s", r.Result)
	}
}

// TestWsltopBadCalls has no observer at all: what is refused is refused before
// anything is collected.
func TestWsltopBadCalls(t *testing.T) {
	t.Parallel()
	server, err := Wsltop(Config{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, server)
	for _, bad := range [][2]string{
		{"nope", `{}`}, {"", `{}`}, {"tools/\u001b[31m", `{}`},
		{"list_resources", `{"limit":1001}`}, {"list_resources", `{"limit":-1}`}, {"list_resources", `{"environment":"mars"}`},
		{"list_resources", `{"parent":"x"}`}, {"get_system_summary", `{"zzz":1}`}, {"get_system_summary", `{"snapshot_id":"a","max_age_ms":5}`},
		{"inspect_resource", `{"resource_id":"x"}`}, {"list_children", `{"snapshot_id":"x"}`}, {"get_system_summary", `{"max_age_ms":null}`},
		{"list_resources", `{"limit":5.0}`}, {"list_resources", `{"limit":"5"}`}, {"get_system_summary", `{"snapshot_id":""}`},
		{"get_system_summary", `[]`}, {"get_system_summary", `"x"`},
	} {
		if _, r := c.call(bad[0], bad[1]); r.Error == nil || r.Error.Code != -32602 || r.Error.Message == "" || strings.Contains(r.Error.Message, "\x1b") {
			t.Errorf("%s %s: %+v %s", bad[0], bad[1], r.Error, r.Result)
		}
	}
	// And what is not refused fails as an operation, since nothing observes.
	res, r := c.call("get_system_summary", "")
	if r.Error != nil || res.IsError == nil || !*res.IsError {
		t.Fatalf("%+v %s", r.Error, res.raw)
	}
}

// checkWsltopReply checks what is true of every reply: both blocks are equal.
func checkWsltopReply(t *testing.T, res called) {
	t.Helper()
	if len(res.Content) != 1 || res.Content[0].Type != "text" || res.Content[0].Text != string(res.Structured) {
		t.Errorf("the text block is not the structured content: %.300s", res.raw)
	}
	if res.IsError == nil {
		t.Errorf("isError is not there: %.300s", res.raw)
	}
}

func TestWsltopOnThisMachine(t *testing.T) {
	t.Parallel()
	c := serveWsltop(t)
	first := c.ok("get_system_summary", `{"max_age_ms":0}`)
	meta := first["snapshot"].(map[string]any)
	id := meta["snapshot_id"].(string)
	if meta["cpu_scope"] != "wsl_visible" || meta["resource_id_scope"] != "observation" || len(meta) != 6 {
		t.Errorf("metadata %v", meta)
	}
	data := first["data"].(map[string]any)
	environments := data["environments"].(map[string]any)
	if len(environments) != 4 || environments["windows"] != nil || environments["wslc"] != nil || environments["wsl"] == nil {
		t.Errorf("environments %v", environments)
	}
	list := c.ok("list_resources", fmt.Sprintf(`{"snapshot_id":%q,"sort_by":"memory","limit":5}`, id))
	rows := list["data"].([]any)
	if len(rows) != 5 || !reflect.DeepEqual(list["snapshot"], first["snapshot"]) {
		t.Fatalf("%d rows, snapshot %v", len(rows), list["snapshot"])
	}
	row := rows[0].(map[string]any)["resource_id"].(string)
	for _, call := range [][2]string{
		{"get_system_summary", fmt.Sprintf(`{"snapshot_id":%q}`, id)},
		{"inspect_resource", fmt.Sprintf(`{"snapshot_id":%q,"resource_id":%q}`, id, row)},
		{"list_children", fmt.Sprintf(`{"snapshot_id":%q,"resource_id":%q}`, id, row)},
		{"list_resources", fmt.Sprintf(`{"snapshot_id":%q,"limit":0}`, id)},
		{"list_resources", fmt.Sprintf(`{"snapshot_id":%q,"parent":%q}`, id, row)},
		{"list_resources", fmt.Sprintf(`{"snapshot_id":%q,"limit":1000,"sort_by":"name"}`, id)},
	} {
		res, r := c.call(call[0], call[1])
		if r.Error != nil || *res.IsError {
			t.Fatalf("%v: %+v %s", call, r.Error, res.raw)
		}
		checkWsltopReply(t, res)
		if got := decode(t, res.Structured); !reflect.DeepEqual(got["snapshot"], first["snapshot"]) {
			t.Errorf("%v: the snapshot's metadata changed: %v", call, got["snapshot"])
		}
	}
	inspected := c.ok("inspect_resource", fmt.Sprintf(`{"snapshot_id":%q,"resource_id":%q}`, id, row))
	if !reflect.DeepEqual(inspected["data"], rows[0]) {
		t.Errorf("inspected %v, listed %v", inspected["data"], rows[0])
	}
	names := []string{}
	for _, r := range c.ok("list_resources", fmt.Sprintf(`{"snapshot_id":%q,"limit":1000,"sort_by":"name"}`, id))["data"].([]any) {
		names = append(names, r.(map[string]any)["usage"].(map[string]any)["name"].(string))
	}
	if !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("names are not descending: %q", names)
	}
}

func TestWsltopFailures(t *testing.T) {
	t.Parallel()
	c := serveWsltop(t)
	one := c.ok("get_system_summary", `{"max_age_ms":0}`)["snapshot"].(map[string]any)["snapshot_id"].(string)
	row := c.ok("list_resources", fmt.Sprintf(`{"snapshot_id":%q,"limit":1}`, one))["data"].([]any)[0].(map[string]any)["resource_id"].(string)
	two := c.ok("get_system_summary", `{"max_age_ms":0}`)["snapshot"].(map[string]any)["snapshot_id"].(string)
	if one == two {
		t.Error("a forced snapshot is not new")
	}
	for _, f := range []struct{ tool, arguments, code string }{
		{"get_system_summary", `{"snapshot_id":"nope"}`, "snapshot_unavailable"},
		{"list_resources", fmt.Sprintf(`{"snapshot_id":%q,"parent":"1"}`, one), "unknown_resource"},
		{"inspect_resource", fmt.Sprintf(`{"snapshot_id":%q,"resource_id":"1"}`, one), "unknown_resource"},
		{"inspect_resource", fmt.Sprintf(`{"snapshot_id":%q,"resource_id":%q}`, two, row), "unknown_resource"},
	} {
		res, r := c.call(f.tool, f.arguments)
		if r.Error != nil || res.IsError == nil || !*res.IsError {
			t.Errorf("%s %s: %+v %s", f.tool, f.arguments, r.Error, res.raw)
			continue
		}
		checkWsltopReply(t, res)
		got := decode(t, res.Structured)
		detail, _ := got["error"].(map[string]any)
		if len(got) != 1 || len(detail) != 2 || detail["code"] != f.code || detail["message"] == "" {
			t.Errorf("%s %s: %s", f.tool, f.arguments, res.Structured)
		}
	}
	c.ok("inspect_resource", fmt.Sprintf(`{"snapshot_id":%q,"resource_id":%q}`, one, row)) // still fine in its own
	for range 3 {
		c.ok("get_system_summary", `{"max_age_ms":0}`)
	}
	if res, _ := c.call("get_system_summary", fmt.Sprintf(`{"snapshot_id":%q}`, one)); !*res.IsError {
		t.Error("the first snapshot outlived four newer ones")
	}
}

func TestConcurrentLatestCallsShareASample(t *testing.T) {
	t.Parallel()
	c := serveWsltop(t)
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		ids  = map[string]bool{}
	)
	for range 8 {
		wait.Go(func() {
			res, _ := c.call("list_resources", `{"max_age_ms":20000,"limit":1}`)
			var got struct {
				Snapshot struct {
					ID string `json:"snapshot_id"`
				}
			}
			if err := json.Unmarshal(res.Structured, &got); err != nil {
				t.Error(err)
			}
			mu.Lock()
			ids[got.Snapshot.ID] = true
			mu.Unlock()
		})
	}
	wait.Wait()
	if len(ids) != 1 {
		t.Errorf("concurrent calls gave %d snapshots", len(ids))
	}
}
