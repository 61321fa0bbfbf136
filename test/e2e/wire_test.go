//go:build linux

package e2e

// The wire as clients meet it: broken lines, early calls, late replies, and
// every way in which the conversation ends.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/test/bed"
)

func TestBrokenLinesAreAnsweredAndTheServerGoesOn(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		for _, test := range []struct {
			line string
			code int
			id   string
		}{
			{`{"jsonrpc":"2.0","id":1,"method":"ping"`, -32700, "null"},
			{`hello`, -32700, "null"},
			{`{"jsonrpc":"2.0" "id":1}`, -32700, "null"},
			{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", -32700, "null"},
			{strings.Repeat("[", 100_000), -32700, "null"},
			{"\x00\x01\x02", -32700, "null"},
			{`[]`, -32600, "null"},
			{`{"id":1}`, -32600, "1"}, // an id that can be read comes back
			{`42`, -32600, "null"},
			{`"text"`, -32600, "null"},
			{`null`, -32600, "null"},
		} {
			s := bed.Start(t, args)
			s.Send(test.line)
			reply, err := s.TryAwait(test.id, bed.Patience)
			if err != nil {
				t.Errorf("%.40q: %v", test.line, err)
				continue
			}
			if reply.Error == nil || reply.Error.Code != test.code || reply.Error.Message == "" {
				t.Errorf("%.40q: answered %s, want code %d", test.line, reply.Line, test.code)
			}
			s.Handshake("2025-06-18")
			answersStill(t, s)
			endsWell(t, s)
		}
	})
}

func TestBlankLinesAndLineEndsOfWindowsAreFine(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		if err := s.Write([]byte("\n\r\n   \n{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\r\n\n")); err != nil {
			t.Fatal(err)
		}
		if reply := s.Await(`"a"`); reply.Error != nil {
			t.Errorf("ping: %v", reply.Error)
		}
		endsWell(t, s)
	})
}

func TestTheLastLineMayLackItsEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		if err := s.Write([]byte(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)); err != nil {
			t.Fatal(err)
		}
		endsWell(t, s)
		if !s.Answered("7") {
			t.Error("the last line was not answered")
		}
	})
}

func TestIDsComeBackAsTheyWere(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		s.Handshake("2025-06-18")
		for _, id := range []string{`0`, `-5`, `9007199254740993`, `"x"`, `""`, `"é\n"`, `"1"`} {
			s.AskAs(id, "ping", nil)
			deadline := time.Now().Add(bed.Patience)
			found := false
			for !found && time.Now().Before(deadline) {
				for _, line := range s.Lines() {
					var reply struct {
						ID     any `json:"id"`
						Result any `json:"result"`
					}
					d := json.NewDecoder(strings.NewReader(line))
					d.UseNumber()
					var want any
					w := json.NewDecoder(strings.NewReader(id))
					w.UseNumber()
					if d.Decode(&reply) == nil && w.Decode(&want) == nil && reply.ID == want && reply.Result != nil {
						found = true
					}
				}
				if !found {
					time.Sleep(5 * time.Millisecond)
				}
			}
			if !found {
				t.Errorf("no reply under the id %s", id)
			}
		}
	})
}

func TestFiftyMegabytesInOneLine(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		s.Handshake("2025-06-18")
		var line bytes.Buffer
		line.WriteString(`{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"name":"list_resources","arguments":{"name_contains":"`)
		line.Write(bytes.Repeat([]byte("x"), 50_000_000))
		line.WriteString("\"}}}\n")
		if err := s.Write(line.Bytes()); err != nil {
			t.Fatal(err)
		}
		reply := s.Await(`"big"`)
		refused := reply.Error != nil && reply.Error.Code == -32602
		if !refused && reply.Error == nil {
			code, _ := toolError(t, reply)
			refused = code != ""
		}
		if !refused {
			t.Errorf("a name of 50 million characters: %.200s", reply.Line)
		}
		if len(reply.Line) > 4096 {
			t.Errorf("the refusal repeats what was sent: %d bytes", len(reply.Line))
		}
		answersStill(t, s)
		bounded(t, s, 500)
		endsWell(t, s)
	})
}

func TestALineBeyondTheLimitEndsTheConnectionWithAnError(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		s.Handshake("2025-06-18")
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 70 {
			if err := s.Write(chunk); err != nil {
				break // the server may stop reading once it knows
			}
		}
		reply := s.Await("null")
		if reply.Error == nil || reply.Error.Message == "" {
			t.Errorf("a line of 70 MiB: %.200s", reply.Line)
		}
		select {
		case <-s.Ended():
		case <-time.After(5 * time.Second):
			t.Error("the connection did not end")
		}
	})
}

func TestBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		s.Handshake("2025-03-26")
		s.Send(`[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"b","method":"tools/list"},{"id":"c"}]`)
		batch := s.AwaitBatch()
		var ids []string
		for _, reply := range batch {
			ids = append(ids, string(reply.ID))
		}
		slices.Sort(ids)
		want := []string{`"a"`, `"b"`, `"c"`}
		if !slices.Equal(ids, want) {
			t.Errorf("a batch was answered for %v, want %v", ids, want)
		}
		s.Send(`[1]`)
		if batch := s.AwaitBatch(); len(batch) != 1 || batch[0].Error == nil || batch[0].Error.Code != -32600 {
			t.Errorf("a batch with a number in it: %+v", batch)
		}
		answersStill(t, s)
		endsWell(t, s)
	})
}

// The seeds' own examples call a tool in the first line of a conversation.
func TestCallsBeforeAHandshake(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		if reply := s.Do("tools/list", nil); reply.Error != nil {
			t.Fatalf("tools/list before a handshake: %v", reply.Error)
		}
		var answer struct{ Snapshot snapshot }
		s.Get("get_system_summary", nil, &answer)
		if answer.Snapshot.ID == "" {
			t.Error("no snapshot before a handshake")
		}
		// And the handshake may still come.
		s.Handshake("2025-06-18")
		s.Get("get_system_summary", bed.Arguments{"snapshot_id": answer.Snapshot.ID}, &answer)
		endsWell(t, s)
	})
}

func TestInitializeWithoutParameters(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		for _, params := range []string{``, `,"params":{}`, `,"params":null`, `,"params":{"protocolVersion":"2024-11-05"}`, `,"params":{"protocolVersion":null,"capabilities":null,"clientInfo":null}`} {
			s := bed.Start(t, args)
			s.Send(`{"jsonrpc":"2.0","id":1,"method":"initialize"` + params + `}`)
			reply := s.Await("1")
			var r struct {
				ProtocolVersion string
				ServerInfo      struct{ Name, Version string }
			}
			if err := json.Unmarshal(reply.Result, &r); err != nil || r.ProtocolVersion == "" || r.ServerInfo.Name == "" || r.ServerInfo.Version == "" {
				t.Errorf("initialize%s: %s", params, reply.Line)
			}
			if reply := s.Do("tools/list", nil); reply.Error != nil {
				t.Errorf("tools/list after initialize%s: %v", params, reply.Error)
			}
			endsWell(t, s)
		}
	})
}

func TestEveryProtocolVersionThatTheSDKKnows(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		for _, version := range mcp.SupportedProtocolVersions() {
			s := bed.Start(t, args)
			if version < "2026-07-28" {
				reply := s.Handshake(version)
				var r struct{ ProtocolVersion string }
				if err := json.Unmarshal(reply.Result, &r); err != nil || r.ProtocolVersion != version {
					t.Errorf("asked for %s: %s", version, reply.Line)
				}
				if reply := s.Do("tools/list", nil); reply.Error != nil {
					t.Errorf("%s: tools/list: %v", version, reply.Error)
				}
			} else {
				// No handshake: each request says who asks.
				meta := map[string]any{
					mcp.MetaKeyProtocolVersion:    version,
					mcp.MetaKeyClientInfo:         map[string]any{"name": "bed", "version": "1"},
					mcp.MetaKeyClientCapabilities: map[string]any{},
				}
				if reply := s.Do("server/discover", map[string]any{"_meta": meta}); reply.Error != nil {
					t.Errorf("%s: server/discover: %v", version, reply.Error)
				}
				reply := s.Do("tools/call", map[string]any{"_meta": meta, "name": "get_system_summary", "arguments": map[string]any{}})
				if r := bed.ResultOf(t, reply); r.Failed() {
					t.Errorf("%s: %s", version, r.Text())
				}
			}
			endsWell(t, s)
		}
		s := bed.Start(t, args)
		reply := s.Handshake("1999-01-01")
		var r struct{ ProtocolVersion string }
		if err := json.Unmarshal(reply.Result, &r); err != nil || !slices.Contains(mcp.SupportedProtocolVersions(), r.ProtocolVersion) {
			t.Errorf("an unknown version is answered with a known one: %s", reply.Line)
		}
	})
}

func TestUnknownMethods(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		s.Handshake("2025-06-18")
		if reply := s.Do("nonsense", nil); reply.Error == nil || reply.Error.Code != -32601 {
			t.Errorf("an unknown method: %s", reply.Line)
		}
		s.Note("notifications/nonsense", map[string]any{"x": 1})
		answersStill(t, s)
	})
}

