package contract

// This file is the topup contract: eighteen tools with bare schemas and three
// hidden ones, results with one text block and an isError that is always there,
// failures of usage as results, and instructions that are written anew at each
// handshake (contract topup, sections 3 and 5).
//
// Calls on one session are served in the order of their arrival, on different
// ones side by side. The order is taken where the client's messages are read
// (Admit), and kept until the reply is written.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/compute/session"
	"topside/internal/tool"
	"topside/internal/wire"
)

// What the contract's server says of itself, whatever program it is.
const (
	topupName     = "topup"
	topupVersion  = "0.1.0"
	topupProtocol = "2024-11-05"
)

// A TopupClient serves one client of the topup contract.
type TopupClient struct {
	view  *tool.TopupClient
	turns turnstile
}

// NewTopupClient returns what serves one client: its server, its part of the
// wire's options, and its view of the shared state.
func NewTopupClient(view *tool.TopupClient) *TopupClient {
	c := &TopupClient{view: view}
	view.Stop = c.turns.cancel
	return c
}

// Server makes the client's server.
func (c *TopupClient) Server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: topupName, Version: topupVersion}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	server.AddReceivingMiddleware(c.receive)
	return server
}

// Admit implements the wire's option: it refuses what the contract refuses, and
// gives each call of a tool its place in the order of its session.
func (c *TopupClient) Admit(method string, params json.RawMessage) (wire.Admission, *jsonrpc.Error) {
	switch method {
	case "initialize":
		return wire.Admission{Params: json.RawMessage(`{"protocolVersion":"` + topupProtocol + `"}`)}, nil
	case "ping", "tools/list":
		return wire.Admission{}, nil
	case "tools/call":
	default:
		return wire.Admission{}, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
	}
	name, arguments, err := tool.ReadTopupCall(params)
	if err != nil {
		return wire.Admission{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	places := c.view.Places(name, arguments)
	if name == "restart_session" || name == "restart_local_session" {
		// What hangs there is the reason for it: it must not wait for that.
		for _, p := range places {
			c.turns.cancelAll(p)
		}
	}
	turn := c.turns.enter(name, arguments, places)
	return wire.Admission{
		Serve:  func(ctx context.Context) json.RawMessage { return c.call(ctx, turn) },
		Done:   func() { c.turns.leave(turn) },
		Cancel: turn.cancel,
	}, nil
}

// Cancelled implements the wire's option for notifications: a cancellation that
// names no request stops what runs in the host or session that it names. One that
// names a request is the wire's.
func (c *TopupClient) Cancelled(method string, params []byte) {
	if method != "notifications/cancelled" {
		return
	}
	host, named, request := c.view.TopupCancelled(params)
	if !request {
		c.view.Cancel(host, named)
	}
}

// receive answers what reaches the SDK, everything but ping.
func (c *TopupClient) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if _, ok := request.(*mcp.ListToolsRequest); ok {
			return &result{ctx: ctx, members: topupList()}, nil
		}
		answer, err := next(ctx, method, request)
		if _, ok := answer.(*mcp.InitializeResult); ok && err == nil {
			return c.greeting(ctx)
		}
		return answer, err
	}
}

// greeting is the result of initialize in the contract's order.
func (c *TopupClient) greeting(ctx context.Context) (mcp.Result, error) {
	instructions, err := encode(c.instructions())
	if err != nil {
		return nil, internalError("server error: " + err.Error())
	}
	members := fmt.Sprintf(`"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":%q,"version":%q},"instructions":%s`,
		topupProtocol, topupName, topupVersion, instructions)
	return &result{ctx: ctx, members: []byte(members)}, nil
}

// call serves a call of a tool when its turn has come.
func (c *TopupClient) call(ctx context.Context, turn *turn) json.RawMessage {
	defer c.turns.answer(turn)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(turn.ctx, stop)()
	select {
	case <-turn.come:
	case <-ctx.Done():
		// The tool answers as one that was cancelled; it does not begin.
	}
	answer, err := handleTopup(ctx, c.view, turn)
	return renderTopup(answer, err)
}

func handleTopup(ctx context.Context, view *tool.TopupClient, turn *turn) (answer tool.Result, err error) {
	t := &tool.Tool{Name: turn.name, Handler: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		return view.Call(ctx, turn.name, turn.arguments)
	}}
	return handle(ctx, t, tool.Call{})
}

// renderTopup writes a result: one text block, JSON or plain.
func renderTopup(answer tool.Result, err error) json.RawMessage {
	if err != nil {
		return topupFailure(err)
	}
	if peer, ok := answer.Structured.(tool.PeerResult); ok {
		return rawResult(json.RawMessage(peer))
	}
	text := []byte(answer.Text)
	if answer.Text == "" {
		if text, err = encode(answer.Structured); err != nil {
			return topupFailure(fmt.Errorf("the result could not be encoded: %w", err))
		}
	}
	return append(topupContent(`{`, text), `,"isError":false}`...)
}

