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
	"sync"
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
	// Hosts are the other machines that the united surface reaches; nil leaves them,
	// and the toolset fleet, out.
	Hosts *tool.Hosts
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
	hosts        *tool.Hosts // nil where all tools work here
	arrivals     *Arrivals   // nil where the order of calls is not kept
	check        func(*tool.Tool, json.RawMessage) (tool.Call, error)
	// failure renders an operational error.
	failure func(error) (structured any, text string)

	here   *roster
	hosted func() *roster
}

// A roster is the tools that a surface has at a moment.
type roster struct {
	tools     []*tool.Tool
	byName    map[string]*tool.Tool
	announced func() []*mcp.Tool
}

func rosterOf(tools []*tool.Tool) *roster {
	r := &roster{tools: tools, byName: make(map[string]*tool.Tool, len(tools))}
	for _, t := range tools {
		r.byName[t.Name] = t
	}
	r.announced = sync.OnceValue(func() []*mcp.Tool {
		all := make([]*mcp.Tool, len(tools))
		for i, t := range tools {
			all[i] = announce(t)
		}
		return all
	})
	return r
}

// now are the tools at this moment: hosts come and go while a server runs.
func (s *surface) now() *roster {
	if s.hosts.Any() {
		return s.hosted()
	}
	return s.here
}

// serve makes the server of a surface.
func (s *surface) serve(version string) *mcp.Server {
	s.here = rosterOf(slices.DeleteFunc(slices.Clone(s.tools), tool.FleetTool))
	s.hosted = sync.OnceValue(func() *roster { return rosterOf(s.hosts.On(s.tools)) })
	options := &mcp.ServerOptions{
		Instructions: s.instructions,
		// Logging is not announced, and listChanged only where the list can change.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: s.hosts != nil}},
	}
	n := &news{hosts: s.hosts}
	if s.hosts != nil {
		options.InitializedHandler = func(_ context.Context, r *mcp.InitializedRequest) { n.reader(r.Session) }
	}
	server := mcp.NewServer(&mcp.Implementation{Name: s.name, Title: s.title, Version: version}, options)
	for _, t := range s.here.announced() {
		server.AddTool(t, unreached)
	}
	// The SDK tells of any change to its own list, this one's tools among them or not;
	// what it answers is the middleware's.
	n.tell = func() { server.AddTool(announce(changed), unreached) }
	server.AddReceivingMiddleware(s.receive)
	return server
}

// changed stands in the SDK's list for a change of the surface's own; nobody sees it.
var changed = &tool.Tool{Name: "changed", Description: "The list of tools has changed."}

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
				list.Tools = slices.Clone(s.now().announced())
			}
			return result, err
		}
		return next(ctx, method, request)
	}
}

func (s *surface) call(ctx context.Context, request *mcp.CallToolRequest) (mcp.Result, error) {
	roster := s.now()
	t, ok := roster.byName[request.Params.Name]
	if !ok {
		shown, _ := plaintext.Bounded(request.Params.Name, 60)
		return nil, invalidParams(fmt.Sprintf("unknown tool %q; the tools are %s", shown, strings.Join(tool.Names(roster.tools), ", ")))
	}
	call, err := s.check(t, request.Params.Arguments)
	if err != nil {
		return nil, rpcError(err)
	}
	begun, turn := s.arrivals.wait(ctx, request)
	defer begun()
	call.Begun, call.Turn = begun, turn
	call.Progress, call.Advance = progress(ctx, request)
	call.Client = clientOf(request)
	call.CanAsk = canAsk(request)
	call.Answer = answered(request)
	var answer tool.Result
	for asked := 0; ; asked++ {
		answer, err = handle(ctx, t, call)
		if err != nil || answer.Question == nil {
			break
		}
		if asked == mostQuestions {
			err = internalError(t.Name + " asks again for what was answered")
			break
		}
		var question mcp.Result
		if question, call.Answer = ask(ctx, request, answer.Question); question != nil {
			return question, nil
		}
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

// mostQuestions is how often a person is asked in one call: by this machine, and by
// another host.
const mostQuestions = 2

// progress returns what tells the client how far its call is, or nil when it
// did not ask for that. The figure that must grow is the time in seconds for a line,
// the call's own with advance.
func progress(ctx context.Context, request *mcp.CallToolRequest) (tell func(message string), advance func(done, total float64, message string)) {
	token := request.Params.GetProgressToken()
	if token == nil || request.Session == nil {
		return nil, nil
	}
	begin := time.Now()
	advance = func(done, total float64, message string) {
		err := request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: done, Total: total, Message: message,
		})
		if err != nil && ctx.Err() == nil {
			slog.Debug("progress was not sent", "error", err)
		}
	}
	return func(message string) { advance(time.Since(begin).Seconds(), 0, message) }, advance
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