// slowServer starts a server whose next forced collection takes as long as its
// interval, 1.5 s: it has been idle for so long that no baseline is of use.
func slowServer(t *testing.T, args []string) *bed.Server {
	t.Helper()
	args = slices.Clone(args)
	args[slices.Index(args, "500")] = "1500"
	s := bed.Start(t, args)
	s.Handshake("2025-06-18")
	var answer struct{ Snapshot snapshot }
	s.Get("get_system_summary", bed.Arguments{"max_age_ms": 0}, &answer)
	time.Sleep(3300 * time.Millisecond)
	return s
}

func TestSeveralCallsRunAtOnceAndRepliesComeOutOfOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := slowServer(t, args)
		slow := s.AskCall("get_system_summary", bed.Arguments{"max_age_ms": 0})
		quick := s.Ask("ping", nil)
		listed := s.Ask("tools/list", nil)
		s.Await(quick)
		s.Await(listed)
		if s.Answered(slow) {
			t.Fatal("a collection that has to wait 1.5 s was quicker than a ping")
		}
		s.Await(slow)
		order := s.Order()
		if slices.Index(order, quick) > slices.Index(order, slow) {
			t.Errorf("replies came in the order %v", order)
		}
	})
}

func TestPinnedReadsDoNotWaitForACollection(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := slowServer(t, args)
		var kept struct{ Snapshot snapshot }
		s.Get("get_system_summary", bed.Arguments{"max_age_ms": 60000}, &kept)
		slow := s.AskCall("get_system_summary", bed.Arguments{"max_age_ms": 0})
		begun := time.Now()
		var again struct{ Snapshot snapshot }
		s.Get("list_resources", bed.Arguments{"snapshot_id": kept.Snapshot.ID, "limit": 1}, &again)
		if code, _ := toolError(t, s.Call("get_system_summary", bed.Arguments{"snapshot_id": "unknown"})); code != "snapshot_unavailable" {
			t.Errorf("an unknown id: %q", code)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("pinned reads took %v while a collection ran", took)
		}
		if s.Answered(slow) {
			t.Error("the collection ended before the pinned reads")
		}
		s.Await(slow)
	})
}

func TestACancelledCallIsNotWaitedFor(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := slowServer(t, args)
		slow := s.AskCall("get_system_summary", bed.Arguments{"max_age_ms": 0})
		time.Sleep(100 * time.Millisecond)
		s.Note("notifications/cancelled", map[string]any{"requestId": json.Number(slow), "reason": "test"})
		answersStill(t, s)
		// At the end of input nothing is left to wait for.
		begun := time.Now()
		endsWell(t, s)
		if took := time.Since(begun); took > 600*time.Millisecond {
			t.Errorf("the server waited %v for a cancelled call", took)
		}
		if s.Answered(slow) {
			t.Error("the cancelled call was answered")
		}
	})
}

func TestEndOfInputDuringACollection(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := slowServer(t, args)
		s.AskCall("get_system_summary", bed.Arguments{"max_age_ms": 0})
		time.Sleep(50 * time.Millisecond)
		endsWell(t, s)
	})
}

// A shell pipeline sends everything and closes: all of it is answered.
func TestPipelinedInputIsAnsweredBeforeTheEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		// The shorter the window, the less a busy machine can delay the answers
		// beyond what the server waits for at the end of input.
		args = slices.Clone(args)
		args[slices.Index(args, "500")] = "100"
		s := bed.Start(t, args)
		var input strings.Builder
		input.WriteString(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pipe","version":"1"}}}` + "\n")
		input.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
		for i := 1; i <= 50; i++ {
			method := `"tools/list"`
			if i%10 == 0 {
				method = `"tools/call","params":{"name":"get_system_summary","arguments":{}}`
			}
			fmt.Fprintf(&input, `{"jsonrpc":"2.0","id":%d,"method":%s}`+"\n", i, method)
		}
		if err := s.Write([]byte(input.String())); err != nil {
			t.Fatal(err)
		}
		endsWell(t, s)
		for i := range 51 {
			if !s.Answered(strconv.Itoa(i)) {
				t.Errorf("request %d was not answered", i)
			}
		}
	})
}

func TestSignalsEndTheServer(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			onBoth(t, func(t *testing.T, args []string) {
				s := bed.Start(t, args)
				s.Handshake("2025-06-18")
				s.AskCall("get_system_summary", bed.Arguments{"max_age_ms": 0})
				begun := time.Now()
				if err := s.Cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				if status := s.AwaitEnd(5 * time.Second); status != 0 {
					t.Errorf("%v ended the server with status %d", signal, status)
				}
				if took := time.Since(begun); took > time.Second+slack {
					t.Errorf("%v took %v", signal, took)
				}
			})
		})
	}
}