// topupContent is the text block, after what comes before it.
func topupContent(before string, text []byte) []byte {
	b := make([]byte, 0, len(text)*9/8+96)
	b = append(append(b, before...), `"content":[{"type":"text","text":`...)
	b = appendString(b, text)
	return append(b, `}]`...)
}

// topupFailure writes a failure: the structured one of a connection has isError
// first, as the contract has it.
func topupFailure(err error) json.RawMessage {
	var connect *tool.ConnectFailure
	var rpc *jsonrpc.Error
	var usage *session.UsageError
	switch {
	case errors.As(err, &connect):
		text, err := encode(connectBody{connectDetail{"connect", connect.Host, connect.Session, connect.Message}})
		if err != nil {
			text = []byte(connect.Message)
		}
		return append(topupContent(`{"isError":true,`, text), '}')
	case errors.As(err, &usage):
		err = usage
	case errors.As(err, &rpc):
		err = errors.New("server error: " + rpc.Message)
	}
	return append(topupContent(`{`, []byte(err.Error())), `,"isError":true}`...)
}

type connectBody struct {
	Error connectDetail `json:"error"`
}

type connectDetail struct {
	Phase   string `json:"phase"`
	Host    string `json:"host,omitempty"`
	Session string `json:"session,omitempty"`
	Message string `json:"message"`
}

// rawResult is a result as another server wrote it.
func rawResult(raw json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) < 2 || trimmed[0] != '{' {
		return topupFailure(errors.New("the peer's result is not an object"))
	}
	return trimmed
}

// topupList is the result of tools/list, the same at each call.
var topupList = sync.OnceValue(func() []byte {
	var b []byte
	for i, t := range tool.TopupTools() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, []byte(t.Name))
		b = append(b, `,"description":`...)
		b = appendString(b, []byte(t.Description))
		b = append(b, `,"inputSchema":`...)
		b = append(append(b, bareSchema(t)...), '}')
	}
	return append(append([]byte(`"tools":[`), b...), ']')
})

// bareSchema is a schema with types and nothing else.
func bareSchema(t *tool.Tool) []byte {
	b := []byte(`{"type":"object","properties":{`)
	var required []string
	for i, p := range t.Input {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `%q:{"type":%q`, p.Name, p.Type)
		if p.Type == tool.Array {
			b = append(b, `,"items":{"type":"string"}`...)
		}
		b = append(b, '}')
		if p.Required {
			required = append(required, fmt.Sprintf("%q", p.Name))
		}
	}
	return fmt.Appendf(b, `},"required":[%s]}`, strings.Join(required, ","))
}

const topupText = `A persistent OCaml toplevel: what one eval binds, later calls see.

Work in steps: give intermediate results names, and recall them with env and lookup instead of computing or printing them again.

Save points: checkpoint keeps the phrases so far under a label, restore brings them back; both survive restarts. Prefer restore to reset. restore with the label previous brings back what a session had before its last reset or restart, or before this server was started.

Files: push_file and pull_file copy between this machine and a started host, up to TOPUP_XFER_MAX_BYTES (16 MiB by default).

Routing: pass host to work on another machine (after start_session), or session to work in a named session of this one (after start_local_session). Pass at most one; omit both, or pass "local", for the default session. Different sessions work in parallel.

Many small evaluations are faster in one eval_batch.

topup-mcp version ` + topupVersion

// instructions lists what calls can be routed to, now.
func (c *TopupClient) instructions() string {
	hosts, sessions := c.view.Targets()
	var b strings.Builder
	b.WriteString(topupText + "\n\nKnown hosts:\n- local [in-process]")
	for _, h := range hosts {
		writeTarget(&b, h)
	}
	if len(sessions) > 0 {
		b.WriteString("\nKnown sessions:")
		for _, s := range sessions {
			writeTarget(&b, s)
		}
	}
	return b.String()
}

func writeTarget(b *strings.Builder, t tool.TopupTarget) {
	first := "disconnected"
	if t.Connected {
		first = topupName + " " + topupVersion
	}
	fmt.Fprintf(b, "\n- %s [%s]", t.Name, first)
	for _, tag := range t.Tags {
		fmt.Fprintf(b, " [%s]", tag)
	}
	if !t.LastSeen.IsZero() {
		fmt.Fprintf(b, " [last: %s]", t.LastSeen.UTC().Format(time.RFC3339))
	}
}
