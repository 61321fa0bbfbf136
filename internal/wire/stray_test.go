package wire

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestStrays: what is JSON but no message with a method is a call like others,
// handed on under another method, and a handler's -32601 keeps its message.
func TestStrays(t *testing.T) {
	t.Parallel()
	server := testServer(nil)
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if call, ok := r.(*mcp.CallToolRequest); ok && call.Params.Name == "stray" {
				return nil, &jsonrpc.Error{Code: MethodNotFound, Message: "there is no such thing"}
			}
			return next(ctx, method, r)
		}
	})
	c := serve(t, server, Options{
		EndOnMalformed: true, VersionOptional: true, AnyID: true, AnyParams: true, StrayCalls: true,
		Admit: func(method string, params json.RawMessage) (Admission, *jsonrpc.Error) {
			if method == "" {
				return Admission{Method: methodCallTool, Params: json.RawMessage(`{"name":"stray","arguments":{}}`)}, nil
			}
			return Admission{Params: params}, nil
		},
	})
	const not = `"error":{"code":-32601,"message":"there is no such thing"}`
	for _, line := range []string{`[]`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `5`, `"x"`, `null`, `true`, `{}`, `{"params":{}}`, `{"method":5}`} {
		c.send(line)
		c.want(`"id":null`, not)
	}
	c.send(`{"id":[3],"method":null}`)
	c.want(`"id":[3]`, not)
	c.send(`{"id":4}`)
	c.want(`"id":4`, not)
	c.send(ping7)
	c.want(`"id":7,"result":{}`)
	c.send(`{"id":8`)
	if _, err := c.end(); !errors.Is(err, ErrMalformed) {
		t.Errorf("it ended with %v", err)
	}
}
