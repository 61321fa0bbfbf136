package tool

// This file says what went wrong on another host, or on the way to it.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"topside/internal/fleet"
	"topside/internal/fleet/frame"
	"topside/internal/fleet/host"
	"topside/internal/fleet/link"
	"topside/internal/fleet/route"
	"topside/internal/fleet/ssh"
	"topside/internal/fleet/transfer"
	"topside/internal/see"
	"topside/internal/see/plaintext"
)

// A FleetError is a call that did not get an answer of its host. Its Code is one word
// for programs, Hint says what to call next.
type FleetError struct{ Code, Message, Hint string }

func (e *FleetError) Error() string { return e.Message }

// A RemoteError is the JSON-RPC error of a host, with the host named.
type RemoteError struct {
	Host    string
	Code    int64
	Message string
	Data    json.RawMessage
}

func (e *RemoteError) Error() string { return "host " + e.Host + ": " + e.Message }

// A Failure is an operational failure as clients see it.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Describe names an operational failure; other is the code of errors that no domain
// package has a code for.
func Describe(err error, other string) Failure {
	var (
		known   *see.Error
		compute *ComputeError
		steer   *SteerError
		fleet   *FleetError
	)
	switch {
	case errors.As(err, &fleet):
		return Failure{fleet.Code, plaintext.Line(fleet.Message), plaintext.Line(fleet.Hint)}
	case errors.As(err, &known):
		return Failure{string(known.Code), plaintext.Line(known.Message), plaintext.Line(known.Hint)}
	case errors.As(err, &compute):
		return Failure{compute.Code, plaintext.Line(compute.Message), plaintext.Line(compute.Hint)}
	case errors.As(err, &steer):
		return Failure{steer.Code, plaintext.Line(steer.Message), plaintext.Line(steer.Hint)}
	}
	return Failure{Code: other, Message: plaintext.Line(err.Error())}
}

// farError explains the error of a call of a tool on a host. The code of what the host
// did not answer itself is that of [route.StatusOf].
func (h *Hosts) farError(tool, name string, err error) error {
	var (
		done     *FleetError
		rpc      *RemoteError
		argument *ArgumentError
		answered *link.RemoteError
		invalid  *host.InvalidError
		unknown  *host.UnknownError
		denied   *host.PolicyError
		versions *frame.IncompatibleError
		broken   *link.BrokenError
		connect  *link.ConnectError
		deadline *link.DeadlineError
		failed   *frame.Failure
		stopped  *transfer.BrokenError
	)
	says := line(err.Error())
	switch {
	case errors.As(err, &done), errors.As(err, &rpc), errors.As(err, &argument):
		return err
	case errors.As(err, &answered):
		return h.answeredError(tool, name, answered)
	case errors.As(err, &invalid):
		return &ArgumentError{Tool: tool, Argument: hostArgument, Message: "is refused: " + invalid.Error()}
	case errors.As(err, &unknown):
		return &FleetError{"unknown_host", says, "list_hosts shows the hosts; a person adds one with: topside hosts add NAME"}
	case errors.As(err, &denied):
		return &FleetError{"denied", says, "list_hosts shows what a host permits; a person changes that in the registry or the policy"}
	case errors.As(err, &versions):
		return &FleetError{"incompatible", fmt.Sprintf("host %s: %s", name, says), "upgrade the older side: topside hosts install " + name}
	case errors.As(err, &stopped):
		return &FleetError{"broken", says, "call again with the same arguments"}
	case errors.As(err, &failed):
		return h.fileError(name, failed, transfer.IsLocal(err))
	case errors.As(err, &broken):
		return &FleetError{"broken", says, brokenHint(tool, name, broken)}
	case errors.As(err, &connect):
		return &FleetError{"unreachable", says, connectHint(name, connect)}
	case errors.Is(err, fleet.ErrLocal):
		return &ArgumentError{Tool: tool, Argument: hostArgument, Message: "names this machine; it must be another one"}
	case errors.As(err, &deadline) && deadline.Ticket != 0:
		return &FleetError{"timeout", says, collectHint(tool, name, deadline.Kept)}
	case errors.Is(err, context.DeadlineExceeded):
		return &FleetError{"timeout", says, "list_hosts check=true tells whether the host answers; other hosts are not affected"}
	case errors.Is(err, context.Canceled):
		return err
	}
	return &FleetError{"host_failed", fmt.Sprintf("host %s: %s", name, says), "list_hosts check=true tells whether the host answers"}
}

