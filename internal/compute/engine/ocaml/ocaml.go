// Package ocaml is the engine of a real OCaml, 4.08 to 5.x.
//
// The driver (folder driver, OCaml source) is a toplevel that speaks the child protocol of package engine. It is
// compiled once per compiler against the compiler's own libraries and kept in the user's cache. What differs
// between compiler versions is a small module written for the version found, see shim.go.
package ocaml

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"sync"

	"topside/internal/compute/engine"
)

// Language is OCaml with bytecode phrases, or with native ones. The zero value finds ocamlc on PATH.
type Language struct {
	// Compiler is the ocamlc to use; "" means the first on PATH.
	Compiler string
	// Cache is the folder of compiled drivers; "" means topside/ in the user's cache folder.
	Cache string
	// Native asks for native phrases (topup-opt).
	Native bool

	mu      sync.Mutex
	built   *engine.Command
	found   *compiler
	refused string // why native phrases did not work although they should
}

// Name is "ocaml" or "ocaml-native".
func (l *Language) Name() string {
	if l.Native {
		return "ocaml-native"
	}
	return "ocaml"
}

// Capabilities of OCaml sessions.
func (l *Language) Capabilities() engine.Capabilities {
	c := engine.Capabilities{Keeper: true, Batch: true, Promote: true, Extension: ".ml", Archives: []string{".cma", ".cmo"}, Terminator: ";;"}
	if l.Native {
		c.Archives = []string{".cmxs"}
	}
	return c
}

// Probe runs the compiler once and remembers what it said.
func (l *Language) Probe(ctx context.Context) (engine.Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := l.compiler(ctx)
	if err != nil {
		return engine.Info{}, err
	}
	info := engine.Info{Version: c.version, Path: c.path}
	if l.Native {
		if kind, why := c.nativeToplevel(); kind == bytecode {
			info.Note = withoutNative(why)
		} else if l.refused != "" {
			info.Note = withoutNative(l.refused)
		}
	}
	return info, nil
}

// Command compiles the driver unless the cache has it.
func (l *Language) Command(ctx context.Context) (engine.Command, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.built != nil {
		return *l.built, nil
	}
	c, err := l.compiler(ctx)
	if err != nil {
		return engine.Command{}, err
	}
	c.toplevel = bytecode
	if l.Native && l.refused == "" {
		c.toplevel, _ = c.nativeToplevel()
	}
	dir, err := c.driver(ctx, l.Cache)
	if err != nil && c.toplevel != bytecode && ctx.Err() == nil {
		// The fallback: the same driver with bytecode phrases.
		l.refused, _, _ = strings.Cut(err.Error(), "\n")
		c.toplevel = bytecode
		dir, err = c.driver(ctx, l.Cache)
	}
	if err != nil {
		return engine.Command{}, err
	}
	l.built = c.command(dir)
	return *l.built, nil
}

// Rebuild drops the compiled driver and what is known of the compiler.
func (l *Language) Rebuild(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.built = nil
	c, err := l.compiler(ctx)
	if err != nil {
		return err
	}
	l.found = nil
	return c.discard(l.Cache)
}

func (l *Language) compiler(ctx context.Context) (*compiler, error) {
	if l.found != nil {
		return l.found, nil
	}
	path := l.Compiler
	if path == "" {
		var err error
		if path, err = exec.LookPath("ocamlc"); err != nil {
			return nil, &engine.Unavailable{Language: "OCaml", Reason: "there is no ocamlc on PATH", Install: installHint}
		}
	}
	c, err := inspect(ctx, path)
	if err != nil {
		return nil, err
	}
	l.found = c
	return c, nil
}

const installHint = "install it with `apt-get install ocaml-nox ocaml-findlib` (Debian, Ubuntu), `brew install ocaml` or `opam switch create 5.3.0`"

// queries are directives that only print: replaying them brings nothing back.
var queries = map[string]bool{
	"#show": true, "#show_val": true, "#show_type": true, "#show_module": true, "#show_module_type": true,
	"#show_exception": true, "#show_class": true, "#show_class_type": true, "#show_constructor": true,
	"#list": true, "#help": true, "#quit": true, "#exit": true, "#trace": true, "#untrace": true, "#untrace_all": true,
	"#show_dirs": true,
}

// known matches an expression that is only a name, a path or a constant: to evaluate it does nothing. Any other
// expression may have effects.
var known = regexp.MustCompile(`^(?:(?:[A-Z][\w']*\.)*[a-z_][\w']*|(?:[A-Z][\w']*\.)*[A-Z][\w']*|[-+]?[0-9][0-9a-zA-Z_.]*|"[^"\\]*"|'[^'\\]'|\(\s*\)|\[\s*\])$`)

// pure tells whether an expression has certainly no effect.
func pure(text string) bool {
	return known.MatchString(strings.TrimSpace(strings.TrimSuffix(text, ";;")))
}

// Entry is the phrase with its terminator. Queries and comments have no effect to replay.
func (l *Language) Entry(text, kind, arg string) string {
	text = strings.TrimSpace(text)
	if text == "" || kind == "empty" || queries[kind] || kind == "expr" && pure(text) {
		return ""
	}
	if !strings.HasSuffix(text, ";;") {
		if strings.HasPrefix(kind, "#") || !endsInComment(text) {
			return text + ";;\n"
		}
		return text + "\n;;\n"
	}
	return text + "\n"
}

// findlib is what makes the plain toplevel know #require.
const findlib = "#use \"topfind\";;"

var requires = regexp.MustCompile(`(?m)^\s*#\s*(?:require|thread|predicates|ppx|camlp4[or])\b`)

// Plain is a log as a file that `ocaml` runs: findlib's directives need findlib. It has no title: the contract has the
// log's own text and lines.
func (l *Language) Plain(log, _ string) string {
	if !requires.MatchString(log) || strings.HasPrefix(log, findlib) {
		return log
	}
	return findlib + "\n" + log
}

// Phrases undoes Plain: a session has findlib of its own. The lines keep their numbers.
func (l *Language) Phrases(file string) string {
	rest, found := strings.CutPrefix(file, findlib)
	if !found {
		return file
	}
	return strings.Repeat(" ", len(findlib)) + rest
}

func endsInComment(text string) bool { return strings.HasSuffix(text, "*)") }

var _ engine.Language = (*Language)(nil)
