package cli

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/contract"
)

// TestWithoutObserver is a server on a platform that cannot be observed: it
// starts, lists its tools, and each answers why it cannot.
func TestWithoutObserver(t *testing.T) {
	t.Parallel()
	for name, surface := range map[string]func(contract.Config) (*mcp.Server, error){"united": contract.United, "wsltop": contract.Wsltop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := surface(contract.Config{Version: "1"})
			if err != nil {
				t.Fatal(err)
			}
			session, end, err := inProcess(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) < 4 {
				t.Fatalf("%d tools, %v", len(tools.Tools), err)
			}
			for tool, arguments := range map[string]map[string]any{
				"get_system_summary": {},
				"list_resources":     {"limit": 1},
				"inspect_resource":   {"snapshot_id": "s", "resource_id": "r"},
				"list_children":      {"snapshot_id": "s", "resource_id": "r"},
			} {
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
				if err != nil {
					t.Errorf("%s: %v", tool, err)
				} else if text := textOf(result); !result.IsError || !strings.Contains(text, "collection_failed") || !strings.Contains(text, "cannot observe") {
					t.Errorf("%s: isError %v, %s", tool, result.IsError, text)
				}
			}
		})
	}
}
