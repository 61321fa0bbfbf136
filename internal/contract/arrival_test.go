package contract

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handlers that the SDK starts in any order begin in the order of arrival on one
// session, and do not wait for those on another.
func TestCallsOnOneSessionBeginInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	var arrivals Arrivals
	admit := func(session string) *mcp.CallToolRequest {
		params := fmt.Appendf(nil, `{"name":"eval","arguments":{"session":%q},"_meta":{"progressToken":7}}`, session)
		admitted, refusal := arrivals.Admit("tools/call", params)
		if refusal != nil {
			t.Fatal(refusal)
		}
		var request mcp.CallToolRequest
		if err := json.Unmarshal(admitted.Params, &request.Params); err != nil {
			t.Fatal(err)
		}
		if request.Params.Meta["progressToken"] != 7.0 {
			t.Error("the client's own metadata is lost")
		}
		return &request
	}
	requests := []*mcp.CallToolRequest{admit("a"), admit("a"), admit("a")}
	other := admit("b")
	order := make(chan int)
	for _, i := range []int{2, 1, 0} {
		go func() {
			begun, _ := arrivals.wait(t.Context(), requests[i])
			order <- i
			begun()
		}()
		time.Sleep(time.Millisecond)
	}
	begun, _ := arrivals.wait(t.Context(), other)
	begun()
	for want := range 3 {
		if got := <-order; got != want {
			t.Errorf("call %d began as number %d", got, want)
		}
	}
}

// Whatever is no ordered call passes as it is.
func TestOtherCallsPassUnchanged(t *testing.T) {
	t.Parallel()
	var arrivals Arrivals
	for _, params := range []string{`{"name":"list_sessions"}`, `{"name":5}`, `[]`, `null`, ``, `{"name":"poll","arguments":{"session":"a"}}`} {
		admitted, refusal := arrivals.Admit("tools/call", json.RawMessage(params))
		if refusal != nil || string(admitted.Params) != params {
			t.Errorf("%s: %s, %v", params, admitted.Params, refusal)
		}
	}
	admitted, _ := arrivals.Admit("tools/call", json.RawMessage(`{"name":"eval","arguments":{"source":"1"}}`))
	admitted.Done()
	if len(arrivals.open) != 0 || len(arrivals.latest) != 0 {
		t.Errorf("%d calls are still remembered", len(arrivals.open))
	}
}

// A call on many hosts waits on each for those before it there, and on none for
// another; those after it wait on each for it alone.
func TestCallsOnManyHosts(t *testing.T) {
	t.Parallel()
	var arrivals Arrivals
	arrivals.Expand(func([]string) []string { return []string{"local", "a", "b"} })
	admit := func(arguments string) (*mcp.CallToolRequest, func()) {
		admitted, refusal := arrivals.Admit("tools/call", json.RawMessage(`{"name":"eval","arguments":`+arguments+`}`))
		if refusal != nil {
			t.Fatal(refusal)
		}
		var request mcp.CallToolRequest
		if err := json.Unmarshal(admitted.Params, &request.Params); err != nil {
			t.Fatal(err)
		}
		return &request, admitted.Done
	}
	first, _ := admit(`{"host":"a"}`)
	many, done := admit(`{"hosts":"*"}`)
	afterA, _ := admit(`{"host":"a"}`)
	afterB, _ := admit(`{"host":"b"}`)
	other, _ := admit(`{"host":"b","session":"s"}`)

	begun, _ := arrivals.wait(t.Context(), other) // its session is its own
	begun()
	none, turn := arrivals.wait(t.Context(), many)
	none()
	turn(t.Context(), "b")() // nothing was before it on b
	begun, _ = arrivals.wait(t.Context(), afterB)
	begun()
	waited := make(chan struct{})
	go func() {
		turn(t.Context(), "a")()
		close(waited)
	}()
	select {
	case <-waited:
		t.Error("it began on a before the call that came first there")
	case <-time.After(10 * time.Millisecond):
	}
	begun, turnOfOne := arrivals.wait(t.Context(), first)
	if turnOfOne != nil {
		t.Error("a call on one host has a turn")
	}
	begun()
	<-waited
	begun, _ = arrivals.wait(t.Context(), afterA)
	begun()
	turn(t.Context(), "unknown")()
	done()
	late, _ := admit(`{}`)
	begun, _ = arrivals.wait(t.Context(), late) // what is over keeps nobody waiting
	begun()
}
