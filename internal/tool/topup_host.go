package tool

// This file holds the tools of other hosts (contract topup, section 7.2). Package
// fleet reaches them: over ssh to the daemon of a topside or to an original topup, or
// through the socket that a variable names.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"topside/internal/fleet"
	"topside/internal/fleet/backchannel"
	"topside/internal/fleet/host"
	"topside/internal/fleet/link"
	"topside/internal/fleet/transfer"
)

// The far side of the contract: always topup, from topup-opt too, at the place where
// the original has its socket.
const (
	hostSurface = "topup"
	hostSocket  = "~/.topup/sockets/topup.sock"
	// overrideWait is how long somebody may take to listen on a socket that a
	// variable names.
	overrideWait = time.Second
)

// topupHosts are the hosts of a server.
type topupHosts struct {
	fleet    *fleet.Fleet
	registry *host.Registry
	warn     func(error)

	unwritten sync.Once      // the registry: said once
	work      sync.WaitGroup // cancellations that connect first
}

func newTopupHosts(o TopupOptions) (*topupHosts, error) {
	h := &topupHosts{warn: o.Warn}
	var err error
	if h.registry, err = host.Open(o.HostsPath, host.Topup); err != nil {
		return nil, fmt.Errorf("the registry of hosts cannot be read: %w", err)
	}
	if note := h.registry.Note(); note != "" && h.warn != nil {
		h.warn(errors.New(note))
	}
	h.fleet, err = fleet.New(fleet.Options{
		Version: o.Version, Surface: hostSurface, Registry: h.registry, DefaultSocket: hostSocket, Overrides: true,
		Opened: enableBackChannel, Requests: answerHost,
		Link: link.Options{MaxMessage: int(min(TopupBytes("TOPUP_MAX_MESSAGE_BYTES", 0), 1<<30))},
	})
	return h, err
}

// enableBackChannel tells a new session over there that its requests are answered
// here. One that goes on knows.
func enableBackChannel(ctx context.Context, _ string, call link.Caller, fresh bool) error {
	if !fresh {
		return nil
	}
	return backchannel.Enable(ctx, transfer.Caller(call))
}

// answerHost serves what a session of a host asks of this machine's files. The
// variables are read anew each time.
func answerHost(ctx context.Context, _, method string, params json.RawMessage) (json.RawMessage, error) {
	return backchannel.Options{Root: backChannelRoot(), Max: TopupMaxTransfer()}.Serve(ctx, method, params)
}

// backChannelRoot is the folder that hosts are confined to.
func backChannelRoot() string {
	root, home := os.Getenv("TOPUP_BACKCHANNEL_ROOT"), os.Getenv("HOME")
	switch {
	case root == "off":
		return backchannel.Unconfined
	case root == "~" || strings.HasPrefix(root, "~/"):
		return root
	case root != "":
		if absolute, err := filepath.Abs(root); err == nil {
			return absolute
		}
		return root
	case home == "":
		return "/tmp/topup-back"
	}
	return filepath.Join(home, ".topup", "back")
}

func (h *topupHosts) close() error {
	err := h.fleet.Close()
	h.work.Wait()
	return err
}

// peer returns a host that has been started here.
func (h *topupHosts) peer(name string) (*topupPeer, error) {
	l := h.fleet.Started(name)
	if l == nil {
		return nil, topupUsage("host not registered: %s (call start_session { host: %s } first)", name, name)
	}
	return &topupPeer{l, hostWords(name)}, nil
}

// call sends a call to a started host.
func (h *topupHosts) call(ctx context.Context, name, tool string, arguments json.RawMessage) (Result, error) {
	peer, err := h.peer(name)
	if err != nil {
		return Result{}, err
	}
	result, err := peer.call(ctx, tool, arguments)
	if err == nil {
		h.registry.Seen(name, time.Now())
	}
	return result, err
}

// connected tells whether there is a connection to a host now.
func (h *topupHosts) connected(name string) bool {
	l := h.fleet.Started(name)
	return l != nil && l.State().Phase == link.Connected
}

// cancel stops what runs in a host's session. Where the connection broke it is made
// again: the work may go on there.
func (h *topupHosts) cancel(ctx context.Context, name string) error {
	peer, err := h.peer(name)
	if err != nil {
		return err
	}
	if err := peer.link.Connect(ctx); err != nil {
		return peer.failure(err)
	}
	peer.cancel(ctx)
	return nil
}

