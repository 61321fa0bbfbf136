package cli

// This file holds "topside topup" and the programs called topup and topup-opt: the
// command line of the topup contract (section 1). Its arguments are matched as
// whole lists, to accept and refuse exactly what those programs do.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"topside/internal/contract"
	"topside/internal/fleet/host"
	"topside/internal/tool"
	"topside/internal/wire"
)

// topupUsage is the one line that every other argument list gets.
const topupUsage = "usage: topup-mcp [--socket <path> | --proxy <path> | --remote <host> [--remote-socket <path>]]"

// topupProgram is how the program calls itself in its messages.
const topupProgram = "topup-mcp: "

func newTopupCommand(s Streams, name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if status := topupMain(s, name, args); status != statusDone {
				return topupStatus(status)
			}
			return nil
		},
	}
}

// A topupStatus is an exit status whose reason has been told.
type topupStatus int

func (t topupStatus) Error() string { return fmt.Sprintf("status %d", int(t)) }

// topupInvocation is one argument list of the contract.
type topupInvocation struct {
	socket, proxy, remote string
	isRemote              bool // remote was given, if only as ""
	remoteSocket          *string
	serves                bool // standard input and output
}

func parseTopup(args []string) (v topupInvocation, ok bool) {
	switch {
	case len(args) == 0:
		v.serves = true
	case len(args) == 2 && args[0] == "--socket":
		v.socket = args[1]
	case len(args) == 2 && args[0] == "--proxy":
		v.proxy = args[1]
	case len(args) == 2 && args[0] == "--remote":
		v.remote, v.isRemote, v.serves = args[1], true, true
	case len(args) == 4 && args[0] == "--remote" && args[2] == "--remote-socket":
		v.remote, v.isRemote, v.remoteSocket, v.serves = args[1], true, &args[3], true
	default:
		return v, false
	}
	return v, true
}

// topupMain runs the contract's command line and returns the exit status. It
// watches signals itself: what they mean is the contract's.
func topupMain(s Streams, program string, args []string) int {
	v, ok := parseTopup(args)
	if !ok {
		fmt.Fprintln(s.Err, topupUsage)
		return statusUsage
	}
	ctx, stop := wire.Signals(context.Background())
	defer stop()
	stayLight(ctx)
	time.AfterFunc(started, handOn)
	var err error
	switch {
	case v.serves:
		err = serveTopup(ctx, s, program, v)
	case len(args) == 2 && args[0] == "--proxy":
		err = pumpTopup(ctx, s, v.proxy)
	default:
		err = listenTopup(ctx, s, program, v.socket)
	}
	var signalled *wire.SignalError
	if errors.As(context.Cause(ctx), &signalled) {
		return endedBy(s, signalled.Signal, !v.serves)
	}
	if err != nil {
		fmt.Fprintln(s.Err, err)
		return statusFailed
	}
	return statusDone
}

// started is when a server has done what it does at its start, with all processors.
const started = 200 * time.Millisecond

// handOn fits the runtime to what a started server does: it does not compute but hands
// on, between its clients and the processes of the sessions. With more than one
// processor each call wakes threads that find nothing to do, and take turns with the
// process whose reply is waited for.
func handOn() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	_ = easeMonitor() // saves time where it may
}

// endedBy is the status after a signal. A daemon was asked to end and did; a
// program on standard input and output has the ordinary death of the signal.
func endedBy(s Streams, sig os.Signal, daemon bool) int {
	if !daemon {
		return dieOf(sig)
	}
	if sig == syscall.SIGINT {
		fmt.Fprintln(s.Err, topupProgram+"interrupted")
		return statusUsage
	}
	return statusDone
}

// serveTopup serves the client that started us.
func serveTopup(ctx context.Context, s Streams, program string, v topupInvocation) error {
	if v.isRemote {
		if err := host.CheckName(v.remote); err != nil {
			return err
		}
	}
	if isTerminal(s.In) {
		fmt.Fprintf(s.Err, "%s is waiting for an MCP client to speak JSON-RPC on stdin, one message a line.\nEnd it with Ctrl-D or Ctrl-C.\n", program)
	}
	ctx, leave := wire.WithParent(ctx)
	defer leave()
	stream, err := wire.Stdio()
	if err != nil {
		return err
	}
	w, err := newTopupWorld(ctx, s, program)
	if err != nil {
		return err
	}
	defer w.close()
	client := w.client("", nil)
	if v.isRemote {
		if err := w.shared.StartHost(ctx, v.remote, v.remoteSocket); err != nil {
			return err
		}
		client.DefaultHost = v.remote
	}
	return w.serve(ctx, client, stream)
}

// listenTopup serves a socket, one client after the other.
func listenTopup(ctx context.Context, s Streams, program, path string) error {
	socket, err := bindTopup(path)
	if err != nil {
		return err
	}
	defer socket.Close()
	w, err := newTopupWorld(ctx, s, program)
	if err != nil {
		return err
	}
	defer w.close()
	return w.accept(ctx, socket, func(asker *wire.Asker) *tool.TopupClient { return w.client("", asker) })
}

// accept serves the clients of a socket until ctx is done.
func (w *topupWorld) accept(ctx context.Context, socket *wire.Socket, view func(*wire.Asker) *tool.TopupClient) error {
	for {
		stream, err := socket.Accept(ctx)
		if err != nil || stream == nil {
			return err
		}
		asker := new(wire.Asker)
		if err := w.serveWith(ctx, view(asker), asker, stream); err != nil {
			w.logger.Warn("a client's stream ended", "error", err)
		}
	}
}

func (w *topupWorld) serve(ctx context.Context, view *tool.TopupClient, stream *wire.Stream) error {
	return w.serveWith(ctx, view, nil, stream)
}

// serveWith serves one client as the contract wants the wire.
func (w *topupWorld) serveWith(ctx context.Context, view *tool.TopupClient, asker *wire.Asker, stream *wire.Stream) error {
	client := contract.NewTopupClient(view)
	server := client.Server()
	server.AddReceivingMiddleware(wire.RecoverPanics(w.logger))
	return wire.Serve(ctx, server, stream, wire.Options{
		MaxFrame:        int(min(tool.TopupBytes("TOPUP_MAX_MESSAGE_BYTES", wire.DefaultMaxFrame), 1<<30)),
		VersionOptional: true,
		AnyID:           true,
		SkipLong:        true,
		AnswerCancelled: true,
		Drain:           -1,
		MaxInFlight:     8192,
		Admit:           client.Admit,
		AnyParams:       true,
		OnNotification:  client.Cancelled,
		Asker:           asker,
		Name:            "topup",
		Logger:          w.logger,
	})
}

// newTopupLogger writes what a person should know to standard error.
func newTopupLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
