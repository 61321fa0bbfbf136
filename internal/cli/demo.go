package cli

// This file holds "topside demo": the real server as a child, questioned as a
// client would, with the conversation shown.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"topside/internal/see"
)

func newDemoCommand(s Streams) *cobra.Command {
	var observing observing
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch a client question the server about this machine",
		Long: `Start the server as a child process and question it about this machine as an MCP
client would: a summary, the busiest resources, one of them inspected, and its
children, all of one snapshot. Each question and its answer are shown; then how
to register the server with your client.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := intervalOf(observing.intervalMS, see.MaxInterval); err != nil {
				return err
			}
			return runDemo(c.Context(), s, &observing)
		},
	}
	observing.flags(c.Flags(), peoplesInterval)
	return c
}

func runDemo(ctx context.Context, s Streams, o *observing) error {
	child, err := startServer(ctx, o)
	if err != nil {
		return err
	}
	d := demo{out: s.Out, palette: paletteFor(s.Out), columns: columnsOf(s.Out), session: child.session}
	talkErr := d.talk(ctx)
	endErr := child.end()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case talkErr != nil:
		return child.explain(talkErr)
	case endErr != nil:
		return child.explain(fmt.Errorf("the server did not end as it should: %w", endErr))
	}
	d.say("The client closed the conversation, and the server ended with status 0.")
	fmt.Fprintln(s.Out)
	writeRegistration(s.Out, d.palette, unitedService)
	return nil
}

// A childServer is "topside mcp" as a child and a session with it.
type childServer struct {
	session *mcp.ClientSession
	command *exec.Cmd
	errors  bytes.Buffer
}

// childPatience is how long a child may take to end by itself before it is
// made to.
const childPatience = 2 * time.Second

// startServer starts the server that clients would start.
func startServer(ctx context.Context, o *observing) (*childServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program to start it as a server: %w", err)
	}
	args := []string{"mcp", "--interval-ms", fmt.Sprint(o.intervalMS), "--root", o.root}
	if o.withoutEngines {
		args = append(args, "--no-engines")
	}
	child := &childServer{command: exec.CommandContext(ctx, self, args...)}
	child.command.Args[0] = "topside"
	child.command.Stderr = &child.errors
	child.command.WaitDelay = childPatience
	child.session, err = newClient().Connect(ctx, &mcp.CommandTransport{Command: child.command, TerminateDuration: childPatience}, nil)
	if err != nil {
		if child.command.Process != nil && child.command.ProcessState == nil {
			_ = child.command.Process.Kill()
			_ = child.command.Wait()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, child.explain(fmt.Errorf("the server did not start: %w", err))
	}
	return child, nil
}

// end closes the conversation and waits for the child.
func (c *childServer) end() error { return c.session.Close() }

// explain adds what the child said on stderr; the child has ended.
func (c *childServer) explain(err error) error {
	said := strings.TrimSpace(c.errors.String())
	if said == "" {
		return err
	}
	return hinted{err, "The server said:\n  " + strings.ReplaceAll(said, "\n", "\n  ")}
}

// A demo is one conversation.
type demo struct {
	out     io.Writer
	palette palette
	columns int
	session *mcp.ClientSession
}

// A seenRow is as much of a listed resource as the demo needs.
type seenRow struct {
	ID    string `json:"resource_id"`
	Usage struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"usage"`
}

func (r seenRow) label() string { return r.Usage.Kind + " " + clean(r.Usage.Name) }

func (d demo) talk(ctx context.Context) error {
	info := d.session.InitializeResult()
	d.say(fmt.Sprintf("A client started the server (%s %s, MCP %s) and asks it why this machine is busy.",
		info.ServerInfo.Name, info.ServerInfo.Version, info.ProtocolVersion))

	var summary struct {
		Snapshot struct {
			ID string `json:"snapshot_id"`
		} `json:"snapshot"`
	}
	d.say("First the whole machine, observed now. The answer names a snapshot; every later\nquestion is about that same moment.")
	if err := d.ask(ctx, "get_system_summary", &summary, "max_age_ms", 0); err != nil {
		return err
	}
	snapshot := summary.Snapshot.ID

	var busiest struct{ Data []seenRow }
	d.say("What uses the CPU?")
	if err := d.ask(ctx, "list_resources", &busiest, "snapshot_id", snapshot, "sort_by", "cpu", "limit", 5); err != nil {
		return err
	}
	chosen, err := d.choose(ctx, snapshot, busiest.Data)
	if err != nil || chosen.ID == "" {
		return err
	}
	d.say("What is known of " + chosen.label() + "?")
	if err := d.ask(ctx, "inspect_resource", nil, "snapshot_id", snapshot, "resource_id", chosen.ID); err != nil {
		return err
	}
	d.say("And what is below it?")
	return d.ask(ctx, "list_children", nil, "snapshot_id", snapshot, "resource_id", chosen.ID, "limit", 5)
}

// choose picks the resource to look into: the busiest container, else the
// busiest unit, since those have something below them, else the busiest row.
func (d demo) choose(ctx context.Context, snapshot string, busiest []seenRow) (seenRow, error) {
	for _, kind := range []string{"container", "application"} {
		var found struct{ Data []seenRow }
		d.say("Which " + map[string]string{"container": "containers", "application": "services"}[kind] + " are busiest?")
		err := d.ask(ctx, "list_resources", &found, "snapshot_id", snapshot, "resource_kind", kind, "sort_by", "cpu", "limit", 3)
		if err != nil {
			return seenRow{}, err
		}
		if len(found.Data) > 0 {
			return found.Data[0], nil
		}
	}
	if len(busiest) == 0 {
		return seenRow{}, nil
	}
	return busiest[0], nil
}

// say writes what the client thinks.
func (d demo) say(text string) { fmt.Fprintf(d.out, "\n%s\n", d.palette.strong(text)) }

// ask calls a tool, shows the call and the answer, and decodes the structured
// content into answer where that is wanted.
func (d demo) ask(ctx context.Context, tool string, answer any, pairs ...any) error {
	arguments := make(map[string]any, len(pairs)/2)
	shown := make([]string, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		arguments[name] = pairs[i+1]
		shown = append(shown, name+"="+compactJSON(pairs[i+1]))
	}
	fmt.Fprintf(d.out, "\n%s\n", d.palette.accent("→ "+tool+"("+strings.Join(shown, ", ")+")"))
	result, err := d.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	text := strings.TrimRight(textOf(result), "\n")
	if result.IsError {
		return fmt.Errorf("%s: %w", tool, errors.New(text))
	}
	d.show(text)
	if answer == nil {
		return nil
	}
	encoded, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(encoded, answer)
	}
	if err != nil {
		return fmt.Errorf("%s: its structured content is not as expected: %w", tool, err)
	}
	return nil
}

// demoLines bounds what is shown of one answer.
const demoLines = 40

func (d demo) show(text string) {
	lines := strings.Split(text, "\n")
	left := len(lines) - demoLines
	if left > 0 {
		lines = lines[:demoLines]
	}
	for _, line := range lines {
		line = "  " + line
		if d.columns > 0 {
			line = ansi.Truncate(line, d.columns, "…")
		}
		fmt.Fprintln(d.out, strings.TrimRight(line, " "))
	}
	if left > 0 {
		fmt.Fprintln(d.out, d.palette.faint(fmt.Sprintf("  … and %d more lines", left)))
	}
}
