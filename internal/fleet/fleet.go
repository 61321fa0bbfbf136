// Package fleet drives other machines over the user's own SSH: it knows the hosts,
// holds a connection to each that is used, routes JSON-RPC calls to them without
// knowing what the calls mean, moves files, and lets sessions over there reach this
// machine's files within bounds.
//
// It is a front end's side ([Fleet]) and a remote host's side ([RelayMain],
// [DaemonMain]). The surfaces above give it what it does not know: which tool server
// is wanted, and, over there, the tool servers themselves. Packages, from the bottom:
//
//	frame        messages out of bytes, the handshake of link and daemon
//	host         names, registries, selections, the OpenSSH configuration
//	ssh          the system's ssh, its failures, the two ways to a host
//	transfer     files and folders; the blob tools of the topup contract
//	backchannel  what a remote session may read and write here
//	daemon       the far side: relay and daemon
//	link         one host as a front end sees it
//	route        calls to one host or many, and their results together
//	install      topside onto another machine
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"topside/internal/fleet/daemon"
	"topside/internal/fleet/host"
	"topside/internal/fleet/install"
	"topside/internal/fleet/link"
	"topside/internal/fleet/route"
	"topside/internal/fleet/ssh"
	"topside/internal/fleet/transfer"
)

// RelayMain is the hidden command daemon.RelayCommand ("fleet-relay").
func RelayMain(args []string, stdin, stdout *os.File, stderr io.Writer) int {
	return daemon.RelayMain(args, stdin, stdout, stderr)
}

// DaemonMain is the hidden command daemon.DaemonCommand ("fleet-daemon").
func DaemonMain(args []string, c daemon.Config, stderr io.Writer) int {
	return daemon.DaemonMain(args, c, stderr)
}

// Options of a fleet.
type Options struct {
	// Version of this program.
	Version string
	// Surface names the tool server that is wanted on hosts.
	Surface string
	// Registry holds the hosts; nil is an empty one in memory.
	Registry *host.Registry
	// SSHConfig is an OpenSSH configuration whose hosts count as known; "" takes none.
	SSHConfig string
	// Allow are patterns (path.Match) of hosts that may be used without being known.
	Allow []string
	// SSH is the ssh to run.
	SSH ssh.Client
	// Program is topside on hosts: "topside" if empty.
	Program string
	// DefaultSocket is the daemon's socket on hosts whose entry has none: absolute, or
	// beginning with "~/"; "" is the daemon's own default.
	DefaultSocket string
	// RelayOnly takes no original topup for a host's tool server.
	RelayOnly bool
	// Overrides looks for sockets to be used instead of ssh in the environment
	// (topup contract, TOPUP_HOST_SOCKET_NAME).
	Overrides bool
	// Opened is called on each new connection to a host before any call; see
	// link.Options.
	Opened func(ctx context.Context, host string, call link.Caller, fresh bool) error
	// Requests serves what hosts ask of this side; backchannel.Options.Serve fits. nil
	// refuses everything.
	Requests func(ctx context.Context, host, method string, params json.RawMessage) (json.RawMessage, error)
	// Notifications sees what hosts tell. It must not block.
	Notifications func(host, method string, params json.RawMessage)
	// State is a folder of this machine for what transfers leave behind.
	State string
	// Link sets the waits and bounds of links; its other members are set here.
	Link link.Options
}

// Fleet is the hosts as one front end sees them.
type Fleet struct {
	o        Options
	registry *host.Registry
	gate     *gate

	mu     sync.Mutex
	links  map[string]*member
	closed bool

	configMu   sync.Mutex
	configRead time.Time
	configured []host.Entry // by the OpenSSH configuration when it was read
}

// member is a host that has been used.
type member struct {
	link   *link.Link
	socket string // asked for

	seen time.Time // the host's LastSeen when the registry was last looked at
}

