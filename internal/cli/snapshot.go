package cli

// This file holds "topside snapshot": one observation, for a person or a script.

import (
	"fmt"

	"github.com/spf13/cobra"

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
			options, err := observing.options(resource.Flavour{})
			if err != nil {
				return err
			}
			snapshot, end, err := observeOnce(c.Context(), options)
			if err != nil {
				return err
			}
			defer end()
			if asJSON {
				return writeJSON(s.Out, everything(snapshot, options.Root, showSecrets))
			}
			for _, warning := range snapshot.Observation().Warnings {
				fmt.Fprintf(s.Err, "topside: warning: %s\n", warning)
			}
			view := snapshotView{out: s.Out, palette: paletteFor(s.Out), columns: columnsOf(s.Out), limit: limit, showSecrets: showSecrets}
			return view.write(snapshot)
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print everything that was observed as one JSON object")
	f.IntVar(&limit, "limit", 20, "show at most `N` rows of each table; JSON has all")
	f.BoolVar(&showSecrets, "show-secrets", false, "do not redact passwords, tokens and keys in arguments and labels")
	observing.flags(f, peoplesInterval)
	return c
}
