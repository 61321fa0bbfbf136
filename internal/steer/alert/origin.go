package alert

// This file tells where an executable came from, by its path and by the
// package databases.

import (
	"path"
	"strings"
)

// An origin is where an executable came from.
type origin uint8

const (
	unreadable origin = iota // the executable is not known
	packaged                 // a package owns the file
	system                   // in a system folder, and there is no database to ask
	image                    // part of a container's image
	local                    // where administrators install: /usr/local, /opt, /srv, /nix
	home                     // in a user's own folders, and elsewhere
	stray                    // in a system folder, and no package owns it
	drifted                  // in a container, and newer than the container
	temporary                // in a folder that everybody may write to, or that is emptied at boot
	memory                   // no file: made with memfd_create
)

var originNames = [...]string{
	unreadable: "its executable cannot be read", packaged: "its executable belongs to a package",
	system: "its executable lies in a system folder", image: "its executable is part of the container's image",
	local: "its executable lies where administrators install programs", home: "no package owns its executable",
	stray:     "its executable lies in a system folder, but no package owns it",
	drifted:   "its executable was put into the container after the container started",
	temporary: "its executable lies in a folder for temporary files",
	memory:    "its executable exists in memory only (memfd)",
}

func (o origin) String() string { return originNames[o] }

// trusted reports whether somebody who administers the machine put it there.
func (o origin) trusted() bool { return o >= packaged && o <= local }

// foreign reports whether nobody who administers the machine would.
func (o origin) foreign() bool { return o >= stray }

// systemFolders are where packages put executables, with or without /usr.
var systemFolders = []string{"/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/libexec/", "/games/", "/System/", "/share/"}

var localFolders = []string{"/usr/local/", "/opt/", "/srv/", "/run/wrappers/", "/nix/store/", "/gnu/store/", "/snap/", "/var/lib/flatpak/", "/var/lib/snapd/", "/Applications/", "/Library/", "/app/"}

// temporaryFolders are writable by everybody or hold nothing over a boot. The
// first six are the xtop contract's.
var temporaryFolders = []string{"/tmp/", "/dev/shm/", "/var/tmp/", "/proc/", "/private/tmp/", "/private/var/tmp/", "/dev/mqueue/", "/run/shm/", "/run/user/", "/run/lock/", "/var/run/user/", "/var/lock/", "/dev/"}

func hasPrefix(name string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// originOf tells the origin of an executable of the machine itself.
func originOf(executable string, ownership func(string) Ownership) origin {
	switch {
	case executable == "":
		return unreadable
	case strings.HasPrefix(executable, "/memfd:"):
		return memory
	case hasPrefix(executable, temporaryFolders):
		return temporary
	case hasPrefix(executable, localFolders):
		if ownership(executable) == Owned {
			return packaged
		}
		return local
	}
	switch ownership(executable) {
	case Owned:
		return packaged
	case NotOwned:
		if inSystemFolder(executable) {
			return stray
		}
		return home
	}
	if inSystemFolder(executable) {
		return system
	}
	return home
}

func inSystemFolder(executable string) bool {
	return hasPrefix(strings.TrimPrefix(executable, "/usr"), systemFolders)
}

// hiddenPart returns the first element of a path that begins with a dot and is
// not a folder in which users' tools are known to live.
func hiddenPart(name string) (string, bool) {
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if strings.HasPrefix(part, ".") && part != "." && part != ".." && !toolFolders[part] && !strings.HasPrefix(part, ".mount_") {
			return part, true
		}
	}
	return "", false
}

var toolFolders = set(".local .cargo .rustup .pyenv .rbenv .nvm .nodenv .asdf .sdkman .opam .cabal .ghcup .stack .vscode .vscode-server .cursor .cursor-server .cache .config .npm .npm-global .yarn .bun .deno .dotnet .go .gradle .m2 .julia .volta .fnm .mise .local.bin .steam .wine .venv .virtualenvs .conda .mozilla .tools .nix-profile .linuxbrew .claude .windsurf .codeium .zed .emacs.d .vim .tmux .terraform.d .krew .kube .pixi .rye .bin .elan .foundry .var .nuget .sonar .jetbrains .github")
