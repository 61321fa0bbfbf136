package contract

// This file holds the tests' client: it speaks to a server in JSON lines, so
// that the tests see what is on the wire and not what an SDK makes of it.

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/see"
	"topside/internal/see/resource"
)

// A client is a session with a server, past its handshake.
type client struct {
	t           testing.TB
	initialized json.RawMessage

	mu      sync.Mutex
	out     io.Writer
	next    int
	waiting map[int]chan reply
}

type reply struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func connect(t testing.TB, server *mcp.Server) *client {
	t.Helper()
	toServer, out := io.Pipe()
	in, fromServer := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	session, err := server.Connect(ctx, &mcp.IOTransport{Reader: toServer, Writer: fromServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, out: out, waiting: map[int]chan reply{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(in)
	}()
	t.Cleanup(func() {
		cancel()
		out.Close()
		in.Close()
		session.Close()
		<-read
	})
	c.initialized = c.result("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	})
	c.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	return c
}

func (c *client) read(in io.Reader) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil || r.ID == nil {
			continue
		}
		c.mu.Lock()
		wait := c.waiting[*r.ID]
		delete(c.waiting, *r.ID)
		c.mu.Unlock()
		if wait != nil {
			wait <- r
		}
	}
}

func (c *client) send(message any) {
	encoded, err := json.Marshal(message)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.out.Write(append(encoded, '\n')); err != nil {
		c.t.Error(err)
	}
}

// request waits for the answer to a request; params may be raw JSON.
func (c *client) request(method string, params any) reply {
	c.t.Helper()
	wait := make(chan reply, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = wait
	c.mu.Unlock()
	message := map[string]any{"jsonrpc": "2.0", "id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	c.send(message)
	select {
	case r := <-wait:
		return r
	case <-time.After(20 * time.Second):
		c.t.Errorf("no answer to %s", method)
		return reply{}
	}
}

func (c *client) result(method string, params any) json.RawMessage {
	c.t.Helper()
	r := c.request(method, params)
	if r.Error != nil {
		c.t.Fatalf("%s failed: %d %s", method, r.Error.Code, r.Error.Message)
	}
	return r.Result
}

// A called is the result of tools/call.
type called struct {
	raw        json.RawMessage
	IsError    *bool           `json:"isError"`
	Structured json.RawMessage `json:"structuredContent"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

func (c *client) call(tool, arguments string) (called, reply) {
	c.t.Helper()
	params := map[string]any{"name": tool}
	if arguments != "" {
		params["arguments"] = json.RawMessage(arguments)
	}
	r := c.request("tools/call", params)
	res := called{raw: r.Result}
	if r.Error == nil {
		if err := json.Unmarshal(r.Result, &res); err != nil {
			c.t.Fatalf("%s %s: %v in %.200s", tool, arguments, err, r.Result)
		}
	}
	return res, r
}

// ok is the structured content of a call that must succeed, decoded.
func (c *client) ok(tool, arguments string) map[string]any {
	c.t.Helper()
	res, r := c.call(tool, arguments)
	if r.Error != nil {
		c.t.Fatalf("%s %s: %d %s", tool, arguments, r.Error.Code, r.Error.Message)
	}
	if res.IsError == nil || *res.IsError {
		c.t.Fatalf("%s %s: isError is not false: %.300s", tool, arguments, res.raw)
	}
	return decode(c.t, res.Structured)
}

func decode(t testing.TB, raw json.RawMessage) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %.200s", err, raw)
	}
	return v
}

// observe is an observer of this machine, sampling in short windows.
func observe(t testing.TB, wsl bool) *see.Observer {
	t.Helper()
	return observer(t, see.Options{Interval: see.MinInterval, WithoutEngines: true, Flavour: resource.Flavour{WSL: wsl}})
}

func observer(t testing.TB, o see.Options) *see.Observer {
	t.Helper()
	observer, err := see.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := observer.Close(); err != nil {
			t.Error(err)
		}
	})
	observer.Start(context.Background())
	return observer
}

func serveUnited(t testing.TB) *client {
	t.Helper()
	server, err := United(Config{Version: "1.2.3", Observer: observe(t, false)})
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, server)
}

func serveWsltop(t testing.TB) *client {
	t.Helper()
	server, err := Wsltop(Config{Version: "1.2.3", Observer: observe(t, true)})
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, server)
}
