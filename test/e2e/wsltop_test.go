//go:build linux

package e2e

// The wsltop contract as a client of the original meets it: sections 1 to 6 of
// its page, and what its own stdio tests check.

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"topside/test/bed"
)

func startWsltop(t *testing.T, args ...string) *bed.Server {
	t.Helper()
	s := bed.Start(t, append([]string{"wsltop", "mcp", "--interval-ms", "300", "--wsl-only", "--no-wslc", "--no-docker"}, args...))
	s.Handshake("2025-11-25")
	return s
}

func TestWsltopHandshake(t *testing.T) {
	t.Parallel()
	s := bed.Start(t, []string{"wsltop", "mcp"})
	reply := s.Handshake("2025-11-25")
	var r struct {
		ProtocolVersion string
		ServerInfo      struct{ Name, Version string }
		Capabilities    map[string]any
		Instructions    string
	}
	if err := json.Unmarshal(reply.Result, &r); err != nil {
		t.Fatal(err)
	}
	if r.ProtocolVersion != "2025-11-25" || r.ServerInfo.Name != "wsltop" || r.ServerInfo.Version == "" || r.Instructions == "" {
		t.Errorf("the handshake: %s", reply.Result)
	}
	if names := slices.Collect(maps.Keys(r.Capabilities)); !slices.Equal(names, []string{"tools"}) {
		t.Errorf("capabilities %v, want tools only", names)
	}
	if tools, ok := r.Capabilities["tools"].(map[string]any); !ok || tools["listChanged"] == true {
		t.Errorf("the tools capability: %v", r.Capabilities["tools"])
	}
	answersStill(t, s)
	endsWell(t, s)
}

// wsltopSchemas is the table of section 1.3: o is optional, r required.
var wsltopSchemas = map[string]map[string]string{
	"get_system_summary": {"snapshot_id": "o", "max_age_ms": "o"},
	"list_resources": {"snapshot_id": "o", "max_age_ms": "o", "parent": "o", "sort_by": "o", "sort_order": "o", "limit": "o",
		"environment": "o", "resource_kind": "o", "name_contains": "o"},
	"inspect_resource": {"snapshot_id": "r", "resource_id": "r"},
	"list_children": {"snapshot_id": "r", "resource_id": "r", "sort_by": "o", "sort_order": "o", "limit": "o",
		"environment": "o", "resource_kind": "o", "name_contains": "o"},
}

var wsltopProperties = map[string]string{
	"snapshot_id":   `{"type":"string","minLength":1,"maxLength":16384}`,
	"max_age_ms":    `{"type":"integer","minimum":0}`,
	"resource_id":   `{"type":"string","minLength":1,"maxLength":16384}`,
	"parent":        `{"type":"string","minLength":1,"maxLength":16384}`,
	"sort_by":       `{"type":"string","enum":["cpu","memory","name"]}`,
	"sort_order":    `{"type":"string","enum":["asc","desc"]}`,
	"limit":         `{"type":"integer","minimum":0,"maximum":1000,"default":30}`,
	"environment":   `{"type":"string","enum":["windows","wsl","wslc","docker"]}`,
	"resource_kind": `{"type":"string","enum":["process","application","container","infra","host"]}`,
	"name_contains": `{"type":"string","maxLength":1024}`,
}

