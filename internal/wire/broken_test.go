package wire

import "testing"

// TestIDOfBroken: a call with a byte that is not UTF-8 in its arguments is answered
// under its id; what is broken otherwise has none.
func TestIDOfBroken(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"source\":\"a\xffb\"}}": "7",
		"{\"id\":\"x\",\"method\":\"m\",\"params\":[\"\xc3\"]}":                                       `"x"`,
		"{\"id\":\"\xff\",\"method\":\"m\"}":                                                          "",
		"{\"id\":7,\"result\":\"\xff\"}":                                                              "",
		"{\"method\":\"m\",\"params\":\"\xff\"}":                                                      "",
		"{\"id\":7,\"method\":\"m\",\xff}":                                                            "",
		"{\"id\":7,\"method\":\"m\"}":                                                                 "",
		"[{\"id\":7,\"method\":\"m\",\"params\":\"\xff\"}]":                                           "",
		"{\"id\":{},\"method\":\"m\",\"params\":\"\xff\"}":                                            "",
		"{\"id\":7,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}":                                      "",
		"{\"id\":null,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}":                                  "",
		"\xff": "",
		"":     "",
	} {
		if got := string(idOfBroken([]byte(in), false)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
