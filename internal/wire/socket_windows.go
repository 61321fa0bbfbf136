package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// SocketInUseError says that a server answers at Path.
type SocketInUseError struct{ Path string }

func (e *SocketInUseError) Error() string {
	return fmt.Sprintf("socket %s is in use by another process", e.Path)
}

// Socket is a listening Unix socket; there is none on this system.
type Socket struct{}

// ErrNoSockets says that this system has no Unix sockets with an owner's mode.
var ErrNoSockets = errors.New("a Unix socket is not available on this system: serve over standard input and output")

// ListenSocket returns ErrNoSockets.
func ListenSocket(string) (*Socket, error) { return nil, ErrNoSockets }

// Path returns "".
func (s *Socket) Path() string { return "" }

// Close does nothing.
func (s *Socket) Close() error { return nil }

// Serve returns ErrNoSockets.
func (s *Socket) Serve(context.Context, func() *mcp.Server, Options) error { return ErrNoSockets }

// Accept returns ErrNoSockets.
func (s *Socket) Accept(context.Context) (*Stream, error) { return nil, ErrNoSockets }
