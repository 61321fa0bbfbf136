package cli

// This file holds the names that existing configurations may use and that do
// not work yet: saying so beats "unknown command".

import "github.com/spf13/cobra"

func newLaterCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return notThereYet(name) },
	}
}

func notThereYet(name string) error {
	return badUsage("What works today: topside mcp, topside wsltop. See topside --help.",
		"the %s contract is not there yet in this version (%s)", name, Version())
}
