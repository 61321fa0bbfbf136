package frame

import (
	"encoding/json"
	"maps"
	"testing"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]string{
		`{}`:                          {},
		` { "a" : 1 , "b":[{"}":2}]}`: {"a": "1", "b": `[{"}":2}]`},
		`{"s":"}\\\",","t":{"u":{}}}`: {"s": `"}\\\","`, "t": `{"u":{}}`},
		`[1]`:                         {},
		`"{"`:                         {},
		`7`:                           {},
		``:                            {},
	} {
		got := map[string]string{}
		Members([]byte(text), func(name string, value []byte) { got[name] = string(value) })
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":"\\\"","c":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			return
		}
		Members(b, func(_ string, value []byte) {
			if !json.Valid(value) {
				t.Errorf("%q in %q is not JSON", value, b)
			}
		})
	})
}
