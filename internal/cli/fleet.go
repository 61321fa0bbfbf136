package cli

// This file holds what another machine's topside finds here: the two hidden
// commands that ssh runs. "fleet-relay" connects the ssh channel with the daemon
// of this user, which it starts where there is none; "fleet-daemon" is that daemon.
// It serves the surfaces of the house to front ends, over one observer and one
// store of sessions each, made when first asked for.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/contract"
	"topside/internal/fleet"
	"topside/internal/fleet/daemon"
	"topside/internal/see"
	"topside/internal/see/resource"
	"topside/internal/tool"
	"topside/internal/wire"
)

// fleetMain runs one of the hidden commands; ok is false for any other name.
func fleetMain(s Streams, name string, args []string) (status int, ok bool) {
	switch name {
	case daemon.RelayCommand:
		return fleet.RelayMain(args, os.Stdin, os.Stdout, s.Err), true
	case daemon.DaemonCommand:
		return daemonMain(s, args), true
	}
	return 0, false
}

// The surfaces that a daemon serves.
const (
	fleetSurface     = "topside"
	topupSurface     = "topup"
	topupFastSurface = "topup-opt"
)

func daemonMain(s Streams, args []string) int {
	h := &household{logger: newTopupLogger(s.Err), err: s.Err}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	stayLight(h.ctx)
	status := fleet.DaemonMain(args, daemon.Config{
		Version:  Version(),
		Serve:    h.serve,
		Surfaces: []string{fleetSurface, topupSurface, topupFastSurface},
		Plain:    topupSurface,
		Sessions: h.sessions,
		Logger:   h.logger,
	}, s.Err)
	h.close()
	return status
}

// A household is what the clients of a daemon share. Each part is made for the first
// client that needs it: a machine that is only asked for files watches nothing.
type household struct {
	ctx    context.Context // of the parts; ends with close
	cancel context.CancelFunc
	logger *slog.Logger
	err    io.Writer

	counted atomic.Int64 // sessions when they were last counted

	mu     sync.Mutex
	closed bool
	united *unitedHouse
	topups map[string]*topupWorld
}

// unitedHouse serves the united surface.
type unitedHouse struct {
	computer  *tool.Computer
	newServer func() *mcp.Server
	options   wire.Options
	end       []func()
}

var errHouseClosed = errors.New("the daemon is ending")

// serve is [daemon.Serve].
func (h *household) serve(ctx context.Context, surface string, conn net.Conn) error {
	switch surface {
	case fleetSurface:
		u, err := h.forUnited()
		if err != nil {
			return err
		}
		return wire.Serve(ctx, u.newServer(), wire.ConnStream(conn), u.options)
	case topupSurface, topupFastSurface:
		w, err := h.forTopup(surface)
		if err != nil {
			return err
		}
		asker := new(wire.Asker)
		return w.serveWith(ctx, w.client("", asker), asker, wire.ConnStream(conn))
	}
	return fmt.Errorf("no surface is called %q; there are %s, %s and %s", surface, fleetSurface, topupSurface, topupFastSurface)
}

// forTopup returns the world of the topup contract, or of topup-opt.
func (h *household) forTopup(surface string) (*topupWorld, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errHouseClosed
	}
	if w := h.topups[surface]; w != nil {
		return w, nil
	}
	w, err := newTopupWorld(h.ctx, Streams{Err: h.err}, surface)
	if err != nil {
		return nil, err
	}
	if h.topups == nil {
		h.topups = map[string]*topupWorld{}
	}
	h.topups[surface] = w
	return w, nil
}

func (h *household) forUnited() (*unitedHouse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errHouseClosed
	}
	if h.united != nil {
		return h.united, nil
	}
	u, err := newUnitedHouse(h.ctx, h.logger)
	if err == nil {
		h.united = u
	}
	return u, err
}

// newUnitedHouse makes what the united surface works on, with the settings of the
// user of this machine.
func newUnitedHouse(ctx context.Context, logger *slog.Logger) (*unitedHouse, error) {
	u := &unitedHouse{}
	observer, err := newObserver(see.Options{Root: "/", Interval: see.DefaultInterval, Flavour: resource.Flavour{}})
	if err != nil && !errors.Is(err, errUnsupported) {
		return nil, err
	}
	if observer != nil {
		u.end = append(u.end, func() { closeSoon(observer) })
	}
	var computing computing
	if u.computer, err = computing.computer(ctx); err != nil {
		u.close()
		return nil, err
	}
	u.end = append(u.end, func() { _ = u.computer.Close() })
	advisor, err := advise(observer, u.computer, 0)
	if err != nil {
		u.close()
		return nil, err
	}
	u.end = append(u.end, func() { dismiss(advisor) })
	arrivals := new(contract.Arrivals)
	u.options = wire.Options{Screen: contract.Screen, Admit: arrivals.Admit, Logger: logger}
	v := serving{surface: contract.United, tools: surfacing{arrivals: arrivals}, wire: u.options, invocation: "topside " + daemon.DaemonCommand}
	if u.newServer, err = v.servers(observer, u.computer, advisor); err != nil {
		u.close()
		return nil, err
	}
	start(ctx, observer)
	return u, nil
}

func (u *unitedHouse) close() {
	for i := len(u.end) - 1; i >= 0; i-- {
		u.end[i]()
	}
}

// forgotten is how long a session that nobody uses keeps a daemon alive. Its log
// outlives both.
const forgotten = 24 * time.Hour

// sessions counts what keeps a daemon alive without clients: the sessions that were
// used lately.
func (h *household) sessions() int {
	since := time.Now().Add(-forgotten)
	if !h.mu.TryLock() {
		return int(h.counted.Load()) // a part is being made, which a ping does not wait for
	}
	defer h.mu.Unlock()
	n := 0
	if h.united != nil {
		n += h.united.computer.InUse(since)
	}
	for _, w := range h.topups {
		n += w.pool.InUse(since)
	}
	h.counted.Store(int64(n))
	return n
}

func (h *household) close() {
	h.mu.Lock()
	h.closed = true
	united, topups := h.united, h.topups
	h.mu.Unlock()
	h.cancel()
	for _, w := range topups {
		w.close()
	}
	if united != nil {
		united.close()
	}
}
