// Package registration writes a server into the configuration of MCP clients, so
// that they start it.
//
// Each client keeps its servers in a file of its own, in one of two languages, and
// people write in these files, too: comments, order and formatting stay as they are,
// and a file that is not understood is left alone. What comes out of an edit is read
// again and compared with what was meant before it is written. The package is a leaf;
// the command line (package cli) is its only user.
package registration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"topside/internal/privatefile"
)

// A Server is what a client shall start.
type Server struct {
	Name    string
	Command string
	Args    []string
}

// A Place is what decides where clients keep their configuration.
type Place struct {
	// System is the operating system, as runtime.GOOS names it.
	System string
	// Home is the user's, Config the folder of os.UserConfigDir.
	Home, Config string
	Getenv       func(string) string
}

// A Client is one MCP client.
type Client struct {
	// Word names it on a command line, Title in a sentence.
	Word, Title string
	path        func(Place) string
	// table holds the servers by name.
	table string
	// first are members of an entry that the client wants before the others.
	first [][2]string
	edit  language
}

// A language reads and changes the entry of a server in a file's text.
type language interface {
	// parse returns the whole as maps, slices and scalars.
	parse(text []byte) (map[string]any, error)
	// put sets members of the entry, and leaves its others.
	put(text []byte, table, name string, members []member) ([]byte, error)
	// remove takes the entry out.
	remove(text []byte, table, name string) ([]byte, error)
}

// A member is a key of an entry: a string or strings.
type member struct {
	key   string
	value any
}

// Clients are those that a server can be registered with.
func Clients() []Client {
	stdio := [][2]string{{"type", "stdio"}}
	return []Client{
		{"claude-code", "Claude Code", func(p Place) string { return filepath.Join(p.folder("CLAUDE_CONFIG_DIR", p.Home), ".claude.json") }, "mcpServers", stdio, jsonText{}},
		{"claude-desktop", "Claude Desktop", func(p Place) string { return filepath.Join(p.Config, "Claude", "claude_desktop_config.json") }, "mcpServers", nil, jsonText{}},
		{"cursor", "Cursor", func(p Place) string { return filepath.Join(p.Home, ".cursor", "mcp.json") }, "mcpServers", nil, jsonText{}},
		{"vscode", "VS Code", func(p Place) string { return filepath.Join(p.Config, "Code", "User", "mcp.json") }, "servers", stdio, jsonText{}},
		{"codex", "Codex", func(p Place) string {
			return filepath.Join(p.folder("CODEX_HOME", filepath.Join(p.Home, ".codex")), "config.toml")
		}, "mcp_servers", nil, tomlText{}},
		{"gemini", "Gemini CLI", func(p Place) string { return filepath.Join(p.Home, ".gemini", "settings.json") }, "mcpServers", nil, jsonText{}},
		{"zed", "Zed", zedSettings, "context_servers", [][2]string{{"source", "custom"}}, jsonText{}},
	}
}

func zedSettings(p Place) string {
	switch p.System {
	case "windows":
		return filepath.Join(p.Config, "Zed", "settings.json")
	case "darwin":
		return filepath.Join(p.Home, ".config", "zed", "settings.json")
	}
	return filepath.Join(p.Config, "zed", "settings.json")
}

// folder is what a variable names, or the usual one.
func (p Place) folder(variable, usual string) string {
	if named := p.Getenv(variable); filepath.IsAbs(named) {
		return named
	}
	return usual
}

// Path is where the client keeps its servers.
func (c Client) Path(p Place) string { return c.path(p) }

// A Change is a file as it is and as it shall be.
type Change struct {
	Path          string
	Before, After []byte
	// New says that there is no such file yet.
	New  bool
	mode fs.FileMode
}

// Nothing reports whether the file is already as it shall be.
func (c Change) Nothing() bool { return !c.New && bytes.Equal(c.Before, c.After) }

// Add registers a server, or changes what the client runs for its name; other
// members of the entry, such as the environment, stay. Nothing is written yet.
func (c Client) Add(p Place, s Server) (Change, error) {
	change, before, err := c.read(p)
	if err != nil {
		return change, err
	}
	members := make([]member, 0, 4)
	for _, m := range c.first {
		members = append(members, member{m[0], m[1]})
	}
	members = append(members, member{"command", s.Command}, member{"args", s.Args})
	want, err := withEntry(before, c.table, s.Name, members)
	if err != nil {
		return change, c.byHand(change.Path, s, err)
	}
	if reflect.DeepEqual(before, want) {
		change.After = change.Before
		return change, nil
	}
	if change.After, err = c.edit.put(change.Before, c.table, s.Name, members); err == nil {
		err = c.holds(change.After, want)
	}
	if err != nil {
		return change, c.byHand(change.Path, s, err)
	}
	return change, nil
}

