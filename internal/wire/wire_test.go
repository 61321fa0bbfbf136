package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = time.Minute // a machine under the race detector and under load is slow

	// slack is what a test machine busy with other tests may add to a bound.
	slack = 500 * time.Millisecond
)

var quiet = slog.New(slog.DiscardHandler)

// testServer has the tools echo (returns its arguments), sleep (milliseconds,
// honours its context), stubborn (until release is closed, ignores its context),
// panic, progress (one notification, then a result) and version (the protocol
// version and client of its session).
func testServer(release <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{Logger: quiet})
	s.AddReceivingMiddleware(RecoverPanics(quiet))
	schema := json.RawMessage(`{"type":"object"}`)
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	add := func(name string, h mcp.ToolHandler) { s.AddTool(&mcp.Tool{Name: name, InputSchema: schema}, h) }
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(string(r.Params.Arguments)), nil
	})
	add("length", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(fmt.Sprint(len(r.Params.Arguments))), nil
	})
	add("sleep", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ MS int }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Duration(in.MS) * time.Millisecond):
			return text("slept"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	add("stubborn", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-release
		return text("at last"), nil
	})
	add("panic", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		panic("secret detail")
	})
	add("progress", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		return text("done"), err
	})
	add("ask", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := r.Session.Ping(ctx, nil); err != nil {
			return nil, err
		}
		return text("the client is there"), nil
	})
	add("version", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(r.ProtocolVersion() + " " + r.ClientInfo().Name), nil
	})
	return s
}

// client is a raw client: lines in, lines out.
type client struct {
	t      *testing.T
	in     io.WriteCloser
	lines  chan string
	result chan error
	cancel context.CancelFunc
}

// serve starts Serve for a raw client; the test's end ends it.
func serve(t *testing.T, server *mcp.Server, o Options) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	return serveStream(t, server, o, NewStream(inR, outW), inW, outR)
}

func serveStream(t *testing.T, server *mcp.Server, o Options, s *Stream, in io.WriteCloser, out io.Reader) *client {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &client{t: t, in: in, lines: make(chan string, 10000), result: make(chan error, 1), cancel: cancel}
	go func() { c.result <- Serve(ctx, server, s, o) }()
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.lines)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				c.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = in.Close()
		<-read
	})
	return c
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Fatalf("send: %v", err)
		}
	}
}

// receive returns the next line.
func (c *client) receive() string {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the server closed its output")
		}
		return strings.TrimSuffix(line, "\n")
	case <-time.After(patience):
		c.t.Fatal("no reply")
	}
	return ""
}

// want checks that the next line contains every part.
func (c *client) want(parts ...string) string {
	c.t.Helper()
	line := c.receive()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			c.t.Fatalf("reply %.400s\nlacks %s", line, part)
		}
	}
	return line
}

// end waits for the end of Serve and returns how long it took, and its error.
func (c *client) end() (time.Duration, error) {
	c.t.Helper()
	begun := time.Now()
	select {
	case err := <-c.result:
		return time.Since(begun), err
	case <-time.After(patience):
		c.t.Fatal("Serve did not end")
	}
	return 0, nil
}

// rest returns the lines until the end of output.
func (c *client) rest() []string {
	var all []string
	for line := range c.lines {
		all = append(all, strings.TrimSuffix(line, "\n"))
	}
	return all
}

