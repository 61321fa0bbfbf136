package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// specimen is a tool with an argument of every type.
var specimen = &Tool{
	Name: "specimen",
	Input: []Property{
		{Name: "count", Type: Integer, Minimum: Bound(-5), Maximum: Bound(10000), Default: 7},
		{Name: "big", Type: Integer, Minimum: Bound(0)},
		{Name: "ratio", Type: Number, Minimum: Bound(0), Maximum: Bound(1)},
		{Name: "deep", Type: Boolean},
		{Name: "name_contains", Type: String, MaxLength: 4},
		{Name: "colour", Type: String, Enum: []string{"red", "green"}, Prefix: "dark"},
		{Name: "hosts", Type: Array, MinLength: 1, MaxLength: 5, MaxItems: 2},
		{Name: "environment", Type: Object},
		{Name: "match", Type: String, Format: Regexp, MaxLength: 20},
		{Name: "left", Type: String},
		{Name: "right", Type: String},
		{Name: "below", Type: String},
	},
	Exclusive: [][2]string{{"left", "right"}},
	Needs:     [][2]string{{"below", "left"}},
}

func TestLenientCoercions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argument, sent string
		want           any
	}{
		{"count", `5812`, Whole{false, 5812}},
		{"count", `"5812"`, Whole{false, 5812}},
		{"count", `" 12 "`, Whole{false, 12}},
		{"count", `5.0`, Whole{false, 5}},
		{"count", `"5.0"`, Whole{false, 5}},
		{"count", `5e3`, Whole{false, 5000}},
		{"count", `-5`, Whole{true, 5}},
		{"count", `-0`, Whole{false, 0}},
		{"big", `18446744073709551615`, Whole{false, 1<<64 - 1}},
		{"ratio", `0.5`, 0.5},
		{"ratio", `"0.5"`, 0.5},
		{"ratio", `1`, 1.0},
		{"deep", `true`, true},
		{"deep", `"true"`, true},
		{"deep", `"False"`, false},
		{"name_contains", `"éééé"`, "éééé"},
		{"name_contains", `1000`, "1000"},
		{"name_contains", `""`, ""},
		{"colour", `"RED"`, "red"},
		{"colour", `" green "`, "green"},
		{"colour", `"DarkGreen"`, "green"},
		{"hosts", `["a","b"]`, []string{"a", "b"}},
		{"hosts", `"[\"a\",\"b\"]"`, []string{"a", "b"}},
		{"hosts", `"a"`, []string{"a"}},
		{"hosts", `[1,2]`, []string{"1", "2"}},
		{"hosts", `[]`, []string{}},
		{"environment", `{"a":1}`, json.RawMessage(`{"a":1}`)},
		{"environment", `"{\"a\":1}"`, json.RawMessage(`{"a":1}`)},
		{"match", `"^cc1.*$"`, "^cc1.*$"},
	} {
		call, err := CheckLenient(specimen, json.RawMessage(fmt.Sprintf(`{%q:%s}`, c.argument, c.sent)))
		if err != nil {
			t.Errorf("%s = %s: %v", c.argument, c.sent, err)
			continue
		}
		if got, _ := call.get(c.argument); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s = %s: got %#v, want %#v", c.argument, c.sent, got, c.want)
		}
	}
}

func TestLenientRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sent string
		says []string // all of them are in the message
	}{
		{`{"count":"five"}`, []string{"count", "five", "an integer from -5 to 10000"}},
		{`{"count":5.5}`, []string{"count", "5.5", "an integer"}},
		{`{"count":true}`, []string{"count", "true", "an integer"}},
		{`{"count":10001}`, []string{"count", "10001", "10000"}},
		{`{"count":18446744073709551615}`, []string{"count"}},
		{`{"count":18446744073709551616}`, []string{"count"}},
		{`{"count":-6}`, []string{"count", "-6"}},
		{`{"count":"0x10"}`, []string{"count"}},
		{`{"count":""}`, []string{"count"}},
		{`{"count":1e400}`, []string{"count"}},
		{`{"big":-1}`, []string{"big", "at least 0"}},
		{`{"ratio":"NaN"}`, []string{"ratio", "a number from 0 to 1"}},
		{`{"deep":1}`, []string{"deep", "true or false", "got 1"}},
		{`{"deep":"yes"}`, []string{"deep"}},
		{`{"name_contains":"12345"}`, []string{"name_contains", "at most 4 characters"}},
		{`{"name_contains":["a"]}`, []string{"name_contains", "a string"}},
		{`{"colour":"blue"}`, []string{"colour", "one of red, green", "blue"}},
		{`{"colour":"darkblue"}`, []string{"colour", "one of red, green", "blue"}},
		{`{"hosts":["a","b","c"]}`, []string{"hosts", "at most 2"}},
		{`{"hosts":["toolong"]}`, []string{"hosts"}},
		{`{"hosts":[["a"]]}`, []string{"hosts"}},
		{`{"hosts":"[broken"}`, []string{"hosts"}},
		{`{"environment":"x"}`, []string{"environment", "an object"}},
		{`{"match":"("}`, []string{"match", "regular expression", "missing closing )"}},
		{`{"colr":"red"}`, []string{`unknown argument "colr"`, `did you mean "colour"?`, "its arguments are count, big"}},
		{`{"name":"x"}`, []string{`did you mean "name_contains"?`}},
		{`{"xyzzyxyzzy":1}`, []string{"unknown argument", "its arguments are"}},
		{`{"left":"a","right":"b"}`, []string{"left", "right", "cannot be combined"}},
		{`{"below":"a"}`, []string{"below", "left"}},
		{`{"left":"a","left":"b"}`, []string{"left", "twice"}},
		{`[1]`, []string{"JSON object"}},
		{`"x"`, []string{"JSON object"}},
		{`{"count":"\u001b[31mred\u202e"}`, []string{"count"}},
	} {
		_, err := CheckLenient(specimen, json.RawMessage(c.sent))
		var fault *ArgumentError
		if !errors.As(err, &fault) {
			t.Errorf("%s: got %v, want an ArgumentError", c.sent, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the message does not say %q: %s", c.sent, part, err)
			}
		}
		if strings.ContainsAny(err.Error(), "\x1b\u202e\n") || len(err.Error()) > 400 {
			t.Errorf("%s: the message is not clean or not bounded: %q", c.sent, err)
		}
	}
}

func TestLenientAbsence(t *testing.T) {
	t.Parallel()
	required := &Tool{Name: "r", Input: []Property{{Name: "id", Type: String, Required: true}, {Name: "n", Type: Integer, Default: 3}}}
	for _, sent := range []string{``, `null`, `{}`, `{"id":null}`} {
		if _, err := CheckLenient(required, json.RawMessage(sent)); err == nil || !strings.Contains(err.Error(), `"id" is required`) {
			t.Errorf("%q: got %v", sent, err)
		}
	}
	call, err := CheckLenient(required, json.RawMessage(`{"id":"x","n":null}`))
	if n, ok := call.Integer("n"); err != nil || !ok || n.Int() != 3 || call.Has("n") {
		t.Errorf("null for an optional argument: %v, %v, %v, has %v", err, n, ok, call.Has("n"))
	}
	if call, err := CheckLenient(required, json.RawMessage(`"{\"id\":\"x\"}"`)); err != nil || call.Text("id") != "x" {
		t.Errorf("arguments as a string: %v, %q", err, call.Text("id"))
	}
}