func TestWsltopToolList(t *testing.T) {
	t.Parallel()
	s := startWsltop(t)
	reply := s.Do("tools/list", nil)
	var r struct {
		Tools []struct {
			Name, Description string
			Annotations       map[string]any
			InputSchema       struct {
				Type                 string
				AdditionalProperties *bool
				Required             *[]string
				Properties           map[string]map[string]any
			}
			OutputSchema json.RawMessage
		}
		NextCursor *string
	}
	if err := json.Unmarshal(reply.Result, &r); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
		want := wsltopSchemas[tool.Name]
		schema := tool.InputSchema
		if schema.Type != "object" || schema.AdditionalProperties == nil || *schema.AdditionalProperties || schema.Required == nil {
			t.Errorf("%s: the schema is not closed, or says not what is required", tool.Name)
			continue
		}
		if got, want := slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
			t.Errorf("%s: arguments %v, want %v", tool.Name, got, want)
		}
		for name, property := range schema.Properties {
			if slices.Contains(*schema.Required, name) != (want[name] == "r") {
				t.Errorf("%s: %s is required: %v", tool.Name, name, want[name] != "r")
			}
			delete(property, "description")
			delete(property, "title")
			var wanted map[string]any
			if err := json.Unmarshal([]byte(wsltopProperties[name]), &wanted); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(property, wanted) {
				t.Errorf("%s.%s is %v, want %v", tool.Name, name, property, wanted)
			}
		}
		annotations := map[string]any{"readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false}
		if !reflect.DeepEqual(tool.Annotations, annotations) {
			t.Errorf("%s: annotations %v, want %v", tool.Name, tool.Annotations, annotations)
		}
		if len(tool.Description) < 30 {
			t.Errorf("%s: description %q", tool.Name, tool.Description)
		}
	}
	if want := []string{"get_system_summary", "list_resources", "inspect_resource", "list_children"}; !slices.Equal(names, want) {
		t.Errorf("tools %v, want %v", names, want)
	}
	if r.NextCursor != nil {
		t.Error("a next cursor for four tools")
	}
	if reply := s.Do("tools/list", map[string]any{"cursor": "x"}); reply.Error == nil || reply.Error.Code != -32602 {
		t.Errorf("a cursor: %s", reply.Line)
	}
}

func TestWsltopRefusesArguments(t *testing.T) {
	t.Parallel()
	s := startWsltop(t)
	long := strings.Repeat("x", 16385)
	for _, test := range []struct {
		tool string
		args string
	}{
		{"nope", `{}`},
		{"get_system_summary", `{"zzz":1}`},
		{"get_system_summary", `{"limit":3}`},
		{"get_system_summary", `{"max_age_ms":null}`},
		{"get_system_summary", `{"snapshot_id":null}`},
		{"get_system_summary", `{"max_age_ms":-1}`},
		{"get_system_summary", `{"max_age_ms":1.5}`},
		{"get_system_summary", `{"max_age_ms":5.0}`},
		{"get_system_summary", `{"max_age_ms":"5"}`},
		{"get_system_summary", `{"max_age_ms":true}`},
		{"get_system_summary", `{"max_age_ms":18446744073709551616}`},
		{"get_system_summary", `{"snapshot_id":"a","max_age_ms":5}`},
		{"get_system_summary", `{"snapshot_id":""}`},
		{"get_system_summary", `{"snapshot_id":7}`},
		{"get_system_summary", `{"snapshot_id":"` + long + `"}`},
		{"get_system_summary", `[1]`},
		{"get_system_summary", `"text"`},
		{"list_resources", `{"limit":1001}`},
		{"list_resources", `{"limit":-1}`},
		{"list_resources", `{"limit":5.5}`},
		{"list_resources", `{"limit":5.0}`},
		{"list_resources", `{"limit":"5"}`},
		{"list_resources", `{"limit":null}`},
		{"list_resources", `{"environment":"mars"}`},
		{"list_resources", `{"environment":"linux"}`},
		{"list_resources", `{"environment":["wsl"]}`},
		{"list_resources", `{"parent":"x"}`},
		{"list_resources", `{"parent":"x","max_age_ms":0}`},
		{"list_resources", `{"snapshot_id":"a","parent":""}`},
		{"list_resources", `{"resource_id":"x"}`},
		{"list_resources", `{"sort_by":"pid"}`},
		{"list_resources", `{"sort_order":"up"}`},
		{"list_resources", `{"sort_order":"DESC"}`},
		{"list_resources", `{"resource_kind":"thread"}`},
		{"list_resources", `{"name_contains":"` + strings.Repeat("é", 1025) + `"}`},
		{"list_resources", `{"name_contains":5}`},
		{"inspect_resource", `{}`},
		{"inspect_resource", `{"resource_id":"x"}`},
		{"inspect_resource", `{"snapshot_id":"x"}`},
		{"inspect_resource", `{"snapshot_id":"a","resource_id":"b","max_age_ms":0}`},
		{"inspect_resource", `{"snapshot_id":"a","resource_id":""}`},
		{"inspect_resource", `{"snapshot_id":"a","resource_id":"b","limit":1}`},
		{"list_children", `{"snapshot_id":"x"}`},
		{"list_children", `{"resource_id":"x"}`},
		{"list_children", `{"snapshot_id":"a","resource_id":"b","parent":"c"}`},
		{"list_children", `{"snapshot_id":"a","resource_id":"b","max_age_ms":0}`},
		{"list_children", `{"snapshot_id":"a","resource_id":"` + long + `"}`},
	} {
		reply := s.Do("tools/call", map[string]any{"name": test.tool, "arguments": json.RawMessage(test.args)})
		if reply.Error == nil || reply.Error.Code != -32602 || reply.Error.Message == "" {
			t.Errorf("%s %.80s: %.200s, want -32602", test.tool, test.args, reply.Line)
		}
	}
	// And what is at the edge is accepted.
	for _, test := range []struct {
		tool, args string
	}{
		{"get_system_summary", `{"max_age_ms":18446744073709551615}`},
		{"list_resources", `{"name_contains":""}`},
		{"list_resources", `{"name_contains":"` + strings.Repeat("é", 1024) + `"}`},
		{"list_resources", `{"limit":0}`},
		{"list_resources", `{"limit":1000}`},
	} {
		reply := s.Do("tools/call", map[string]any{"name": test.tool, "arguments": json.RawMessage(test.args)})
		if reply.Error != nil || bed.ResultOf(t, reply).Failed() {
			t.Errorf("%s %.80s: %.200s, want success", test.tool, test.args, reply.Line)
		}
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":"none","method":"tools/call","params":{"name":"get_system_summary"}}`,
	} {
		s.Send(line)
		if reply := s.Await(`"none"`); reply.Error != nil {
			t.Errorf("a call without arguments: %v", reply.Error)
		}
	}
}