func toolCall(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

const ping7 = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

// TestConformance plays testdata/conformance: the lines of "in", then the end of
// input; each line of "out" is a JSON value that must be contained in a line of
// the output, and no line may be left over. A file "options" may say
// end-on-malformed, version-optional, answer-cancelled, and a number for the
// frame limit; "error" names the error that Serve returns.
func TestConformance(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/conformance/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conformance files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var in, out, wantErr string
			var o Options
			for _, f := range archive.Files {
				switch f.Name {
				case "in":
					in = string(f.Data)
				case "out":
					out = string(f.Data)
				case "error":
					wantErr = strings.TrimSpace(string(f.Data))
				case "options":
					for _, word := range strings.Fields(string(f.Data)) {
						switch word {
						case "end-on-malformed":
							o.EndOnMalformed = true
						case "version-optional":
							o.VersionOptional = true
						case "answer-cancelled":
							o.AnswerCancelled = true
						default:
							if _, err := fmt.Sscan(word, &o.MaxFrame); err != nil {
								t.Fatalf("option %q", word)
							}
						}
					}
				default:
					t.Fatalf("file %q", f.Name)
				}
			}
			in = strings.NewReplacer(`<CR>`, "\r", `<BOM>`, "\ufeff", `<FF>`, "\xff", `<DEEP>`,
				strings.Repeat("[", 5000)+strings.Repeat("]", 5000)).Replace(in)
			in = strings.TrimSuffix(in, "<NOLF>\n")
			c := serve(t, testServer(nil), o)
			go func() {
				_, _ = io.WriteString(c.in, in)
				_ = c.in.Close()
			}()
			_, err = c.end()
			if got := fmt.Sprint(err); wantErr != "" && !strings.Contains(got, wantErr) || wantErr == "" && err != nil {
				t.Errorf("Serve returned %v, want %q", err, wantErr)
			}
			got := c.rest()
			for _, want := range strings.Split(strings.TrimSpace(out), "\n") {
				if want == "" {
					continue
				}
				i := slices.IndexFunc(got, func(line string) bool { return contains(decode(t, line), decode(t, want)) })
				if i < 0 {
					t.Errorf("no reply contains\n  %s\namong\n  %.2000s", want, strings.Join(got, "\n  "))
					continue
				}
				got = slices.Delete(got, i, i+1)
			}
			if len(got) > 0 {
				t.Errorf("unexpected replies\n  %.2000s", strings.Join(got, "\n  "))
			}
		})
	}
}

func decode(t *testing.T, line string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%.200q: %v", line, err)
	}
	return v
}

// contains reports whether got has everything that want has: the members of
// objects, the elements of arrays in any order, and equal scalars, where a wanted
// string that ends in "…" is a prefix.
func contains(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range want {
			if other, ok := g[k]; !ok || !contains(other, v) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return false
		}
		g = slices.Clone(g)
		for _, w := range want {
			i := slices.IndexFunc(g, func(v any) bool { return contains(v, w) })
			if i < 0 {
				return false
			}
			g = slices.Delete(g, i, i+1)
		}
		return true
	case string:
		if prefix, ok := strings.CutSuffix(want, "…"); ok {
			g, ok := got.(string)
			return ok && strings.HasPrefix(g, prefix)
		}
	}
	return got == want
}

// TestVersions negotiates every version that the SDK knows, and some it does not.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, version := range append(mcp.SupportedProtocolVersions(), "", "1999-01-01", "2099-01-01") {
		t.Run("version "+version, func(t *testing.T) {
			t.Parallel()
			want := version
			if version >= sessionless || version < "2024" {
				want = "2025-11-25"
			}
			c := serve(t, testServer(nil), Options{})
			c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
			c.want(`"protocolVersion":"`+want+`"`, `"name":"test"`)
			c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, toolCall("2", "version", "{}"))
			c.want(`"id":2`, version+" raw")
		})
	}
}

// TestSDKClient is the official client, in the protocol of its choice.
func TestSDKClient(t *testing.T) {
	t.Parallel()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(t.Context(), testServer(nil), NewStream(inR, outW), Options{Logger: quiet})
	}()
	c := mcp.NewClient(&mcp.Implementation{Name: "official", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) < 5 {
		t.Fatalf("tools: %v %v", tools, err)
	}
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "version"})
	if err != nil {
		t.Fatal(err)
	}
	if text := res.Content[0].(*mcp.TextContent).Text; !strings.HasSuffix(text, "official") {
		t.Errorf("version: %q", text)
	}
	if err := session.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestServerAsks: a request of the server's reaches the client and its answer the
