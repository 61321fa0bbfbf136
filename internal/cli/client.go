package cli

// This file is topside as its own client: sessions with a server in this
// process, with one behind a Unix socket, and with a child.

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialPatience bounds the wait for a server to accept.
const dialPatience = 5 * time.Second

func newClient() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "topside", Title: "topside command line", Version: Version()}, nil)
}

// inProcess connects a client to a server of this process. end ends both.
func inProcess(ctx context.Context, server *mcp.Server) (session *mcp.ClientSession, end func(), err error) {
	serverSide, clientSide := mcp.NewInMemoryTransports()
	served, err := server.Connect(ctx, serverSide, nil)
	if err != nil {
		return nil, nil, err
	}
	session, err = newClient().Connect(ctx, clientSide, nil)
	if err != nil {
		_ = served.Close()
		return nil, nil, err
	}
	return session, func() { _ = session.Close(); _ = served.Wait() }, nil
}

// overSocket connects a client to the server that serves a Unix socket.
func overSocket(ctx context.Context, path string) (session *mcp.ClientSession, end func(), err error) {
	dialling, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(dialling, "unix", path)
	if err != nil {
		return nil, nil, hinted{fmt.Errorf("no server answers at %s: %w", path, err), "Start one with: topside mcp --socket " + shellWord(path)}
	}
	session, err = newClient().Connect(ctx, &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("what listens at %s does not speak MCP: %w", path, err)
	}
	return session, func() { _ = session.Close() }, nil
}
