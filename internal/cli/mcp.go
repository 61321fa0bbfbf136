package cli

// This file holds "topside mcp", the server of the united surface.

import (
	"github.com/spf13/cobra"

	"topside/internal/contract"
	"topside/internal/see"
	"topside/internal/see/resource"
	"topside/internal/steer"
	"topside/internal/tool"
	"topside/internal/wire"
)

// A surfacing is what a command was told about the tools that it offers.
type surfacing struct {
	toolsets, exclude     []string
	readOnly, showSecrets bool
	wslOnly               bool // of the wsltop contract
	arrivals              *contract.Arrivals
	hosts                 *tool.Hosts // nil where all work is on this machine
}

func (t *surfacing) config(observer *see.Observer, computer *tool.Computer, advisor *steer.Advisor) contract.Config {
	return contract.Config{
		Version: Version(), Observer: observer, Computer: computer, Advisor: advisor, Toolsets: t.toolsets, Exclude: t.exclude,
		ReadOnly: t.readOnly, ShowSecrets: t.showSecrets, WSLOnly: t.wslOnly, Arrivals: t.arrivals, Hosts: t.hosts,
	}
}

func newMCPCommand(s Streams) *cobra.Command {
	var (
		observing observing
		computing computing
		tools     surfacing
		socket    string
		http      string
	)
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the tools over MCP, on stdin and stdout, a Unix socket or HTTP",
		Long: `Serve the tools of topside over the Model Context Protocol.

The client starts this command and speaks with it over stdin and stdout: one
JSON-RPC message a line, nothing else on stdout. The server ends with status 0
when stdin ends, on SIGTERM and SIGINT, and when the process that started it is
gone. With --socket it serves a Unix socket instead, which only its owner may
open (0600), to any number of clients, until a signal ends it. --http serves
Streamable HTTP on a loopback address, at /mcp, to whoever knows the token: it is
in http-token beside the configuration, made at the first start, or in the variable
TOPSIDE_HTTP_TOKEN.

--toolsets chooses groups of tools (all by default): see reads what the machine
does, steer watches thresholds and alerts and sends signals to processes by a
policy, compute evaluates code in sessions that last, fleet lists other hosts and
moves files. With a host known (topside hosts) all of them work there, too, over
your own ssh. --read-only keeps the tools
that are annotated as reading only, and --exclude-tools drops some by name;
exclusions always win.

Sessions outlive the server: their logs are in the folder that --state names, and
are evaluated again when a session is used. Servers that run at the same time
have logs of their own.`,
		Example: `  claude mcp add topside -- /usr/local/bin/topside mcp
  topside mcp --socket /run/user/1000/topside.sock
  topside mcp --http 127.0.0.1:7007
  topside mcp --toolsets see --read-only
  topside mcp --root /host        in a container that has the host's root there`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			options, err := observing.options(resource.Flavour{ShowSecrets: tools.showSecrets})
			if err != nil {
				return err
			}
			arrivals := new(contract.Arrivals)
			tools.arrivals = arrivals
			return serve(c.Context(), s, serving{
				options: options, surface: contract.United, computing: &computing, tools: tools, wire: wire.Options{Screen: contract.Screen, Admit: arrivals.Admit}, socket: socket, socketGiven: c.Flags().Changed("socket"),
				http: http, httpGiven: c.Flags().Changed("http"),
				invocation: "topside mcp", service: unitedService,
			})
		},
	}
	f := c.Flags()
	f.StringSliceVar(&tools.toolsets, "toolsets", nil, "offer these `groups` of tools only, comma-separated: see, steer, compute,\nfleet; xtop adds the tools of that contract that see supersedes")
	f.StringSliceVar(&tools.exclude, "exclude-tools", nil, "leave out these `tools`, comma-separated")
	f.BoolVar(&tools.readOnly, "read-only", false, "offer only tools that change nothing")
	f.BoolVar(&tools.showSecrets, "show-secrets", false, "do not redact passwords, tokens and keys in arguments and labels")
	f.StringVar(&socket, "socket", "", "serve a Unix socket at this `path` instead of stdin and stdout")
	f.StringVar(&http, "http", "", "serve HTTP at this loopback `address` instead, HOST:PORT")
	computing.flags(f)
	observing.flags(f, see.DefaultInterval)
	return c
}
