package contract

// This file measures a call from the line of the request to the line of the
// reply, beside an empty tool of the bare SDK in the same run. A pinned read
// must cost at most 1.5 times the empty tool.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A pipeline is a server at the other end of two pipes.
type pipeline struct {
	out io.Writer
	in  *bufio.Reader
}

func pipe(b *testing.B, server *mcp.Server) *pipeline {
	b.Helper()
	toServer, out := io.Pipe()
	in, fromServer := io.Pipe()
	session, err := server.Connect(context.Background(), &mcp.IOTransport{Reader: toServer, Writer: fromServer}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		out.Close()
		in.Close()
		session.Close()
	})
	p := &pipeline{out, bufio.NewReaderSize(in, 1<<20)}
	p.ask(b, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

func (p *pipeline) ask(b *testing.B, line string) []byte {
	if _, err := io.WriteString(p.out, line+"\n"); err != nil {
		b.Fatal(err)
	}
	answer, err := p.in.ReadSlice('\n')
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

func BenchmarkCall(b *testing.B) {
	empty := mcp.NewServer(&mcp.Implementation{Name: "empty", Version: "1"}, nil)
	mcp.AddTool(empty, &mcp.Tool{Name: "get_system_summary"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	measure := func(name string, p *pipeline, tool, arguments string) {
		line := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
		b.Run(name, func(b *testing.B) {
			size := 0
			b.ReportAllocs()
			for b.Loop() {
				size = len(p.ask(b, line))
			}
			b.ReportMetric(float64(size), "bytes/reply")
		})
	}
	measure("empty tool of the bare SDK", pipe(b, empty), "get_system_summary", `{}`)
	for _, surface := range []string{"united", "wsltop"} {
		made, wsl := United, false
		if surface == "wsltop" {
			made, wsl = Wsltop, true
		}
		server, err := made(Config{Version: "1", Observer: observe(b, wsl)})
		if err != nil {
			b.Fatal(err)
		}
		c := connect(b, server)
		snapshot := c.ok("get_system_summary", `{"max_age_ms":0}`)["snapshot"].(map[string]any)["snapshot_id"].(string)
		id := c.ok("list_resources", fmt.Sprintf(`{"snapshot_id":%q,"limit":1}`, snapshot))["data"].([]any)[0].(map[string]any)["resource_id"].(string)
		p := pipe(b, server)
		pinned := fmt.Sprintf(`{"snapshot_id":%q}`, snapshot)
		measure(surface+" summary", p, "get_system_summary", pinned)
		measure(surface+" inspect", p, "inspect_resource", fmt.Sprintf(`{"snapshot_id":%q,"resource_id":%q}`, snapshot, id))
		measure(surface+" list of 5", p, "list_resources", fmt.Sprintf(`{"snapshot_id":%q,"limit":5}`, snapshot))
		measure(surface+" list of 30", p, "list_resources", pinned)
	}
}
