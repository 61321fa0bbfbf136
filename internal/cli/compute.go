package cli

// This file makes the sessions that the tools compute in, for the commands that
// serve or call tools.

import (
	"context"
	"path/filepath"

	"github.com/spf13/pflag"

	"topside/internal/tool"
)

// A computing is what a command was told about sessions.
type computing struct {
	engine, state string
	stateGiven    func() bool
}

func (c *computing) flags(f *pflag.FlagSet) {
	f.StringVar(&c.engine, "engine", "", "evaluate in this `language` unless a call names one: ocaml,\nocaml-native or javascript (default ocaml where it is installed, else javascript)")
	f.StringVar(&c.state, "state", "", "keep sessions, checkpoints and long outputs in this `folder` (default\n~/.local/state/topside/compute)")
	c.stateGiven = func() bool { return f.Changed("state") }
}

// computer makes the sessions' keeper. The caller closes it.
func (c *computing) computer(ctx context.Context) (*tool.Computer, error) {
	folder := tool.StateFolder()
	if c.stateGiven != nil && c.stateGiven() {
		if c.state == "" {
			return nil, badUsage("", "--state is empty: name a folder")
		}
		var err error
		if folder, err = filepath.Abs(c.state); err != nil {
			return nil, err
		}
	}
	computer, err := tool.NewComputer(ctx, tool.ComputeOptions{Folder: folder, Engine: c.engine})
	if err != nil {
		return nil, badUsage("", "--engine %s: %v", c.engine, err)
	}
	return computer, nil
}