// Arguments are checked before a collection is waited for.
func TestWsltopChecksArgumentsAtOnce(t *testing.T) {
	t.Parallel()
	s := slowServer(t, surfaces[1].args)
	slow := s.AskCall("get_system_summary", bed.Arguments{"max_age_ms": 0})
	if reply := s.Call("list_resources", bed.Arguments{"limit": 1001}); reply.Error == nil || reply.Error.Code != -32602 {
		t.Errorf("%s", reply.Line)
	}
	if s.Answered(slow) {
		t.Error("the refusal waited for the collection")
	}
	s.Await(slow)
}

func TestWsltopSummary(t *testing.T) {
	t.Parallel()
	s := startWsltop(t)
	reply := s.Call("get_system_summary", bed.Arguments{"max_age_ms": 0})
	r := bed.ResultOf(t, reply)
	sameAsText(t, r)
	var answer struct {
		Snapshot map[string]json.RawMessage
		Data     map[string]json.RawMessage
	}
	if err := json.Unmarshal(r.Structured, &answer); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"snapshot_id", "captured_at_unix_ms", "sample_window_ms", "warnings", "resource_id_scope", "cpu_scope"} {
		if _, ok := answer.Snapshot[key]; !ok {
			t.Errorf("snapshot has no %s", key)
		}
	}
	for _, key := range []string{"host_logical_cpu_count", "host_cpu_percent", "cpu_breakdown", "cpu_overlap_unresolved", "host_memory", "environments"} {
		if _, ok := answer.Data[key]; !ok {
			t.Errorf("data has no %s", key)
		}
	}
	var typed struct {
		Snapshot snapshot
		Data     struct {
			CPUs         int              `json:"host_logical_cpu_count"`
			Breakdown    *json.RawMessage `json:"cpu_breakdown"`
			Overlap      *bool            `json:"cpu_overlap_unresolved"`
			Environments map[string]*struct {
				CPU    *float64 `json:"cpu_percent"`
				Memory *uint64  `json:"memory_bytes"`
			}
		}
	}
	if err := json.Unmarshal(r.Structured, &typed); err != nil {
		t.Fatal(err)
	}
	if typed.Snapshot.Scope != "observation" || typed.Snapshot.CPUScope != "wsl_visible" || typed.Snapshot.Warnings == nil {
		t.Errorf("snapshot: %+v", typed.Snapshot)
	}
	if typed.Snapshot.WindowMS <= 0 || typed.Snapshot.CapturedAt == nil || time.Since(typed.Snapshot.end()).Abs() > time.Minute {
		t.Errorf("times: %+v", typed.Snapshot)
	}
	if typed.Data.CPUs != runtime.NumCPU() && typed.Data.CPUs < 1 {
		t.Errorf("%d CPUs", typed.Data.CPUs)
	}
	if typed.Data.Breakdown != nil || typed.Data.Overlap == nil {
		t.Errorf("cpu_breakdown %v, cpu_overlap_unresolved %v; want null and a boolean", typed.Data.Breakdown, typed.Data.Overlap)
	}
	if got := slices.Sorted(maps.Keys(typed.Data.Environments)); !slices.Equal(got, []string{"docker", "windows", "wsl", "wslc"}) {
		t.Errorf("environments %v", got)
	}
	for name, e := range typed.Data.Environments {
		if (e == nil) == (name == "wsl") {
			t.Errorf("environment %s is %v", name, e)
		}
	}
	if wsl := typed.Data.Environments["wsl"]; wsl != nil && (wsl.CPU == nil || wsl.Memory == nil || *wsl.CPU < 0 || *wsl.CPU > 100.5) {
		t.Errorf("wsl: %+v", wsl)
	}
}

