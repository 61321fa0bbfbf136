package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Names of the hidden commands of the program.
const (
	RelayCommand  = "fleet-relay"
	DaemonCommand = "fleet-daemon"
)

// ExitDaemonGone is the exit code of the relay when the daemon ended under it.
const ExitDaemonGone = 3

// maxSocketPath is the longest path of a socket that all systems take, in bytes.
const maxSocketPath = 103

// DefaultSocket is where the daemon of this user on this machine listens:
// ~/.topside/run-HOSTNAME/daemon.sock. Homes may be shared between machines, sockets
// are not.
func DefaultSocket() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	name := hostname()
	if name == "" || strings.ContainsRune(name, filepath.Separator) {
		name = "host"
	}
	return filepath.Join(home, ".topside", "run-"+name, "daemon.sock"), nil
}

// ExpandSocket makes the path of a socket absolute: "~/" is the user's home, "" the
// default.
func ExpandSocket(path string) (string, error) {
	if path == "" {
		return DefaultSocket()
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		return "", errors.New("the path of the socket must be absolute, or begin with ~/: " + path)
	}
	return filepath.Clean(path), nil
}
