//go:build linux

package e2e

// Other people's clients: the official SDK's, and the Inspector's command line
// from npm.

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/test/bed"
)

var toolNames = []string{"get_system_summary", "list_resources", "inspect_resource", "list_children"}

func TestTheSDKsClient(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		command := exec.Command(bed.Binary(), args...)
		client := mcp.NewClient(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
		if err != nil {
			t.Fatal(err)
		}
		listed, err := session.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range listed.Tools {
			names = append(names, tool.Name)
		}
		if !slices.Equal(names, toolNames) {
			t.Errorf("tools %v", names)
		}
		call := func(name string, arguments map[string]any, into any) {
			t.Helper()
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
			if err != nil {
				t.Fatal(err)
			}
			if result.IsError {
				t.Fatalf("%s: %v", name, result.Content)
			}
			encoded, err := json.Marshal(result.StructuredContent)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(encoded, into); err != nil {
				t.Fatal(err)
			}
		}
		var sum struct{ Snapshot snapshot }
		call("get_system_summary", map[string]any{"max_age_ms": 0}, &sum)
		var list listing
		call("list_resources", map[string]any{"snapshot_id": sum.Snapshot.ID, "limit": 1}, &list)
		var one struct{ Data row }
		call("inspect_resource", map[string]any{"snapshot_id": sum.Snapshot.ID, "resource_id": list.Data[0].ID}, &one)
		if one.Data.ID != list.Data[0].ID {
			t.Errorf("inspected %q", one.Data.ID)
		}
		call("list_children", map[string]any{"snapshot_id": sum.Snapshot.ID, "resource_id": list.Data[0].ID}, &list)
		if result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "get_system_summary", Arguments: map[string]any{"snapshot_id": "unknown"}}); err != nil || !result.IsError {
			t.Errorf("an unknown snapshot: %v %v", result, err)
		}
		if err := session.Ping(ctx, nil); err != nil {
			t.Errorf("ping: %v", err)
		}
		begun := time.Now()
		if err := session.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(begun); took > time.Second+slack {
			t.Errorf("the server took %v to end", took)
		}
	})
}

func TestTheInspectorsCommandLine(t *testing.T) {
	t.Parallel()
	folder := bed.Project(t, "test", "peers")
	if _, err := os.Stat(bed.Project(t, "test", "peers", "node_modules", ".bin", "mcp-inspector-cli")); err != nil {
		t.Fatalf("the Inspector is not installed; run test/install: %v", err)
	}
	inspector := func(t *testing.T, server []string, args ...string) json.RawMessage {
		t.Helper()
		line := append([]string{"--no-install", "mcp-inspector-cli", "--cli", bed.Binary()}, server...)
		c := exec.Command("npx", append(line, args...)...)
		c.Dir = folder
		c.Env = append(os.Environ(), "NO_UPDATE_NOTIFIER=1")
		r := bed.RunCommand(t, c)
		if r.Status != 0 || !json.Valid([]byte(r.Stdout)) {
			t.Fatalf("the Inspector with %v: status %d\n%s\n%s", args, r.Status, r.Stdout, r.Stderr)
		}
		return json.RawMessage(r.Stdout)
	}
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			// The Inspector takes the options behind the command for its own.
			server := s.args[:slices.IndexFunc(s.args, func(a string) bool { return a == "mcp" })+1]
			var listed struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal(inspector(t, server, "--method", "tools/list"), &listed); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range listed.Tools {
				names = append(names, tool.Name)
			}
			for _, name := range toolNames {
				if !slices.Contains(names, name) {
					t.Errorf("%s is not among the tools %v", name, names)
				}
			}
			call := func(tool string, args ...string) bed.ToolResult {
				t.Helper()
				line := []string{"--method", "tools/call", "--tool-name", tool}
				for _, a := range args {
					line = append(line, "--tool-arg", a)
				}
				var r bed.ToolResult
				if err := json.Unmarshal(inspector(t, server, line...), &r); err != nil {
					t.Fatal(err)
				}
				if r.Structured == nil || r.Text() == "" {
					t.Errorf("%s: no content", tool)
				}
				return r
			}
			if r := call("get_system_summary", "max_age_ms=0"); r.Failed() {
				t.Errorf("get_system_summary: %s", r.Text())
			}
			if r := call("list_resources", "limit=3", "sort_by=memory"); r.Failed() {
				t.Errorf("list_resources: %s", r.Text())
			}
			// Each run of the Inspector is a server of its own, which cannot
			// know an id of the one before.
			for _, tool := range []string{"inspect_resource", "list_children"} {
				if r := call(tool, "snapshot_id=none", "resource_id=none"); !r.Failed() {
					t.Errorf("%s: %s", tool, r.Text())
				}
			}
		})
	}
}