func sameAsText(t *testing.T, r bed.ToolResult) {
	t.Helper()
	if r.IsError == nil {
		t.Error("isError is not present")
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" {
		t.Fatalf("content has %d blocks, want one of text", len(r.Content))
	}
	var a, b any
	if err := json.Unmarshal(r.Structured, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(r.Content[0].Text), &b); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("the text is not the structured content: %v", err)
	}
}

func TestWsltopRows(t *testing.T) {
	t.Parallel()
	s := startWsltop(t)
	reply := s.Call("list_resources", bed.Arguments{"max_age_ms": 0, "limit": 1000})
	r := bed.ResultOf(t, reply)
	sameAsText(t, r)
	var raw struct {
		Data []map[string]json.RawMessage
	}
	if err := json.Unmarshal(r.Structured, &raw); err != nil {
		t.Fatal(err)
	}
	var list listing
	if err := json.Unmarshal(r.Structured, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Data) < 5 {
		t.Fatalf("%d rows", len(list.Data))
	}
	cpus := float64(runtime.NumCPU())
	ids := map[string]bool{}
	for i, row := range list.Data {
		for _, key := range []string{"resource_id", "parent_ids", "cores_used", "usage"} {
			if _, ok := raw.Data[i][key]; !ok {
				t.Fatalf("row %d has no %s", i, key)
			}
		}
		var usage map[string]json.RawMessage
		if err := json.Unmarshal(raw.Data[i]["usage"], &usage); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"environment", "kind", "id", "pid", "name", "cpu_percent", "memory_bytes"} {
			if _, ok := usage[key]; !ok {
				t.Errorf("usage of row %d has no %s", i, key)
			}
		}
		for _, key := range []string{"source", "ppid", "args", "cpu_time_seconds"} {
			if string(usage[key]) == "null" {
				t.Errorf("usage of row %d: %s is null instead of left out", i, key)
			}
		}
		u := row.Usage
		if u.Environment != "wsl" || u.Kind != "process" && u.Kind != "infra" || u.PID == nil || u.ID != fmt.Sprint(*u.PID) || u.Source != nil {
			t.Errorf("row %d: %s", i, raw.Data[i]["usage"])
		}
		if row.Parents == nil || row.Cores == nil || u.CPU == nil || !near(*row.Cores, *u.CPU*cpus/100, 1e-3) {
			t.Errorf("row %d: cores_used %v of %v %%", i, row.Cores, u.CPU)
		}
		if len(row.ID) > 24 || ids[row.ID] {
			t.Errorf("row %d: id %q is too long or there twice", i, row.ID)
		}
		ids[row.ID] = true
	}
	// inspect gives exactly a row.
	r = bed.ResultOf(t, s.Call("inspect_resource", bed.Arguments{"snapshot_id": list.Snapshot.ID, "resource_id": list.Data[0].ID}))
	sameAsText(t, r)
	var inspected struct {
		Snapshot snapshot
		Data     map[string]json.RawMessage
	}
	if err := json.Unmarshal(r.Structured, &inspected); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(inspected.Snapshot, list.Snapshot) || string(inspected.Data["usage"]) != string(raw.Data[0]["usage"]) {
		t.Errorf("inspected %s\nlisted    %s", inspected.Data["usage"], raw.Data[0]["usage"])
	}
}

