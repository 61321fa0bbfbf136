package cli

// This file holds "topside xtop" and the program called xtop: the command line of
// the xtop contract (section 5). Its words are matched by hand, to do what that
// program does: mcp is the server, everything that is no command is the view.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"topside/internal/contract"
	"topside/internal/see"
	"topside/internal/steer"
	"topside/internal/steer/config"
	"topside/internal/tool"
	"topside/internal/wire"
)

const xtopHelp = `xtop: the terminal view of this machine, and its MCP server

Usage:
  xtop                  watch this machine in the terminal (topside top)
  xtop mcp              serve the twelve tools of xtop over MCP, on stdin and stdout
  xtop --ct THEME       choose the theme; running views follow within a tick
  xtop --version        print the version
  xtop -h, --help       print this help

xtop mcp takes one option:
  --root PATH           observe the machine whose proc/ and sys/ are in this folder;
                        no signals are sent then

The server speaks protocol 2024-11-05, one JSON-RPC message a line. It ends with
status 0 when stdin is closed, and with status 1 at a line that is not JSON.

Thresholds, theme, layout and interval are kept in the configuration that topside
top and topside mcp share. Signals follow the policy (docs/policy.md) and are
written to the audit log.

The commands plugin, widget and layout of the original have no counterpart here.
`

const xtopUsage = "Run 'xtop --help' for the usage."

func newXtopCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:                "xtop",
		Short:              "Be xtop: its MCP server (xtop mcp) and its terminal view",
		Long:               xtopHelp,
		DisableFlagParsing: true,
		RunE:               func(c *cobra.Command, args []string) error { return runXtop(c.Context(), s, args) },
	}
}

// runXtop runs the contract's command line.
func runXtop(ctx context.Context, s Streams, args []string) error {
	if len(args) == 0 {
		return viewXtop(ctx, s)
	}
	switch args[0] {
	case "mcp":
		return runXtopMCP(ctx, s, args[1:])
	case "--help", "-h":
		_, err := fmt.Fprint(s.Out, xtopHelp)
		return err
	case "--version", "-V":
		_, err := fmt.Fprintf(s.Out, "xtop (topside %s)\n", Version())
		return err
	case "--ct":
		return chooseTheme(s, args[1:])
	case "plugin", "widget", "layout":
		return badUsage(xtopUsage, "xtop %s is not there: topside has its views built in", args[0])
	}
	return viewXtop(ctx, s)
}

// viewXtop is "topside top" with the user's configuration.
func viewXtop(ctx context.Context, s Streams) error {
	top := topCommand{observing: observing{root: "/", intervalMS: peoplesInterval.Milliseconds()}}
	return top.run(ctx, s, false)
}

// chooseTheme writes a theme to the configuration.
func chooseTheme(s Streams, args []string) error {
	themes := "The themes are " + strings.Join(config.Themes, ", ") + "."
	if len(args) == 0 || args[0] == "" {
		return badUsage(themes, "--ct needs the name of a theme")
	}
	if !slices.Contains(config.Themes, args[0]) {
		return hinted{fmt.Errorf("there is no theme %q", args[0]), themes}
	}
	path, _, err := steer.Paths()
	if err != nil {
		return err
	}
	// A file that cannot be read tells so when it is written.
	store, _ := config.Open(path)
	if _, err := store.Update(func(c *config.Config) error { c.SetTheme(args[0]); return nil }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "theme %s\n", args[0])
	return err
}

// xtopInterval is the window of the server's figures: a call that follows another
// closely has its baseline already, one after a pause waits so long.
const xtopInterval = 700 * time.Millisecond

// xtopDrain is how long requests that were read may still be answered after the
// end of input: they are served one after the other.
const xtopDrain = 10 * time.Second

func runXtopMCP(ctx context.Context, s Streams, args []string) error {
	options := see.Options{Root: "/", Interval: xtopInterval}
	a := arguments{rest: args, usage: xtopUsage, joined: true}
	for a.next() {
		switch a.option {
		case "--root":
			options.Root = a.filled()
		case "--help", "-h":
			_, err := fmt.Fprint(s.Out, xtopHelp)
			return err
		default:
			a.refuse("mcp does not take %q", a.option)
		}
	}
	if a.err != nil {
		return a.err
	}
	observer, err := newObserver(options)
	if err != nil && !errors.Is(err, errUnsupported) {
		return err
	}
	if observer != nil {
		defer closeSoon(observer)
	} else {
		fmt.Fprintf(s.Err, "xtop: %v; every tool will answer so\n", err)
	}
	advisor, err := advise(observer, nil, 0)
	if err != nil {
		return err
	}
	defer dismiss(advisor)
	return serveXtop(ctx, s, observer, advisor)
}

// serveXtop serves the client that started us.
func serveXtop(ctx context.Context, s Streams, observer *see.Observer, advisor *steer.Advisor) error {
	if isTerminal(s.In) {
		serving{invocation: "xtop mcp", service: xtopService}.explain(s)
	}
	ctx, stop := wire.Signals(ctx)
	defer stop()
	stayLight(ctx)
	ctx, leave := wire.WithParent(ctx)
	defer leave()
	stream, err := wire.Stdio()
	if err != nil {
		return err
	}
	start(ctx, observer)
	if advisor != nil {
		if err := advisor.ConfigError(); err != nil {
			fmt.Fprintf(s.Err, "xtop: %v; the defaults hold, and what is set is not saved\n", err)
		}
		advisor.Begin() // so that there are alerts at the first call
	}
	logger := slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	client := contract.NewXtopClient(tool.NewXtop(observer, advisor))
	server := client.Server()
	server.AddReceivingMiddleware(wire.RecoverPanics(logger))
	err = wire.Serve(ctx, server, stream, client.Wire(wire.Options{Drain: xtopDrain, Logger: logger}))
	if err != nil {
		return fmt.Errorf("the MCP server failed: %w", err)
	}
	return nil
}
