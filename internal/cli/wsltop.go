package cli

// This file holds "topside wsltop" and the program called wsltop: the command
// line of the wsltop contract (sections 6.1 and 6.2). Its arguments are parsed
// by hand, to accept and refuse exactly what that program does.

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"topside/internal/contract"
	"topside/internal/see"
	"topside/internal/see/resource"
	"topside/internal/wire"
)

func newWsltopCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:                "wsltop",
		Short:              "Be wsltop: its MCP server (wsltop mcp) and its listing",
		Long:               wsltopHelp,
		DisableFlagParsing: true,
		RunE:               func(c *cobra.Command, args []string) error { return runWsltop(c.Context(), s, args) },
	}
}

// runWsltop runs the contract's command line. The first argument decides
// whether it is the server or the listing.
func runWsltop(ctx context.Context, s Streams, args []string) error {
	if len(args) > 0 && args[0] == "mcp" {
		return runWsltopMCP(ctx, s, args[1:])
	}
	return runWsltopListing(ctx, s, args)
}

// wsltopMCPOptions are what "wsltop mcp" accepts.
type wsltopMCPOptions struct {
	intervalMS           int64
	withoutDocker        bool
	socket, root         string
	wslOnly, withoutWSLC bool // nothing else is there on Linux
	socketGiven          bool
	redact               bool
}

func runWsltopMCP(ctx context.Context, s Streams, args []string) error {
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
		_, err := fmt.Fprint(s.Out, wsltopMCPHelp)
		return err
	}
	options, err := parseWsltopMCP(args)
	if err != nil {
		return err
	}
	interval, err := intervalOf(options.intervalMS, see.MaxInterval)
	if err != nil {
		return err
	}
	return serve(ctx, s, serving{
		options: see.Options{
			Root: options.root, Interval: interval, WithoutEngines: options.withoutDocker,
			Flavour: resource.Flavour{WSL: true, WithoutContainers: options.withoutDocker, ShowSecrets: !options.redact},
		},
		surface: contract.Wsltop, wire: wire.Options{Screen: contract.WsltopScreen}, socket: options.socket, socketGiven: options.socketGiven,
		tools: surfacing{showSecrets: !options.redact, wslOnly: options.wslOnly}, invocation: "wsltop mcp", service: wsltopService,
	})
}

const wsltopMCPUsage = "Run 'wsltop mcp --help' for the options."

func parseWsltopMCP(args []string) (wsltopMCPOptions, error) {
	o := wsltopMCPOptions{intervalMS: see.DefaultInterval.Milliseconds(), root: "/"}
	a := arguments{rest: args, usage: wsltopMCPUsage}
	for a.next() {
		switch a.option {
		case "--interval-ms":
			o.intervalMS = a.integer()
		case "--wsl-only":
			o.wslOnly = true
		case "--no-docker":
			o.withoutDocker = true
		case "--no-wslc":
			o.withoutWSLC = true
		case "--distro":
			a.refuse("--distro belongs to the Windows executable: here there is one machine, this one")
		case "--socket":
			o.socket, o.socketGiven = a.value(), true
		case "--root":
			o.root = a.filled()
		case "--redact-secrets":
			o.redact = true
		case "--help", "-h":
			a.refuse("%s must be the only argument", a.option)
		default:
			a.refuse("mcp does not take %q", a.option)
		}
	}
	return o, a.err
}

const wsltopMCPHelp = `wsltop mcp: a read-only MCP server on this machine's processes, over stdio

Usage: wsltop mcp [OPTIONS]

An MCP client starts this command and speaks JSON-RPC with it over stdin and
stdout. It observes only: there are no tools that act on processes or containers,
no shell and no network listener. It ends with status 0 when stdin is closed.

Options:
  --interval-ms N   sample over N milliseconds, 100 to 60000 (default 3000)
  --wsl-only        observe this machine's own environment only
  --no-docker       do not look for Docker containers
  --no-wslc         do not look for WSL containers
  --socket PATH     serve a Unix socket (owner only) instead of stdin and stdout
  --root PATH       observe the machine whose proc/ and sys/ are in this folder
  --redact-secrets  hide passwords, tokens and keys in arguments
  -h, --help        print this help; only as the sole argument

--distro NAME exists in the Windows executable only.

Tools:
  get_system_summary   CPU and memory of the machine and of each environment
  list_resources       processes and containers, filtered, sorted and limited
  inspect_resource     one resource of a snapshot
  list_children        what is directly below a container

Snapshots: the latest 4 are kept in memory for 60 seconds; a call without a
snapshot id reuses one that is at most 3000 ms old, or collects a new one.

Scope: resource ids belong to one snapshot. CPU is in percent of the whole
machine. The totals of environments, and of parents and children, overlap: do not
add them. On Linux this machine's own processes are the environment wsl.
`
