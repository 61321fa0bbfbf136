package cli

// This file holds "topside call", which calls one tool from the shell, through
// the same server that clients get.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"topside/internal/contract"
	"topside/internal/see"
	"topside/internal/see/resource"
	"topside/internal/steer"
	"topside/internal/tool"
)

// A calling is one call as the command line describes it.
type calling struct {
	observing
	computing  computing
	tools      surfacing
	surface    string
	socket     string
	arguments  string // --json
	jsonOutput bool
	elsewhere  bool // on another host, where snapshots stay
	list       bool
}

func newCallCommand(s Streams) *cobra.Command {
	var call calling
	c := &cobra.Command{
		Use:   "call TOOL [key=value …]",
		Short: "Call one tool and print what it answers",
		Long: `Call one tool as an MCP client would, and print what it answers: its text, or
with --json-output its structured content.

Arguments are key=value: taken as text where the tool wants text, else as JSON
where they are JSON. --json gives all of them as one object instead, and
"--json -" reads that object from stdin.

A snapshot lives in one server, and each call starts its own: ids of an earlier
call mean nothing to a later one. To follow one investigation, start a server
with topside mcp --socket PATH and give --socket PATH to every call. Without it,
pid=N names a process to inspect_resource and list_children. Sessions that compute
are kept on disk: what one call to eval defined, the next one finds.

Status 0 when the tool answered, 1 when it reported an error, 2 when the tool or
its arguments are wrong.`,
		Example: `  topside call get_system_summary
  topside call list_resources sort_by=memory limit=5
  topside call list_resources --json '{"resource_kind":"container"}' --json-output
  topside call inspect_resource pid=1
  topside call eval source='[1, 2, 3].map(n => n * n)' engine=javascript
  topside call get_system_summary hosts='*'
  topside call --list`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := call.foreign(c); err != nil {
				return err
			}
			return call.run(c.Context(), s, args)
		},
	}
	f := c.Flags()
	f.StringVar(&call.arguments, "json", "", "all arguments as one JSON `object`; - reads it from stdin")
	f.BoolVar(&call.jsonOutput, "json-output", false, "print the structured content as JSON instead of the text")
	f.BoolVar(&call.list, "list", false, "list the tools and their arguments instead of calling one")
	f.StringVar(&call.socket, "socket", "", "call the server at this Unix socket `path` instead of an own one")
	f.StringVar(&call.surface, "surface", "topside", "offer the tools of this `contract`: topside, wsltop, xtop or topup")
	f.BoolVar(&call.tools.showSecrets, "show-secrets", false, "do not redact passwords, tokens and keys in arguments and labels")
	call.computing.flags(f)
	call.flags(f, peoplesInterval)
	return c
}

// foreign refuses what would have to be told to a server that runs already.
func (c *calling) foreign(command *cobra.Command) error {
	if c.socket == "" {
		return nil
	}
	for _, option := range []string{"root", "interval-ms", "no-engines", "show-secrets", "surface", "engine", "state"} {
		if command.Flags().Changed(option) {
			return badUsage("", "--%s cannot be given with --socket: the server there was started with its own options", option)
		}
	}
	return nil
}

func (c *calling) run(ctx context.Context, s Streams, args []string) error {
	if len(args) == 0 && !c.list {
		return badUsage("Run 'topside call --list' for the tools.", "name the tool to call")
	}
	session, observer, end, err := c.connect(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	listed, err := session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	if c.list {
		return listTools(s.Out, listed.Tools)
	}
	tool, err := toolNamed(listed.Tools, args[0])
	if err != nil {
		return err
	}
	arguments, err := c.argumentsOf(s, tool, args[1:])
	if err != nil {
		return err
	}
	c.elsewhere = arguments["host"] != nil || arguments["hosts"] != nil
	if err := c.resolvePID(ctx, observer, tool, arguments); err != nil {
		return err
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name, Arguments: arguments})
	if err != nil {
		err = callFailure(ctx, err)
		var usage *usageError
		if errors.As(err, &usage) && observer != nil && schemaOf(tool).takesResource() && arguments["resource_id"] == nil {
			usage.hint = "Give pid=N for a process of this machine; with --socket, a snapshot_id and a resource_id of that server."
		}
		return err
	}
	return c.print(s, result)
}

