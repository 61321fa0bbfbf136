package registration

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

var server = Server{Name: "topside", Command: "/usr/local/bin/topside", Args: []string{"mcp", "--toolsets", "see,steer"}}

// at is a place whose files are below a folder of the test.
func at(t *testing.T) Place {
	home := t.TempDir()
	return Place{System: "linux", Home: home, Config: filepath.Join(home, ".config"), Getenv: func(string) string { return "" }}
}

func client(t *testing.T, word string) Client {
	t.Helper()
	c, ok := Find(word)
	if !ok {
		t.Fatalf("no client %s", word)
	}
	return c
}

func TestWhereClientsKeepServers(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	linux := Place{"linux", "/home/u", "/home/u/.config", none}
	mac := Place{"darwin", "/Users/u", "/Users/u/Library/Application Support", none}
	moved := Place{"linux", "/home/u", "/home/u/.config", func(name string) string { return "/etc/" + strings.ToLower(name) }}
	relative := Place{"linux", "/home/u", "/home/u/.config", func(string) string { return "here" }}
	for _, c := range []struct {
		word  string
		place Place
		want  string
	}{
		{"claude-code", linux, "/home/u/.claude.json"},
		{"claude-code", moved, "/etc/claude_config_dir/.claude.json"},
		{"claude-code", relative, "/home/u/.claude.json"},
		{"claude-desktop", linux, "/home/u/.config/Claude/claude_desktop_config.json"},
		{"claude-desktop", mac, "/Users/u/Library/Application Support/Claude/claude_desktop_config.json"},
		{"cursor", linux, "/home/u/.cursor/mcp.json"},
		{"vscode", linux, "/home/u/.config/Code/User/mcp.json"},
		{"vscode", mac, "/Users/u/Library/Application Support/Code/User/mcp.json"},
		{"codex", linux, "/home/u/.codex/config.toml"},
		{"codex", moved, "/etc/codex_home/config.toml"},
		{"gemini", linux, "/home/u/.gemini/settings.json"},
		{"zed", linux, "/home/u/.config/zed/settings.json"},
		{"zed", mac, "/Users/u/.config/zed/settings.json"},
	} {
		if got := filepath.ToSlash(client(t, c.word).Path(c.place)); got != c.want {
			t.Errorf("%s on %s: %s; want %s", c.word, c.place.System, got, c.want)
		}
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, word, before, after string }{
		{
			"nothing", "cursor", "",
			"{\n  \"mcpServers\": {\n    \"topside\": {\n      \"command\": \"/usr/local/bin/topside\",\n      \"args\": [\"mcp\", \"--toolsets\", \"see,steer\"]\n    }\n  }\n}\n",
		},
		{
			"others, and a tab", "vscode", "{\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t\"other\": {\"command\": \"x\"}\n\t}\n}",
			"{\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t\"other\": {\"command\": \"x\"},\n\t\t\"topside\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"/usr/local/bin/topside\",\n\t\t\t\"args\": [\"mcp\", \"--toolsets\", \"see,steer\"]\n\t\t}\n\t}\n}",
		},
		{
			"comments and trailing commas", "zed", "// mine\n{\n  \"theme\": \"One\", // the dark one\n  /* last */\n}\n",
			"// mine\n{\n  \"theme\": \"One\", // the dark one\n  /* last */\n  \"context_servers\": {\n    \"topside\": {\n      \"source\": \"custom\",\n      \"command\": \"/usr/local/bin/topside\",\n      \"args\": [\"mcp\", \"--toolsets\", \"see,steer\"]\n    }\n  },\n}\n",
		},
		{
			"a comment without a comma", "zed", "{\n  \"theme\": \"One\" // the dark one\n}\n",
			"{\n  \"theme\": \"One\", // the dark one\n  \"context_servers\": {\n    \"topside\": {\n      \"source\": \"custom\",\n      \"command\": \"/usr/local/bin/topside\",\n      \"args\": [\"mcp\", \"--toolsets\", \"see,steer\"]\n    }\n  }\n}\n",
		},
		{
			"what it ran before", "gemini", `{"mcpServers":{"topside":{"env":{"A":"1"},"command":"old","args":[]}},"n":1.50}`,
			`{"mcpServers":{"topside":{"env":{"A":"1"},"command":"/usr/local/bin/topside","args":["mcp", "--toolsets", "see,steer"]}},"n":1.50}`,
		},
		{
			"TOML", "codex", "model = \"o\" # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n",
			"model = \"o\" # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[mcp_servers.topside]\nargs = ['mcp', '--toolsets', 'see,steer']\ncommand = '/usr/local/bin/topside'\n",
		},
		{
			"TOML again", "codex", "[mcp_servers.topside]\ncommand = \"old\"\n# a comment\nargs = [\n  \"a\",\n]\n[mcp_servers.topside.env]\nA = \"1\"\n\n[tui]\nx = 1\n",
			"[mcp_servers.topside]\nargs = ['mcp', '--toolsets', 'see,steer']\ncommand = '/usr/local/bin/topside'\n\n[mcp_servers.topside.env]\nA = '1'\n\n[tui]\nx = 1\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			place, cl := at(t), client(t, c.word)
			path := cl.Path(place)
			if c.before != "" {
				write(t, path, c.before, 0o640)
			}
			change, err := cl.Add(place, server)
			if err != nil {
				t.Fatal(err)
			}
			if change.Nothing() {
				t.Error("nothing is to be done")
			}
			if err := change.Write(); err != nil {
				t.Fatal(err)
			}
			if got := read(t, path); got != c.after {
				t.Errorf("it became\n%s\nwant\n%s", got, c.after)
			}
			if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && c.before != "" && info.Mode() != 0o640 {
				t.Errorf("it is %v, %v", info, err)
			}
			if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
				t.Errorf("beside it: %v, %v", left, err)
			}
			again, err := cl.Add(place, server)
			if err != nil || !again.Nothing() {
				t.Errorf("a second time changes it: %v\n%s", err, again.After)
			}
			runs, err := cl.Runs(place, "topside")
			if want := append([]string{server.Command}, server.Args...); err != nil || !reflect.DeepEqual(runs, want) {
				t.Errorf("it runs %q, %v", runs, err)
			}
			gone, err := cl.Remove(place, "topside")
			if err != nil {
				t.Fatal(err)
			}
			if err := gone.Write(); err != nil {
				t.Fatal(err)
			}
			if runs, err := cl.Runs(place, "topside"); err != nil || runs != nil {
				t.Errorf("removed, it runs %q, %v\n%s", runs, err, read(t, path))
			}
			if gone, err = cl.Remove(place, "topside"); err != nil || !gone.Nothing() {
				t.Errorf("removed again: %v", err)
			}
		})
	}
}

func TestLeftAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ word, before, want string }{
		{"cursor", "{", "cannot be read"},
		{"cursor", "[]", "cannot be read"},
		{"cursor", "null", "cannot be read"},
		{"cursor", `{"mcpServers": []}`, "mcpServers is no table"},
		{"cursor", `{"mcpServers": {"topside": "x"}}`, "topside is no table"},
		{"codex", "a = \n", "line 1"},
		{"codex", "mcp_servers = {other = {command = \"x\"}}\n", "by hand"},
		{"codex", "[mcp_servers]\ntopside = {command = \"x\"}\n", ""},
		{"codex", "mcp_servers = 3", "mcp_servers is no table"},
	} {
		place, cl := at(t), client(t, c.word)
		write(t, cl.Path(place), c.before, 0o600)
		change, err := cl.Add(place, server)
		if err == nil {
			t.Errorf("%s %q: it would become %q", c.word, c.before, change.After)
			continue
		}
		var left *LeftAloneError
		if !strings.Contains(err.Error(), c.want) && !errors.As(err, &left) {
			t.Errorf("%s %q: %v; want %q", c.word, c.before, err, c.want)
		}
	}
	place, cl := at(t), client(t, "cursor")
	if err := os.MkdirAll(cl.Path(place), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Add(place, server); err == nil {
		t.Error("a folder is a configuration")
	}
}

