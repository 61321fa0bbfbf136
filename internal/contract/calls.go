package contract

// This file serves the contracts that need more of the wire than the SDK has (the
// order of requests, errors of their own) to a client in the same process, which
// calls one tool at a time: "topside call" reaches their tools so.

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/tool"
)

// XtopCalls makes a server for single calls of the xtop contract's tools.
func XtopCalls(tools *tool.Xtop) *mcp.Server {
	return calls(xtopName, xtopVersion, tools.Tools(), plainSchema, func(ctx context.Context, name, client string, arguments json.RawMessage) (tool.Result, error) {
		answer, err := tools.Call(ctx, name, client, arguments)
		if err != nil {
			err = xtopFailure(err)
		}
		return answer, err
	})
}

// TopupCalls makes a server for single calls of the topup contract's tools.
func TopupCalls(view *tool.TopupClient) *mcp.Server {
	return calls(topupName, topupVersion, tool.TopupTools(), bareSchema, func(ctx context.Context, name, _ string, arguments json.RawMessage) (tool.Result, error) {
		return view.Call(ctx, name, arguments)
	})
}

// calls makes a server whose tools are served by one function, and listed in their
// own order.
func calls(name, version string, tools []*tool.Tool, schema func(*tool.Tool) []byte,
	call func(ctx context.Context, name, client string, arguments json.RawMessage) (tool.Result, error)) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: version}, nil)
	place := map[string]int{}
	for i, t := range tools {
		place[t.Name] = i
		server.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: json.RawMessage(schema(t))},
			func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				t := &tool.Tool{Name: t.Name, Handler: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
					return call(ctx, t.Name, clientOf(request), request.Params.Arguments)
				}}
				answer, err := handle(ctx, t, tool.Call{})
				if err != nil {
					return nil, err
				}
				return inBothForms(answer)
			})
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			answer, err := next(ctx, method, request)
			if list, ok := answer.(*mcp.ListToolsResult); ok && err == nil {
				slices.SortFunc(list.Tools, func(a, b *mcp.Tool) int { return place[a.Name] - place[b.Name] })
			}
			return answer, err
		}
	})
	return server
}

// inBothForms is a result in both forms, as far as it has them.
func inBothForms(answer tool.Result) (*mcp.CallToolResult, error) {
	out := &mcp.CallToolResult{StructuredContent: answer.Structured}
	if answer.Text == "" {
		text, err := encode(answer.Structured)
		if err != nil {
			return nil, err
		}
		answer.Text = string(text)
	}
	out.Content = []mcp.Content{&mcp.TextContent{Text: answer.Text}}
	return out, nil
}