// cancelSoon does the same without waiting for a connection.
func (h *topupHosts) cancelSoon(name string) {
	peer, err := h.peer(name)
	switch {
	case err != nil: // unknown: nothing runs there
	case peer.alive():
		peer.cancel(context.Background())
	default:
		// The end of the link ends it.
		h.work.Go(func() { _ = h.cancel(context.Background(), name) })
	}
}

// hostStarted is the reply of a start.
type hostStarted struct {
	OK     bool   `json:"ok"`
	Host   string `json:"host"`
	Socket string `json:"remote_socket"`
}

// start connects a host and registers it. A live one is left as it is.
func (h *topupHosts) start(ctx context.Context, name string, given *string) (hostStarted, error) {
	if err := host.CheckName(name); err != nil {
		return hostStarted{}, &ConnectFailure{Host: name, Message: err.Error()}
	}
	socket := ""
	if given != nil && !h.connected(name) {
		socket = *given
		if err := host.CheckSocket(socket); err != nil {
			return hostStarted{}, &ConnectFailure{Host: name, Message: err.Error()}
		}
	}
	var at string
	connect := func() error {
		var err error
		at, err = h.fleet.Start(ctx, name, socket)
		return err
	}
	override := os.Getenv(host.OverrideVariable(name))
	if override == "" {
		return h.started(name, &at, connect())
	}
	if _, known := h.registry.Get(name); socket == "" && !known {
		socket = ownSocket() // what is behind an override runs on this machine
	}
	return h.started(name, &at, untilListened(ctx, override, overrideWait, connect))
}

// ownSocket is the default socket of a daemon of this machine's user.
func ownSocket() string {
	if home := os.Getenv("HOME"); home != "" {
		return filepath.Join(home, strings.TrimPrefix(hostSocket, "~/"))
	}
	return "/tmp/topup-default.sock"
}

// started is the reply of a start or restart that gave err.
func (h *topupHosts) started(name string, socket *string, err error) (hostStarted, error) {
	var unwritten *host.UnwrittenError
	var unknown *host.UnknownError
	switch {
	case errors.As(err, &unwritten):
		if h.warn != nil {
			h.unwritten.Do(func() { h.warn(unwritten) })
		}
	case errors.As(err, &unknown):
		return hostStarted{}, &ConnectFailure{Host: name, Message: "host not registered: " + name}
	case err != nil:
		return hostStarted{}, &ConnectFailure{Host: name, Message: fmt.Sprintf("remote %s: %s", name, startReason(err))}
	}
	return hostStarted{true, name, *socket}, nil
}

// startReason says why a host could not be reached.
func startReason(err error) string {
	err = reason(err)
	text := err.Error()
	const timedOut = "timed out waiting for daemon"
	if errors.Is(err, context.DeadlineExceeded) && !strings.Contains(text, timedOut) {
		text = strings.Replace(text, context.DeadlineExceeded.Error(), "no answer", 1)
		return fmt.Sprintf("%s (last: %s)", timedOut, text)
	}
	return text
}

// restart ends the session of a host and its connection, and makes new ones.
func (h *topupHosts) restart(ctx context.Context, name string) (hostStarted, error) {
	var at string
	connect := func() error {
		var err error
		at, err = h.fleet.Restart(ctx, name, true)
		return err
	}
	if override := os.Getenv(host.OverrideVariable(name)); override != "" {
		return h.started(name, &at, untilListened(ctx, override, overrideWait, connect))
	}
	return h.started(name, &at, connect())
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
	started, err := c.hosts.restart(ctx, name)
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
	err = c.hosts.registry.Update(name, false, func(e *host.Entry) {
		if s, given := a.text("description"); given {
			e.Description = s
		}
		if s, given := a.text("os"); given {
			e.OS = s
		}
	})
	if _, err := c.hosts.started(name, new(string), err); err != nil {
		return Result{}, err
	}
	return ok, nil
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
		target := TopupTarget{Name: e.Name, Connected: t.hosts.connected(e.Name), LastSeen: e.LastSeen}
		for _, tag := range []string{e.Description, e.OS} {
			if tag != "" {
				target.Tags = append(target.Tags, tag)
			}
		}
		hosts = append(hosts, target)
	}
	for _, l := range t.o.Pool.List() {
		peer := t.peers.get(l.Name)
		target := TopupTarget{Name: l.Name, Connected: l.Live || peer != nil && peer.alive(), LastSeen: l.LastSeen}
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