// handler, also in a second session of the same stream.
func TestServerAsks(t *testing.T) {
	t.Parallel()
	c := serve(t, testServer(nil), Options{})
	hello := `{"jsonrpc":"2.0","id":"h","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"raw","version":"1"}}}`
	for i := range 2 {
		c.send(hello)
		c.want(`"id":"h"`)
		c.send(toolCall("1", "ask", "{}"))
		var asked struct {
			ID     json.Number
			Method string
		}
		line := c.want(`"method":"ping"`)
		if err := json.Unmarshal([]byte(line), &asked); err != nil {
			t.Fatal(err)
		}
		c.send(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{}}`)
		c.want(`"id":1`, "the client is there")
		if i == 1 && asked.ID == "1" {
			t.Error("a later session asks under the ids of an earlier one")
		}
	}
}

func TestEndOfInput(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	tests := []struct {
		name       string
		tool, args string
		o          Options
		answered   bool
		atLeast    time.Duration
	}{
		{"a quick call is answered", "echo", "{}", Options{}, true, 0},
		{"a call within the grace is answered", "sleep", `{"ms":200}`, Options{}, true, 0},
		{"a long call is cancelled", "sleep", `{"ms":60000}`, Options{}, false, 600 * time.Millisecond},
		{"a stubborn call is left behind", "stubborn", "{}", Options{}, false, 600 * time.Millisecond},
		{"a long grace", "sleep", `{"ms":1200}`, Options{Drain: -1}, true, time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, testServer(release), test.o)
			c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize"}`, toolCall("1", test.tool, test.args))
			_ = c.in.Close()
			took, err := c.end()
			if err != nil {
				t.Error(err)
			}
			if took < test.atLeast || test.o.Drain == 0 && took > time.Second+slack {
				t.Errorf("ended after %v", took)
			}
			answered := slices.ContainsFunc(c.rest(), func(s string) bool { return strings.Contains(s, `"id":1,"result"`) })
			if answered != test.answered {
				t.Errorf("answered: %v, want %v", answered, test.answered)
			}
		})
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	c := serve(t, testServer(release), Options{})
	c.send(toolCall("1", "stubborn", "{}"), toolCall("2", "sleep", `{"ms":60000}`), ping7)
	c.want(`"id":7`)
	c.cancel()
	if took, err := c.end(); err != nil || took > slack {
		t.Errorf("ended after %v with %v", took, err)
	}
}

