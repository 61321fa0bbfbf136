package ocaml

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"topside/internal/compute/engine"
)

//go:embed driver/*.ml driver/*.mli native/*.ml
var sources embed.FS

// driverFiles in the order of compilation; shim.ml is written beside them.
var driverFiles = []string{"topup_back.ml", "topup.mli", "topup.ml", "shim.ml", "effects.ml", "driver.ml"}

// program is the file name of the compiled driver, and what its processes are called.
const program = "topside-ocaml"

// compiler is one installed OCaml.
type compiler struct {
	path     string
	version  string
	release  release
	stdlib   string   // ocamlc -where
	config   string   // ocamlc -config
	toplevel toplevel // what evaluates the phrases
}

// inspect asks the compiler what it is and checks that its library is there.
func inspect(ctx context.Context, path string) (*compiler, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-config").Output()
	if err != nil {
		return nil, &engine.Unavailable{Language: "OCaml", Reason: fmt.Sprintf("%s -config failed: %v", path, err), Install: installHint}
	}
	c := &compiler{path: path, config: string(out)}
	for line := range strings.Lines(c.config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "version":
			c.version = value
		case "standard_library":
			c.stdlib = value
		}
	}
	if c.release, err = parseRelease(c.version); err != nil {
		return nil, &engine.Unavailable{Language: "OCaml", Reason: err.Error(), Install: installHint}
	}
	if c.release.before(oldest.major, oldest.minor) {
		return nil, &engine.Unavailable{Language: "OCaml", Reason: fmt.Sprintf("%s is version %s, older than 4.08", path, c.version), Install: installHint}
	}
	library := filepath.Join(c.stdlib, "compiler-libs", "ocamltoplevel.cma")
	if _, err := os.Stat(library); err != nil {
		return nil, &engine.Unavailable{
			Language: "OCaml", Reason: fmt.Sprintf("the compiler's library is missing (%s)", library),
			Install: "install it with `apt-get install ocaml-compiler-libs` (Debian, Ubuntu); with opam it is part of the compiler",
		}
	}
	return c, nil
}

// key names the driver of this compiler: everything that the compiled program depends on is in it.
func (c *compiler) key() string {
	h := sha256.New()
	fmt.Fprintln(h, c.path, c.config, shim(c.release), c.toplevel)
	for _, name := range driverFiles {
		b, _ := sources.ReadFile("driver/" + name)
		h.Write(b)
	}
	if c.toplevel == own {
		for _, name := range ownFiles {
			b, _ := sources.ReadFile("native/" + name)
			h.Write(b)
		}
	}
	return "ocaml-" + c.version + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// cacheRoot is the folder of compiled drivers.
func cacheRoot(cache string) (string, error) {
	if cache != "" {
		return cache, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		user = filepath.Join(os.TempDir(), fmt.Sprintf("topside-cache-%d", os.Getuid()))
	}
	return filepath.Join(user, "topside"), nil
}

// driver returns the folder of the compiled driver. Two servers that start at once compile it once: the second
// waits for the lock and finds it. Where the cache cannot be written, a folder in the temporary directory is used.
func (c *compiler) driver(ctx context.Context, cache string) (string, error) {
	root, err := cacheRoot(cache)
	if err != nil {
		return "", err
	}
	dir, err := c.driverIn(ctx, root)
	var denied *fs.PathError
	if err != nil && errors.As(err, &denied) && cache == "" {
		return c.driverIn(ctx, filepath.Join(os.TempDir(), fmt.Sprintf("topside-cache-%d", os.Getuid())))
	}
	return dir, err
}

func (c *compiler) driverIn(ctx context.Context, root string) (string, error) {
	dir := filepath.Join(root, c.key())
	if complete(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	if err := ownedByUs(root); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if complete(dir) {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(root, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := c.compile(ctx, work); err != nil {
		return "", err
	}
	if err := os.Rename(work, dir); err != nil {
		return "", err
	}
	return dir, nil
}

// complete tells whether the folder holds a finished build; its mark is written last and holds the sizes of what a
// session needs, so that a build is made again of which something was cut short or cleaned away.
func complete(dir string) bool {
	mark, err := os.ReadFile(filepath.Join(dir, "complete"))
	if err != nil {
		return false
	}
	whole, err := markOf(dir)
	return err == nil && string(mark) == whole
}

func markOf(dir string) (string, error) {
	built, err := os.Stat(filepath.Join(dir, program))
	if err != nil {
		return "", err
	}
	library, err := os.Stat(filepath.Join(dir, "lib", "topup.cmi"))
	if err != nil {
		return "", err
	}
	return fmt.Sprint(built.Size(), " ", library.Size()), nil
}

// discard removes the compiled driver.
func (c *compiler) discard(cache string) error {
	root, err := cacheRoot(cache)
	if err != nil {
		return err
	}
	unlock, err := lock(context.Background(), filepath.Join(root, c.key())+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	return os.RemoveAll(filepath.Join(root, c.key()))
}

// compile builds the driver in work and arranges the folder: driver, lib/topup.cmi, complete.
func (c *compiler) compile(ctx context.Context, work string) error {
	for _, name := range driverFiles {
		text, err := sources.ReadFile("driver/" + name)
		if name == "shim.ml" {
			text, err = []byte(shim(c.release)), nil
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, name), text, 0o600); err != nil {
			return err
		}
	}
	if c.toplevel == own {
		if err := c.writeOwn(work); err != nil {
			return err
		}
	}
	compiler, args := c.compilation()
	args = append(args, driverFiles...)
	args = append(args, "-o", program)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	run := func() ([]byte, error) {
		cmd := exec.CommandContext(ctx, compiler, args...)
		cmd.Dir = work
		return cmd.CombinedOutput()
	}
	out, err := run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() && ctx.Err() == nil {
		out, err = run() // somebody killed the compiler
	}
	if err != nil {
		return &engine.Unavailable{
			Language: "OCaml " + c.version,
			Reason:   fmt.Sprintf("its session driver does not compile (%v): %s", err, bytes.TrimSpace(out)),
			Install:  "check the installation with `ocamlc -config`; versions 4.08 to 5.x are supported",
		}
	}
	if err := os.Mkdir(filepath.Join(work, "lib"), 0o700); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(work, "topup.cmi"), filepath.Join(work, "lib", "topup.cmi")); err != nil {
		return err
	}
	mark, err := markOf(work)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(work, "complete"), []byte(mark), 0o600)
}

// command runs the driver of that folder.
func (c *compiler) command(dir string) *engine.Command {
	return &engine.Command{
		Path: filepath.Join(dir, program),
		Args: []string{filepath.Join(dir, "lib")},
		// OCaml 5 allows a stack of 1 GiB by default: runaway recursion would take seconds and all memory.
		Env: []string{"OCAMLRUNPARAM=l=1M"},
	}
}

// TopupSources are the files of module Topup, for programs that are built from a session's log.
func TopupSources() map[string]string {
	files := map[string]string{}
	for _, name := range []string{"topup_back.ml", "topup.mli", "topup.ml"} {
		if b, err := sources.ReadFile("driver/" + name); err == nil {
			files[name] = string(b)
		}
	}
	return files
}
