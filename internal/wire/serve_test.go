package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// beside answers every call of a tool beside the SDK: the answer is what serve makes
// of the parameters.
func beside(serve func(ctx context.Context, params string) json.RawMessage) Options {
	return Options{AnswerCancelled: true, Admit: func(method string, params json.RawMessage) (Admission, *jsonrpc.Error) {
		if method != "tools/call" {
			return Admission{Params: params}, nil
		}
		cancelled, cancel := context.WithCancel(context.Background())
		return Admission{
			Cancel: cancel,
			Done:   cancel,
			Serve: func(ctx context.Context) json.RawMessage {
				ctx, stop := context.WithCancel(ctx)
				defer stop()
				defer context.AfterFunc(cancelled, stop)()
				return serve(ctx, string(params))
			},
		}, nil
	}}
}

func callBeside(id int, what string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"what":%q}}`, id, what)
}

// TestServeBeside checks what calls beside the SDK have in common with others: the
// replies of many at once, a panic, a cancellation, and calls of the SDK between them.
func TestServeBeside(t *testing.T) {
	t.Parallel()
	c := serve(t, testServer(nil), beside(func(ctx context.Context, params string) json.RawMessage {
		switch {
		case strings.Contains(params, "panic"):
			panic("secret detail")
		case strings.Contains(params, "wait"):
			<-ctx.Done()
			return json.RawMessage(`{"stopped":true}`)
		}
		return json.RawMessage(`{"echo":` + params + `}`)
	}))
	c.send(callBeside(1, "one"))
	c.want(`"id":1`, `"result":{"echo":{"what":"one"}}`)
	c.send(callBeside(2, "panic"))
	if line := c.want(`"id":2`, `"code":-32603`); strings.Contains(line, "secret") {
		t.Errorf("the panic's text is told: %s", line)
	}
	c.send(callBeside(3, "wait"))
	c.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	c.want(`"id":4`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	c.want(`"id":3`, `"stopped":true`)

	const many = 100
	for id := range many {
		c.send(callBeside(1000+id, "many"))
	}
	answered := map[string]bool{}
	for range many {
		var reply struct{ ID json.Number }
		if err := json.Unmarshal([]byte(c.receive()), &reply); err != nil || answered[reply.ID.String()] {
			t.Fatalf("reply %v: %v", reply, err)
		}
		answered[reply.ID.String()] = true
	}
	c.send("[" + callBeside(5, "a") + "," + callBeside(6, "b") + "]")
	c.want(`"id":5`, `"id":6`)
}

// TestServeBesideEnds checks that the end of the input leaves a running call its time
// and then ends it.
func TestServeBesideEnds(t *testing.T) {
	t.Parallel()
	o := beside(func(ctx context.Context, params string) json.RawMessage {
		if strings.Contains(params, "short") {
			time.Sleep(20 * time.Millisecond)
			return json.RawMessage(`{"done":true}`)
		}
		<-ctx.Done()
		return json.RawMessage(`{}`)
	})
	o.Drain = 200 * time.Millisecond
	for _, what := range []string{"short", "endless"} {
		c := serve(t, testServer(nil), o)
		c.send(callBeside(1, what))
		_ = c.in.Close()
		if what == "short" {
			c.want(`"done":true`)
		} else {
			c.want(`"id":1`, `"error"`)
		}
		if _, err := c.end(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
