package contract

// This file is the wsltop contract: four tools, strict arguments, and results
// whose text block is the JSON of their structured content.

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/tool"
)

const wsltopInstructions = `Read-only local observations of CPU and memory. Keep the snapshot_id of a result and pass it to the following calls, so that they speak of the same observation.
Resource ids are opaque and belong to one observation: pass them on verbatim, together with their snapshot_id.
CPU percent is on a whole-host scale (100 = all logical CPUs); use cores_used to explain one resource. On Linux the machine's own processes are the wsl environment.
Environments overlap, and so do parents and children: never add them up. null is not zero, and an empty list is a valid answer.
There are no tools for actions and none that run commands.`

// Wsltop makes the server of the wsltop contract. The observer must have been
// made with the wsltop flavour of resource names. The original hides no secrets
// in args, so that a drop-in replacement sets c.ShowSecrets.
func Wsltop(c Config) (*mcp.Server, error) {
	s := &surface{
		name:         "wsltop",
		instructions: wsltopInstructions,
		tools:        tool.WsltopTools(c.Observer, tool.WsltopOptions{WSLOnly: c.WSLOnly, ShowSecrets: c.ShowSecrets}),
		check:        tool.CheckStrict,
		failure:      wsltopFailure,
	}
	return s.serve(c.Version), nil
}

// wsltopFailure has no text of its own: both blocks hold the same JSON.
func wsltopFailure(err error) (structured any, text string) {
	detail := describe(err, "service_error")
	if detail.Hint != "" {
		detail.Message += ": " + detail.Hint
		detail.Hint = ""
	}
	return failureBody{detail}, ""
}
