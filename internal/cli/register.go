package cli

// This file says how MCP clients are told about the server.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// registrable is the path that clients can start the server by. ok is false
// when the program lies in a temporary folder, as under "go run", and will be
// gone.
func registrable() (path string, ok bool) {
	path, err := os.Executable()
	if err != nil {
		return "topside", false
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return path, !builtByGoRun(path)
}

// builtByGoRun recognises the folders that "go run" and "go test" build into.
func builtByGoRun(path string) bool {
	return strings.Contains(filepath.ToSlash(path), "/go-build")
}

// A service is what is registered: a name and the arguments that start it.
type service struct {
	name string
	args []string
}

var (
	unitedService = service{"topside", []string{"mcp"}}
	wsltopService = service{"wsltop", []string{"wsltop", "mcp"}}
	xtopService   = service{"xtop", []string{"xtop", "mcp"}}
)

// writeRegistration tells how to register a server with clients.
func writeRegistration(w io.Writer, p palette, s service) {
	path, ok := registrable()
	if !ok {
		fmt.Fprintln(w, "This program was built for one run. Build one that stays, and register that:")
		fmt.Fprintln(w)
		fmt.Fprintln(w, "  CGO_ENABLED=0 go build -o ~/bin/topside ./cmd/topside && ~/bin/topside demo")
		fmt.Fprintln(w)
		path = "/absolute/path/to/topside"
	}
	fmt.Fprintln(w, "Register the server with your client; the client starts it.")
	if s.name == unitedService.name && ok {
		fmt.Fprintf(w, "\n  %s setup CLIENT   does it (%s), or by hand:\n", shellWord(path), strings.Join(clientWords(), ", "))
	}
	for _, entry := range registrations(path, s) {
		fmt.Fprintf(w, "\n  %s\n", p.strong(entry.client))
		for line := range strings.Lines(entry.what) {
			fmt.Fprint(w, "    "+line)
		}
		fmt.Fprintln(w)
	}
}

// An instruction is what one client wants to be told.
type instruction struct{ client, what string }

func registrations(path string, s service) []instruction {
	command := shellWord(path) + " " + strings.Join(s.args, " ")
	return []instruction{
		{"Claude Code", "claude mcp add " + s.name + " -- " + command},
		{"Codex", "codex mcp add " + s.name + " -- " + command},
		{"Gemini CLI", "gemini mcp add " + s.name + " " + command},
		{"VS Code", "code --add-mcp " + shellWord(compactJSON(struct {
			Name    string   `json:"name"`
			Command string   `json:"command"`
			Args    []string `json:"args"`
		}{s.name, path, s.args}))},
		{"Claude Desktop, Cursor and others: in their mcpServers configuration", serversJSON(path, s)},
	}
}

func serversJSON(path string, s service) string {
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	type servers struct {
		Servers map[string]server `json:"mcpServers"`
	}
	text, err := json.MarshalIndent(servers{map[string]server{s.name: {path, s.args}}}, "", "  ")
	if err != nil {
		return ""
	}
	return string(text)
}

func compactJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// shellWord quotes a word for a POSIX shell where it needs to be.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:@%,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
