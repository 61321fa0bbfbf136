package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	t.Parallel()
	const charset = "invalid host: host may only contain [A-Za-z0-9._@-]"
	tests := []struct{ name, want string }{
		{"web-1.example.org", ""}, {"me@host_2", ""}, {"a", ""}, {"10.0.0.1", ""},
		{"", "invalid host: host must be non-empty"},
		{"-oProxyCommand=x", "invalid host: host must not begin with '-' (ssh would parse it as an option)"},
		{"-", "invalid host: host must not begin with '-' (ssh would parse it as an option)"},
		{"a b", charset}, {"a\nb", charset}, {"a\x00", charset}, {"a;b", charset}, {"a$(x)", charset}, {"é", charset}, {"a/b", charset}, {"::1", charset},
		{strings.Repeat("a", 300), "invalid host: host may have at most 253 bytes"},
	}
	for _, tt := range tests {
		got := ""
		if err := CheckName(tt.name); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q: %q", tt.name, got)
		}
	}
}

func TestSockets(t *testing.T) {
	t.Parallel()
	tests := []struct{ path, want string }{
		{"/a/b.sock", ""},
		{"", "invalid remote_socket: remote_socket must be non-empty"},
		{"/a\nb", "invalid remote_socket: remote_socket must not contain NUL or newline"},
		{"/a\x00b", "invalid remote_socket: remote_socket must not contain NUL or newline"},
		{"a/b", "invalid remote_socket: remote_socket must be an absolute path"},
		{"~/b", "invalid remote_socket: remote_socket must be an absolute path"},
	}
	for _, tt := range tests {
		got := ""
		if err := CheckSocket(tt.path); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q: %q", tt.path, got)
		}
	}
	if got := OverrideVariable("web-1.x"); got != "TOPUP_HOST_SOCKET_WEB-1.X" {
		t.Error(got)
	}
}

