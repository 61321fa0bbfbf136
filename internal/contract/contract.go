// Package contract serves the surfaces: which tools each has, what it says of
// itself in the handshake, in which dialect it checks arguments, and how it
// renders results and errors.
//
// It sits between wire (the transports) and tool (the inventory). Typed errors
// of the domain packages become codes here and nowhere else. This file makes
// the servers; render.go writes results, fault.go errors, and each surface has
// a file of its own.
//
// All surfaces use the official SDK, with one receiving middleware in front:
// the SDK would list tools by name instead of in their order, leave out an
// isError of false, and encode a structured result several times.
package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/see"
	"topside/internal/see/plaintext"
	"topside/internal/steer"
	"topside/internal/tool"
)

// A Config says what to serve.
type Config struct {
	// Version is what the server calls its version.
	Version string
	// Observer answers the tools that see. It is the caller's, who closes it.
	Observer *see.Observer
	// Computer holds the sessions of the tools that compute. It is the caller's,
	// who closes it; nil serves no sessions.
	Computer *tool.Computer
	// Advisor answers the tools that steer. It is the caller's, who closes it;
	// nil answers that there is nothing to steer.
	Advisor *steer.Advisor
	// Toolsets, Exclude and ReadOnly choose among the tools of the united
	// surface, as [tool.Choice] says. The other surfaces are always whole.
	Toolsets, Exclude []string
	ReadOnly          bool
	// Arrivals keeps the order of calls on one session, with its Admit as the
	// wire's option; nil keeps none.
	Arrivals *Arrivals
	// ShowSecrets leaves passwords and tokens in arguments and labels.
	ShowSecrets bool
	// WSLOnly leaves the host's figures out of the wsltop contract's answers.
	WSLOnly bool
}

// A surface is a set of tools and the manner in which they are served.
type surface struct {
	name, title  string
	instructions string
	tools        []*tool.Tool
	byName       map[string]*tool.Tool
	arrivals     *Arrivals // nil where the order of calls is not kept
	check        func(*tool.Tool, json.RawMessage) (tool.Call, error)
	// failure renders an operational error.
	failure func(error) (structured any, text string)
}

// serve makes the server of a surface.
func (s *surface) serve(version string) *mcp.Server {
	s.byName = make(map[string]*tool.Tool, len(s.tools))
	server := mcp.NewServer(&mcp.Implementation{Name: s.name, Title: s.title, Version: version}, &mcp.ServerOptions{
		Instructions: s.instructions,
		// Empty, so that neither logging nor listChanged is announced.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for _, t := range s.tools {
		s.byName[t.Name] = t
		server.AddTool(announce(t), unreached)
	}
	server.AddReceivingMiddleware(s.receive)
	return server
}

// announce is a tool as tools/list shows it.
func announce(t *tool.Tool) *mcp.Tool {
	a := t.Annotations
	m := &mcp.Tool{
		Name:        t.Name,
		Title:       t.Title,
		Description: t.Description,
		InputSchema: t.InputSchema(),
	}
	// What the protocol assumes of a tool anyway need not be sent: the list of
	// tools is read by models.
	if a != assumedAnnotations {
		m.Annotations = &mcp.ToolAnnotations{
			ReadOnlyHint:    a.ReadOnly,
			DestructiveHint: &a.Destructive,
			IdempotentHint:  a.Idempotent,
			OpenWorldHint:   &a.OpenWorld,
		}
	}
	if out := t.OutputSchema(); out != nil {
		m.OutputSchema = out
	}
	return m
}

// assumedAnnotations are the protocol's defaults.
var assumedAnnotations = tool.Annotations{Destructive: true, OpenWorld: true}

// unreached is the SDK's handler of every tool; the middleware answers before.
func unreached(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return nil, internalError("the call did not pass through the surface")
}

// receive answers tools/call, and puts the answer to tools/list in order.
func (s *surface) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		switch request := request.(type) {
		case *mcp.CallToolRequest:
			return s.call(ctx, request)
		case *mcp.ListToolsRequest:
			if request.Params != nil && request.Params.Cursor != "" {
				return nil, invalidParams("the list of tools is one page: leave the cursor out")
			}
			result, err := next(ctx, method, request)
			if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
				s.arrange(list.Tools)
			}
			return result, err
		}
		return next(ctx, method, request)
	}
}

// arrange puts tools in the order in which they are declared.
func (s *surface) arrange(tools []*mcp.Tool) {
	position := func(t *mcp.Tool) int {
		return slices.IndexFunc(s.tools, func(declared *tool.Tool) bool { return declared.Name == t.Name })
	}
	slices.SortFunc(tools, func(a, b *mcp.Tool) int { return position(a) - position(b) })
}

func (s *surface) call(ctx context.Context, request *mcp.CallToolRequest) (mcp.Result, error) {
	t, ok := s.byName[request.Params.Name]
	if !ok {
		shown, _ := plaintext.Bounded(request.Params.Name, 60)
		return nil, invalidParams(fmt.Sprintf("unknown tool %q; the tools are %s", shown, strings.Join(tool.Names(s.tools), ", ")))
	}
	call, err := s.check(t, request.Params.Arguments)
	if err != nil {
		return nil, rpcError(err)
	}
	begun := s.arrivals.wait(ctx, request)
	defer begun()
	call.Begun = begun
	call.Progress = progress(ctx, request)
	call.Client = clientOf(request)
	call.Answer = answered(request)
	answer, err := handle(ctx, t, call)
	if err == nil && answer.Question != nil {
		var asked mcp.Result
		if asked, call.Answer = ask(ctx, request, answer.Question); asked != nil {
			return asked, nil
		}
		answer, err = handle(ctx, t, call)
	}
	if err == nil && answer.Question != nil {
		err = internalError(t.Name + " asks again for what was answered")
	}
	if err != nil {
		if rpc := rpcError(err); rpc != nil {
			return nil, rpc
		}
		structured, text := s.failure(err)
		return render(ctx, request, tool.Result{Structured: structured, Text: text}, true)
	}
	return render(ctx, request, answer, false)
}

// progress returns what tells the client how far its call is, or nil when it
// did not ask for that. The figure that must grow is the time in seconds.
func progress(ctx context.Context, request *mcp.CallToolRequest) func(message string) {
	token := request.Params.GetProgressToken()
	if token == nil || request.Session == nil {
		return nil
	}
	begin := time.Now()
	return func(message string) {
		err := request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: time.Since(begin).Seconds(), Message: message,
		})
		if err != nil && ctx.Err() == nil {
			slog.Debug("progress was not sent", "error", err)
		}
	}
}

// handle runs a tool's handler. A panic in it is this one call's failure; the
// server lives on.
func handle(ctx context.Context, t *tool.Tool, call tool.Call) (answer tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("a tool's handler panicked", "tool", t.Name, "panic", p, "stack", string(debug.Stack()))
			err = internalError("internal error in " + t.Name + "; other calls are not affected")
		}
	}()
	return t.Handler(ctx, call)
}

func invalidParams(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

func internalError(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
}