// Every row of the contract's section 5.1 that concerns arguments. Unknown
// tools and cursors are refused by the surface.
func TestStrictRefusals(t *testing.T) {
	t.Parallel()
	tools := map[string]*Tool{}
	for _, tool := range WsltopTools(nil, WsltopOptions{}) {
		tools[tool.Name] = tool
	}
	long := strings.Repeat("x", idLength+1)
	for _, c := range []struct{ name, tool, sent, says string }{
		{"not allowed for that tool", "get_system_summary", `{"limit":3}`, "unknown argument"},
		{"not the exclusivity error", "inspect_resource", `{"snapshot_id":"a","resource_id":"b","max_age_ms":0}`, "unknown argument"},
		{"not the exclusivity error", "list_children", `{"snapshot_id":"a","resource_id":"b","max_age_ms":0}`, "unknown argument"},
		{"parent on children", "list_children", `{"snapshot_id":"a","resource_id":"b","parent":"c"}`, "unknown argument"},
		{"explicit null", "get_system_summary", `{"max_age_ms":null}`, "null"},
		{"explicit null", "list_resources", `{"name_contains":null}`, "null"},
		{"null before types", "list_resources", `{"limit":"x","sort_by":null}`, "null"},
		{"unknown before types", "list_resources", `{"limit":"x","zzz":1}`, "unknown"},
		{"wrong type", "list_resources", `{"limit":"5"}`, "integer"},
		{"wrong type", "list_resources", `{"sort_by":1}`, "sort_by"},
		{"wrong type", "get_system_summary", `{"snapshot_id":5}`, "snapshot_id"},
		{"negative", "list_resources", `{"limit":-1}`, "limit"},
		{"negative", "get_system_summary", `{"max_age_ms":-1}`, "max_age_ms"},
		{"fraction", "list_resources", `{"limit":5.5}`, "limit"},
		{"integral fraction", "list_resources", `{"limit":5.0}`, "limit"},
		{"exponent", "get_system_summary", `{"max_age_ms":1e3}`, "max_age_ms"},
		{"too large for 64 bits", "get_system_summary", `{"max_age_ms":18446744073709551616}`, "max_age_ms"},
		{"both selectors", "get_system_summary", `{"snapshot_id":"a","max_age_ms":5}`, "combined"},
		{"both selectors before lengths", "list_resources", `{"snapshot_id":"","max_age_ms":5}`, "combined"},
		{"inspect without snapshot", "inspect_resource", `{"resource_id":"x"}`, `"snapshot_id" is required`},
		{"inspect without resource", "inspect_resource", `{"snapshot_id":"x"}`, `"resource_id" is required`},
		{"children without snapshot", "list_children", `{"resource_id":"x"}`, `"snapshot_id" is required`},
		{"children without resource", "list_children", `{"snapshot_id":"x"}`, `"resource_id" is required`},
		{"required before limits", "list_children", `{"limit":1001}`, "required"},
		{"parent without snapshot", "list_resources", `{"parent":"x"}`, "needs"},
		{"parent before lengths", "list_resources", `{"parent":""}`, "needs"},
		{"empty id", "get_system_summary", `{"snapshot_id":""}`, "1 to 16384"},
		{"empty id", "inspect_resource", `{"snapshot_id":"a","resource_id":""}`, "1 to 16384"},
		{"long id", "get_system_summary", `{"snapshot_id":"` + long + `"}`, "16384"},
		{"id before limit", "list_resources", `{"limit":1001,"snapshot_id":""}`, "snapshot_id"},
		{"limit", "list_resources", `{"limit":1001}`, "0 to 1000"},
		{"limit before name", "list_resources", `{"name_contains":"` + strings.Repeat("é", 1025) + `","limit":1001}`, "limit"},
		{"name", "list_resources", `{"name_contains":"` + strings.Repeat("é", 1025) + `"}`, "1024"},
		{"name before enums", "list_resources", `{"environment":"mars","name_contains":"` + strings.Repeat("🙂", 1025) + `"}`, "name_contains"},
		{"environment", "list_resources", `{"environment":"mars"}`, "windows, wsl, wslc, docker"},
		{"environment of the united surface", "list_resources", `{"environment":"linux"}`, "environment"},
		{"order", "list_resources", `{"sort_order":"up"}`, "asc, desc"},
		{"case of an enum", "list_resources", `{"sort_order":"ASC"}`, "asc, desc"},
		{"sort", "list_children", `{"snapshot_id":"a","resource_id":"b","sort_by":"pid"}`, "cpu, memory, name"},
		{"kind", "list_resources", `{"resource_kind":"thread"}`, "infra"},
		{"no object", "list_resources", `[]`, "object"},
		{"a string", "list_resources", `"{}"`, "object"},
	} {
		_, err := CheckStrict(tools[c.tool], json.RawMessage(c.sent))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %s %.80s: got %v, want it to say %q", c.name, c.tool, c.sent, err, c.says)
		}
	}
	for _, c := range []struct{ tool, sent string }{
		{"get_system_summary", ``},
		{"get_system_summary", `null`},
		{"get_system_summary", `{}`},
		{"get_system_summary", `{"max_age_ms":0}`},
		{"get_system_summary", `{"max_age_ms":18446744073709551615}`},
		{"list_resources", `{"name_contains":""}`},
		{"list_resources", `{"name_contains":"` + strings.Repeat("🙂", 1024) + `"}`},
		{"list_resources", `{"limit":0}`},
		{"list_resources", `{"limit":1000,"parent":"p","snapshot_id":"s","environment":"wslc","resource_kind":"infra","sort_by":"name","sort_order":"asc"}`},
		{"list_resources", `{"limit":5000,"limit":5}`},
		{"inspect_resource", `{"snapshot_id":"a","resource_id":"b"}`},
	} {
		if _, err := CheckStrict(tools[c.tool], json.RawMessage(c.sent)); err != nil {
			t.Errorf("%s %.80s: %v", c.tool, c.sent, err)
		}
	}
}

