package cli

// This file runs a server: it owns the observer and the transport, and ends
// both when the client, the parent or a signal ends the server.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/contract"
	"topside/internal/see"
	"topside/internal/steer"
	"topside/internal/tool"
	"topside/internal/wire"
)

// A serving is one server as the command line describes it.
type serving struct {
	options     see.Options
	surface     func(contract.Config) (*mcp.Server, error)
	tools       surfacing
	computing   *computing // nil for a surface without sessions
	socket      string     // "" serves stdin and stdout
	socketGiven bool
	http        string // HOST:PORT to serve instead
	httpGiven   bool
	// wire is how the contract wants the wire.
	wire wire.Options
	// invocation is the command that was run, and service how clients know it,
	// for messages to people.
	invocation string
	service    service
}

// serve runs a server until its client or the system ends it, which is no
// failure.
func serve(ctx context.Context, s Streams, v serving) error {
	if v.socketGiven && v.socket == "" {
		return badUsage("", "--socket is empty: name the path of the socket")
	}
	if v.httpGiven && v.http == "" {
		return badUsage("", "--http is empty: name the address, such as 127.0.0.1:7007")
	}
	if v.socketGiven && v.httpGiven {
		return badUsage("", "--socket and --http are two servers: start each by itself")
	}
	observer, err := newObserver(v.options)
	if err != nil && !errors.Is(err, errUnsupported) {
		return err
	}
	if observer != nil {
		defer closeSoon(observer)
	} else {
		fmt.Fprintf(s.Err, "topside: %v; every tool will answer so\n", err)
	}
	v.wire.Logger = slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var computer *tool.Computer
	if v.computing != nil {
		if computer, err = v.computing.computer(ctx); err != nil {
			return err
		}
		defer computer.Close()
	}
	advisor, err := v.advisor(observer, computer)
	if err != nil {
		return err
	}
	defer dismiss(advisor)
	if v.computing != nil {
		v.tools.hosts = newHosts(v.wire.Logger)
		defer partWith(v.tools.hosts)
	}
	newServer, err := v.servers(observer, computer, advisor)
	if err != nil {
		return err
	}
	ctx, stop := wire.Signals(ctx)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stayLight(ctx)
	if v.socket != "" {
		return v.onSocket(ctx, s, observer, newServer)
	}
	if v.http != "" {
		return v.onHTTP(ctx, s, observer, newServer())
	}
	return v.onStdio(ctx, s, observer, newServer())
}

// servers returns what makes the server of one client: each has its own, over
// one observer and the same sessions.
func (v serving) servers(observer *see.Observer, computer *tool.Computer, advisor *steer.Advisor) (func() *mcp.Server, error) {
	config := v.tools.config(observer, computer, advisor)
	if _, err := v.surface(config); err != nil {
		return nil, badUsage("Run '"+v.invocation+" --help' for the options.", "%v", err)
	}
	return func() *mcp.Server {
		server, err := v.surface(config)
		if err != nil {
			panic(err) // the same configuration made one before
		}
		server.AddReceivingMiddleware(wire.RecoverPanics(v.wire.Logger))
		return server
	}, nil
}

// advisor makes the advisor of a surface that steers; nil for the others.
func (v serving) advisor(observer *see.Observer, computer *tool.Computer) (*steer.Advisor, error) {
	if v.computing == nil {
		return nil, nil
	}
	return advise(observer, computer, 0)
}

func (v serving) onStdio(ctx context.Context, s Streams, observer *see.Observer, server *mcp.Server) error {
	if isTerminal(s.In) {
		v.explain(s)
	}
	ctx, leave := wire.WithParent(ctx)
	defer leave()
	stream, err := wire.Stdio()
	if err != nil {
		return err
	}
	start(ctx, observer)
	return wire.Serve(ctx, server, stream, v.wire)
}

func (v serving) onSocket(ctx context.Context, s Streams, observer *see.Observer, newServer func() *mcp.Server) error {
	socket, err := wire.ListenSocket(v.socket)
	if err != nil {
		return socketFailure(v.socket, err)
	}
	defer socket.Close()
	fmt.Fprintf(s.Err, "topside: serving %s; end with Ctrl-C or SIGTERM\n", v.socket)
	start(ctx, observer)
	return socket.Serve(ctx, newServer, v.wire)
}

// socketFailure names the folder where it is the folder's fault: the file that
// could not be made there is one that nobody asked for.
func socketFailure(path string, err error) error {
	var at *fs.PathError
	if !errors.As(err, &at) || at.Path == path {
		return err
	}
	folder := filepath.Dir(path)
	if errors.Is(at.Err, fs.ErrNotExist) {
		return fmt.Errorf("no socket can be made at %s: there is no folder %s", path, folder)
	}
	return fmt.Errorf("no socket can be made in the folder %s: %w", folder, at.Err)
}

// closeSoon closes the observer, and leaves it to the end of the process if a
// collection hangs in the kernel: the server must end within a second.
func closeSoon(observer *see.Observer) {
	closed := make(chan error, 1)
	go func() { closed <- observer.Close() }()
	select {
	case <-closed:
	case <-time.After(patience):
	}
}

// patience is how long a server that is told to end waits for a collection.
const patience = 200 * time.Millisecond

func start(ctx context.Context, observer *see.Observer) {
	if observer != nil {
		observer.Start(ctx)
	}
}

// explain tells the person at a terminal that a client belongs there.
func (v serving) explain(s Streams) {
	fmt.Fprintf(s.Err, `%s is waiting for an MCP client to speak JSON-RPC on stdin, one message a line.
A client starts it by itself; at a terminal, "topside demo" shows what it does.
End it with Ctrl-D or Ctrl-C.

`, v.invocation)
	writeRegistration(s.Err, paletteFor(s.Err), v.service)
}
