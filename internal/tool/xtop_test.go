package tool

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"topside/internal/steer"
)

// TestXtopCoercion follows section 1.2 of the contract: what is of another type
// is absent, silently.
func TestXtopCoercion(t *testing.T) {
	t.Parallel()
	x := NewXtop(nil, nil)
	tools := map[string]*Tool{}
	for _, tool := range x.Tools() {
		tools[tool.Name] = tool
	}
	for _, c := range []struct{ tool, sent, has string }{
		{"processes_top", `{"count":5,"filter":"x"}`, "count filter"},
		{"processes_top", `{"count":-5}`, "count"},
		{"processes_top", ` { "count" : 5 } `, "count"},
		{"processes_top", `{"count":5.0}`, ""},
		{"processes_top", `{"count":5e0}`, ""},
		{"processes_top", `{"count":"5"}`, ""},
		{"processes_top", `{"count":true}`, ""},
		{"processes_top", `{"count":null}`, ""},
		{"processes_top", `{"count":9223372036854775807}`, "count"},
		{"processes_top", `{"count":9223372036854775808}`, ""},
		{"processes_top", `{"count":-9223372036854775808}`, "count"},
		{"processes_top", `{"count":-9223372036854775809}`, ""},
		{"processes_top", `{"Count":5,"unknown":{"a":1}}`, ""},
		{"processes_top", `{"filter":5}`, ""},
		{"processes_top", `{"filter":["x"]}`, ""},
		{"processes_top", `{"filter":{}}`, ""},
		{"processes_top", ``, ""},
		{"processes_top", `null`, ""},
		{"processes_top", `"{\"count\":5}"`, ""},
		{"processes_top", `[{"count":5}]`, ""},
		{"processes_search", `{"pattern":"x","fields":"name"}`, "pattern fields"},
		{"processes_search", `{"pattern":"x","fields":["name","cmd"]}`, "pattern fields"},
		{"processes_search", `{"fields":[]}`, "fields"},
		{"processes_search", `{"fields":[1]}`, ""},
		{"processes_search", `{"fields":null}`, ""},
		{"processes_search", `{"pattern":["x"]}`, ""},
		{"config_set", `{"interval_ms":"5","theme":"x"}`, "theme"},
		{"config_set", `{"interval_ms":5,"theme":"x","layout":"y"}`, "interval_ms theme layout"},
		{"threshold_set", `{"cpu":1,"mem":2.5,"disk":3e1}`, "cpu mem disk"},
	} {
		call, err := CheckXtop(tools[c.tool], json.RawMessage(c.sent))
		var has []string
		for _, p := range tools[c.tool].Input {
			if call.Has(p.Name) {
				has = append(has, p.Name)
			}
		}
		if err != nil || strings.Join(has, " ") != c.has {
			t.Errorf("%s %s: %v %v, want %q", c.tool, c.sent, has, err, c.has)
		}
	}
	call, _ := CheckXtop(tools["processes_top"], json.RawMessage(`{"count":1,"count":2}`))
	if w, _ := call.Integer("count"); w.Int() != 2 {
		t.Errorf("of two counts %d counts", w.Int())
	}
	for sent, want := range map[string]string{
		`{}`: "cpu", `{"cpu":"1"}`: "cpu", `{"cpu":1}`: "mem", `{"cpu":1,"mem":1}`: "disk", `{"cpu":1e999,"mem":1,"disk":1}`: "cpu", `{"disk":1}`: "cpu",
	} {
		if _, err := CheckXtop(tools["threshold_set"], json.RawMessage(sent)); err == nil || err.(*ArgumentError).Message != "missing required argument: "+want {
			t.Errorf("threshold_set %s: %v", sent, err)
		}
	}
}