// Hundreds of orphans were found on one machine: their clients were killed
// while something else held the pipe open.
func TestTheParentsDeathEndsTheServer(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, append([]string{bed.Binary()}, args...), bed.Command("/bin/sh", "-c", `exec 3<&0; "$@" <&3 3<&- & exec 3<&-; wait`, "sh"))
		s.Handshake("2025-06-18")
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.PID(), s.PID()))
		if err != nil {
			t.Fatal(err)
		}
		server, err := strconv.Atoi(strings.TrimSpace(string(children)))
		if err != nil {
			t.Fatalf("children of the shell: %q", children)
		}
		if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(time.Second + slack)
		for bed.Alive(server) && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
		}
		if bed.Alive(server) {
			t.Error("the server outlives its parent although its input stays open")
			_ = syscall.Kill(server, syscall.SIGKILL)
		}
	})
}

func TestAClientThatNeverReadsStderr(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args, bed.UnreadStderr())
		s.Handshake("2025-06-18")
		for range 200 {
			s.Send("not JSON")
		}
		s.Await("null")
		var answer struct{ Snapshot snapshot }
		s.Get("get_system_summary", bed.Arguments{"max_age_ms": 0}, &answer)
		endsWell(t, s)
	})
}

func TestAClientThatStopsReading(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		for _, how := range []string{"end of input", "signal"} {
			s := bed.Start(t, args, bed.DeafClient())
			// Written from another goroutine: the server may stop reading too.
			go func() {
				for i := range 20_000 {
					if s.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i)) != nil {
						return
					}
				}
			}()
			time.Sleep(time.Second)
			bounded(t, s, 200)
			begun := time.Now()
			if how == "signal" {
				if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			} else {
				_ = s.Stdin.Close()
			}
			if status := s.AwaitEnd(5 * time.Second); status != 0 {
				t.Errorf("%s: status %d", how, status)
			}
			if took := time.Since(begun); took > time.Second+slack {
				t.Errorf("%s: the server took %v to end", how, took)
			}
		}
	})
}

func TestAFloodOfNotifications(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		s.Handshake("2025-06-18")
		for _, method := range []string{"notifications/nonsense", "notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed"} {
			line := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"requestId":12345,"progressToken":1,"progress":1,"padding":%q}}`+"\n", method, strings.Repeat("p", 100))
			chunk := bytes.Repeat([]byte(line), 1000)
			for range 60 {
				if err := s.Write(chunk); err != nil {
					t.Fatal(err)
				}
			}
		}
		answersStill(t, s)
		bounded(t, s, 150)
		endsWell(t, s)
	})
}

func TestTwoHundredCallsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		s.Handshake("2025-06-18")
		var kept struct{ Snapshot snapshot }
		s.Get("get_system_summary", nil, &kept)
		var ids []string
		for i := range 200 {
			switch i % 5 {
			case 0:
				ids = append(ids, s.AskCall("get_system_summary", nil))
			case 1:
				ids = append(ids, s.AskCall("list_resources", bed.Arguments{"max_age_ms": 1000, "limit": 5}))
			case 2:
				ids = append(ids, s.AskCall("list_resources", bed.Arguments{"max_age_ms": 60000, "sort_by": "memory", "limit": 50}))
			case 3:
				ids = append(ids, s.AskCall("inspect_resource", bed.Arguments{"snapshot_id": kept.Snapshot.ID, "resource_id": "nothing"}))
			case 4:
				ids = append(ids, s.AskCall("nonsense", nil))
			}
		}
		for i, id := range ids {
			reply := s.Await(id)
			switch {
			case i%5 == 4 && (reply.Error == nil || reply.Error.Code != -32602):
				t.Errorf("an unknown tool: %s", reply.Line)
			case i%5 < 3 && bed.ResultOf(t, reply).Failed():
				t.Errorf("call %d failed: %s", i, reply.Line)
			case i%5 == 3:
				if code, _ := toolError(t, reply); code != "unknown_resource" {
					t.Errorf("an unknown resource: %s", reply.Line)
				}
			}
		}
		bounded(t, s, 200)
		endsWell(t, s)
	})
}

// Tools that are forced by many clients at once collect one after another, and
// each gets an observation of its own.
func TestForcedCallsCollectOneAfterAnother(t *testing.T) {
	onBoth(t, func(t *testing.T, args []string) {
		s := bed.Start(t, args)
		s.Handshake("2025-06-18")
		var ids []string
		for range 12 {
			ids = append(ids, s.AskCall("get_system_summary", bed.Arguments{"max_age_ms": 0}))
		}
		seen := map[string]bool{}
		for _, id := range ids {
			var answer struct{ Snapshot snapshot }
			if err := json.Unmarshal(bed.ResultOf(t, s.Await(id)).Structured, &answer); err != nil {
				t.Fatal(err)
			}
			seen[answer.Snapshot.ID] = true
		}
		if len(seen) != 12 {
			t.Errorf("12 forced calls gave %d snapshots", len(seen))
		}
	})
}
