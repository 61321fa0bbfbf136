package wire

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestAsker makes requests to a client and gets its answers, its errors, and the
// news of its going.
func TestAsker(t *testing.T) {
	t.Parallel()
	asker := new(Asker)
	c := serve(t, testServer(nil), Options{Asker: asker})
	c.send(ping7)
	c.want(`"id":7`)
	type answer struct {
		raw json.RawMessage
		err error
	}
	ask := func() chan answer {
		done := make(chan answer, 1)
		go func() {
			raw, err := asker.Ask(t.Context(), "tools/call", map[string]int{"x": 1})
			done <- answer{raw, err}
		}()
		return done
	}
	first := ask()
	c.want(`"id":1`, `"method":"tools/call"`, `"params":{"x":1}`)
	c.send(`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"y":2}}`)
	if a := <-first; a.err != nil || string(a.raw) != `{"y":2}` {
		t.Errorf("%s %v", a.raw, a.err)
	}
	second := ask()
	c.want(`"id":2`)
	c.send(`{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}`)
	var rpc *jsonrpc.Error
	if a := <-second; !errors.As(a.err, &rpc) || rpc.Message != "no" {
		t.Errorf("%v", a.err)
	}
	third := ask()
	c.want(`"id":3`)
	_ = c.in.Close()
	if a := <-third; !errors.Is(a.err, ErrNoAnswer) {
		t.Errorf("%v", a.err)
	}
	c.end()
	if _, err := asker.Ask(t.Context(), "x", nil); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v", err)
	}
}

// TestAdmit: calls are seen in order, may be refused or changed, and their end and
// their cancellation are told once.
func TestAdmit(t *testing.T) {
	t.Parallel()
	var seen []string
	var done, cancelled atomic.Int32
	c := serve(t, testServer(nil), Options{
		AnyID: true, AnswerCancelled: true, Drain: -1, SkipLong: true, MaxFrame: 500,
		AnyParams: true,
		Admit: func(method string, params json.RawMessage) (Admission, *jsonrpc.Error) {
			seen = append(seen, method+string(params))
			switch {
			case method == "nosuch":
				return Admission{}, &jsonrpc.Error{Code: -32601, Message: "method not found: nosuch"}
			case method == "ping":
				return Admission{}, nil
			}
			return Admission{
				Params: json.RawMessage(`{"name":"echo","arguments":{"a":1}}`),
				Done:   func() { done.Add(1) },
				Cancel: func() { cancelled.Add(1) },
			}, nil
		},
	})
	c.send(`{"jsonrpc":"2.0","id":null,"method":"nosuch","params":[1]}`)
	c.want(`"id":null`, `method not found: nosuch`)
	c.send(`{"jsonrpc":"2.0","id":{"a":[1]},"method":"tools/call","params":"anything"}`)
	c.want(`"id":{"a":[1]}`, `"result"`)
	for range 2 {
		c.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call"}`)
	}
	c.want(`"id":5,"result"`)
	c.want(`"id":5,"result"`)
	c.send(strings.Repeat("x", 1000))
	c.want(`"id":null`, `-32600`, "dropped")
	c.send(ping7)
	c.want(`"id":7`)
	_ = c.in.Close()
	c.end()
	if done.Load() != 3 || cancelled.Load() != 0 {
		t.Errorf("%d ends, %d cancellations", done.Load(), cancelled.Load())
	}
	if want := []string{`nosuch[1]`, `tools/call"anything"`, `tools/call`, `tools/call`, `ping`}; !slices.Equal(seen, want) {
		t.Errorf("seen %q", seen)
	}
}

// TestSkipLine keeps what is behind a line that is too long.
func TestSkipLine(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 10, 70 << 10, 300 << 10} {
		f := newFrameReader(strings.NewReader(strings.Repeat("a\n", before/2)+strings.Repeat("x", 200<<10)+"\nnext\nlast"), 100<<10)
		var lines []string
		for {
			line, err := f.next()
			if errors.Is(err, ErrFrameTooLarge) {
				f.skipLine()
				lines = append(lines, "long")
				continue
			}
			if err != nil {
				break
			}
			if string(line) != "a" {
				lines = append(lines, string(line))
			}
		}
		if !slices.Equal(lines, []string{"long", "next", "last"}) {
			t.Errorf("%d: %q", before, lines)
		}
	}
}
