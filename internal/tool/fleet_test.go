package tool

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"topside/internal/fleet/route"
	"topside/internal/steer/policy"
)

// A policy can name every tool that can be called on another host.
func TestPoliciesKnowEveryTool(t *testing.T) {
	t.Parallel()
	known := append([]string{killTool}, policy.ElsewhereTools...)
	var all []string
	for _, tool := range slices.Concat(placedTools(), FleetTools(nil)) {
		if tool.Name != "list_hosts" {
			all = append(all, tool.Name)
		}
	}
	slices.Sort(all)
	slices.Sort(known)
	if !slices.Equal(all, known) {
		t.Errorf("a policy can name %v, and hosts have %v", known, all)
	}
}

func TestWhichToolsTakeManyHosts(t *testing.T) {
	t.Parallel()
	for _, tool := range placedTools() {
		_, one := tool.property(hostArgument)
		_, many := tool.property(hostsArgument)
		want := tool.Annotations.ReadOnly || tool.Name == "eval" || tool.Name == "cancel" || tool.Name == "process_alerts"
		if !one || many != want {
			t.Errorf("%s: host %v, hosts %v", tool.Name, one, many)
		}
	}
}

func TestForwarded(t *testing.T) {
	t.Parallel()
	declared := &Tool{Name: "t", Input: []Property{
		{Name: "a", Type: String}, {Name: "limit", Type: Integer}, {Name: hostArgument, Type: String}, {Name: hostsArgument, Type: Array},
	}}
	for sent, want := range map[string]string{
		`{"host":"x","a":"b"}`:                `{"a":"b"}`,
		`{"a":null,"hosts":["x"]}`:            `{}`,
		`"{\"a\":\"b\",\"host\":\"x\"}"`:      `{"a":"b"}`,
		`{"limit":"5","a":"\u0000<>&\u2028"}`: `{"limit":"5","a":"\u0000<>&\u2028"}`,
		``:                                    `{}`,
	} {
		call, err := CheckLenient(declared, json.RawMessage(sent))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(call.forwarded(nil)); got != want {
			t.Errorf("%s became %s", sent, got)
		}
	}
	call, err := CheckLenient(declared, json.RawMessage(`{"limit":5,"a":"b"}`))
	if err != nil {
		t.Fatal(err)
	}
	instead := map[string]json.RawMessage{"limit": json.RawMessage("9"), "a": nil}
	if got := string(call.forwarded(instead)); got != `{"limit":9}` {
		t.Errorf("with others: %s", got)
	}
	local := call.with(instead)
	if n, _ := local.Integer("limit"); n.Int() != 9 || local.Has("a") || !call.Has("a") {
		t.Errorf("with others here: %+v", local)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]struct {
		session string
		hosts   []string
		many    bool
	}{
		`{}`:                                {"", []string{""}, false},
		`null`:                              {"", []string{""}, false},
		`{"host":"local","session":"s"}`:    {"s", []string{""}, false},
		`{"host":"a","session":7}`:          {"", []string{"a"}, false},
		`{"hosts":["a","b"]}`:               {"", []string{"a", "b"}, true},
		`{"hosts":"*"}`:                     {"", []string{"*"}, true},
		`{"hosts":"[\"a\"]","session":"s"}`: {"s", []string{"a"}, true},
		`"{\"host\":\"a\"}"`:                {"", []string{"a"}, false},
		`{"hosts":null,"host":"a"}`:         {"", []string{"a"}, false},
	} {
		session, hosts, many := Places(json.RawMessage(sent))
		if session != want.session || !slices.Equal(hosts, want.hosts) || many != want.many {
			t.Errorf("%s: %q %q %v", sent, session, hosts, many)
		}
	}
}

func TestNamesIn(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string][]string{
		"a": {"a"}, "a,b": {"a", "b"}, "a, tag:x b": {"a", "tag:x", "b"}, "": {""}, " ": {" "}, ",": {","},
	} {
		if got := namesIn([]string{sent}); !slices.Equal(got, want) {
			t.Errorf("%q: %q; want %q", sent, got, want)
		}
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lengths     []int
		whole, want int
	}{
		{[]int{10, 20, 30}, 100, longestForeign},
		{[]int{10, 100, 100}, 100, 45},
		{[]int{100, 100}, 100, 50},
		{nil, 100, longestForeign},
	} {
		if got := share(c.lengths, c.whole); got != c.want {
			t.Errorf("%v of %d: %d", c.lengths, c.whole, got)
		}
	}
}

