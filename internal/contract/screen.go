package contract

// This file refuses, as it was sent, what the SDK would refuse with words of its
// own, or what is mended before a surface sees it.

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"topside/internal/see/plaintext"
)

// Screen is the united surface's part of the wire's option of that name.
func Screen(method string, params json.RawMessage) *jsonrpc.Error {
	if method != "tools/call" {
		return nil
	}
	var call struct {
		Name json.RawMessage `json:"name"`
	}
	if json.Unmarshal(params, &call) != nil || len(call.Name) == 0 {
		return refusal("tools/call needs a name, which is a string: the tool to call")
	}
	if call.Name[0] != '"' {
		return refusal("the name of a tool must be a string; got " + sent(call.Name))
	}
	return nil
}

// WsltopScreen is the wsltop contract's: an array is no arguments, and a cursor
// is refused whatever it holds (sections 1.1 and 5.1).
func WsltopScreen(method string, params json.RawMessage) *jsonrpc.Error {
	var given struct {
		Cursor    json.RawMessage `json:"cursor"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if params != nil && json.Unmarshal(params, &given) != nil {
		return nil // told by whoever needs them
	}
	switch {
	case method == "tools/list" && given.Cursor != nil:
		return refusal("the list of tools is one page: leave the cursor out")
	case method == "tools/call" && len(given.Arguments) > 0 && given.Arguments[0] != '{' && !bytes.Equal(given.Arguments, []byte("null")):
		return refusal("arguments must be a JSON object; got " + sent(given.Arguments))
	}
	return Screen(method, params)
}

func refusal(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// sent shows what was sent, sanitised and bounded.
func sent(raw json.RawMessage) string {
	shown, _ := plaintext.Bounded(string(raw), 60)
	return shown
}
