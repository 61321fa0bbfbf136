package fleettest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Tools is a tool server of a few methods, in JSON-RPC lines, for a daemon under
// test:
//
//	echo   → its parameters
//	sleep  {"ms":N} → "slept", or nothing when it is cancelled
//	count  → how often it was called in this process
//	big    {"bytes":N} → a string of that length
//	ask    {"method":…,"params":…} → what the client answers to that request
//	fail   → a JSON-RPC error
func Tools(ctx context.Context, _ string, conn net.Conn) error {
	t := &tools{conn: conn, asked: map[string]chan json.RawMessage{}, cancels: map[string]context.CancelFunc{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer t.work.Wait()
	defer cancel()
	r := bufio.NewReaderSize(conn, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return err
		}
		t.take(ctx, line)
	}
}

var counted atomic.Int64

type tools struct {
	conn    net.Conn
	work    sync.WaitGroup
	mu      sync.Mutex
	asked   map[string]chan json.RawMessage
	cancels map[string]context.CancelFunc
	next    int
}

type toolMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

func (t *tools) take(ctx context.Context, line []byte) {
	var m toolMessage
	if err := json.Unmarshal(line, &m); err != nil {
		t.write(toolMessage{ID: json.RawMessage("null"), Error: json.RawMessage(`{"code":-32700,"message":"parse error"}`)})
		return
	}
	switch {
	case m.Method == "":
		t.mu.Lock()
		c := t.asked[string(m.ID)]
		delete(t.asked, string(m.ID))
		t.mu.Unlock()
		if c != nil {
			if m.Error != nil {
				c <- m.Error
			} else {
				c <- m.Result
			}
		}
	case m.Method == "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			t.mu.Lock()
			if cancel := t.cancels[string(p.RequestID)]; cancel != nil {
				cancel()
			}
			t.mu.Unlock()
		}
	case m.ID == nil:
	case m.Method == "echo":
		t.write(toolMessage{ID: m.ID, Result: orEmpty(m.Params)})
	default:
		ctx, cancel := context.WithCancel(ctx)
		t.mu.Lock()
		t.cancels[string(m.ID)] = cancel
		t.mu.Unlock()
		t.work.Go(func() {
			defer func() {
				t.mu.Lock()
				delete(t.cancels, string(m.ID))
				t.mu.Unlock()
				cancel()
			}()
			if reply, ok := t.run(ctx, m); ok {
				t.write(reply)
			}
		})
	}
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}

func (t *tools) run(ctx context.Context, m toolMessage) (toolMessage, bool) {
	var p struct {
		Ms     int             `json:"ms"`
		Bytes  int             `json:"bytes"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	_ = json.Unmarshal(m.Params, &p) // absent members are zero
	out := toolMessage{ID: m.ID}
	switch m.Method {
	case "initialize":
		out.Result = json.RawMessage(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"topup","version":"0.1.0"}}`)
	case "sleep":
		select {
		case <-time.After(time.Duration(p.Ms) * time.Millisecond):
		case <-ctx.Done():
			return out, false
		}
		out.Result = json.RawMessage(`"slept"`)
	case "count":
		out.Result = json.RawMessage(fmt.Sprint(counted.Add(1)))
	case "big":
		b := make([]byte, p.Bytes+2)
		for i := range b {
			b[i] = 'x'
		}
		b[0], b[len(b)-1] = '"', '"'
		out.Result = b
	case "ask":
		t.mu.Lock()
		t.next++
		id := json.RawMessage(fmt.Sprint(t.next))
		c := make(chan json.RawMessage, 1)
		t.asked[string(id)] = c
		t.mu.Unlock()
		t.write(toolMessage{ID: id, Method: p.Method, Params: p.Params})
		select {
		case out.Result = <-c:
		case <-ctx.Done():
			return out, false
		}
	default:
		out.Error = json.RawMessage(`{"code":-32601,"message":"method not found: ` + m.Method + `"}`)
	}
	return out, true
}

func (t *tools) write(m toolMessage) {
	m.Version = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.conn.Write(append(b, '\n')) // the reader sees the end
}

// Topup is a program that serves Tools on a socket as the original topup does: one
// client at a time, until a signal; the socket is removed then.
func Topup(socket string) int {
	l, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer l.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	end := context.AfterFunc(ctx, func() { l.Close() })
	defer end()
	for {
		c, err := l.Accept()
		if err != nil {
			return 0
		}
		if err := Tools(ctx, "topup", c); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		c.Close()
	}
}