// However much the hosts say, the answer stays within its length, and says what is
// missing.
func TestTogetherIsBounded(t *testing.T) {
	t.Parallel()
	var parts []part
	for range 50 {
		text := strings.Repeat("a line of é text\n", 1000)
		parts = append(parts, part{
			host: "h", status: route.OK, structured: json.RawMessage(`{"x":"` + strings.Repeat("y", 20000) + `"}`),
			content: json.RawMessage(`[{"type":"text","text":` + string(encode(text)) + `}]`),
		})
	}
	r, err := together(parts)
	if err != nil {
		t.Fatal(err)
	}
	structured := r.Structured.(json.RawMessage)
	if !json.Valid(structured) || len(structured) > longestMany+50*200 || len(r.Text) > longestMany+50*150 {
		t.Errorf("%d and %d bytes", len(structured), len(r.Text))
	}
	if strings.Count(string(structured), `"left_out":20008`) != 50 || strings.Count(r.Text, "left out: ask this host alone") != 50 {
		t.Errorf("it does not say what is missing: %.500s", structured)
	}
}

// What a hostile host answers is an error, and never passes.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	r := &remote{Hosts: new(Hosts)}
	declared := &Tool{Name: "t", Output: &Schema{Type: Object}}
	for _, raw := range []string{
		`{}`, `[]`, `"x"`, `7`, `null`, `{"content":{}}`, `{"content":[],"structuredContent":[]}`, `{"content":[]}`,
		`{"content":[],"structuredContent":{},"isError":"no"}`, `{"resultType":"input_required"}`,
		`{"resultType":"input_required","requestState":"x","inputRequests":{"other":{}}}`,
		`{"resultType":"input_required","requestState":"x","inputRequests":7}`,
	} {
		if got, err := r.received(declared, "h", json.RawMessage(raw)); err == nil {
			t.Errorf("%s became %+v", raw, got)
		}
	}
	got, err := r.received(declared, "h", json.RawMessage(`{"_meta":{},"content":[1],"structuredContent":{"a":1},"resultType":"complete"}`))
	if err != nil || string(got.Foreign.Structured) != `{"a":1}` || string(got.Foreign.Content) != `[1]` || got.Foreign.Failed {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = r.received(declared, "h", json.RawMessage("{\"content\":\n[],\r\n\"structuredContent\":{\"a\":\n\"\xff\"}}"))
	if err != nil || string(got.Foreign.Structured) != "{\"a\":\"\ufffd\"}" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = r.received(declared, "h", json.RawMessage(`{"resultType":"input_required","requestState":"x","inputRequests":{"confirm":{"method":"elicitation/create","params":{"message":"kill\u001b[31m it?"}}}}`))
	if err != nil || got.Question == nil || got.Question.Message != "On host h: kill it?" || got.Question.State != "x" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whatever a host answers, what passes has the shape of an answer.
func FuzzAnswersOfHosts(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"text","text":"x"}],"structuredContent":{"error":{"code":"c"}},"isError":true}`,
		`{"content":[],"structuredContent":{}}`, `{"resultType":"input_required"}`, `[]`, `{"content":7}`, `{"\u0063ontent":[]}`,
	} {
		f.Add([]byte(s))
	}
	r := &remote{Hosts: new(Hosts)}
	declared := &Tool{Name: "t", Output: &Schema{Type: Object}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		got, err := r.received(declared, "h", raw)
		if err != nil || got.Foreign == nil {
			return
		}
		whole := sealed(got.Foreign)
		if !utf8.Valid(whole) || bytes.ContainsAny(whole, "\r\n") {
			t.Fatalf("%q passed as %q", raw, whole)
		}
		var answer struct {
			Content    []any          `json:"content"`
			Structured map[string]any `json:"structuredContent"`
			IsError    *bool          `json:"isError"`
		}
		if err := json.Unmarshal(whole, &answer); err != nil || answer.Content == nil || answer.Structured == nil || answer.IsError == nil {
			t.Fatalf("%q passed as %s: %v", raw, whole, err)
		}
		merged, err := together([]part{partOf(route.Outcome{Host: "h", Status: route.OK, Result: whole})})
		if err != nil || !json.Valid(merged.Structured.(json.RawMessage)) {
			t.Fatalf("%q became %s, %v", raw, merged.Structured, err)
		}
	})
}
