//go:build linux

package compute

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestLines is section 3: what each kind of line is answered.
func TestLines(t *testing.T) {
	t.Parallel()
	s := start(t)
	call := func(id, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` + params + `}`
	}
	for _, c := range []struct{ line, id, want string }{
		// No handshake is required, and no version member.
		{`{"id":1,"method":"tools/call","params":{"name":"eval","arguments":{"source":"1;;"}}}`, `1`, `"isError":false`},
		{`{"jsonrpc":1,"id":1,"method":"ping"}`, `1`, `"result":{}`},
		{"  " + call(`2`, `{"name":"cancel"}`) + "\r", `2`, `"text":"ok"`},
		// Any id is echoed.
		{call(`"s"`, `{"name":"cancel"}`), `"s"`, `ok`},
		{call(`1.5`, `{"name":"cancel"}`), `1.5`, `ok`},
		{call(`12345678901234567890123`, `{"name":"cancel"}`), `12345678901234567890123`, `ok`},
		{call(`null`, `{"name":"cancel"}`), `null`, `ok`},
		{call(`[1,"a"]`, `{"name":"cancel"}`), `[1,"a"]`, `ok`},
		{call(`{"a":{}}`, `{"name":"cancel"}`), `{"a":{}}`, `ok`},
		{call(`true`, `{"name":"cancel"}`), `true`, `ok`},
		// Errors of the protocol.
		{call(`3`, `[]`), `3`, `"error":{"code":-32602,"message":"invalid params"}`},
		{call(`3`, `"x"`), `3`, `"error":{"code":-32602,"message":"invalid params"}`},
		{call(`3`, `null`), `3`, `"error":{"code":-32602,"message":"invalid params"}`},
		{`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`, `3`, `"error":{"code":-32602,"message":"invalid params"}`},
		{call(`4`, `{}`), `4`, `"error":{"code":-32602,"message":"missing tool name"}`},
		{call(`4`, `{"name":""}`), `4`, `"error":{"code":-32602,"message":"missing tool name"}`},
		{call(`4`, `{"name":7}`), `4`, `"error":{"code":-32602,"message":"missing tool name"}`},
		{`{"jsonrpc":"2.0","id":5,"method":"resources/list"}`, `5`, `"error":{"code":-32601,"message":"method not found: resources/list"}`},
		{`{"jsonrpc":"2.0","id":5,"method":"prompts/list"}`, `5`, `"error":{"code":-32601,"message":"method not found: prompts/list"}`},
		{`{"jsonrpc":"2.0","id":5,"method":"foo"}`, `5`, `"error":{"code":-32601,"message":"method not found: foo"}`},
		{`{"jsonrpc":"2.0","id":6,"method":"ping"}`, `6`, `"result":{}`},
		{`{"jsonrpc":"2.0","id":6,"method":7}`, `6`, `"code":-32600`},
		{`{broken`, `null`, `"code":-32700`},
		{"\n\n" + call(`7`, `{"name":"cancel"}`), `7`, `ok`},
		// Arguments.
		{call(`8`, `{"name":"nosuch"}`), `8`, `"text":"unknown tool: nosuch"}],"isError":true`},
		{call(`8`, `{"name":"eval","arguments":null}`), `8`, `missing 'source' argument`},
		{call(`8`, `{"name":"eval","arguments":[]}`), `8`, `missing 'source' argument`},
		{call(`8`, `{"name":"eval","arguments":"x"}`), `8`, `missing 'source' argument`},
		{call(`8`, `{"name":"eval","arguments":{"source":"2;;","nonsense":1,"host":7,"session":""}}`), `8`, `\"value_repr\":\"2\"`},
		{call(`8`, `{"name":"eval","name":"nosuch","arguments":{"source":"3;;","source":"4;;"}}`), `8`, `\"value_repr\":\"3\"`},
		{call(`8`, `{"name":"eval","arguments":{"source":"1;;","host":"h","session":"s"}}`), `8`, `host and session are mutually exclusive; pass at most one`},
		{call(`8`, `{"name":"nosuch","arguments":{"host":"h"}}`), `8`, `host not registered: h (call start_session { host: h } first)`},
		{call(`8`, `{"name":"eval","arguments":{"source":"1;;","session":"s"}}`), `8`, `session not registered: s (call start_local_session { session: s } first)`},
		{call(`8`, `{"name":"eval","arguments":{"source":"1;;","session":"local","host":"local"}}`), `8`, `\"value_repr\":\"1\"`},
	} {
		s.send(c.line)
		if got := string(s.wait(c.id)); !strings.Contains(got, c.want) {
			t.Errorf("%s\n got %swant %s", c.line, got, c.want)
		}
	}
	// Notifications and unmatched replies are not answered.
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"foo"}`,
		`{"jsonrpc":"2.0","id":77,"result":{}}`, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"eval","arguments":{"source":"let by_note = 1;;"}}}`,
	} {
		s.send(line)
	}
	s.call("cancel")
	s.mu.Lock()
	for _, id := range s.order {
		if id == "77" {
			t.Error("a reply was answered")
		}
	}
	if len(s.strays) > 0 {
		t.Errorf("strays: %q", s.strays)
	}
	s.mu.Unlock()
	if got := s.end(); got != 0 {
		t.Errorf("status %d", got)
	}
}

