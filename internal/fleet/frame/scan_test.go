package frame

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzScan compares the fast scan with encoding/json, which decides what a message is.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"n":1}}`,
		` { "id" : "a\"b\\" , "result" : [ { "a" : "}" } , 1 ] } `,
		`{"id":null,"error":{"code":-1,"message":"x"}}`,
		`{"ID":3,"method":"a"}`, `{"id":1,"id":2}`, `{}`, `{"method":"\u0061"}`, `{"method":null}`, `{"method":1}`,
		`{"id":1.5e3,"result":"\\\\\""}`, `[1]`, `"x"`, `{"id":1`, "{\"method\":\"\xff\"}", `{"i\u0064":4}`, ``, `{"result":true }`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		got, ok := scanFast(message)
		var want Envelope
		err := json.Unmarshal(message, &want)
		if !ok {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", message, err)
		}
		same := got.Method == want.Method
		for _, p := range [][2]json.RawMessage{{got.ID, want.ID}, {got.Params, want.Params}, {got.Result, want.Result}, {got.Error, want.Error}} {
			same = same && bytes.Equal(p[0], p[1]) && (p[0] == nil) == (p[1] == nil)
		}
		if !same {
			t.Fatalf("%q: got %+v, want %+v", message, got, want)
		}
	})
}

func TestOrdinaryMessagesAreScannedFast(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"n":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a \"b\" }"}]}}`,
		`{"id":"a","error":{"code":-1,"message":"x"}}`,
	} {
		if _, ok := scanFast([]byte(s)); !ok {
			t.Errorf("%s", s)
		}
	}
}