func open(t *testing.T, path string, f Format) *Registry {
	t.Helper()
	r, err := Open(path, f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheContractsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "hosts.json")
	r := open(t, path, Topup)
	seen := time.Date(2026, 11, 30, 18, 14, 6, 5e8, time.UTC)
	for _, name := range []string{"b", "a"} {
		if err := r.Update(name, true, func(e *Entry) {
			e.RemoteSocket, e.Tags, e.ReadOnly = "/s/"+name, []string{"x"}, true
			if name == "b" {
				e.Description, e.LastSeen = "a \"box\"", seen
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "hosts": [
    {
      "name": "a",
      "description": null,
      "os": null,
      "remote_socket": "/s/a",
      "last_seen": null
    },
    {
      "name": "b",
      "description": "a \"box\"",
      "os": null,
      "remote_socket": "/s/b",
      "last_seen": "2026-11-30T18:14:06Z"
    }
  ]
}
`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
	for p, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		if info, err := os.Stat(p); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
	var u *UnknownError
	if err := r.Update("c", false, func(*Entry) {}); !errors.As(err, &u) {
		t.Errorf("unknown: %v", err)
	}
}

var corrupt = []string{"", "{", "[]", `{"hosts":3}`, "\x00\xff"}

func TestACorruptRegistryIsKeptAside(t *testing.T) {
	t.Parallel()
	for _, text := range corrupt {
		path := filepath.Join(t.TempDir(), "hosts.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, path, Topup)
		if len(r.List()) != 0 || !strings.Contains(r.Note(), ".corrupt") {
			t.Errorf("%q: %v, %q", text, r.List(), r.Note())
		}
		if kept, err := os.ReadFile(path + ".corrupt"); err != nil || string(kept) != text {
			t.Errorf("%q: kept %q, %v", text, kept, err)
		}
		if err := r.Update("a", true, func(*Entry) {}); err != nil {
			t.Error(err)
		}
		if again := open(t, path, Topup); len(again.List()) != 1 || again.Note() != "" {
			t.Errorf("%q: %v %q", text, again.List(), again.Note())
		}
	}
}

// The registry of this program may hold what keeps tools from hosts: one that cannot be
// understood is left alone, and what was known stays.
func TestACorruptRegistryForbids(t *testing.T) {
	t.Parallel()
	for _, text := range corrupt {
		path := filepath.Join(t.TempDir(), "hosts.json")
		running := open(t, path, Topside)
		if err := running.Update("db", true, func(e *Entry) { e.ReadOnly = true }); err != nil {
			t.Fatal(err)
		}
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(text)
		var unreadable *UnreadableError
		if err := running.Refresh(); !errors.As(err, &unreadable) {
			t.Errorf("%q: refresh: %v", text, err)
		}
		if e, ok := running.Get("db"); !ok || !e.ReadOnly || running.Blind() || !strings.Contains(running.Note(), path) {
			t.Errorf("%q: what was known is %v %v, %q", text, e, ok, running.Note())
		}
		started := open(t, path, Topside)
		if started.Len() != 0 || !started.Blind() || !strings.Contains(started.Note(), path) {
			t.Errorf("%q: %v, %q", text, started.List(), started.Note())
		}
		for _, r := range []*Registry{running, started} {
			if err := r.Update("a", true, func(*Entry) {}); !errors.As(err, &unreadable) {
				t.Errorf("%q: written over: %v", text, err)
			}
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != text {
			t.Errorf("%q became %q, %v", text, kept, err)
		}
		write(string(good))
		for _, r := range []*Registry{running, started} {
			if err := r.Refresh(); err != nil || r.Len() != 1 || r.Blind() || r.Note() != "" {
				t.Errorf("%q: mended: %v, %d hosts, %q", text, err, r.Len(), r.Note())
			}
		}
	}
}

// A registry is the owner's alone, whatever it was before.
func TestARegistryBecomesPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hosts.json")
	if err := os.WriteFile(path, []byte(`{"hosts":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path, Topside).Update("a", true, func(*Entry) {}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestServersShareARegistry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hosts.json")
	var group sync.WaitGroup
	for i := range 4 {
		r := open(t, path, Topside)
		group.Go(func() {
			for j := range 10 {
				if err := r.Update(fmt.Sprintf("h%d-%d", i, j), true, func(e *Entry) { e.Tags = []string{"t"} }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	r := open(t, path, Topside)
	if n := len(r.List()); n != 40 {
		t.Errorf("%d of 40 hosts", n)
	}
	if err := r.Remove("h0-0"); err != nil || len(open(t, path, Topside).List()) != 39 {
		t.Errorf("remove: %v", err)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		e        Entry
		tool     string
		readOnly bool
		ok       bool
	}{
		{Entry{}, "eval", false, true},
		{Entry{ReadOnly: true}, "eval", false, false},
		{Entry{ReadOnly: true}, "inspect", true, true},
		{Entry{Deny: []string{"kill*"}}, "kill_process", false, false},
		{Entry{Allow: []string{"list_*"}}, "list_resources", true, true},
		{Entry{Allow: []string{"list_*"}}, "eval", false, false},
		{Entry{Allow: []string{"*"}, Deny: []string{"eval"}}, "eval", false, false},
	}
	for _, tt := range tests {
		err := tt.e.Permit(tt.tool, tt.readOnly)
		var p *PolicyError
		if (err == nil) != tt.ok || err != nil && !errors.As(err, &p) {
			t.Errorf("%+v %s: %v", tt.e, tt.tool, err)
		}
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	known := []Entry{{Name: "a", Tags: []string{"web"}}, {Name: "b", Tags: []string{"web", "db"}}, {Name: "c"}}
	tests := []struct {
		in   []string
		want []string
		err  string
	}{
		{[]string{"*"}, []string{"local", "a", "b", "c"}, ""},
		{[]string{"c", "a", "c"}, []string{"c", "a"}, ""},
		{[]string{"tag:web", "local"}, []string{"a", "b", "local"}, ""},
		{[]string{"b", "*"}, []string{"b", "local", "a", "c"}, ""},
		{nil, nil, "hosts must name at least one host"},
		{[]string{"d"}, nil, `unknown host "d"; known are a, b, c`},
		{[]string{"tag:x"}, nil, `unknown tag "x"; known are db, web`},
		{[]string{"-x"}, nil, "must not begin with '-'"},
	}
	for _, tt := range tests {
		got, err := Select(tt.in, known)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %q, %v", tt.in, got, err)
		}
	}
}

func TestHostsOfTheSSHConfiguration(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	files := map[string]string{
		".ssh/config":     "# c\nHost web db *.internal !no\n  HostName x\nhost=\"spaced name\" 'q' eq\nInclude conf.d/* ~/more\nMatch host foo\nHost -bad local\nInclude nowhere\n",
		".ssh/conf.d/one": "Host\tone # a comment\nInclude config\n",
		"more":            "HOST = two web\n",
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range FromSSHConfig(filepath.Join(home, ".ssh/config"), home) {
		got = append(got, e.Name)
	}
	if want := []string{"db", "eq", "one", "two", "web"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if FromSSHConfig(filepath.Join(home, "none"), home) != nil {
		t.Error("hosts of a missing file")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"hosts":[{"name":"a","description":null,"os":"linux","remote_socket":"/s","last_seen":"2026-11-30T18:14:06Z"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := Parse(data)
		if err != nil {
			return
		}
		for name := range entries {
			if CheckName(name) != nil {
				t.Errorf("name %q", name)
			}
		}
		again, err := Encode(entries, Topside)
		if err != nil || !json.Valid(again) {
			t.Fatalf("%s, %v", again, err)
		}
		back, err := Parse(again)
		if err != nil || len(back) != len(entries) {
			t.Fatalf("%v, %v", back, err)
		}
		for name, e := range entries {
			e.LastSeen, _ = time.Parse(time.RFC3339, e.LastSeen.UTC().Format(time.RFC3339))
			b := back[name]
			if e.RemoteSocket != b.RemoteSocket || e.Description != b.Description || !reflect.DeepEqual(len(e.Tags), len(b.Tags)) {
				t.Errorf("%+v became %+v", e, b)
			}
		}
	})
}

func FuzzParseSSHConfig(f *testing.F) {
	f.Add([]byte("Host a \"b c\"\nInclude=x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, l := range ParseSSHConfig(data) {
			if len(l.Words) == 0 {
				t.Error("a line without words")
			}
		}
	})
}