// TestClientDoesNotRead: nothing is read from the output, and the end of input
// still ends the server, even behind many faults.
func TestClientDoesNotRead(t *testing.T) {
	t.Parallel()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe() // nobody reads outR
	defer outR.Close()
	done := make(chan error, 1)
	go func() {
		done <- Serve(t.Context(), testServer(nil), NewStream(inR, outW), Options{Logger: quiet})
	}()
	for i := range 20000 {
		line := "{broken\n"
		if i%100 == 0 {
			line = toolCall(fmt.Sprint(i), "echo", "{}") + "\n"
		}
		if _, err := io.WriteString(inW, line); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	_ = inW.Close()
	select {
	case err := <-done:
		if err != nil || time.Since(begun) > time.Second+slack {
			t.Errorf("ended after %v with %v", time.Since(begun), err)
		}
	case <-time.After(patience):
		t.Fatal("Serve did not end")
	}
}

func TestClientClosesOutput(t *testing.T) {
	t.Parallel()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	_ = outR.Close()
	done := make(chan error, 1)
	go func() {
		done <- Serve(t.Context(), testServer(nil), NewStream(inR, outW), Options{Logger: quiet})
	}()
	_, _ = io.WriteString(inW, ping7+"\n")
	if err := <-done; err != nil {
		t.Errorf("a departed client is an error: %v", err)
	}
}

func TestCancellation(t *testing.T) {
	t.Parallel()
	ids := []struct{ id, cancel string }{
		{"5", "5"}, {`"five"`, `"five"`}, {"5.0", "5"}, {"1.5", "1.5"}, {"12345678901234567890", "12345678901234567890"}, {`"\u0000n1.5"`, `"\u0000n1.5"`},
	}
	for _, test := range ids {
		t.Run(test.id, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{}, 1)
			server := testServer(nil)
			server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
					res, err := next(ctx, method, r)
					if method == methodCallTool && ctx.Err() != nil {
						ended <- struct{}{}
					}
					return res, err
				}
			})
			c := serve(t, server, Options{})
			c.send(toolCall(test.id, "sleep", `{"ms":60000}`), `{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			c.want(`"id":"p"`)
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + test.cancel + `,"reason":"test"}}`)
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatal("the handler was not cancelled")
			}
			c.send(ping7)
			c.want(`"id":7`) // and nothing for the cancelled call
			_ = c.in.Close()
			if took, _ := c.end(); took > slack {
				t.Errorf("a cancelled call held the end for %v", took)
			}
			if rest := c.rest(); len(rest) > 0 {
				t.Errorf("late replies: %q", rest)
			}
		})
	}
	t.Run("answered where the contract asks", func(t *testing.T) {
		t.Parallel()
		c := serve(t, testServer(nil), Options{AnswerCancelled: true})
		c.send(toolCall("5", "sleep", `{"ms":60000}`), ping7)
		c.want(`"id":7`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		c.want(`"id":5,"error":{"code":-32603`)
	})
	t.Run("in a batch", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		defer close(release)
		c := serve(t, testServer(release), Options{})
		c.send(`[` + toolCall("5", "stubborn", `{}`) + `,` + ping7 + `]`)
		c.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		c.want(`"id":"p"`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		c.want(`[{"jsonrpc":"2.0","id":7,"result":{}}]`)
	})
}

func TestDuplicateID(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c := serve(t, testServer(release), Options{})
	c.send(toolCall("1", "stubborn", "{}"), toolCall("1.0", "echo", "{}"), toolCall(`"1"`, "echo", `{"a":1}`))
	lines := []string{c.receive(), c.receive()}
	slices.Sort(lines)
	if !strings.Contains(lines[1], `"id":1.0,"error":{"code":-32600`) || !strings.Contains(lines[0], `"id":"1","result"`) {
		t.Errorf("replies: %q", lines)
	}
	close(release)
	c.want(`"id":1,"result"`, "at last")
	c.send(toolCall("1", "echo", "{}"))
	c.want(`"id":1,"result"`)
}

func TestPanic(t *testing.T) {
	t.Parallel()
	c := serve(t, testServer(nil), Options{})
	c.send(toolCall("1", "panic", "{}"))
	if line := c.want(`"id":1,"error":{"code":-32603`); strings.Contains(line, "secret") || strings.Contains(line, "goroutine") {
		t.Errorf("details leak: %s", line)
	}
	c.send(ping7)
	c.want(`"id":7`)
}

func TestTooManyInFlight(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c := serve(t, testServer(release), Options{MaxInFlight: 3})
	for i := range 3 {
		c.send(toolCall(fmt.Sprint(i), "stubborn", "{}"))
	}
	c.send(toolCall("8", "echo", "{}"), toolCall("9", "echo", "{}"))
	c.want(`"id":8,"error":{"code":-32000`)
	c.want(`"id":9,"error":{"code":-32000`)
	close(release)
	for range 3 {
		c.want("at last")
	}
	c.send(toolCall("8", "echo", "{}"))
	c.want(`"id":8,"result"`)
}

// TestFloods: unknown and known notifications, unknown methods and many calls.
func TestFloods(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, line string
		n          int
		answered   bool
	}{
		{"unknown notifications", `{"jsonrpc":"2.0","method":"notifications/unheard"}`, 50000, false},
		{"progress", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, 5000, false},
		{"cancellations", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, 20000, false},
		{"unknown methods", `{"jsonrpc":"2.0","id":%d,"method":"no/such"}`, 5000, true},
		{"calls", toolCall("%d", "echo", "{}"), 5000, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, testServer(nil), Options{})
			c.send(ping7)
			c.want(`"id":7`)
			go func() {
				w := bufio.NewWriter(c.in)
				for i := range test.n {
					line := test.line
					if test.answered {
						line = fmt.Sprintf(line, i+100)
					}
					_, _ = w.WriteString(line + "\n")
				}
				_ = w.Flush()
				_, _ = io.WriteString(c.in, ping7+"\n")
			}()
			replies := 1 // to the ping, which may overtake others
			if test.answered {
				replies += test.n
			}
			pinged := false
			for range replies {
				line := c.receive()
				if strings.Contains(line, "-32000") {
					t.Fatalf("refused: %s", line)
				}
				pinged = pinged || strings.Contains(line, `"id":7,"result"`)
			}
			if !pinged {
				t.Error("the ping behind the flood was not answered")
			}
		})
	}
}

func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	c := serve(t, testServer(nil), Options{})
	c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	c.want(`"init"`)
	const n = 200
	begun := time.Now()
	for i := range n {
		c.send(toolCall(fmt.Sprint(i), "sleep", `{"ms":200}`))
	}
	seen := map[string]bool{}
	for range n {
		var m struct {
			ID     json.Number
			Result *struct{}
		}
		if err := json.Unmarshal([]byte(c.receive()), &m); err != nil || m.Result == nil {
			t.Fatalf("%v %v", m, err)
		}
		seen[string(m.ID)] = true
	}
	if len(seen) != n {
		t.Errorf("%d ids answered", len(seen))
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("200 calls of 200 ms took %v: they do not run at once", took)
	}
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	head, tail := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"length","arguments":{"a":"`, `"}}}`
	line := func(size int) string {
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	t.Run("50 MB", func(t *testing.T) {
		c := serve(t, testServer(nil), Options{})
		c.send(line(50e6))
		c.want(`"id":1,"result"`, fmt.Sprint(50e6-len(head)-len(tail)+len(`{"a":""}`)))
		c.send(ping7)
		c.want(`"id":7`)
	})
	t.Run("70 MB", func(t *testing.T) {
		c := serve(t, testServer(nil), Options{})
		go func() { _, _ = io.WriteString(c.in, line(70e6)+"\n") }()
		c.want(`"id":null,"error":{"code":-32600`, "67108864")
		if _, err := c.end(); !errors.Is(err, ErrFrameTooLarge) {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestProgressReachesClient(t *testing.T) {
	t.Parallel()
	c := serve(t, testServer(nil), Options{})
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress","arguments":{},"_meta":{"progressToken":"t-1"}}}`)
	c.want("notifications/progress", `"progressToken":"t-1"`)
	c.want(`"id":1,"result"`)
}

func TestOnNotification(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	c := serve(t, testServer(nil), Options{OnNotification: func(method string, params []byte) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, method+" "+string(params))
	}})
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"session":"s"}}`, ping7)
	c.want(`"id":7`)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{`notifications/cancelled {"session":"s"}`}; !slices.Equal(seen, want) {
		t.Errorf("saw %q", seen)
	}
}

func TestResponseEncoding(t *testing.T) {
	t.Parallel()
	if got := string(oneLine([]byte("{\"a\":\n 1}"))); got != `{"a":1}` {
		t.Errorf("line feed: %s", got)
	}
	if got := oneLine([]byte("\"\xff\"")); !bytes.Equal(got, []byte("\"\uFFFD\"")) {
		t.Errorf("broken UTF-8: %q", got)
	}
	if e := wireError(fmt.Errorf("wrapped: %w", busyError)); e.Code != codeServerBusy || !strings.HasPrefix(e.Message, "wrapped: ") {
		t.Errorf("wrapped error: %+v", e)
	}
}