func TestInitialize(t *testing.T) {
	t.Parallel()
	s := start(t, setting{"name", "topup-opt"})
	for i, params := range []string{``, `,"params":{}`, `,"params":[1]`, `,"params":{"protocolVersion":"2024-11-05"}`, `,"params":{"protocolVersion":7}`} {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"i%d","method":"initialize"%s}`, i, params))
		line := string(s.wait(fmt.Sprintf(`"i%d"`, i)))
		if !strings.Contains(line, `"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"topup","version":"0.1.0"},"instructions":"`) {
			t.Errorf("%s: %s", params, line)
		}
	}
	if got := s.instructions(); !strings.HasSuffix(got, "0.1.0\n\nKnown hosts:\n- local [in-process]") || !strings.Contains(got, "local") {
		t.Errorf("%q", got)
	}
}

func (s *server) instructions() string {
	s.t.Helper()
	s.mu.Lock()
	s.next++
	id := fmt.Sprintf(`"instructions%d"`, s.next)
	s.mu.Unlock()
	s.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"initialize"}`)
	var m struct{ Result struct{ Instructions string } }
	if err := json.Unmarshal(s.wait(id), &m); err != nil {
		s.t.Fatal(err)
	}
	return m.Result.Instructions
}

// TestOrder: calls on one session are answered in order, all of them, also those
// that wait when the input ends.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.call("start_local_session", "session", "w")
	s.send(`{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"eval","arguments":{"session":"w","source":"let t = Unix.gettimeofday () in while Unix.gettimeofday () -. t < 1. do () done;;"}}}`)
	s.send(`{"jsonrpc":"2.0","id":"behind","method":"tools/call","params":{"name":"lookup","arguments":{"session":"w","name":"x"}}}`)
	const n = 1500
	for i := range n {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"eval","arguments":{"source":"let v = %d;;"}}}`, 1000+i, i))
	}
	s.send(`{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"cancel"}}`)
	s.send(`{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"cancel"}}`)
	s.in.Close()
	<-s.ended
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("status %d", code)
	}
	last, count, slow := 0, 0, false
	for _, id := range s.order {
		var number int
		if _, err := fmt.Sscan(id, &number); err == nil && number >= 1000 {
			if number <= last {
				t.Fatalf("%d after %d", number, last)
			}
			last, count = number, count+1
		}
		if id == `"slow"` {
			slow = true
		}
		if id == `"behind"` && !slow {
			t.Error("the reply behind came first")
		}
	}
	if count != n || !slow {
		t.Errorf("%d replies of %d, slow %v", count, n, slow)
	}
	if got := s.finish(`"same"`); got.text != "ok" {
		t.Error(got)
	}
	if got := s.finish(`"same"`); got.text != "ok" {
		t.Error(got)
	}
}

func TestLongLine(t *testing.T) {
	t.Parallel()
	s := start(t, setting{"TOPUP_MAX_MESSAGE_BYTES", "1_000_000"})
	long := strings.Repeat("x", 2_000_000)
	s.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"eval","arguments":{"source":"(* ` + long + ` *)"}}}`)
	if got := string(s.wait("null")); !strings.Contains(got, "-32600") {
		t.Error(got)
	}
	if got := s.value("1;;"); got != "1" {
		t.Error(got)
	}
	if got := s.value("(* " + strings.Repeat("y", 900_000) + " *) 2;;"); got != "2" {
		t.Error(got)
	}
}