func near(a, b, tolerance float64) bool { return a-b <= tolerance && b-a <= tolerance }

func TestWsltopSorting(t *testing.T) {
	t.Parallel()
	s := startWsltop(t)
	var base listing
	s.Get("list_resources", bed.Arguments{"max_age_ms": 0, "limit": 1000}, &base)
	for _, by := range []string{"", "cpu", "memory", "name"} {
		for _, order := range []string{"", "asc", "desc"} {
			a := bed.Arguments{"snapshot_id": base.Snapshot.ID, "limit": 1000}
			if by != "" {
				a["sort_by"] = by
			}
			if order != "" {
				a["sort_order"] = order
			}
			var list listing
			s.Get("list_resources", a, &list)
			if len(list.Data) != len(base.Data) {
				t.Errorf("%s %s: %d rows, not %d", by, order, len(list.Data), len(base.Data))
			}
			sorted := slices.IsSortedFunc(list.Data, func(a, b row) int {
				c := compareRows(a, b, by)
				if order != "asc" {
					c = -c
				}
				if c != 0 {
					return c
				}
				return strings.Compare(a.Usage.Name, b.Usage.Name)
			})
			if !sorted {
				t.Errorf("sort_by %q %q: not in that order", by, order)
			}
			if !reflect.DeepEqual(list.Snapshot, base.Snapshot) {
				t.Errorf("the metadata of a pinned snapshot changed: %+v", list.Snapshot)
			}
		}
	}
	var first listing
	s.Get("list_resources", bed.Arguments{"snapshot_id": base.Snapshot.ID}, &first)
	if len(first.Data) != min(30, len(base.Data)) {
		t.Errorf("the default limit gave %d rows", len(first.Data))
	}
	s.Get("list_resources", bed.Arguments{"snapshot_id": base.Snapshot.ID, "limit": 0}, &first)
	if first.Data == nil || len(first.Data) != 0 {
		t.Errorf("limit 0 gave %v", first.Data)
	}
	for _, environment := range []string{"windows", "wslc", "docker"} {
		s.Get("list_resources", bed.Arguments{"snapshot_id": base.Snapshot.ID, "environment": environment}, &first)
		if len(first.Data) != 0 {
			t.Errorf("%s has rows", environment)
		}
	}
	name := base.Data[0].Usage.Name
	s.Get("list_resources", bed.Arguments{"snapshot_id": base.Snapshot.ID, "name_contains": name[:1], "limit": 1000}, &first)
	for _, r := range first.Data {
		if !strings.Contains(r.Usage.Name, name[:1]) {
			t.Errorf("name_contains %q lists %q", name[:1], r.Usage.Name)
		}
	}
}

