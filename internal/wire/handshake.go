package wire

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What is mended in incoming parameters, so that clients which leave out what
// the SDK insists on are served. Requests of protocol 2026-07-28 and later, which
// name their version in every request, pass untouched.

const (
	methodInitialize  = "initialize"
	methodCallTool    = "tools/call"
	methodListen      = "subscriptions/listen"
	methodPing        = "ping"
	notifyCancelled   = "notifications/cancelled"
	notifyInitialized = "notifications/initialized"
	notifyProgress    = "notifications/progress"
	notifyRoots       = "notifications/roots/list_changed"
	notifyMessage     = "notifications/message"

	// sessionless is the first protocol version without a handshake.
	sessionless = "2026-07-28"
)

// isSessionless reports whether params name a protocol version without a
// handshake in their _meta, as the SDK will read them.
func isSessionless(params json.RawMessage) bool {
	if len(params) == 0 || !bytes.Contains(params, []byte(`"_meta"`)) && bytes.IndexByte(params, '\\') < 0 {
		return false
	}
	found := false
	for key, v := range members(params) {
		if key != "_meta" || v[0] != '{' {
			continue
		}
		for key, v := range members(v) {
			if key == mcp.MetaKeyProtocolVersion {
				found = text(v) >= sessionless
			}
		}
	}
	return found
}

// mendParams completes the parameters of a request that follows the older
// protocol.
func mendParams(method string, params json.RawMessage) json.RawMessage {
	switch method {
	case methodInitialize:
		return mendInitialize(params)
	case methodCallTool:
		return mendArguments(params)
	}
	return params
}

// mendInitialize keeps what can be read of the parameters of initialize, and
// fills in the rest. The SDK answers a missing version with its newest.
func mendInitialize(params json.RawMessage) json.RawMessage {
	out := map[string]json.RawMessage{
		"capabilities": json.RawMessage(`{}`),
		"clientInfo":   json.RawMessage(`{"name":"unknown","version":""}`),
	}
	if params == nil {
		params = json.RawMessage(`{}`)
	}
	for key, v := range members(params) {
		if isNull(v) {
			continue
		}
		var readable bool
		switch key {
		case "capabilities":
			readable = json.Unmarshal(v, new(mcp.ClientCapabilities)) == nil
		case "clientInfo":
			readable = json.Unmarshal(v, new(mcp.Implementation)) == nil
		case "protocolVersion":
			readable = v[0] == '"'
		case "_meta":
			readable = v[0] == '{'
		}
		if readable {
			out[key] = v
		}
	}
	mended, err := json.Marshal(out)
	if err != nil {
		return json.RawMessage(`{"capabilities":{},"clientInfo":{"name":"unknown","version":""}}`)
	}
	return mended
}

// mendArguments gives tools/call an empty object where its arguments are absent,
// null or an empty array.
func mendArguments(params json.RawMessage) json.RawMessage {
	if params == nil {
		return params
	}
	var arguments json.RawMessage
	for key, v := range members(params) {
		if key == "arguments" {
			arguments = v
		}
	}
	if arguments != nil && !isNull(arguments) && !isEmptyArray(arguments) {
		return params
	}
	var kept bytes.Buffer
	kept.WriteString(`{"arguments":{}`)
	for key, v := range members(params) {
		if key == "arguments" {
			continue
		}
		name, err := json.Marshal(key)
		if err != nil {
			return params
		}
		kept.WriteByte(',')
		kept.Write(name)
		kept.WriteByte(':')
		kept.Write(v)
	}
	kept.WriteByte('}')
	return kept.Bytes()
}

// assumedSession is the state of a session whose client calls without a
// handshake: it is as if it had made one with the newest version that has one.
func assumedSession() *mcp.ServerSessionState {
	version := ""
	for _, v := range mcp.SupportedProtocolVersions() { // newest first
		if v < sessionless {
			version = v
			break
		}
	}
	return &mcp.ServerSessionState{
		InitializeParams: &mcp.InitializeParams{
			ProtocolVersion: version,
			Capabilities:    &mcp.ClientCapabilities{},
			ClientInfo:      &mcp.Implementation{Name: "unknown"},
		},
		InitializedParams:         &mcp.InitializedParams{},
		NegotiatedProtocolVersion: version,
	}
}
