package cli

// This file holds "topside snapshot": one observation, for a person or a script.

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"topside/internal/contract"
	"topside/internal/see/resource"
)

func newSnapshotCommand(s Streams) *cobra.Command {
	var (
		observing   observing
		asJSON      bool
		limit       int
		showSecrets bool
	)
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Print one observation of this machine",
		Long: `Observe this machine once, over one interval, and print what was seen: the
machine's own figures, its pressure, disks and network, the containers and units,
and the busiest processes. With --json everything that was observed is printed as
one object: the machine, the environments and every resource, with the reason
beside each figure that is absent.

CPU is in percent of the whole machine; "cores" is the same in CPUs. Containers,
units and their processes overlap: do not add them.`,
		Example: `  topside snapshot
  topside snapshot --json | jq '.resources[] | select(.kind == "container")'
  topside snapshot --root /host`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 0 {
				return badUsage("", "--limit must not be negative")
			}
			options, err := observing.options(resource.Flavour{ShowSecrets: showSecrets})
			if err != nil {
				return err
			}
			seen, err := observeOnce(c.Context(), options)
			if err != nil {
				return err
			}
			defer seen.end()
			if asJSON {
				report := everything(seen.snapshot, options.Root, showSecrets)
				if report.Environments, err = environmentsOf(c.Context(), seen); err != nil {
					return err
				}
				return writeJSON(s.Out, report)
			}
			for _, warning := range seen.snapshot.Observation().Warnings {
				fmt.Fprintf(s.Err, "topside: warning: %s\n", warning)
			}
			view := snapshotView{out: s.Out, palette: paletteFor(s.Out), columns: columnsOf(s.Out), limit: limit, showSecrets: showSecrets}
			return view.write(seen.snapshot)
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print everything that was observed as one JSON object")
	f.IntVar(&limit, "limit", 20, "show at most `N` rows of each table; JSON has all")
	f.BoolVar(&showSecrets, "show-secrets", false, "do not redact passwords, tokens and keys in arguments and labels")
	observing.flags(f, peoplesInterval)
	return c
}

// environmentsOf asks the tool, which alone knows what the status of an
// environment is, in the snapshot at hand.
func environmentsOf(ctx context.Context, seen observed) (json.RawMessage, error) {
	server, err := contract.United(contract.Config{Version: Version(), Observer: seen.observer})
	if err != nil {
		return nil, err
	}
	session, end, err := inProcess(ctx, server)
	if err != nil {
		return nil, err
	}
	defer end()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name: "get_system_summary", Arguments: map[string]any{"snapshot_id": seen.snapshot.ID()},
	})
	if err != nil {
		return nil, callFailure(ctx, err)
	}
	var summary struct {
		Data struct {
			Environments json.RawMessage `json:"environments"`
		} `json:"data"`
	}
	encoded, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(encoded, &summary)
	}
	return summary.Data.Environments, err
}
