// Package promote turns what an OCaml session evaluated into a native program.
//
// The folder it makes is the contract's (section 5.10): .topup-promote, dune-project, dune, main.ml and, after a
// successful build, main.exe. An empty main.mli is added, so that weak types do not matter. When the log does not
// compile as it stands, because something was defined twice, it is written again with every phrase in a module of
// its own.
package promote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"topside/internal/compute/engine"
	"topside/internal/compute/engine/ocaml"
)

// Request says what to build.
type Request struct {
	Phrases   []string // the log, one phrase each, with terminators
	Entry     string   // a name of type unit -> _
	Out       string   // absolute folder
	Libraries []string // findlib packages beside those the session required
	Limit     time.Duration
}

// Result is the contract's.
type Result struct {
	OK         bool
	BinaryPath string // "" unless OK
	BuildLog   string
}

// Error is a call that cannot work as it was made; the text is the contract's.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

func refuse(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Marker is the file that says that a folder is ours to write in.
const Marker = ".topup-promote"

// DefaultLimit bounds a build.
const DefaultLimit = 5 * time.Minute

var (
	entryChars = regexp.MustCompile(`^[A-Za-z0-9_']*$`)
	libChars   = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
)

// Check validates the arguments in the contract's order, without touching anything but the look of Out.
func Check(r Request) error {
	switch c := r.Entry; {
	case c == "":
		return refuse("entry must be non-empty")
	case !(c[0] == '_' || c[0] >= 'a' && c[0] <= 'z' || c[0] >= 'A' && c[0] <= 'Z'):
		return refuse("entry must begin with a letter or underscore")
	case !entryChars.MatchString(c):
		return refuse("entry may only contain [A-Za-z0-9_']")
	}
	for _, l := range r.Libraries {
		switch {
		case l == "":
			return refuse("library name must be non-empty")
		case !libChars.MatchString(l):
			return refuse("invalid library name %s (allowed: [A-Za-z0-9._-])", l)
		}
	}
	if !filepath.IsAbs(r.Out) || strings.ContainsRune(r.Out, 0) {
		return refuse("out must be an absolute path")
	}
	info, err := os.Stat(r.Out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refuse("could not create out directory: %v", err)
	}
	if !info.IsDir() {
		return refuse("out exists and is not a directory: %s", r.Out)
	}
	entries, err := os.ReadDir(r.Out)
	if err != nil {
		return refuse("could not create out directory: %v", err)
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == Marker }) {
		return refuse("out directory is not empty and lacks the .topup-promote marker; refuse to clobber: %s", r.Out)
	}
	return nil
}

// Build writes the project and compiles it. A build that fails is a result that is not OK.
func Build(ctx context.Context, r Request) (Result, error) {
	if err := Check(r); err != nil {
		return Result{}, err
	}
	limit := r.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return Result{}, refuse("could not create out directory: %v", err)
	}
	builder, err := findBuilder(ctx)
	if err != nil {
		return Result{}, err
	}
	program := read(r.Phrases)
	libraries := unique(append(program.libraries, r.Libraries...))
	files := map[string]string{Marker: "", "main.mli": ""}
	if usesUnix.MatchString(program.verbatim()) {
		libraries = unique(append(libraries, "unix")) // a session has it without asking
	}
	if program.topup {
		for name, text := range ocaml.TopupSources() {
			files[name] = text
		}
		libraries = unique(append(libraries, "unix"))
	}
	builder.project(files, libraries)
	for _, name := range sorted(files) {
		if err := os.WriteFile(filepath.Join(r.Out, name), []byte(files[name]), 0o644); err != nil {
			return Result{}, refuse("could not create out directory: %v", err)
		}
	}
	call := fmt.Sprintf("let () = ignore (%s ())\n", r.Entry)
	first, err := builder.attempt(ctx, r.Out, program.verbatim()+call, libraries)
	if err != nil || first.OK || ctx.Err() != nil {
		return first, err
	}
	second, err := builder.attempt(ctx, r.Out, program.wrapped()+call, libraries)
	if err != nil || second.OK || strings.Contains(first.BuildLog, "Multiple definition of") {
		return second, err
	}
	// Neither works, and not because of a redefinition: a reader finds the log as it is, with the messages about it.
	return first, os.WriteFile(filepath.Join(r.Out, "main.ml"), []byte(program.verbatim()+call), 0o644)
}

// usesUnix finds the modules of the unix library, which every session can use
// unasked. A word in a string or a comment costs a library that is not needed.
var usesUnix = regexp.MustCompile(`\b(Unix|UnixLabels)\b`)

func unique(names []string) []string {
	var kept []string
	for _, n := range names {
		if !slices.Contains(kept, n) {
			kept = append(kept, n)
		}
	}
	return kept
}

func sorted(m map[string]string) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// builder is dune, or ocamlfind where there is no dune.
type builder struct {
	dune      string
	lang      string // of dune-project
	ocamlfind string
}

