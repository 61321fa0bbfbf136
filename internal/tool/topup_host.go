package tool

// This file holds the tools of other hosts (contract topup, sections 5.11 and
// 7.2). How a host is reached is not its business: a [HostDialer] opens the stream
// to the daemon there. A host whose socket a variable names needs none.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"topside/internal/compute/engine"
	"topside/internal/fleet/host"
)

// A HostDialer opens a stream to the topup daemon on another host.
type HostDialer interface {
	// Dial starts the daemon there if needed. remoteSocket is its socket's path, ""
	// for the default one of the remote user. The caller closes the stream, which
	// ends what Dial started.
	Dial(ctx context.Context, name, remoteSocket string) (net.Conn, error)
}

// errNoDialer is the answer of a server without a [HostDialer].
var errNoDialer = errors.New("other hosts are not reached over ssh in this version; set the variable TOPUP_HOST_SOCKET_<NAME> to the socket of a daemon (topup --socket)")

// topupHosts are the hosts of a server.
type topupHosts struct {
	registry *host.Registry
	dialer   HostDialer
	back     engine.Back
	peers    peers
}

func newTopupHosts(path string, dialer HostDialer, back engine.Back) (*topupHosts, error) {
	registry, err := host.Open(path, host.Topup)
	if err != nil {
		return nil, fmt.Errorf("the registry of hosts cannot be read: %w", err)
	}
	return &topupHosts{registry: registry, dialer: dialer, back: back}, nil
}

func (h *topupHosts) close() error {
	h.peers.close()
	return nil
}

// call sends a call to a started host.
func (h *topupHosts) call(ctx context.Context, name, tool string, arguments json.RawMessage) (Result, error) {
	peer := h.peers.last(name)
	if peer == nil {
		return Result{}, topupUsage("host not registered: %s (call start_session { host: %s } first)", name, name)
	}
	result, err := peer.call(ctx, tool, arguments)
	if err == nil {
		h.registry.Seen(name, time.Now())
	}
	return result, err
}

func (h *topupHosts) cancel(name string) {
	if peer := h.peers.get(name); peer != nil {
		peer.cancel()
	}
}

// hostStarted is the reply of a start.
type hostStarted struct {
	OK     bool   `json:"ok"`
	Host   string `json:"host"`
	Socket string `json:"remote_socket"`
}

// remoteSocket chooses the path of a host's socket: as given, as registered, or
// the default one.
func (h *topupHosts) remoteSocket(name string, given *string) (string, error) {
	if given != nil {
		return *given, host.CheckSocket(*given)
	}
	if entry, ok := h.registry.Get(name); ok && entry.RemoteSocket != "" {
		return entry.RemoteSocket, host.CheckSocket(entry.RemoteSocket)
	}
	home := os.Getenv("HOME")
	if home == "" {
		return "/tmp/topup-default.sock", nil
	}
	return filepath.Join(home, ".topup", "sockets", "topup.sock"), nil
}

// start connects a host and registers it. A live one is left as it is.
func (h *topupHosts) start(ctx context.Context, name string, given *string) (hostStarted, error) {
	failed := func(message string) (hostStarted, error) {
		return hostStarted{}, &ConnectFailure{Host: name, Message: message}
	}
	if err := host.CheckName(name); err != nil {
		return failed(err.Error())
	}
	if h.peers.get(name) != nil {
		entry, _ := h.registry.Get(name)
		return hostStarted{true, name, entry.RemoteSocket}, nil
	}
	socket, err := h.remoteSocket(name, given)
	if err != nil {
		return failed(err.Error())
	}
	conn, err := h.dial(ctx, name, socket)
	if err != nil {
		return failed(fmt.Sprintf("remote %s: %v", name, err))
	}
	peer, err := newTopupPeer(ctx, conn, peerWords{
		prefix: "remote " + name, owner: "remote " + name, ended: "channel: closed before response",
	}, h.back)
	if err != nil {
		return failed(fmt.Sprintf("remote %s: %v", name, err))
	}
	h.peers.drop(name)
	h.peers.put(name, peer)
	err = h.registry.Update(name, true, func(e *host.Entry) { e.RemoteSocket, e.LastSeen = socket, time.Now() })
	if err != nil {
		return hostStarted{}, err
	}
	return hostStarted{true, name, socket}, nil
}

func (h *topupHosts) dial(ctx context.Context, name, socket string) (net.Conn, error) {
	if override := os.Getenv(host.OverrideVariable(name)); override != "" {
		return dialTopup(ctx, override, time.Second)
	}
	if h.dialer == nil {
		return nil, errNoDialer
	}
	return h.dialer.Dial(ctx, name, socket)
}

// StartHost connects the default host of --remote before anything is served.
func (t *Topup) StartHost(ctx context.Context, name string, remoteSocket *string) error {
	_, err := t.hosts.start(ctx, name, remoteSocket)
	return err
}

func startHostTopup(ctx context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, err := a.needed("host")
	if err != nil {
		return Result{}, err
	}
	if host.IsLocal(name) {
		return Result{}, topupUsage("host 'local' is the in-process session; start_session is for remotes")
	}
	started, err := c.hosts.start(ctx, name, a.maybe("remote_socket"))
	return Result{Structured: started}, err
}

func restartHostTopup(ctx context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, err := a.needed("host")
	if err != nil {
		return Result{}, err
	}
	if host.IsLocal(name) {
		return Result{}, topupUsage("host 'local' is the in-process session; restart_session is for remotes")
	}
	if _, known := c.hosts.registry.Get(name); !known {
		return Result{}, &ConnectFailure{Host: name, Message: "host not registered: " + name}
	}
	c.hosts.peers.drop(name)
	started, err := c.hosts.start(ctx, name, nil)
	return Result{Structured: started}, err
}

func updateHostTopup(_ context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, err := a.needed("host")
	if err != nil {
		return Result{}, err
	}
	if host.IsLocal(name) {
		return Result{}, topupUsage("host 'local' has no mutable metadata")
	}
	if _, known := c.hosts.registry.Get(name); !known {
		return Result{}, topupUsage("host not registered: %s", name)
	}
	return ok, c.hosts.registry.Update(name, false, func(e *host.Entry) {
		if s, given := a.text("description"); given {
			e.Description = s
		}
		if s, given := a.text("os"); given {
			e.OS = s
		}
	})
}

// TopupTarget is a host or a session as the instructions list it.
type TopupTarget struct {
	Name      string
	Connected bool
	Tags      []string // without brackets, in their order
	LastSeen  time.Time
}

// Targets lists what calls can be routed to, now.
func (t *Topup) Targets() (hosts, sessions []TopupTarget) {
	for _, e := range t.hosts.registry.List() {
		target := TopupTarget{Name: e.Name, Connected: t.hosts.peers.get(e.Name) != nil, LastSeen: e.LastSeen}
		for _, tag := range []string{e.Description, e.OS} {
			if tag != "" {
				target.Tags = append(target.Tags, tag)
			}
		}
		hosts = append(hosts, target)
	}
	for _, l := range t.o.Pool.List() {
		target := TopupTarget{Name: l.Name, Connected: l.Live || t.peers.get(l.Name) != nil, LastSeen: l.LastSeen}
		if l.Prewarm != "" {
			target.Tags = append(target.Tags, "prewarm: "+l.Prewarm)
		}
		if l.Pool > 1 {
			target.Tags = append(target.Tags, fmt.Sprintf("pool: %d", l.Pool))
		}
		sessions = append(sessions, target)
	}
	return hosts, sessions
}
