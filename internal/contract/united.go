package contract

// This file is the united surface: every tool of topside in one server.

import (
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/tool"
)

const seeInstructions = `Read-only view of this machine: its CPU, memory, pressure, disks and network, and every process, systemd unit and container.
Start with get_system_summary (max_age_ms 0 for a fresh one), keep its snapshot_id, and pass it to every later call: all answers then speak of the same moment.
A resource_id is opaque and belongs to the snapshot that returned it; a PID or a name is no resource_id. Snapshots live for 60 seconds, four at a time; after snapshot_unavailable start again.
cpu_percent is on the whole-machine scale (100 = all CPUs busy); cores_used is the same in CPUs. Environments, units, containers and their children overlap: never add them up.
A figure that is missing was not observed, with the reason in "absent" or "not_measured"; it is not zero. Container and unit membership follow from parent_ids only, never from a name.`

const alertInstructions = `Alerts name their evidence and what to look at next; they are findings, not verdicts. The first call of an alert or threshold tool begins to watch.`

const killInstructions = `process_kill holds the process by its identity, refuses what must not be hit, asks a policy, and may ask a person; every action is logged. Try dry_run first, and read outcome and reason.`

// United makes the server of the united surface. It fails when the choice of
// tools names one that does not exist.
func United(c Config) (*mcp.Server, error) {
	tools, err := tool.Choose(Inventory(c), tool.Choice{Toolsets: c.Toolsets, Exclude: c.Exclude, ReadOnly: c.ReadOnly})
	if err != nil {
		return nil, err
	}
	if c.Arrivals != nil && c.Hosts != nil {
		c.Arrivals.Expand(c.Hosts.Expand)
	}
	s := &surface{
		name:         "topside",
		title:        "topside",
		instructions: instructionsOf(c, tools),
		tools:        tools,
		hosts:        c.Hosts,
		arrivals:     c.Arrivals,
		check:        tool.CheckLenient,
		failure:      unitedFailure,
	}
	return s.serve(c.Version), nil
}

// Inventory is every tool of the united surface.
func Inventory(c Config) []*tool.Tool {
	var fleet []*tool.Tool
	if c.Hosts != nil {
		fleet = tool.FleetTools(c.Hosts)
	}
	return slices.Concat(
		tool.SeeTools(c.Observer, c.ShowSecrets),
		tool.SteerTools(tool.SteerOptions{Observer: c.Observer, Advisor: c.Advisor, ReadOnly: c.ReadOnly}),
		tool.ComputeTools(c.Computer),
		fleet,
		tool.NewXtop(c.Observer, c.Advisor).HideSecrets(!c.ShowSecrets).SupersededTools(),
	)
}

// instructionsOf is what a client is told of the toolsets that it gets.
func instructionsOf(c Config, tools []*tool.Tool) string {
	var parts []string
	toolsets := tool.Toolsets(tools)
	if slices.Contains(toolsets, tool.See) {
		parts = append(parts, seeInstructions)
	}
	if slices.Contains(toolsets, tool.Steer) {
		parts = append(parts, alertInstructions)
	}
	if slices.Contains(tool.Names(tools), "process_kill") {
		parts = append(parts, killInstructions)
	}
	if c.Computer != nil && slices.Contains(tool.Names(tools), "eval") {
		parts = append(parts, c.Computer.Instructions())
	}
	if hosts := c.Hosts.Instructions(); hosts != "" {
		parts = append(parts, hosts)
	}
	return strings.Join(parts, "\n\n")
}

// news tells the clients of a server that its list of tools has changed: there begin
// or cease to be hosts.
type news struct {
	hosts *tool.Hosts
	tell  func()

	mu      sync.Mutex
	readers int
	stop    func()
}

// reader counts a client until it is gone.
func (n *news) reader(session *mcp.ServerSession) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.readers++; n.readers == 1 {
		n.stop = n.hosts.Watch(n.tell)
	}
	go func() {
		_ = session.Wait() // how it ended is the wire's
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.readers--; n.readers == 0 {
			n.stop()
		}
	}()
}

func unitedFailure(err error) (structured any, text string) {
	detail := describe(err, "internal")
	text = detail.Code + ": " + detail.Message
	if detail.Hint != "" {
		text += "\nnext: " + detail.Hint
	}
	return failureBody{detail}, text
}
