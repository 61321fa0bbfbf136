package ocaml

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"topside/internal/compute/engine"
)

// Glance tells what Probe would, from the files of the usual installations and without running the compiler: a
// server says in its first answer which engines it has. Where the files are somewhere else it is Probe.
func (l *Language) Glance(ctx context.Context) (engine.Info, error) {
	path := l.Compiler
	if path == "" {
		var err error
		if path, err = exec.LookPath("ocamlc"); err != nil {
			return engine.Info{}, &engine.Unavailable{Language: "OCaml", Reason: "there is no ocamlc on PATH", Install: installHint}
		}
	}
	for _, stdlib := range libraries(path) {
		text, ok := versionIn(stdlib)
		if !ok {
			continue
		}
		r, err := parseRelease(text)
		if err != nil || r.before(oldest.major, oldest.minor) {
			break
		}
		if _, err := os.Stat(filepath.Join(stdlib, "compiler-libs", "ocamltoplevel.cma")); err == nil {
			info := engine.Info{Version: text, Path: path}
			if l.Native {
				c := &compiler{path: path, version: text, release: r, stdlib: stdlib}
				if kind, why := c.nativeToplevel(); kind == bytecode {
					info.Note = withoutNative(why)
				}
			}
			return info, nil
		}
		break
	}
	return l.Probe(ctx)
}

// versionIn reads the version that a standard library was installed with: its
// VERSION file, which Debian leaves out, or the header for C.
func versionIn(stdlib string) (string, bool) {
	if version, err := os.ReadFile(filepath.Join(stdlib, "VERSION")); err == nil {
		text, _, _ := strings.Cut(string(version), "\n")
		return strings.TrimSpace(text), true
	}
	header, err := os.ReadFile(filepath.Join(stdlib, "caml", "version.h"))
	if err != nil {
		return "", false
	}
	_, rest, found := strings.Cut(string(header), "#define OCAML_VERSION_STRING \"")
	if !found {
		return "", false
	}
	text, _, found := strings.Cut(rest, "\"")
	return text, found
}

// libraries are the folders in which the standard library of a compiler usually is.
func libraries(compiler string) []string {
	var all []string
	for _, name := range []string{"OCAMLLIB", "CAMLLIB"} {
		if dir := os.Getenv(name); dir != "" {
			all = append(all, dir)
		}
	}
	if real, err := filepath.EvalSymlinks(compiler); err == nil {
		all = append(all, filepath.Join(filepath.Dir(filepath.Dir(real)), "lib", "ocaml"))
	}
	return append(all, filepath.Join(filepath.Dir(filepath.Dir(compiler)), "lib", "ocaml"))
}
