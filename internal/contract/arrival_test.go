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