// New makes a fleet. It connects to nothing.
func New(o Options) (*Fleet, error) {
	f := &Fleet{o: o, registry: o.Registry, gate: newGate(), links: map[string]*member{}}
	if f.registry == nil {
		var err error
		if f.registry, err = host.Open("", host.Topside); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Registry is where the hosts are kept.
func (f *Fleet) Registry() *host.Registry { return f.registry }

// Known lists the hosts of the registry, and those of the OpenSSH configuration
// that are not in it, sorted by name. Where the registry cannot be understood it is not
// known what may be done there, and there are none.
func (f *Fleet) Known() []host.Entry {
	known := f.registry.List()
	if f.o.SSHConfig != "" && !f.registry.Blind() {
		for _, e := range f.fromSSHConfig() {
			if !slices.ContainsFunc(known, func(k host.Entry) bool { return k.Name == e.Name }) {
				known = append(known, e)
			}
		}
		slices.SortFunc(known, func(a, b host.Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	return known
}

// allows reports whether a host may be used without being known.
func (f *Fleet) allows(name string) bool {
	return !f.registry.Blind() && slices.ContainsFunc(f.o.Allow, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// Allowed are the patterns of hosts that may be used without being known.
func (f *Fleet) Allowed() []string { return f.o.Allow }

// Any reports whether a host is known, or any is allowed.
func (f *Fleet) Any() bool {
	return f.registry.Len() > 0 || !f.registry.Blind() && (len(f.o.Allow) > 0 || f.o.SSHConfig != "" && len(f.fromSSHConfig()) > 0)
}

// configFor is how long what the OpenSSH configuration says is taken for true: it is
// several files, and asked for at every call.
const configFor = 2 * time.Second

func (f *Fleet) fromSSHConfig() []host.Entry {
	f.configMu.Lock()
	defer f.configMu.Unlock()
	if f.configRead.IsZero() || time.Since(f.configRead) > configFor {
		home, _ := os.UserHomeDir() // "" leaves "~" in Include lines unknown
		f.configured, f.configRead = host.FromSSHConfig(f.o.SSHConfig, home), time.Now()
	}
	return f.configured
}

// Refresh reads what other programs wrote into the registry since it was read. The
// connections of hosts that are not known any more end. A host that another program has
// reached since, or installed topside on, is not waited for any longer.
func (f *Fleet) Refresh() error {
	err := f.registry.Refresh()
	f.mu.Lock()
	var used []string
	for name := range f.links {
		used = append(used, name)
	}
	f.mu.Unlock()
	for _, name := range used {
		e, unknown := f.Entry(name)
		if unknown != nil {
			f.Stop(name)
			continue
		}
		f.reached(name, e.LastSeen)
	}
	return err
}

// reached ends the pause of a link after failures if its host was reached by another
// program since the last look.
func (f *Fleet) reached(name string, seen time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.links[name]; m != nil && seen.After(m.seen) {
		m.seen = seen
		m.link.Retry()
	}
}

// Entry returns the entry of a host that is known or allowed; others give a
// *host.UnknownError or a *host.InvalidError.
func (f *Fleet) Entry(name string) (host.Entry, error) {
	if err := host.CheckName(name); err != nil {
		return host.Entry{}, err
	}
	if e, ok := f.registry.Get(name); ok {
		return e, nil
	}
	known := f.Known()
	for _, e := range known {
		if e.Name == name {
			return e, nil
		}
	}
	if f.allows(name) {
		return host.Entry{Name: name, Source: host.AllowedSource}, nil
	}
	names := make([]string, len(known))
	for i, e := range known {
		names[i] = e.Name
	}
	return host.Entry{}, &host.UnknownError{Name: name, Known: names}
}

// Select returns the hosts that a selection stands for; see host.Select.
func (f *Fleet) Select(selection []string) ([]string, error) {
	known := f.Known()
	for _, name := range selection {
		if !slices.ContainsFunc(known, func(e host.Entry) bool { return e.Name == name }) && host.CheckName(name) == nil && f.allows(name) {
			known = append(known, host.Entry{Name: name, Source: host.AllowedSource})
		}
	}
	return host.Select(selection, known)
}

// Permit tells whether a host's entry lets a tool be called.
func (f *Fleet) Permit(name, tool string, readOnly bool) error {
	if host.IsLocal(name) {
		return nil
	}
	e, err := f.Entry(name)
	if err != nil {
		return err
	}
	return e.Permit(tool, readOnly)
}

// ErrLocal is a remote operation on this machine.
var ErrLocal = errors.New("this machine is not a remote host")

var errClosed = errors.New("the fleet is closed")

// Link returns the link of a known host, which is made, not connected, if there is
// none.
func (f *Fleet) Link(name string) (*link.Link, error) {
	if host.IsLocal(name) {
		return nil, ErrLocal
	}
	if l := f.Started(name); l != nil {
		return l, nil
	}
	e, err := f.Entry(name)
	if err != nil {
		return nil, err
	}
	l, _, err := f.linkFor(name, e.RemoteSocket)
	return l, err
}

// Started returns the link of a host that has been used, nil for others.
func (f *Fleet) Started(name string) *link.Link {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.links[name]; m != nil {
		return m.link
	}
	return nil
}

// linkFor returns the link of a name, which is made for socket if there is none.
func (f *Fleet) linkFor(name, socket string) (l *link.Link, made bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false, errClosed
	}
	if m := f.links[name]; m != nil {
		return m.link, false, nil
	}
	d := ssh.Dialer{Client: f.o.SSH, Host: name, Program: f.o.Program, Socket: socket, RelayOnly: f.o.RelayOnly}
	if d.Socket == "" {
		d.Socket = f.o.DefaultSocket
	}
	if f.o.Overrides {
		d.Override = os.Getenv(host.OverrideVariable(name))
	}
	o := f.o.Link
	o.Host, o.Dial, o.Admit, o.Surface, o.Version = name, d.Dial, f.gate.enter, f.o.Surface, f.o.Version
	if f.o.Opened != nil {
		o.Opened = func(ctx context.Context, call link.Caller, fresh bool) error {
			return f.o.Opened(ctx, name, call, fresh)
		}
	}
	if f.o.Requests != nil {
		o.Requests = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			return f.o.Requests(ctx, name, method, params)
		}
	}
	if f.o.Notifications != nil {
		o.Notifications = func(method string, params json.RawMessage) { f.o.Notifications(name, method, params) }
	}
	m := &member{link: link.New(o), socket: socket}
	if e, ok := f.registry.Get(name); ok {
		m.seen = e.LastSeen
	}
	f.links[name] = m
	return m.link, true, nil
}

// Start connects to a host, known or not, and registers it: start_session of the
// topup contract. It returns the path of the socket over there. A host that is
// connected stays as it is, whatever socket is given; a failed start registers
// nothing. socket is absolute or "" for that of the entry, or the default.
func (f *Fleet) Start(ctx context.Context, name, socket string) (string, error) {
	if host.IsLocal(name) {
		return "", ErrLocal
	}
	if err := host.CheckName(name); err != nil {
		return "", err
	}
	if socket != "" {
		if err := host.CheckSocket(socket); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	old := f.links[name]
	stale := old != nil && socket != "" && old.socket != socket && old.link.State().Phase != link.Connected
	if stale {
		delete(f.links, name)
	}
	f.mu.Unlock()
	if stale {
		old.link.Close()
	}
	if e, ok := f.registry.Get(name); ok && socket == "" {
		socket = e.RemoteSocket
	}
	l, made, err := f.linkFor(name, socket)
	if err != nil {
		return "", err
	}
	if err := l.Connect(ctx); err != nil {
		if made {
			f.remove(name, l)
		}
		return "", err
	}
	return f.register(name, l)
}

// remove forgets a link that never worked.
func (f *Fleet) remove(name string, l *link.Link) {
	f.mu.Lock()
	if m := f.links[name]; m != nil && m.link == l {
		delete(f.links, name)
	}
	f.mu.Unlock()
	l.Close()
}

// register notes in the registry what a connection told.
func (f *Fleet) register(name string, l *link.Link) (string, error) {
	st := l.State()
	err := f.registry.Update(name, true, func(e *host.Entry) {
		if host.CheckSocket(st.Socket) == nil {
			e.RemoteSocket = st.Socket
		}
		if st.Framed {
			e.Version = st.Far.Version
			if e.OS == "" {
				e.OS = st.Far.OS
			}
		}
		e.LastSeen = time.Now()
	})
	return st.Socket, err
}

// Restart ends the connection of a host and makes another. endDaemon ends the daemon
// over there too, and with it its sessions, those of an earlier connection included. A
// host that was never used and is not registered gives a *host.UnknownError.
func (f *Fleet) Restart(ctx context.Context, name string, endDaemon bool) (string, error) {
	if host.IsLocal(name) {
		return "", ErrLocal
	}
	l := f.Started(name)
	if l == nil {
		if _, ok := f.registry.Get(name); !ok {
			return "", &host.UnknownError{Name: name}
		}
		socket, err := f.Start(ctx, name, "")
		if l = f.Started(name); l == nil || !endDaemon || !l.State().Framed {
			return socket, err
		}
	} else if endDaemon && l.State().Phase != link.Connected {
		// The daemon may be there, with what has to end.
		if err := l.Connect(ctx); err != nil {
			return "", err
		}
		if !l.State().Framed {
			return f.register(name, l)
		}
	}
	l.Drop(ctx, endDaemon)
	if err := l.Connect(ctx); err != nil {
		return "", err
	}
	return f.register(name, l)
}

// Stop ends the connection of a host and forgets its link, not its entry.
func (f *Fleet) Stop(name string) {
	if l := f.Started(name); l != nil {
		f.remove(name, l)
	}
}

// Call makes a JSON-RPC call on a known host. It connects if need be.
func (f *Fleet) Call(ctx context.Context, name, method string, params json.RawMessage) (json.RawMessage, error) {
	l, err := f.Link(name)
	if err != nil {
		return nil, err
	}
	result, err := l.Call(ctx, method, params)
	var answered *link.RemoteError
	if err == nil || errors.As(err, &answered) {
		f.registry.Seen(name, time.Now())
	}
	return result, err
}

// Notify sends a notification to a host that is connected; elsewhere it does nothing
// but say so.
func (f *Fleet) Notify(ctx context.Context, name, method string, params json.RawMessage) error {
	l := f.Started(name)
	if l == nil {
		return &host.UnknownError{Name: name}
	}
	return l.Notify(ctx, method, params)
}

// Tool calls a tool on a known host, if the host's entry permits it; readOnly is the
// tool's annotation.
func (f *Fleet) Tool(ctx context.Context, name, tool string, readOnly bool, arguments json.RawMessage) (json.RawMessage, error) {
	if err := f.Permit(name, tool, readOnly); err != nil {
		return nil, err
	}
	params, err := route.ToolParams(tool, arguments)
	if err != nil {
		return nil, err
	}
	return f.Call(ctx, name, "tools/call", params)
}

// Everywhere calls a tool on many hosts at a time, with a deadline for each, and
// returns an outcome for each. local serves "local"; without it that is an error.
func (f *Fleet) Everywhere(ctx context.Context, hosts []string, deadline time.Duration, tool string, readOnly bool, arguments json.RawMessage,
	local func(ctx context.Context) (json.RawMessage, error),
) []route.Outcome {
	return route.Each(ctx, hosts, deadline, func(ctx context.Context, name string) (json.RawMessage, error) {
		if !host.IsLocal(name) {
			return f.Tool(ctx, name, tool, readOnly, arguments)
		}
		if local == nil {
			return nil, ErrLocal
		}
		return local(ctx)
	})
}

// Status is a host as list_hosts shows it.
type Status struct {
	host.Entry
	Link     link.State
	Sessions int // of the tool servers over there when it last connected; -1 if unknown
}

// Hosts lists the known hosts with the state of their connections. It asks none of
// them.
func (f *Fleet) Hosts() []Status {
	var out []Status
	for _, e := range f.Known() {
		s := Status{Entry: e, Link: link.State{Phase: link.Disconnected}, Sessions: -1}
		if l := f.Started(e.Name); l != nil {
			s.Link = l.State()
			if s.Link.Framed {
				s.Sessions = s.Link.Far.Sessions
			}
		}
		out = append(out, s)
	}
	return out
}

// Push copies a file or a folder of this machine to a known host; see transfer.Push.
func (f *Fleet) Push(ctx context.Context, name, local, remote string, o transfer.Options) (transfer.Result, error) {
	l, err := f.Link(name)
	if err != nil {
		return transfer.Result{}, err
	}
	o.State = f.o.State
	return transfer.Push(ctx, l, local, remote, o)
}

// Pull copies a file or a folder of a known host to this machine; see transfer.Pull.
// An empty local is dir with the name of remote.
func (f *Fleet) Pull(ctx context.Context, name, remote, local, dir string, o transfer.Options) (transfer.Result, error) {
	l, err := f.Link(name)
	if err != nil {
		return transfer.Result{}, err
	}
	o.State = f.o.State
	if f.o.State != "" {
		transfer.Sweep(f.o.State, keepPartial)
	}
	return transfer.Pull(ctx, l, remote, local, dir, o)
}

// keepPartial is how long a pull that broke may be resumed.
const keepPartial = 24 * time.Hour

// PlanInstall looks at a host, known or not, and says what an installation of topside
// would do there.
func (f *Fleet) PlanInstall(ctx context.Context, name string, binary install.Binary) (install.Plan, error) {
	if host.IsLocal(name) {
		return install.Plan{}, ErrLocal
	}
	if err := host.CheckName(name); err != nil {
		return install.Plan{}, err
	}
	return install.Prepare(ctx, f.o.SSH, name, binary)
}

// Install does what a plan says.
func (f *Fleet) Install(ctx context.Context, p install.Plan) error {
	if err := install.Install(ctx, f.o.SSH, p); err != nil {
		return fmt.Errorf("install topside: %w", err)
	}
	return nil
}

// Close ends every connection and what belongs to it, and writes when hosts were
// last seen.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	links := f.links
	f.links = map[string]*member{}
	f.mu.Unlock()
	var group sync.WaitGroup
	told := map[string]host.Learned{}
	for name, m := range links {
		if st := m.link.State(); st.Framed {
			told[name] = host.Learned{Version: st.Far.Version, OS: st.Far.OS}
		}
		group.Go(m.link.Close)
	}
	group.Wait()
	if len(links) == 0 {
		return nil
	}
	return f.registry.Learn(told)
}