// connect returns a session with the server to call. observer is nil when that
// server is another process.
func (c *calling) connect(ctx context.Context, s Streams) (session *mcp.ClientSession, observer *see.Observer, end func(), err error) {
	if c.socket != "" {
		session, end, err = overSocket(ctx, c.socket)
		return session, nil, end, err
	}
	if c.surface == "xtop" || c.surface == "topup" {
		session, end, err = c.toContract(ctx, s)
		return session, nil, end, err
	}
	surface, flavour := contract.United, resource.Flavour{ShowSecrets: c.tools.showSecrets}
	switch c.surface {
	case "topside":
	case "wsltop":
		surface, flavour = contract.Wsltop, resource.Flavour{WSL: true, ShowSecrets: c.tools.showSecrets}
	default:
		return nil, nil, nil, badUsage("", "--surface must be topside, wsltop, xtop or topup, not %q", c.surface)
	}
	observer, err = c.observer(flavour)
	if err != nil {
		return nil, nil, nil, err
	}
	release := func() { closeSoon(observer) }
	var computer *tool.Computer
	var advisor *steer.Advisor
	if c.surface == "topside" {
		if computer, err = c.computing.computer(ctx); err != nil {
			release()
			return nil, nil, nil, err
		}
		release = func() { _ = computer.Close(); closeSoon(observer) }
		if advisor, err = advise(observer, computer, 0); err != nil {
			release()
			return nil, nil, nil, err
		}
		hosts := newHosts(slog.New(slog.DiscardHandler))
		c.tools.hosts = hosts
		release = func() { partWith(hosts); dismiss(advisor); _ = computer.Close(); closeSoon(observer) }
	}
	server, err := surface(c.tools.config(observer, computer, advisor))
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	session, disconnect, err := inProcess(ctx, server)
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	return session, observer, func() { disconnect(); release() }, nil
}

// toContract returns a session with the tools of a contract that has a program of
// its own.
func (c *calling) toContract(ctx context.Context, s Streams) (*mcp.ClientSession, func(), error) {
	var server *mcp.Server
	var release func()
	if c.surface == "topup" {
		world, err := newTopupWorld(ctx, s, c.surface)
		if err != nil {
			return nil, nil, err
		}
		server, release = contract.TopupCalls(world.client("", nil)), world.close
	} else {
		observer, err := c.observer(resource.Flavour{ShowSecrets: c.tools.showSecrets})
		if err != nil {
			return nil, nil, err
		}
		advisor, err := advise(observer, nil, 0)
		if err != nil {
			closeSoon(observer)
			return nil, nil, err
		}
		server = contract.XtopCalls(tool.NewXtop(observer, advisor).HideSecrets(!c.tools.showSecrets))
		release = func() { dismiss(advisor); closeSoon(observer) }
	}
	session, disconnect, err := inProcess(ctx, server)
	if err != nil {
		release()
		return nil, nil, err
	}
	return session, func() { disconnect(); release() }, nil
}

func toolNamed(tools []*mcp.Tool, name string) (*mcp.Tool, error) {
	names := make([]string, len(tools))
	for i, t := range tools {
		if t.Name == name {
			return t, nil
		}
		names[i] = t.Name
	}
	return nil, badUsage(suggestion(name, names)+"Run 'topside call --list' for their arguments.",
		"there is no tool %q; the tools are %s", name, strings.Join(names, ", "))
}

// suggestion is a line that names the closest of the names, if one is close.
func suggestion(name string, names []string) string {
	best, least := "", len(name)/2+1
	for _, candidate := range names {
		if d := distance(name, candidate); d < least {
			best, least = candidate, d
		} else if best == "" && name != "" && strings.Contains(candidate, name) {
			best = candidate
		}
	}
	if best == "" {
		return ""
	}
	return "Did you mean " + best + "?\n"
}

// distance is how many single edits part two words (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// A toolSchema is as much of an input schema as the command line needs.
type toolSchema struct {
	Properties map[string]struct {
		Type        string `json:"type"`
		Description string `json:"description"`
		Enum        []any  `json:"enum"`
	} `json:"properties"`
	Required []string `json:"required"`
}

func schemaOf(tool *mcp.Tool) toolSchema {
	var schema toolSchema
	if encoded, err := json.Marshal(tool.InputSchema); err == nil {
		_ = json.Unmarshal(encoded, &schema) // what is not understood is left to the server
	}
	return schema
}

// argumentsOf makes the arguments of a call. Their values are the server's to
// check.
func (c *calling) argumentsOf(s Streams, tool *mcp.Tool, words []string) (map[string]any, error) {
	arguments := map[string]any{}
	if c.arguments != "" {
		if err := c.decode(s.In, &arguments); err != nil {
			return nil, err
		}
	}
	schema := schemaOf(tool)
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, badUsage("", "%q is no argument: write key=value, with the keys of %s: %s", word, tool.Name, schema.names())
		}
		if _, twice := arguments[key]; twice {
			return nil, badUsage("", "argument %q is given twice", key)
		}
		property, known := schema.Properties[key]
		if !known && !(key == "pid" && schema.takesResource()) {
			return nil, badUsage(strings.TrimSuffix(suggestion(key, slices.Sorted(maps.Keys(schema.Properties))), "\n"),
				"%s has no argument %q; its arguments are %s", tool.Name, key, schema.names())
		}
		arguments[key] = valueOf(value, property.Type)
	}
	return arguments, nil
}

func (c *calling) decode(in io.Reader, arguments *map[string]any) error {
	text := []byte(c.arguments)
	if c.arguments == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(in, maxArguments+1)); err != nil {
			return fmt.Errorf("reading the arguments from stdin: %w", err)
		}
		if len(text) > maxArguments {
			return badUsage("", "the arguments on stdin are longer than %d bytes", maxArguments)
		}
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(arguments); err != nil {
		return badUsage(`For example --json '{"limit": 5}'.`, "--json wants one JSON object: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return badUsage("", "--json wants one JSON object, and something follows it")
	}
	if *arguments == nil {
		return badUsage("", "--json wants one JSON object, not null")
	}
	return nil
}

