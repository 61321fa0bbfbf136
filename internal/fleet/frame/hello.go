package frame

import (
	"encoding/json"
	"fmt"
	"slices"
)

// The handshake between a link and a daemon. Both may be of different versions:
// they speak the highest protocol that both know, with the capabilities that both
// have, or say which side to upgrade.

// The range of protocols that this program speaks.
const (
	MinProtocol = 1
	MaxProtocol = 1
)

// Capabilities beyond plain calls.
const (
	CanResume = "resume" // replies are kept for a front end that reconnects
	CanFiles  = "files"  // file transfer on streams of data
	CanEnd    = "end"    // the daemon ends when told to
)

// Capabilities of this program.
func Capabilities() []string { return []string{CanResume, CanFiles, CanEnd} }

// Control operations of the handshake and of the life of a connection. Those of
// file transfer are package transfer's.
const (
	OpHello = "hello" // Hello → Welcome, the first message of a link
	OpPing  = "ping"  // nothing → nothing
	OpBye   = "bye"   // note: the front end ends, its calls are to be cancelled
	OpEnd   = "end"   // nothing → nothing: end the daemon and its sessions
	OpGot   = "got"   // note, Calls: these large replies have arrived
	OpDrop  = "drop"  // note, Calls: nobody waits for these any more
	OpAck   = "ack"   // note of the daemon, Calls: these calls have begun
)

// Hello is what a link says first.
type Hello struct {
	MinProtocol  int      `json:"min_protocol"`
	MaxProtocol  int      `json:"max_protocol"`
	Version      string   `json:"version"`
	Capabilities []string `json:"capabilities"`
	Front        string   `json:"front"`              // names the front end across its connections
	Surface      string   `json:"surface"`            // which tool server it wants
	Awaiting     []uint64 `json:"awaiting,omitempty"` // calls of earlier connections without a reply
	PingMillis   int64    `json:"ping_ms"`            // how often it will ping
}

// Welcome is the daemon's answer.
type Welcome struct {
	Protocol     int      `json:"protocol"`
	Version      string   `json:"version"`
	Capabilities []string `json:"capabilities"`
	OS           string   `json:"os"`
	Arch         string   `json:"arch"`
	Hostname     string   `json:"hostname"`
	PID          int      `json:"pid"`
	Instance     string   `json:"instance"` // of this run of the daemon
	Socket       string   `json:"socket"`
	Resumed      bool     `json:"resumed"`           // the front end's earlier session goes on
	Running      []uint64 `json:"running,omitempty"` // of Awaiting: still running
	Replied      []uint64 `json:"replied,omitempty"` // of Awaiting: the replies follow
	Lost         []uint64 `json:"lost,omitempty"`    // of Awaiting: unknown here
	KeepSeconds  int      `json:"keep_s"`            // how long a session without a connection is kept
	Sessions     int      `json:"sessions"`          // live sessions of the tool servers
}

// Calls are the ids of calls in a note.
type Calls struct {
	IDs []uint64 `json:"ids"`
}

// IncompatibleError says that two versions have no protocol in common.
type IncompatibleError struct {
	Near, Far   string // versions
	UpgradeNear bool   // this side is the older one
}

func (e *IncompatibleError) Error() string {
	where := "the far side"
	if e.UpgradeNear {
		where = "this side"
	}
	return fmt.Sprintf("topside %s here and %s there have no protocol in common; upgrade %s", e.Near, e.Far, where)
}

// Agree returns the protocol and the capabilities that this program and the far one
// share, or an *IncompatibleError.
func Agree(version string, h Hello) (protocol int, capabilities []string, err error) {
	protocol = min(MaxProtocol, h.MaxProtocol)
	if protocol < max(MinProtocol, h.MinProtocol) {
		return 0, nil, &IncompatibleError{Near: version, Far: h.Version, UpgradeNear: h.MinProtocol > MaxProtocol}
	}
	for _, c := range Capabilities() {
		if slices.Contains(h.Capabilities, c) {
			capabilities = append(capabilities, c)
		}
	}
	return protocol, capabilities, nil
}

// Request makes the note of an operation; args may be nil.
func Request(id uint64, op string, args any) (Note, error) {
	n := Note{ID: id, Op: op}
	var err error
	if args != nil {
		n.Args, err = json.Marshal(args)
	}
	return n, err
}

// Answer makes the answer to an operation: ok, or err where that is not nil. A
// *Failure keeps its kind.
func Answer(id uint64, ok any, err error) Note {
	n := Note{ID: id}
	if err == nil && ok != nil {
		n.OK, err = json.Marshal(ok)
	}
	if err != nil {
		n.OK, n.Failed = nil, AsFailure(err)
	}
	return n
}

// Pong answers a ping.
type Pong struct {
	Sessions *int `json:"sessions,omitempty"` // as in Welcome, now; nil from a daemon that does not tell
}
