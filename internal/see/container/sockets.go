package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"topside/internal/see/plaintext"
	"topside/internal/see/secret"
)

// This file finds the engines' sockets below a root.

// A socket is where an engine may listen.
type socket struct {
	path   string // what is connected to
	kind   string // by its place, until the engine itself tells
	denied bool   // its folder may not be looked into
}

// systemSockets are the engines' own; the first of several names for one
// socket counts.
var systemSockets = []socket{
	{path: "run/docker.sock", kind: EngineDocker},
	{path: "var/run/docker.sock", kind: EngineDocker},
	{path: "run/podman/podman.sock", kind: EnginePodman},
}

// userSockets are those of rootless engines, below run/user/UID.
var userSockets = []socket{
	{path: "podman/podman.sock", kind: EnginePodman},
	{path: "docker.sock", kind: EngineDocker},
}

// mostSockets bounds how many engines are asked, for machines with many users.
const mostSockets = 32

func (e *Engines) sockets() []socket {
	var found []socket
	add := func(path, kind string, system bool) {
		real, err := e.resolve(path)
		switch {
		case err == nil:
			if strings.Contains(filepath.ToSlash(real), "/podman/") {
				kind = EnginePodman // podman-docker links Docker's name to Podman's socket
			}
			add := socket{path: real, kind: kind}
			if len(found) < mostSockets && !slices.ContainsFunc(found, func(s socket) bool { return s.path == real }) {
				found = append(found, add)
			}
		case system && errors.Is(err, fs.ErrPermission):
			found = append(found, socket{path: path, kind: kind, denied: true})
		}
	}
	root := e.fs.Root()
	if e.ours() {
		for _, v := range settings {
			if path, ok := strings.CutPrefix(e.options.Getenv(v.name), "unix://"); ok && filepath.IsAbs(path) {
				add(path, v.kind, true)
			}
		}
	}
	for _, s := range systemSockets {
		add(filepath.Join(root, filepath.FromSlash(s.path)), s.kind, true)
	}
	users, err := os.ReadDir(filepath.Join(root, "run", "user"))
	if err != nil {
		return found
	}
	for _, user := range users {
		for _, s := range userSockets {
			add(filepath.Join(root, "run", "user", user.Name(), filepath.FromSlash(s.path)), s.kind, false)
		}
	}
	return found
}

// settings are the variables that name an engine's socket.
var settings = []struct{ name, kind string }{{"DOCKER_HOST", EngineDocker}, {"CONTAINER_HOST", EnginePodman}}

// ours says that our own machine is observed, which our own variables are about.
func (e *Engines) ours() bool { return e.fs.Root() == "/" && e.fs.Live() }

// misled returns a listing for each variable that leads to no socket, which says
// so with the variable's value.
func (e *Engines) misled() []Listing {
	if !e.ours() {
		return nil
	}
	var all []Listing
	for _, v := range settings {
		if status, reason := e.judge(v.name, e.options.Getenv(v.name)); status != "" {
			all = append(all, Listing{Engine: v.kind, Status: status, Reason: reason})
		}
	}
	return all
}

// judge says what is wrong with the value of a variable; status is empty when
// nothing is, or when it is not set.
func (e *Engines) judge(name, value string) (status Status, reason string) {
	if value == "" {
		return "", ""
	}
	said := name + " is " + brief(secret.Text(plaintext.Line(value)))
	scheme, rest, isURL := strings.Cut(value, "://")
	switch {
	case !isURL:
		return Unreachable, said + ", which is no address: a socket is written unix:///run/docker.sock"
	case scheme != "unix":
		return Unreachable, said + ": engines are asked over unix:// sockets of this machine only"
	case !filepath.IsAbs(rest):
		return Unreachable, said + ", which has no absolute path: write unix:///run/docker.sock"
	}
	switch _, err := e.resolve(rest); {
	case err == nil, errors.Is(err, fs.ErrPermission):
		return "", "" // it is asked, or listed as denied
	case errors.Is(err, errNoSocket):
		return Unreachable, said + ", which is no socket"
	default:
		return Absent, said + ", where nothing is"
	}
}

var errNoSocket = errors.New("not a socket")

// resolve follows the links of path and makes sure that a socket is at their
// end, below the root: a link of an observed root must not lead to our own
// machine's engine.
func (e *Engines) resolve(path string) (string, error) {
	root := e.fs.Root()
	for range 8 {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		if !below(root, dir) {
			return "", fs.ErrNotExist
		}
		path = filepath.Join(dir, filepath.Base(path))
		info, err := os.Lstat(path)
		if err != nil {
			return "", err
		}
		switch {
		case info.Mode()&fs.ModeSocket != 0:
			return path, nil
		case info.Mode()&fs.ModeSymlink == 0:
			return "", errNoSocket
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			path = filepath.Join(root, target)
		} else {
			path = filepath.Join(dir, target)
		}
	}
	return "", fs.ErrNotExist
}

// below reports whether dir is root or inside of it, links of root followed.
func below(root, dir string) bool {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	inside, err := filepath.Rel(root, dir)
	return err == nil && inside != ".." && !strings.HasPrefix(inside, ".."+string(filepath.Separator))
}

// absence says where a socket of that kind was looked for.
func (e *Engines) absence(kind string) string {
	if !e.fs.Live() {
		return "a recorded tree has no engine to ask"
	}
	at := func(path string) string { return filepath.Join(e.fs.Root(), path) }
	if kind == EnginePodman {
		return "no socket at " + at("run/podman/podman.sock") + " or " + at("run/user/*/podman/podman.sock") + "; Podman serves one with: systemctl enable --now podman.socket"
	}
	return "no socket at " + at("run/docker.sock") + " or " + at("run/user/*/docker.sock")
}