const maxArguments = 16 << 20

// valueOf reads a value as the tool wants it: text as it is, anything else as
// JSON where it is JSON.
func valueOf(text, kind string) any {
	if kind == "string" {
		return text
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		return text
	}
	return value
}

func (t toolSchema) names() string {
	if len(t.Properties) == 0 {
		return "none"
	}
	names := slices.Sorted(maps.Keys(t.Properties))
	for i, name := range names {
		if slices.Contains(t.Required, name) {
			names[i] += " (required)"
		}
	}
	return strings.Join(names, ", ")
}

// takesResource reports whether a tool is about one resource of a snapshot.
func (t toolSchema) takesResource() bool {
	_, pid := t.Properties["pid"]
	return !pid && slices.Contains(t.Required, "resource_id")
}

// resolvePID turns the convenience pid=N into the ids that the tool wants.
func (c *calling) resolvePID(ctx context.Context, observer *see.Observer, tool *mcp.Tool, arguments map[string]any) error {
	given, ok := arguments["pid"]
	if !ok || !schemaOf(tool).takesResource() {
		return nil
	}
	pid, err := strconv.ParseInt(fmt.Sprint(given), 10, 32)
	switch {
	case err != nil || pid <= 0:
		return badUsage("", "pid must be the number of a process, not %q", fmt.Sprint(given))
	case observer == nil:
		return badUsage("List the resources of that server first, and use their ids.", "pid=N works without --socket only")
	case arguments["host"] != nil || arguments["hosts"] != nil:
		return badUsage("List the resources of that host first, and use their ids.", "pid=N works on this machine only")
	case arguments["resource_id"] != nil || arguments["snapshot_id"] != nil:
		return badUsage("", "pid stands for snapshot_id and resource_id: give either")
	}
	var now time.Duration
	snapshot, err := observer.Select(ctx, see.Selector{MaxAge: &now})
	if err != nil {
		return err
	}
	process, ok := snapshot.Catalogue().ByPID(int32(pid))
	if !ok {
		return fmt.Errorf("there is no process %d in this observation", pid)
	}
	delete(arguments, "pid")
	arguments["snapshot_id"], arguments["resource_id"] = snapshot.ID(), snapshot.Catalogue().ID(process)
	return nil
}

// callFailure tells wrong arguments from a failing server.
func callFailure(ctx context.Context, err error) error {
	var rpc *jsonrpc.Error
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !errors.As(err, &rpc) {
		return err
	}
	if rpc.Code == jsonrpc.CodeInvalidParams {
		return badUsage("Run 'topside call --list' for the arguments.", "%s", clean(rpc.Message))
	}
	return errors.New(clean(rpc.Message))
}

func (c *calling) print(s Streams, result *mcp.CallToolResult) error {
	text := textOf(result)
	if result.IsError {
		return c.toolError(result, text)
	}
	if c.jsonOutput {
		return writeJSON(s.Out, result.StructuredContent)
	}
	if _, err := fmt.Fprintln(s.Out, strings.TrimRight(text, "\n")); err != nil {
		return err
	}
	return nil
}

// toolError is the tool's own report of what went wrong.
func (c *calling) toolError(result *mcp.CallToolResult, text string) error {
	err := errors.New(strings.TrimRight(text, "\n"))
	var body struct {
		Error struct{ Code, Message string }
	}
	if encoded, encodeErr := json.Marshal(result.StructuredContent); encodeErr == nil && json.Unmarshal(encoded, &body) == nil &&
		body.Error.Code == string(see.SnapshotUnavailable) && c.socket == "" && !c.elsewhere {
		return hinted{err, "Each topside call is a server of its own, and snapshots end with it. Start a server that stays\n" +
			"with topside mcp --socket PATH, and give --socket PATH to every call."}
	}
	return err
}

// textOf is the text blocks of a result.
func textOf(result *mcp.CallToolResult) string {
	var b strings.Builder
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func listTools(w io.Writer, tools []*mcp.Tool) error {
	for i, tool := range tools {
		if i > 0 {
			fmt.Fprintln(w)
		}
		first, _, _ := strings.Cut(tool.Description, "\n")
		fmt.Fprintf(w, "%s\n  %s\n", tool.Name, first)
		schema := schemaOf(tool)
		t := newTable("", "", "")
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			property := schema.Properties[name]
			kind := property.Type
			if len(property.Enum) > 0 {
				kind = strings.Trim(strings.ReplaceAll(fmt.Sprint(property.Enum), " ", "|"), "[]")
			}
			if slices.Contains(schema.Required, name) {
				name += " (required)"
			}
			t.add("  "+name, kind, property.Description)
		}
		t.writeRows(w, columnsOf(w))
	}
	return nil
}
