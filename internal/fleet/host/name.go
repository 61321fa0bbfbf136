// Package host knows which machines there are: their names and the rules for
// them, the registries on disk, the hosts of the OpenSSH configuration, and the
// choice of some of them by name, tag or all. It opens no connections.
package host

import (
	"errors"
	"path"
	"strings"
)

// Local is the name of this machine. It is never an entry of a registry.
const Local = "local"

// InvalidError is a name or a path that breaks the rules. Its text is that of the
// topup contract, section 7.2: "invalid host: …" or "invalid remote_socket: …".
type InvalidError struct {
	What string // "host" or "remote_socket"
	Why  string
}

func (e *InvalidError) Error() string { return "invalid " + e.What + ": " + e.Why }

// CheckName tells what is wrong with the name of a host, as an *InvalidError. A
// name reaches the command line of ssh: it is no option, and holds nothing that a
// shell or a configuration would read as more than a name.
func CheckName(name string) error {
	switch {
	case name == "":
		return &InvalidError{"host", "host must be non-empty"}
	case name[0] == '-':
		return &InvalidError{"host", "host must not begin with '-' (ssh would parse it as an option)"}
	case len(name) > maxName:
		return &InvalidError{"host", "host may have at most 253 bytes"}
	}
	for i := range len(name) {
		if c := name[i]; !isWord(c) && c != '.' && c != '_' && c != '@' && c != '-' {
			return &InvalidError{"host", "host may only contain [A-Za-z0-9._@-]"}
		}
	}
	return nil
}

// maxName is the longest host name that DNS has, user and all.
const maxName = 253

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// IsLocal reports whether an argument names this machine: none, "" and "local" do.
func IsLocal(name string) bool { return name == "" || name == Local }

// CheckSocket tells what is wrong with the path of a socket on another machine, as
// an *InvalidError.
func CheckSocket(socket string) error {
	switch {
	case socket == "":
		return &InvalidError{"remote_socket", "remote_socket must be non-empty"}
	case strings.ContainsAny(socket, "\x00\n"):
		return &InvalidError{"remote_socket", "remote_socket must not contain NUL or newline"}
	case !path.IsAbs(socket):
		return &InvalidError{"remote_socket", "remote_socket must be an absolute path"}
	}
	return nil
}

// OverrideVariable is the environment variable that names a socket to be used for
// a host instead of ssh (topup contract, section 2).
func OverrideVariable(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return "TOPUP_HOST_SOCKET_" + string(b)
}

// ErrUnknown is a name that no registry holds. *UnknownError wraps it.
var ErrUnknown = errors.New("unknown host")
