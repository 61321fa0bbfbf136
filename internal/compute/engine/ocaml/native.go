package ocaml

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// toplevel is what evaluates the phrases of a session.
type toplevel int

const (
	bytecode toplevel = iota // the compiler's toplevel
	shipped                  // the compiler's native toplevel, ocamltoplevel.cmxa
	own                      // the one in folder native, on the compiler's native code generator
)

// ownFiles is our native toplevel, in the order of compilation, before the driver. Toploop and Topdirs have the
// interfaces of the compiler's modules, whose compiled interfaces are copied beside them.
var ownFiles = []string{"topside_compiler.ml", "topside_values.ml", "topside_phrases.ml", "toploop.ml", "topdirs.ml"}

// ownReleases are those whose library our native toplevel was written for.
var ownReleases = map[release]bool{{4, 13}: true}

// nativeToplevel tells how this OCaml can compile and load phrases natively inside a session, or why it cannot:
// upstream installs a library for that in 5.x; for Debian 12's 4.13 there is ours.
func (c *compiler) nativeToplevel() (toplevel, string) {
	library := filepath.Join(c.stdlib, "compiler-libs", "ocamltoplevel.cmxa")
	switch {
	case !exists(c.optimizing()):
		return bytecode, "there is no ocamlopt beside " + c.path
	case exists(library):
		return shipped, ""
	case !ownReleases[c.release]:
		return bytecode, "this OCaml " + c.version + " has no native toplevel library (ocamltoplevel.cmxa)"
	case runtime.GOOS != "linux" || runtime.GOARCH != "amd64":
		return bytecode, "this OCaml has no native toplevel library (ocamltoplevel.cmxa), and topside's own is for Linux on amd64"
	case c.flambda():
		return bytecode, "this OCaml has no native toplevel library (ocamltoplevel.cmxa), and topside's own is not for flambda"
	}
	for _, name := range []string{"compiler-libs/ocamlcommon.cmxa", "compiler-libs/ocamloptcomp.cmxa", "compiler-libs/toploop.cmi", "compiler-libs/topdirs.cmi", "dynlink.cmxa", "unix.cmxa"} {
		if !exists(filepath.Join(c.stdlib, name)) {
			return bytecode, "the library " + filepath.Join(c.stdlib, name) + " is missing"
		}
	}
	for _, name := range []string{"as", "ld"} {
		if _, err := exec.LookPath(name); err != nil {
			return bytecode, "the program " + name + " is missing (Debian: apt-get install binutils)"
		}
	}
	return own, ""
}

// flambda tells whether the compiler optimizes with flambda, from its configuration or the file of it.
func (c *compiler) flambda() bool {
	if c.config != "" {
		return strings.Contains(c.config, "\nflambda: true")
	}
	made, _ := os.ReadFile(filepath.Join(c.stdlib, "Makefile.config"))
	return strings.Contains(string(made), "\nFLAMBDA=true")
}

// withoutNative is the note of an engine whose phrases run as bytecode.
func withoutNative(why string) string {
	return why + ": phrases run as bytecode, with the same results"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// optimizing is the native compiler beside ocamlc.
func (c *compiler) optimizing() string { return filepath.Join(filepath.Dir(c.path), "ocamlopt") }

// compilation is the compiler and its arguments that make the driver. There is no -g: with it the program is seven
// times as large and its first backtrace takes 0.3 s; frames of the session's own phrases are known without.
func (c *compiler) compilation() (program string, args []string) {
	args = []string{"-w", "-a", "-linkall", "-I", "+compiler-libs"}
	if c.release.major >= 5 {
		args = append(args, "-I", "+unix")
	}
	if c.toplevel == bytecode {
		return c.path, append(args, "unix.cma", "ocamlcommon.cma", "ocamlbytecomp.cma", "ocamltoplevel.cma")
	}
	if c.release.major >= 5 {
		args = append(args, "-I", "+dynlink")
	}
	args = append(args, "unix.cmxa", "dynlink.cmxa", "ocamlcommon.cmxa", "ocamloptcomp.cmxa")
	if c.toplevel == shipped {
		return c.optimizing(), append(args, "ocamltoplevel.cmxa")
	}
	// The symbols of the linker are not needed; those of the loader stay.
	args = append(args, "-ccopt", "-s")
	return c.optimizing(), append(args, ownFiles...)
}

// writeOwn writes our native toplevel into work. An interface file that is there, even an empty one, makes the
// compiler check the module against the compiled interface.
func (c *compiler) writeOwn(work string) error {
	for _, name := range ownFiles {
		text, err := sources.ReadFile("native/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, name), text, 0o600); err != nil {
			return err
		}
	}
	for _, module := range []string{"toploop", "topdirs"} {
		text, err := os.ReadFile(filepath.Join(c.stdlib, "compiler-libs", module+".cmi"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, module+".cmi"), text, 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, module+".mli"), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}
