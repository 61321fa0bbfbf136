// Package javascript is the engine that needs nothing installed: goja in a child of our own binary.
//
// Main is the child: it reads requests, rewrites the source so that a session can declare names again (rewrite.go),
// runs it, keeps timers and promises going between calls (runtime.go) and prints values (inspect.js).
package javascript

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	"topside/internal/compute/engine"
)

// Argument is the hidden first argument with which our binary becomes the child.
const Argument = "internal-javascript"

// Language is JavaScript. The zero value runs this program's own executable.
type Language struct {
	// Self is the command that becomes the child, without Argument; nil means this executable.
	Self []string
	// Env is added to the child's environment.
	Env []string
}

// Name is "javascript".
func (l *Language) Name() string { return "javascript" }

// Capabilities of JavaScript sessions: no fork of a Go process can be kept, so recovery is by replay.
func (l *Language) Capabilities() engine.Capabilities {
	return engine.Capabilities{Extension: ".js", Archives: []string{".js"}}
}

// Probe never fails: the engine is part of the binary.
func (l *Language) Probe(ctx context.Context) (engine.Info, error) {
	path, err := os.Executable()
	return engine.Info{Version: gojaVersion(), Path: path}, err
}

func gojaVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/dop251/goja" {
				return "goja " + d.Version
			}
		}
	}
	return "goja"
}

// Command runs our own binary.
func (l *Language) Command(ctx context.Context) (engine.Command, error) {
	self := l.Self
	if len(self) == 0 {
		path, err := os.Executable()
		if err != nil {
			return engine.Command{}, err
		}
		self = []string{path}
	}
	return engine.Command{Path: self[0], Args: append(append([]string(nil), self[1:]...), Argument), Env: l.Env}, nil
}

// Rebuild has nothing to do.
func (l *Language) Rebuild(ctx context.Context) error { return nil }

// known matches a statement that is only a name or a constant, which does nothing; a path may call a getter, and a
// string may be a directive.
var known = regexp.MustCompile(`^(?:[\pL_$][\pL\pN_$]*|-?[0-9][0-9a-zA-Z_.]*)$`)

// Entry is the statement as a script or module may hold it: a name may be declared again by a later entry, which let,
// const, class and (in a module) function would forbid. It is ended so that the next line cannot continue it.
func (l *Language) Entry(text, kind, arg string) string {
	text = strings.TrimSpace(repeatable(strings.TrimSpace(text)))
	switch {
	case text == "" || known.MatchString(strings.TrimRight(text, "; \n")):
		return ""
	case strings.HasSuffix(text, ";"):
		return text + "\n"
	}
	return text + ";\n"
}

// header matches the comment that Plain writes.
var header = regexp.MustCompile(`^// topside: .*\n(?:// .*\n)*\n`)

// Plain is a log with a comment that says what it is and how to run it.
func (l *Language) Plain(log, title string) string {
	return fmt.Sprintf(`// topside: %s
// JavaScript, of the engine %s. It runs as it is with any other: node FILE
// (FILE.mjs where it awaits and node is older than 22). In a session, the tool
// restore evaluates it; so does load.

`, strings.ReplaceAll(title, "\n", " "), gojaVersion()) + header.ReplaceAllString(log, "")
}

// Phrases is the file itself: a comment is no statement.
func (l *Language) Phrases(file string) string { return file }

var _ engine.Language = (*Language)(nil)
