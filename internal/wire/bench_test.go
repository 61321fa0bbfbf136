package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkRoundTrip measures one call of an empty tool, and of one that answers
// with 4 KiB, over operating-system pipes with a raw client: through this package,
// and through the SDK's own transport.
func BenchmarkRoundTrip(b *testing.B) {
	server := func(size int) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, &mcp.ServerOptions{Logger: quiet})
		res := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", size)}}}
		s.AddTool(&mcp.Tool{Name: "empty", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return res, nil })
		return s
	}
	transports := []struct {
		name  string
		serve func(ctx context.Context, s *mcp.Server, r, w *os.File)
	}{
		{"bare-sdk", func(ctx context.Context, s *mcp.Server, r, w *os.File) {
			_ = s.Run(ctx, &mcp.IOTransport{Reader: r, Writer: w})
		}},
		{"wire", func(ctx context.Context, s *mcp.Server, r, w *os.File) {
			_ = Serve(ctx, s, NewStream(r, w), Options{Logger: quiet})
		}},
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"empty", 0}, {"4KiB", 4096}} {
		for _, transport := range transports {
			b.Run(size.name+"/"+transport.name, func(b *testing.B) {
				inR, inW, err := os.Pipe()
				if err != nil {
					b.Fatal(err)
				}
				outR, outW, err := os.Pipe()
				if err != nil {
					b.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					transport.serve(b.Context(), server(size.bytes), inR, outW)
				}()
				replies := bufio.NewReaderSize(outR, 64<<10)
				exchange := func(line string) {
					if _, err := io.WriteString(inW, line); err != nil {
						b.Fatal(err)
					}
					if _, err := replies.ReadSlice('\n'); err != nil {
						b.Fatal(err)
					}
				}
				exchange(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}` + "\n")
				line := toolCall("1", "empty", `{"snapshot_id":"s"}`) + "\n"
				b.ReportAllocs()
				for b.Loop() {
					exchange(line)
				}
				b.StopTimer()
				_ = inW.Close()
				<-done
				_ = outR.Close()
			})
		}
	}
}