func TestStrictValues(t *testing.T) {
	t.Parallel()
	list := WsltopTools(nil, WsltopOptions{})[1]
	call, err := CheckStrict(list, json.RawMessage(`{"max_age_ms":18446744073709551615}`))
	if err != nil {
		t.Fatal(err)
	}
	if s := selector(call); s.MaxAge == nil || *s.MaxAge < 1<<62 {
		t.Errorf("the greatest age became %v", s.MaxAge)
	}
	if limit, ok := call.Integer("limit"); !ok || limit.Int() != 30 {
		t.Errorf("the default limit is %v", limit)
	}
	call, err = CheckStrict(list, json.RawMessage(`{"limit":7,"limit":5}`))
	if limit, _ := call.Integer("limit"); err != nil || limit.Int() != 5 {
		t.Errorf("of two limits %v counts, %v", limit, err)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := []*Tool{
		{Name: "look", Toolset: See, Annotations: Annotations{ReadOnly: true}},
		{Name: "stop", Toolset: Steer},
		{Name: "alerts", Toolset: Steer, Annotations: Annotations{ReadOnly: true}},
	}
	for _, c := range []struct {
		choice Choice
		want   []string
		fault  string
	}{
		{Choice{}, []string{"look", "stop", "alerts"}, ""},
		{Choice{Toolsets: []string{"all"}}, []string{"look", "stop", "alerts"}, ""},
		{Choice{Toolsets: []string{"steer"}}, []string{"stop", "alerts"}, ""},
		{Choice{ReadOnly: true}, []string{"look", "alerts"}, ""},
		{Choice{Toolsets: []string{"steer", "see"}, Exclude: []string{"look"}, ReadOnly: true}, []string{"alerts"}, ""},
		{Choice{Exclude: []string{"look", "stop", "alerts"}}, []string{}, ""},
		{Choice{Toolsets: []string{"sea"}}, nil, "the toolsets are see, steer"},
		{Choice{Exclude: []string{"loook"}}, nil, "the tools are look, stop, alerts"},
	} {
		got, err := Choose(all, c.choice)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: got %v, want it to say %q", c.choice, err, c.fault)
			}
			continue
		}
		if err != nil || !slices.Equal(Names(got), c.want) {
			t.Errorf("%+v: got %v, %v, want %v", c.choice, Names(got), err, c.want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"count":5}`, `{"count":"5.0"}`, `{"hosts":"[\"a\"]"}`, `{"environment":"{}"}`, `[`, `{"a":`, `null`, `"{}"`, `{"match":"(","deep":"true"}`} {
		f.Add(s)
	}
	list := WsltopTools(nil, WsltopOptions{})[1]
	f.Fuzz(func(t *testing.T, s string) {
		for _, check := range []func() (Call, error){
			func() (Call, error) { return CheckLenient(specimen, json.RawMessage(s)) },
			func() (Call, error) { return CheckStrict(list, json.RawMessage(s)) },
		} {
			call, err := check()
			if err != nil {
				if !utf8.ValidString(err.Error()) || len(err.Error()) > 1000 {
					t.Fatalf("%q: %q", s, err)
				}
				continue
			}
			for _, v := range call.values {
				if p, ok := call.tool.property(v.name); !ok || !p.admits(v.is) {
					t.Fatalf("%q: %s = %v was accepted", s, v.name, v.is)
				}
			}
		}
	})
}

// A refusal says what was got, also for a value of the right type.
func TestStrictRefusalsSayWhatWasGot(t *testing.T) {
	t.Parallel()
	list := WsltopTools(nil, WsltopOptions{})[1]
	for arguments, want := range map[string]string{
		`{"limit":1001}`:         "from 0 to 1000; got 1001",
		`{"environment":"mars"}`: `got "mars"`,
		`{"snapshot_id":""}`:     `got ""`,
		`{"name_contains":"` + strings.Repeat("x", 1025) + `"}`: "got 1025 characters",
		`[]`: "arguments must be a JSON object; got []",
	} {
		if _, err := CheckStrict(list, json.RawMessage(arguments)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", arguments, err, want)
		}
	}
}

// FuzzMembers checks that the fast way of taking an object apart finds what the
// decoder does, where it takes one.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1}`, ` { "a" : [1,"]"] , "b" : {"c":"}"} , "a":null } `, `{"\u0061":"\\"}`, `{"é":1}`, "{\"\xff\":1}",
		`{"a":"x\"y","b":true}`, `{"a":1}x`, `{"a":1`, `{"a"}`, `[1]`, `null`, ``, `{"":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		object = bytes.TrimSpace(object)
		if len(object) == 0 {
			return
		}
		fast, ok := plainMembers(object)
		if !ok {
			return
		}
		slow, err := decodedMembers(object)
		if err != nil || !reflect.DeepEqual(fast, slow) {
			t.Errorf("%q: %q, the decoder finds %q (%v)", object, fast, slow, err)
		}
	})
}