// Remove takes a server out. It is no error where it is not in.
func (c Client) Remove(p Place, name string) (Change, error) {
	change, before, err := c.read(p)
	change.After = change.Before
	if err != nil {
		return change, err
	}
	servers, _ := before[c.table].(map[string]any)
	if change.New || servers[name] == nil {
		change.New = false
		return change, nil
	}
	delete(servers, name)
	if change.After, err = c.edit.remove(change.Before, c.table, name); err == nil {
		err = c.holds(change.After, before)
	}
	if err != nil {
		return change, &LeftAloneError{Path: change.Path, Do: fmt.Sprintf("remove %s from %s in it", name, c.table), Err: err}
	}
	return change, nil
}

// Runs is the command line that a client runs for a name; nil where it has none.
func (c Client) Runs(p Place, name string) ([]string, error) {
	change, whole, err := c.read(p)
	if err != nil || change.New {
		return nil, err
	}
	servers, _ := whole[c.table].(map[string]any)
	entry, _ := servers[name].(map[string]any)
	if entry == nil {
		return nil, nil
	}
	line := []string{fmt.Sprint(entry["command"])}
	args, _ := entry["args"].([]any)
	for _, a := range args {
		line = append(line, fmt.Sprint(a))
	}
	return line, nil
}

// A LeftAloneError says that a file could not be changed with care, and what to do.
type LeftAloneError struct {
	Path, Do string
	Err      error
}

func (e *LeftAloneError) Error() string {
	return fmt.Sprintf("%s is left as it is: %v; %s", e.Path, e.Err, e.Do)
}
func (e *LeftAloneError) Unwrap() error { return e.Err }

func (c Client) byHand(path string, s Server, err error) error {
	return &LeftAloneError{Path: path, Do: fmt.Sprintf("add a server %s to %s in it, with the command %q and the args %q", s.Name, c.table, s.Command, s.Args), Err: err}
}

// maxText bounds a configuration, in bytes.
const maxText = 64 << 20

// read reads the client's file, through links: people keep them elsewhere.
func (c Client) read(p Place) (change Change, whole map[string]any, err error) {
	change.Path, change.mode = c.path(p), 0o600
	if resolved, err := filepath.EvalSymlinks(change.Path); err == nil {
		change.Path = resolved
	}
	info, err := os.Stat(change.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		change.New = true
		return change, map[string]any{}, nil
	case err != nil:
		return change, nil, err
	case !info.Mode().IsRegular() || info.Size() > maxText:
		return change, nil, fmt.Errorf("%s is no file that could be the configuration of %s", change.Path, c.Title)
	}
	change.mode = info.Mode().Perm()
	if change.Before, err = os.ReadFile(change.Path); err != nil {
		return change, nil, err
	}
	if whole, err = c.edit.parse(change.Before); err != nil {
		return change, nil, fmt.Errorf("%s cannot be read as the configuration of %s: %w", change.Path, c.Title, err)
	}
	return change, whole, nil
}

// withEntry is a configuration as it shall be; before stays as it is.
func withEntry(before map[string]any, table, name string, members []member) (map[string]any, error) {
	servers, err := inner(before, table)
	if err != nil {
		return nil, err
	}
	entry, err := inner(servers, name)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if list, ok := m.value.([]string); ok {
			values := make([]any, len(list))
			for i, v := range list {
				values[i] = v
			}
			entry[m.key] = values
			continue
		}
		entry[m.key] = m.value
	}
	servers[name] = entry
	after := maps.Clone(before)
	after[table] = servers
	return after, nil
}

// inner is a copy of the table below a key; an empty one where there is none.
func inner(outer map[string]any, key string) (map[string]any, error) {
	switch v := outer[key].(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return maps.Clone(v), nil
	}
	return nil, fmt.Errorf("%s is no table there", key)
}

// holds reports whether a text means what it shall.
func (c Client) holds(text []byte, want map[string]any) error {
	got, err := c.edit.parse(text)
	if err != nil {
		return fmt.Errorf("it would not be readable any more: %w", err)
	}
	if !reflect.DeepEqual(c.withoutNone(got), c.withoutNone(want)) {
		return errors.New("it is written in a form that cannot be changed without changing more")
	}
	return nil
}

// withoutNone is a configuration without a table of no servers, which says nothing.
func (c Client) withoutNone(whole map[string]any) map[string]any {
	if servers, ok := whole[c.table].(map[string]any); ok && len(servers) == 0 {
		whole = maps.Clone(whole)
		delete(whole, c.table)
	}
	return whole
}

// Write replaces the file, whole or not at all, with the permissions that it has.
func (c Change) Write() error {
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o700); err != nil {
		return err
	}
	now, err := os.ReadFile(c.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(now, c.Before) {
		return fmt.Errorf("%s was changed by another program in this moment: try again", c.Path)
	}
	return privatefile.ReplaceMode(c.Path, c.After, c.mode)
}

// Find is the client that a word names.
func Find(word string) (Client, bool) {
	clients := Clients()
	i := slices.IndexFunc(clients, func(c Client) bool { return c.Word == word })
	if i < 0 {
		return Client{}, false
	}
	return clients[i], true
}