// answeredError is a host's own refusal. One that knows less than this side is older.
func (h *Hosts) answeredError(tool, name string, e *link.RemoteError) error {
	message := line(e.Message)
	older := ""
	switch {
	case strings.HasPrefix(message, "unknown tool"):
		older = "it does not have the tool " + tool
	case strings.Contains(message, "unknown argument"):
		older = message
	}
	if older != "" {
		far := h.versionOf(name)
		return &FleetError{"incompatible",
			fmt.Sprintf("host %s has topside %s, and this side %s: %s", name, orSome(far), h.version, older), "upgrade it there: topside hosts install " + name}
	}
	return &RemoteError{Host: name, Code: e.Code, Message: message, Data: e.Data}
}

func orSome(version string) string {
	if version == "" {
		return "of an unknown version"
	}
	return version
}

// versionOf is that of topside on a host, as far as it is known.
func (h *Hosts) versionOf(name string) string {
	if l := h.fleet.Started(name); l != nil {
		if far := l.State().Far.Version; far != "" {
			return far
		}
	}
	e, err := h.fleet.Entry(name)
	if err != nil {
		return ""
	}
	return e.Version
}

func brokenHint(tool, name string, e *link.BrokenError) string {
	if e.Ticket != 0 {
		return collectHint(tool, name, e.Kept)
	}
	if e.Work == link.Ended || e.Work == link.Lost {
		return "the host restores its sessions from their logs at the next call"
	}
	return "call again; it connects by itself"
}

func collectHint(tool, name string, kept time.Duration) string {
	hint := fmt.Sprintf("the same call again collects this reply (for %v)", kept.Round(time.Second))
	if tool == "eval" || tool == "eval_batch" {
		hint += fmt.Sprintf("; or poll with host %s", name)
	}
	return hint
}

func connectHint(name string, e *link.ConnectError) string {
	var said *ssh.Error
	if errors.As(e, &said) && (said.Cause == ssh.CommandNotFound || said.Cause == ssh.TooOld) {
		return "a person installs it with: topside hosts install " + name
	}
	if e.RetryIn >= time.Second {
		return "other hosts are not affected; list_hosts check=true tries again at once"
	}
	return "call again; other hosts are not affected"
}

// fileError is the refusal of a transfer, by either side.
func (h *Hosts) fileError(name string, f *frame.Failure, local bool) error {
	says := line(f.Text)
	switch f.Kind {
	case "incompatible":
		return &FleetError{"incompatible", fmt.Sprintf("host %s: %s", name, says), "upgrade the older side: topside hosts install " + name}
	case "unknown":
		return &FleetError{"incompatible", says, "upgrade it there: topside hosts install " + name}
	case transfer.Exists:
		return &FleetError{"exists", says, "overwrite=true replaces it"}
	case transfer.Missing, transfer.NotFile, transfer.NotFolder, transfer.Invalid, transfer.Outside:
		if local {
			return &FleetError{strings.ReplaceAll(f.Kind, "-", "_"), says, "local_path belongs to this machine: absolute, or with ~ for the home here"}
		}
		return &FleetError{strings.ReplaceAll(f.Kind, "-", "_"), says, "remote paths belong to the host: absolute, or with ~ for the home there"}
	case transfer.Full:
		return &FleetError{"full", says, "make room; what was there is as it was"}
	case transfer.Changed:
		return &FleetError{"changed", says, "call again: it is compared by hash and begins anew"}
	}
	return &FleetError{strings.ReplaceAll(f.Kind, "-", "_"), says, ""}
}

// fleetStatus is what became of one of many hosts.
func fleetStatus(err error) route.Status {
	var known *FleetError
	if errors.As(err, &known) {
		switch known.Code {
		case "unknown_host", "denied", "broken", "unreachable", "timeout", "incompatible":
			return route.Status(known.Code)
		}
		return route.Failed
	}
	return route.StatusOf(err)
}