// A configuration behind a link stays there, and one that another program has just
// written is not written over.
func TestLinksAndOtherWriters(t *testing.T) {
	t.Parallel()
	place, cl := at(t), client(t, "cursor")
	kept := filepath.Join(t.TempDir(), "kept.json")
	write(t, kept, "{}", 0o600)
	if err := os.MkdirAll(filepath.Dir(cl.Path(place)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, cl.Path(place)); err != nil {
		t.Fatal(err)
	}
	change, err := cl.Add(place, server)
	if err != nil {
		t.Fatal(err)
	}
	if err := change.Write(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(cl.Path(place)); err != nil || info.Mode().IsRegular() {
		t.Errorf("the link is %v, %v", info, err)
	}
	if !strings.Contains(read(t, kept), "topside") {
		t.Errorf("behind the link: %s", read(t, kept))
	}
	if change, err = cl.Remove(place, "topside"); err != nil {
		t.Fatal(err)
	}
	write(t, kept, `{"new": 1}`, 0o600)
	if err := change.Write(); err == nil || read(t, kept) != `{"new": 1}` {
		t.Errorf("written over: %v, %s", err, read(t, kept))
	}
}

// Whatever the file holds, only the entry changes, and taking it out gives back what
// was meant before.
func TestOnlyTheEntryChanges(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-zA-Z "'.#/\[\]é]{1,8}`)
	scalar := rapid.OneOf(rapid.Just[any](true), rapid.Map(word, func(s string) any { return s }), rapid.Just[any]("]\n["))
	servers := rapid.MapOf(word, rapid.Map(rapid.MapOf(word, scalar), func(m map[string]any) any { return m }))
	for _, c := range []struct {
		word   string
		encode func(any) ([]byte, error)
	}{
		{"cursor", json.Marshal},
		{"zed", func(v any) ([]byte, error) { return json.MarshalIndent(v, " ", "\t") }},
		{"codex", toml.Marshal},
	} {
		cl := client(t, c.word)
		t.Run(c.word, rapid.MakeCheck(func(t *rapid.T) {
			whole := rapid.MapOf(word, scalar).Draw(t, "whole")
			if rapid.Bool().Draw(t, "has servers") {
				whole[cl.table] = servers.Draw(t, "servers")
			}
			s := Server{Name: word.Draw(t, "name"), Command: word.Draw(t, "command"), Args: rapid.SliceOf(word).Draw(t, "args")}
			text, err := c.encode(whole)
			if err != nil {
				t.Fatal(err)
			}
			members := []member{{"command", s.Command}, {"args", s.Args}}
			before, err := cl.edit.parse(text)
			if err != nil {
				t.Fatal(err)
			}
			want, err := withEntry(before, cl.table, s.Name, members)
			if err != nil {
				t.Fatal(err)
			}
			put, err := cl.edit.put(text, cl.table, s.Name, members)
			if err != nil {
				t.Fatal(err)
			}
			if err := cl.holds(put, want); err != nil {
				t.Fatalf("%v:\n%s\nbecame\n%s", err, text, put)
			}
			out, err := cl.edit.remove(put, cl.table, s.Name)
			if err != nil {
				t.Fatal(err)
			}
			delete(want[cl.table].(map[string]any), s.Name)
			got, err := cl.edit.parse(out)
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			if got, want = cl.withoutNone(got), cl.withoutNone(want); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s\nis %v; want %v", out, got, want)
			}
		}))
	}
}

func FuzzAdd(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"mcpServers":{"a":{}},}`, "// c\n{/**/}", "[mcp_servers.topside]\nx=1", "a=\"\"\"\n[mcp_servers.topside]\n\"\"\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, word := range []string{"cursor", "codex"} {
			c, _ := Find(word)
			before, err := c.edit.parse([]byte(text))
			if err != nil {
				continue
			}
			members := []member{{"command", "c"}, {"args", []string{"a"}}}
			want, err := withEntry(before, c.table, "topside", members)
			if err != nil {
				continue
			}
			// Either it is right or it is refused.
			if out, err := c.edit.put([]byte(text), c.table, "topside", members); err == nil {
				_ = c.holds(out, want)
			}
			_, _ = c.edit.remove([]byte(text), c.table, "topside")
		}
	})
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