func compareRows(a, b row, by string) int {
	cpu := func() int { return compare(*a.Usage.CPU, *b.Usage.CPU) }
	memory := func() int { return compare(*a.Usage.Memory, *b.Usage.Memory) }
	first, second := cpu, memory
	switch by {
	case "name":
		return strings.Compare(a.Usage.Name, b.Usage.Name)
	case "memory":
		first, second = memory, cpu
	}
	if c := first(); c != 0 {
		return c
	}
	return second()
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestWsltopSnapshots(t *testing.T) {
	t.Parallel()
	s := startWsltop(t)
	id := func(a bed.Arguments) string {
		t.Helper()
		var answer struct{ Snapshot snapshot }
		s.Get("get_system_summary", a, &answer)
		return answer.Snapshot.ID
	}
	first := id(bed.Arguments{"max_age_ms": 0})
	if len(first) > 24 {
		t.Errorf("snapshot id %q is longer than 24 characters", first)
	}
	if again := id(nil); again != first {
		t.Error("a fresh snapshot was not reused")
	}
	var list listing
	s.Get("list_resources", bed.Arguments{"snapshot_id": first, "limit": 1}, &list)
	resource := list.Data[0].ID
	for _, test := range []struct {
		tool string
		a    bed.Arguments
		code string
	}{
		{"get_system_summary", bed.Arguments{"snapshot_id": "nope"}, "snapshot_unavailable"},
		{"list_resources", bed.Arguments{"snapshot_id": "nope"}, "snapshot_unavailable"},
		{"inspect_resource", bed.Arguments{"snapshot_id": "nope", "resource_id": resource}, "snapshot_unavailable"},
		{"list_children", bed.Arguments{"snapshot_id": "nope", "resource_id": resource}, "snapshot_unavailable"},
		{"inspect_resource", bed.Arguments{"snapshot_id": first, "resource_id": fmt.Sprint(os.Getpid())}, "unknown_resource"},
		{"list_children", bed.Arguments{"snapshot_id": first, "resource_id": "x"}, "unknown_resource"},
		{"list_resources", bed.Arguments{"snapshot_id": first, "parent": "x"}, "unknown_resource"},
	} {
		reply := s.Call(test.tool, test.a)
		if code, message := toolError(t, reply); code != test.code || message == "" {
			t.Errorf("%s %v: %q %q, want %s", test.tool, test.a, code, message, test.code)
		}
		r := bed.ResultOf(t, reply)
		sameAsText(t, r)
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(r.Structured, &keys); err != nil || keys["snapshot"] != nil || keys["data"] != nil {
			t.Errorf("%s: a failure with data: %s", test.tool, r.Structured)
		}
	}
	// A leaf has no children, which is no error; parent is the same question.
	s.Get("list_children", bed.Arguments{"snapshot_id": first, "resource_id": resource}, &list)
	if list.Data == nil || len(list.Data) != 0 {
		t.Errorf("children of a process: %v", list.Data)
	}
	s.Get("list_resources", bed.Arguments{"snapshot_id": first, "parent": resource}, &list)
	if list.Data == nil || len(list.Data) != 0 {
		t.Errorf("children of a process: %v", list.Data)
	}
	second := id(bed.Arguments{"max_age_ms": 0})
	if second == first {
		t.Error("a forced call gave the old snapshot")
	}
	if code, _ := toolError(t, s.Call("inspect_resource", bed.Arguments{"snapshot_id": second, "resource_id": resource})); code != "unknown_resource" {
		t.Errorf("an id of another snapshot: %q", code)
	}
	var inspected struct{ Snapshot snapshot }
	s.Get("inspect_resource", bed.Arguments{"snapshot_id": first, "resource_id": resource}, &inspected)
	for range 3 {
		id(bed.Arguments{"max_age_ms": 0})
	}
	if code, _ := toolError(t, s.Call("get_system_summary", bed.Arguments{"snapshot_id": first})); code != "snapshot_unavailable" {
		t.Errorf("the fifth snapshot did not push out the first: %q", code)
	}
	s.Get("get_system_summary", bed.Arguments{"snapshot_id": second}, &inspected)
	// Ids of another server never fit.
	other := startWsltop(t)
	if code, _ := toolError(t, other.Call("get_system_summary", bed.Arguments{"snapshot_id": second})); code != "snapshot_unavailable" {
		t.Errorf("another server knows the snapshot: %q", code)
	}
}

func TestWsltopConcurrentLatestCallsShareASample(t *testing.T) {
	t.Parallel()
	s := startWsltop(t)
	var answer struct{ Snapshot snapshot }
	s.Get("get_system_summary", bed.Arguments{"max_age_ms": 0}, &answer)
	time.Sleep(400 * time.Millisecond)
	a := s.AskCall("list_resources", bed.Arguments{"max_age_ms": 1})
	b := s.AskCall("list_resources", bed.Arguments{"max_age_ms": 1})
	var ids []string
	for _, id := range []string{a, b} {
		var list listing
		if err := json.Unmarshal(bed.ResultOf(t, s.Await(id)).Structured, &list); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, list.Snapshot.ID)
	}
	if ids[0] != ids[1] || ids[0] == answer.Snapshot.ID {
		t.Errorf("two calls at once gave %v, after %s", ids, answer.Snapshot.ID)
	}
}