func findBuilder(ctx context.Context) (*builder, error) {
	if path, err := exec.LookPath("dune"); err == nil {
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		if err == nil {
			return &builder{dune: path, lang: duneLang(strings.TrimSpace(string(out)))}, nil
		}
	}
	if path, err := exec.LookPath("ocamlfind"); err == nil {
		return &builder{ocamlfind: path}, nil
	}
	return nil, refuse("compile_to_binary: dune: not found on PATH; %s", Install)
}

// Install says what provides the builder.
const Install = "install it with `apt-get install ocaml-dune` (Debian, Ubuntu) or `opam install dune`"

// Probe says what would build programs here: dune, or ocamlfind where there is no dune. The error is an *Error when
// there is neither.
func Probe(ctx context.Context) (string, error) {
	b, err := findBuilder(ctx)
	switch {
	case err != nil:
		return "", err
	case b.dune == "":
		return "ocamlfind at " + b.ocamlfind + ", since there is no dune", nil
	}
	return "dune at " + b.dune, nil
}

// duneLang is 3.6, as the contract has it, or what an older dune knows.
func duneLang(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	if errA != nil || errB != nil || a > 3 || a == 3 && b >= 6 {
		return "3.6"
	}
	return fmt.Sprintf("%d.%d", a, b)
}

func (b *builder) project(files map[string]string, libraries []string) {
	if b.dune == "" {
		return
	}
	files["dune-project"] = "(lang dune " + b.lang + ")\n"
	dune := "(executable\n (name main)"
	if len(libraries) > 0 {
		dune += "\n (libraries " + strings.Join(libraries, " ") + ")"
	}
	files["dune"] = dune + ")\n"
}

// attempt writes main.ml, builds, and puts the program in its place.
func (b *builder) attempt(ctx context.Context, out, source string, libraries []string) (Result, error) {
	target := filepath.Join(out, "main.exe")
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Result{}, refuse("compile_to_binary: remove main.exe: %v", err)
	}
	if err := os.WriteFile(filepath.Join(out, "main.ml"), []byte(source), 0o644); err != nil {
		return Result{}, refuse("compile_to_binary: %v", err)
	}
	var cmd *exec.Cmd
	built := filepath.Join(out, "_build", "default", "main.exe")
	if b.dune != "" {
		// The release profile: a log has unused names and redefinitions, which are errors while developing.
		cmd = exec.CommandContext(ctx, b.dune, "build", "--root", out, "--profile", "release", "./main.exe")
	} else {
		built = filepath.Join(out, "_build", "main.exe")
		if err := os.MkdirAll(filepath.Dir(built), 0o755); err != nil {
			return Result{}, refuse("compile_to_binary: %v", err)
		}
		args := []string{"ocamlopt", "-w", "-a"}
		if len(libraries) > 0 {
			args = append(args, "-thread", "-package", strings.Join(libraries, ","), "-linkpkg")
		}
		for _, f := range []string{"topup_back.ml", "topup.mli", "topup.ml"} {
			if _, err := os.Stat(filepath.Join(out, f)); err == nil {
				args = append(args, f)
			}
		}
		cmd = exec.CommandContext(ctx, b.ocamlfind, append(args, "main.mli", "main.ml", "-o", built)...)
	}
	if b.dune == "" {
		cmd.Dir = out
	} else {
		cmd.Dir = "/" // so that dune says which directory it enters, as the contract has it
	}
	cmd.Env = buildEnviron(os.Environ())
	cmd.WaitDelay = 2 * time.Second
	ownGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	log := strings.ToValidUTF8(stdout.String()+stderr.String(), "\uFFFD")
	if ctx.Err() != nil {
		return Result{BuildLog: log + "build stopped: " + ctx.Err().Error() + "\n"}, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return Result{BuildLog: log}, nil
	}
	if err != nil {
		return Result{}, refuse("compile_to_binary: %v", err)
	}
	program, err := os.ReadFile(built)
	if err != nil {
		return Result{}, refuse("compile_to_binary: %v", err)
	}
	if err := os.WriteFile(target, program, 0o755); err != nil {
		return Result{}, refuse("compile_to_binary: %v", err)
	}
	if err := os.Chmod(target, 0o755); err != nil {
		return Result{}, refuse("compile_to_binary: %v", err)
	}
	if b.dune == "" && log == "" {
		log = fmt.Sprintf("Entering directory '%s'\nLeaving directory '%s'\n", out, out)
	}
	return Result{OK: true, BinaryPath: target, BuildLog: log}, nil
}

// buildEnviron is the environment of a build. A dune that finds INSIDE_DUNE, even empty, takes itself for part of
// another build: from 3.17 on it then garbles the directory that it enters.
func buildEnviron(environ []string) []string {
	return slices.DeleteFunc(engine.CleanEnv(environ, nil), func(entry string) bool {
		return strings.HasPrefix(entry, "INSIDE_DUNE=")
	})
}