// TestXtopWithoutMachine: every tool answers where nothing can be observed.
func TestXtopWithoutMachine(t *testing.T) {
	t.Parallel()
	x := NewXtop(nil, nil)
	arguments := map[string]string{"process_info": `{"pid":1}`, "process_kill": `{"pid":1}`, "threshold_set": `{"cpu":1,"mem":1,"disk":1}`, "config_set": `{"theme":"x"}`}
	for _, tool := range x.Tools() {
		if _, err := x.Call(t.Context(), tool.Name, "", json.RawMessage(arguments[tool.Name])); err == nil || !strings.Contains(err.Error(), "cannot observe") {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
	for _, tool := range SteerTools(SteerOptions{}) {
		call, err := CheckLenient(tool, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tool.Handler(t.Context(), call); err == nil || !strings.Contains(err.Error(), "cannot observe") {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
}

func TestTenths(t *testing.T) {
	t.Parallel()
	for f, want := range map[tenths]string{0: "0.0", 90: "90.0", 92.5: "92.5", -1: "-1.0", 1e6: "1000000.0", 0.1: "0.1"} {
		if got, err := json.Marshal(f); err != nil || string(got) != want {
			t.Errorf("%v is written %s, %v", float64(f), got, err)
		}
	}
	zero := tenths(0)
	if got, err := json.Marshal([]tenths{zero / zero, 1 / zero}); err != nil || string(got) != "[null,null]" {
		t.Errorf("what is not finite is written %s, %v", got, err)
	}
}

func TestFieldsOfASearch(t *testing.T) {
	t.Parallel()
	search := NewXtop(nil, nil).Tools()[2]
	for sent, want := range map[string][]string{
		`{}`: {"name"}, `{"fields":"name,cmd"}`: {"name", "cmd"}, `{"fields":" name , cmd"}`: {"name", "cmd"}, `{"fields":["user","exe, cwd"]}`: {"user", "exe", "cwd"},
		`{"fields":""}`: {""}, `{"fields":[]}`: nil, `{"fields":7}`: {"name"},
	} {
		call, err := CheckXtop(search, json.RawMessage(sent))
		if got := fieldsOf(call); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", sent, got, err)
		}
	}
	r := &steer.Record{Name: "n", Cmd: "c", User: "u", State: "s", Exe: "e", Cwd: "w"}
	for name, want := range map[string]string{"name": "n", "cmd": "c", "user": "u", "state": "s", "exe": "e", "cwd": "w"} {
		if got, known := fieldOf(r, name); got != want || !known {
			t.Errorf("%s is %q", name, got)
		}
	}
	if _, known := fieldOf(r, "Name"); known {
		t.Error("fields are case-sensitive")
	}
}

// TestUnicodeClasses follows section 1.5: classes cover all scripts.
func TestUnicodeClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		matches       bool
	}{
		{`^\w+$`, "naïve_δ7", true}, {`^\d$`, "٣", true}, {`^\D$`, "٣", false}, {`^\W$`, "é", false}, {`^\s$`, "\u2003", true}, {`^\S$`, "\u2003", false},
		{`^[\w-]+$`, "é-x", true}, {`^[^\w]+$`, "é", false}, {`^[\d]$`, "٣", true}, {`^[]a]+$`, "]a", true}, {`^[^]a]$`, "]", false}, {`^[[:alpha:]\d]+$`, "x٣", true},
		{`\\w`, `\w`, true}, {`\\w`, "x", false}, {`\[\w\]`, "[é]", true}, {`^[\]\w]+$`, "]é", true}, {`a\.b`, "a.b", true}, {`a\.b`, "axb", false}, {`(?i)NGINX`, "nginx", true},
	} {
		re, err := regexp.Compile(unicodeClasses(c.pattern))
		if err != nil || re.MatchString(c.text) != c.matches {
			t.Errorf("%s became %s: %v on %q", c.pattern, unicodeClasses(c.pattern), err, c.text)
		}
	}
}

// TestForeignSyntax: what would silently mean something else is refused, and what
// means the same is not.
func TestForeignSyntax(t *testing.T) {
	t.Parallel()
	for pattern, says := range map[string]string{
		`[a&&b]`: "&&", `[a-z&&[^x]]`: "&&", `[a--b]`: "--", `[\w--\d]`: "--", `[[a]~~b]`: "inside a class", `[a~~b]`: "~~", `[[a]b]`: "inside a class", `x[^]a&&b]`: "&&",
		`\bfoo\b{end}`: "start or end", `\<foo\>`: "start or end", `\Qa.b\E`: "escape", `a{,3}`: "{0,",
	} {
		if _, err := xtopPattern(pattern); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	for _, pattern := range []string{
		`a&&b`, `a--b`, `~~`, `[a&b]`, `[a-]`, `[-a]`, `[[:alpha:]_]`, `[]-]`, `[^]a]`, `[\[a]`, `\[[a]`, `[\&\&a]`, `\bfoo\b`, `[\]&]`, `a{0,3}`, `[{,]`, `[\b{]|x`[4:], `a\{,b`, `[<>]`,
	} {
		if _, err := xtopPattern(pattern); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// FuzzUnicodeClasses: a regular expression stays one, and what is none stays none.
func FuzzUnicodeClasses(f *testing.F) {
	for _, seed := range []string{`\w`, `[\d-z]`, `[^]\s]`, `[[:digit:]]`, `\`, `[`, `(?i)\D+`, `\Q\w\E`, `\pL`, `\x{41}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if length(pattern) > longestPattern || strings.Contains(pattern, `\Q`) {
			return
		}
		_, before := regexp.Compile(pattern)
		_, after := regexp.Compile(unicodeClasses(pattern))
		if before != nil || after == nil {
			return
		}
		if text := after.Error(); !strings.Contains(text, "invalid character class range") && !strings.Contains(text, "too large") && !strings.Contains(text, "bad repetition") {
			t.Errorf("%q became %q: %v", pattern, unicodeClasses(pattern), after)
		}
	})
}