func TestWsltopCommandLine(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--interval-ms", "0"}, {"--interval-ms", "99"}, {"--interval-ms", "60001"}, {"--interval-ms", "x"}, {"--interval-ms", "-1"}, {"--interval-ms"},
		{"--interval-ms", "1.5"}, {"--json"}, {"--once"}, {"--interactive"}, {"--tree"}, {"--limit", "3"}, {"--sort", "cpu"}, {"--cpu-scale", "core"},
		{"--distro", "x"}, {"--distro"}, {"--wsl-only", "--help"}, {"extra"}, {"--nonsense"},
	} {
		r := bed.RunBinary(t, append([]string{"wsltop", "mcp"}, args...)...)
		if r.Status == 0 || r.Stdout != "" || r.Stderr == "" {
			t.Errorf("wsltop mcp %v: status %d, stdout %q, stderr %q; want a refusal on stderr", args, r.Status, r.Stdout, r.Stderr)
		}
	}
	for _, args := range [][]string{{"--interval-ms", "100"}, {"--interval-ms", "60000"}, {"--wsl-only"}, {"--no-docker"}, {"--no-wslc"}} {
		if r := bed.RunBinary(t, append([]string{"wsltop", "mcp"}, args...)...); r.Status != 0 || r.Stdout != "" {
			t.Errorf("wsltop mcp %v with an empty input: status %d, stdout %q, stderr %q", args, r.Status, r.Stdout, r.Stderr)
		}
	}
	for _, flag := range []string{"--help", "-h"} {
		r := bed.RunBinary(t, "wsltop", "mcp", flag)
		for _, word := range []string{"read-only", "stdio", "--interval-ms", "get_system_summary", "list_resources", "inspect_resource", "list_children", "4", "60"} {
			if !strings.Contains(r.Stdout, word) {
				t.Errorf("the help does not mention %q", word)
			}
		}
		if r.Status != 0 {
			t.Errorf("%s: status %d", flag, r.Status)
		}
	}
}

// Existing configurations start a program called wsltop.
func TestWsltopByItsName(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "wsltop")
	if err := os.Symlink(bed.Binary(), link); err != nil {
		t.Fatal(err)
	}
	s := bed.Start(t, []string{"mcp", "--interval-ms", "100"}, bed.Command(link))
	reply := s.Handshake("2025-11-25")
	if !strings.Contains(string(reply.Result), `"wsltop"`) {
		t.Errorf("%s", reply.Result)
	}
	endsWell(t, s)
	for _, args := range [][]string{{"--json", "--interval-ms", "100", "--limit", "3"}, {"--once", "--json", "--interval-ms", "100", "--limit", "3"}} {
		r := bed.RunCommand(t, exec.Command(link, args...))
		var rows []usage
		if err := json.Unmarshal([]byte(r.Stdout), &rows); err != nil || len(rows) == 0 || r.Status != 0 {
			t.Errorf("wsltop %v: status %d, %v: %.300s %s", args, r.Status, err, r.Stdout, r.Stderr)
		}
	}
	r := bed.RunCommand(t, exec.Command(link, "--tree", "--json", "--interval-ms", "100"))
	var tree map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.Stdout), &tree); err != nil {
		t.Fatalf("wsltop --tree --json: %v %s", err, r.Stderr)
	}
	for _, key := range []string{"host_logical_cpu_count", "groups", "unmapped_children", "docker_groups", "wslc_groups", "windows_applications"} {
		if _, ok := tree[key]; !ok {
			t.Errorf("the tree has no %s", key)
		}
	}
	for _, args := range [][]string{{"--version"}, {"--help"}} {
		if r := bed.RunCommand(t, exec.Command(link, args...)); r.Status != 0 || r.Stdout == "" {
			t.Errorf("wsltop %v: status %d %q", args, r.Status, r.Stdout)
		}
	}
	if r := bed.RunCommand(t, exec.Command(link, "--interactive", "--json")); r.Status == 0 || r.Stdout != "" || r.Stderr == "" {
		t.Errorf("--interactive with --json: %+v", r)
	}
}
