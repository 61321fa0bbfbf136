package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestScreens(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ method, params, united, wsltop string }{
		{"tools/list", ``, "", ""},
		{"tools/list", `{}`, "", ""},
		{"tools/list", `{"cursor":""}`, "", "one page"},
		{"tools/list", `{"cursor":null}`, "", "one page"},
		{"tools/list", `{"cursor":5}`, "", "one page"},
		{"tools/call", `{"name":"x"}`, "", ""},
		{"tools/call", `{"name":"x","arguments":null}`, "", ""},
		{"tools/call", `{"name":"x","arguments":{}}`, "", ""},
		{"tools/call", `{"name":"x","arguments":[]}`, "", "must be a JSON object; got []"},
		{"tools/call", `{"name":"x","arguments":5}`, "", "must be a JSON object; got 5"},
		{"tools/call", `{"name":5}`, "must be a string; got 5", "must be a string; got 5"},
		{"tools/call", `{"name":null}`, "must be a string; got null", "must be a string; got null"},
		{"tools/call", `{"name":["\u001b[31m"]}`, "must be a string", "must be a string"},
		{"tools/call", `{}`, "needs a name", "needs a name"},
		{"tools/call", ``, "needs a name", "needs a name"},
		{"ping", `{"name":5}`, "", ""},
	} {
		params := json.RawMessage(x.params)
		if x.params == "" {
			params = nil
		}
		for want, got := range map[string]string{
			"united: " + x.united: "united: " + said(Screen(x.method, params)), "wsltop: " + x.wsltop: "wsltop: " + said(WsltopScreen(x.method, params)),
		} {
			surface, part, _ := strings.Cut(want, ": ")
			if !strings.Contains(got, part) || part == "" && got != surface+": " {
				t.Errorf("%s %s: %q, want %q", x.method, x.params, got, want)
			}
		}
	}
}

func said(refused *jsonrpc.Error) string {
	if refused == nil {
		return ""
	}
	return refused.Message
}
