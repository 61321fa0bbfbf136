package contract

// This file is the xtop contract: twelve tools with plain schemas, results of one
// text block without isError, and every failure a JSON-RPC error (contract xtop,
// sections 1.1 and 1.6).
//
// The contract's server is strictly sequential: one reply a request, in the order
// of the requests. Each request but the handshake goes through the SDK as a call
// of a tool with the number of its turn, which is taken where the client's
// messages are read (Admit).

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/tool"
	"topside/internal/wire"
)

// What the contract's server says of itself, whatever program it is.
const (
	xtopName     = "xtop"
	xtopVersion  = "0.1.0"
	xtopProtocol = "2024-11-05"
)

// codeXtopFailed is the code of every failure of an action.
const codeXtopFailed = -32000

// An XtopClient serves one client of the xtop contract.
type XtopClient struct {
	tools *tool.Xtop
	turns turnstile
}

// NewXtopClient returns what serves one client.
func NewXtopClient(tools *tool.Xtop) *XtopClient { return &XtopClient{tools: tools} }

// Server makes the client's server.
func (c *XtopClient) Server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: xtopName, Version: xtopVersion}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	server.AddReceivingMiddleware(c.receive)
	return server
}

// Wire completes the options of the wire as the contract wants it.
func (c *XtopClient) Wire(o wire.Options) wire.Options {
	o.EndOnMalformed, o.VersionOptional, o.AnyID, o.StrayCalls = true, true, true, true
	o.Admit, o.AnyParams = c.admit, true
	o.Name = xtopName
	return o
}

func xtopUnknownMethod(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + method}
}

// admit gives each request its place in the order.
func (c *XtopClient) admit(method string, params json.RawMessage) (wire.Admission, *jsonrpc.Error) {
	turn := c.turns.enter(method, params, []string{""})
	admission := wire.Admission{Method: "tools/call", Params: turn.params(), Done: func() { c.turns.leave(turn) }, Cancel: turn.cancel}
	if method == "initialize" {
		admission.Method, admission.Cancel = method, nil
		admission.Params = fmt.Appendf(nil, `{"protocolVersion":%q,"clientInfo":%s,"_meta":{%q:%d}}`, xtopProtocol, clientInfoOf(params), turnKey, turn.number)
	}
	return admission, nil
}

// clientInfoOf is what a handshake says of its client; the SDK's side mends what
// cannot be read.
func clientInfoOf(params json.RawMessage) json.RawMessage {
	var sent struct {
		ClientInfo json.RawMessage `json:"clientInfo"`
	}
	if json.Unmarshal(params, &sent) != nil || sent.ClientInfo == nil {
		return json.RawMessage("null")
	}
	return sent.ClientInfo
}

// receive answers when a request's turn has come.
func (c *XtopClient) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		var number float64
		switch request := request.(type) {
		case *mcp.CallToolRequest:
			number, _ = request.Params.Meta[turnKey].(float64)
		case *mcp.ServerRequest[*mcp.InitializeParams]:
			number, _ = request.Params.Meta[turnKey].(float64)
		default:
			return next(ctx, method, request) // notifications
		}
		turn := c.turns.find(uint64(number))
		if turn == nil {
			return nil, internalError("the request has no turn")
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(turn.ctx, stop)()
		select {
		case <-turn.come:
		case <-ctx.Done():
			return nil, failed(context.Cause(ctx))
		}
		if method == "initialize" {
			if _, err := next(ctx, method, request); err != nil {
				return nil, err
			}
		}
		return c.answer(ctx, turn, clientOf(request))
	}
}

// clientOf is what the client calls itself, for the audit log.
func clientOf(request mcp.Request) string {
	if call, ok := request.(*mcp.CallToolRequest); ok {
		if info := call.ClientInfo(); info != nil {
			return strings.TrimSpace(info.Name + " " + info.Version)
		}
	}
	return ""
}

// answer answers one request.
func (c *XtopClient) answer(ctx context.Context, turn *turn, client string) (mcp.Result, error) {
	switch turn.name {
	case "initialize":
		return &result{ctx: ctx, members: fmt.Appendf(nil, `"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":%q,"version":%q}`,
			xtopProtocol, xtopName, xtopVersion)}, nil
	case "ping":
		return &result{ctx: ctx}, nil
	case "tools/list":
		return &result{ctx: ctx, members: xtopList()}, nil
	case "tools/call":
		return c.call(ctx, turn.arguments, client)
	}
	return nil, passed(xtopUnknownMethod(turn.name))
}

// call serves a call of a tool.
func (c *XtopClient) call(ctx context.Context, params json.RawMessage, client string) (mcp.Result, error) {
	name, arguments := xtopCallOf(params)
	t := &tool.Tool{Name: name, Handler: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		return c.tools.Call(ctx, name, client, arguments)
	}}
	answer, err := handle(ctx, t, tool.Call{})
	if err != nil {
		return nil, xtopFailure(err)
	}
	members := appendString([]byte(`"content":[{"type":"text","text":`), []byte(answer.Text))
	return &result{ctx: ctx, members: append(members, `}]`...)}, nil
}

// xtopCallOf takes the parameters of a call apart. What is missing or of another
// type is empty.
func xtopCallOf(params json.RawMessage) (name string, arguments json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil {
		return "", nil
	}
	_ = json.Unmarshal(members["name"], &name)
	return name, members["arguments"]
}

// xtopFailure turns an error into the contract's.
func xtopFailure(err error) error {
	var unknown *tool.UnknownTool
	var argument *tool.ArgumentError
	var rpc *jsonrpc.Error
	switch {
	case errors.As(err, &unknown):
		return passed(&jsonrpc.Error{Message: unknown.Error()})
	case errors.As(err, &argument):
		return invalidParams(argument.Message)
	case errors.As(err, &rpc):
		return failed(errors.New(rpc.Message))
	}
	return failed(err)
}

// passed is an error of the code -32601 on its way through the SDK.
func passed(e *jsonrpc.Error) error {
	return &jsonrpc.Error{Code: wire.MethodNotFound, Message: e.Message}
}

func failed(err error) error { return &jsonrpc.Error{Code: codeXtopFailed, Message: err.Error()} }

// xtopList is the result of tools/list, the same at each call.
var xtopList = sync.OnceValue(func() []byte {
	b := []byte(`"tools":[`)
	for i, t := range tool.NewXtop(nil, nil).Tools() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"name":`...), []byte(t.Name))
		b = appendString(append(b, `,"description":`...), []byte(t.Description))
		b = append(append(append(b, `,"inputSchema":`...), plainSchema(t)...), '}')
	}
	return append(b, ']')
})

// plainSchema is a schema with types, descriptions and defaults, and nothing
// that a client could refuse.
func plainSchema(t *tool.Tool) []byte {
	b := []byte(`{"type":"object","properties":{`)
	var required []string
	for i, p := range t.Input {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `%q:{"type":%q`, p.Name, p.Type)
		if p.Description != "" {
			b = appendString(append(b, `,"description":`...), []byte(p.Description))
		}
		if p.Default != nil {
			b = fmt.Appendf(b, `,"default":%v`, p.Default)
		}
		b = append(b, '}')
		if p.Required {
			required = append(required, fmt.Sprintf("%q", p.Name))
		}
	}
	b = append(b, '}')
	if len(required) > 0 {
		b = fmt.Appendf(b, `,"required":[%s]`, strings.Join(required, ","))
	}
	return append(b, '}')
}
