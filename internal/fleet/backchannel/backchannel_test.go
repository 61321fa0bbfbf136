package backchannel

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"topside/internal/fleet/transfer"
)

// ask makes a request as a remote session does, and returns the tool's text.
func ask(t *testing.T, o Options, tool string, arguments any) (string, bool) {
	t.Helper()
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := o.Serve(context.Background(), "tools/call", params)
	if err != nil {
		t.Fatal(err)
	}
	var e envelope
	if err := json.Unmarshal(raw, &e); err != nil || len(e.Content) != 1 || e.Content[0].Type != "text" {
		t.Fatalf("%s, %v", raw, err)
	}
	return e.Content[0].Text, e.IsError
}

func world(t *testing.T) (root, outside string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside = dir+"/root", dir+"/outside"
	for _, d := range []string{root + "/sub", outside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{root + "/in", root + "/sub/in", outside + "/secret"} {
		if err := os.WriteFile(f, []byte("text of "+filepath.Base(f)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": outside, "secret": outside + "/secret", "loop": "loop", "inner": "sub", "dangling": outside + "/new"} {
		if err := os.Symlink(to, root+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	return root, outside
}

const (
	escapes = "path escapes back-channel root (TOPUP_BACKCHANNEL_ROOT)"
	viaLink = "path escapes back-channel root via symlink"
)

// paths are what a remote session may try; want is the error text, <root> for the root,
// "" for success.
var paths = []struct{ path, read, write string }{
	{"in", "", ""},
	{"/in", "", ""},
	{"///sub/./../sub/in", "", ""},
	{"sub/../in", "", ""},
	{"../outside/secret", escapes, escapes},
	{"/../outside/secret", escapes, escapes},
	{"sub/../../outside/secret", escapes, escapes},
	{"..", escapes, escapes},
	{"a\x00b", escapes, escapes},
	{"", viaLink, viaLink},
	{"secret", viaLink, viaLink},
	{"out/secret", viaLink, viaLink},
	{"out/new/deep", viaLink, viaLink},
	{"dangling", viaLink, viaLink},
	{"loop", viaLink, viaLink},
	{"inner/in", viaLink, viaLink},
	{"none", "no such file: <root>/none", ""},
	{"new/deep/er", "no such file: <root>/new/deep/er", ""},
	{"/etc/hostname", "no such file: <root>/etc/hostname", ""},
	{"~/x", "no such file: <root>/~/x", ""},
	{"sub", "not a regular file: <root>/sub", "<root>/sub: Is a directory"},
	{"/", "not a regular file: <root>", "<root>: Is a directory"},
	{".", "not a regular file: <root>", "<root>: Is a directory"},
}

func TestConfinement(t *testing.T) {
	t.Parallel()
	for _, tt := range paths {
		for _, write := range []bool{false, true} {
			root, outside := world(t)
			tool, want, args := transfer.SendBlobTool, tt.read, map[string]string{"path": tt.path}
			if write {
				tool, want = transfer.RecvBlobTool, tt.write
				args["data"] = base64.StdEncoding.EncodeToString([]byte("written"))
			}
			text, isError := ask(t, Options{Root: root}, tool, args)
			want = strings.ReplaceAll(want, "<root>", root)
			if isError != (want != "") || isError && text != want {
				t.Errorf("%q, write %v: %q", tt.path, write, text)
			}
			if got, err := os.ReadFile(outside + "/secret"); err != nil || string(got) != "text of secret" {
				t.Fatalf("%q reached outside: %q, %v", tt.path, got, err)
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
				t.Fatalf("%q wrote outside: %v, %v", tt.path, entries, err)
			}
		}
	}
}

func TestARoundTripOfBytes(t *testing.T) {
	t.Parallel()
	root, _ := world(t)
	link := filepath.Dir(root) + "/way"
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Root: root}, {Root: link}, {Root: root + "/fresh/root"}} {
		data := base64.StdEncoding.EncodeToString([]byte("\x00\xff\n"))
		text, isError := ask(t, o, transfer.RecvBlobTool, map[string]string{"path": "/a/b", "data": data})
		if isError || !strings.HasSuffix(text, `/a/b","bytes":3}`) {
			t.Fatalf("write: %s", text)
		}
		text, isError = ask(t, o, transfer.SendBlobTool, map[string]string{"path": "a/b"})
		if isError || !strings.Contains(text, `"data":"`+data+`","bytes":3}`) {
			t.Errorf("read: %s", text)
		}
	}
	if info, err := os.Stat(root + "/a/b"); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(root + "/a"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestArgumentsAndCaps(t *testing.T) {
	t.Parallel()
	root, _ := world(t)
	o := Options{Root: root, Max: 5}
	tests := []struct {
		tool string
		args any
		want string
	}{
		{transfer.SendBlobTool, map[string]any{}, "missing 'path' argument"},
		{transfer.SendBlobTool, map[string]any{"path": 3}, "missing 'path' argument"},
		{transfer.SendBlobTool, []int{}, "missing 'path' argument"},
		{transfer.RecvBlobTool, map[string]any{"data": ""}, "missing 'path' argument"},
		{transfer.RecvBlobTool, map[string]any{"path": "x"}, "missing 'data' argument"},
		{transfer.RecvBlobTool, map[string]any{"path": "x", "data": "YQ"}, "base64 decode: Wrong padding"},
		{transfer.RecvBlobTool, map[string]any{"path": "x", "data": "YWJjZGVm"}, "payload too large: 6 bytes; cap is 5 (TOPUP_XFER_MAX_BYTES)"},
		{transfer.SendBlobTool, map[string]any{"path": "in"}, "file too large: " + root + "/in is 10 bytes; cap is 5 (TOPUP_XFER_MAX_BYTES)"},
	}
	for _, tt := range tests {
		if text, isError := ask(t, o, tt.tool, tt.args); !isError || text != tt.want {
			t.Errorf("%s %v: %q", tt.tool, tt.args, text)
		}
	}
}

func TestNothingElseIsServed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ method, params string }{
		{"tools/call", `{"name":"eval","arguments":{}}`}, {"tools/list", `{}`}, {"tools/call", `[]`}, {"", ``}, {"tools/call", ``},
	} {
		_, err := Options{Root: t.TempDir()}.Serve(context.Background(), tt.method, json.RawMessage(tt.params))
		var r *Refusal
		if !errors.As(err, &r) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestUnconfined(t *testing.T) {
	t.Parallel()
	_, outside := world(t)
	text, isError := ask(t, Options{Root: Unconfined}, transfer.SendBlobTool, map[string]string{"path": outside + "/secret"})
	if isError || !strings.Contains(text, outside) {
		t.Errorf("got %s", text)
	}
}

func FuzzConfine(f *testing.F) {
	for _, tt := range paths {
		f.Add(tt.path)
	}
	f.Fuzz(func(t *testing.T, p string) {
		components, err := Confine(p)
		if err != nil {
			return
		}
		for _, c := range components {
			if c == "" || c == "." || c == ".." || strings.ContainsAny(c, "/\x00") {
				t.Errorf("%q: component %q", p, c)
			}
		}
	})
}
