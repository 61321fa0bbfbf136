//go:build unix

package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"topside/internal/socket"
)

const (
	// startWait bounds the wait for another server that is just starting on the
	// same path.
	startWait = 5 * time.Second

	// maxClients bounds the clients of one socket.
	maxClients = 256
)

// SocketInUseError says that a server answers at Path.
type SocketInUseError struct{ Path string }

func (e *SocketInUseError) Error() string {
	return fmt.Sprintf("socket %s is in use by another process", e.Path)
}

// Socket is a listening Unix socket that only its owner may connect to.
type Socket struct {
	path     string
	listener *net.UnixListener
	id       fileID
}

// fileID tells our file from one that replaced it.
type fileID struct{ dev, ino uint64 }

// ListenSocket listens at path. The file is owner-only (0600) from the moment it
// exists. A socket that no process listens on any more is replaced; one that is
// in use gives a *SocketInUseError, and so does losing to a server that starts at
// the same time. What is not a socket, a symbolic link included, is refused and
// left alone.
func ListenSocket(path string) (*Socket, error) {
	if path == "" {
		return nil, errors.New("the socket's path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if len(path) > socket.MaxPath {
		return nil, fmt.Errorf("socket path is too long: %d bytes, at most %d: %s", len(path), socket.MaxPath, path)
	}
	unlock, err := lockStart(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := clearStale(path); err != nil {
		return nil, err
	}
	l, err := socket.Listen(path)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, &SocketInUseError{Path: path}
		}
		return nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	id, err := socketID(path)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &Socket{path: path, listener: l, id: id}, nil
}

// lockStart keeps other servers from looking at path while we decide that its
// file is stale and replace it. The lock lives in a file beside the socket for the
// time of the start only: whoever holds it removes it, and whoever waited for a
// removed one tries again.
func lockStart(path string) (unlock func(), err error) {
	name := path + ".lock"
	deadline := time.Now().Add(startWait)
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock socket %s: %w", path, err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && sameFile(f, name) {
			return func() {
				_ = os.Remove(name)
				_ = f.Close()
			}, nil
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("lock socket %s: %w", path, err)
		}
		if time.Now().After(deadline) {
			return nil, &SocketInUseError{Path: path}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func sameFile(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(name)
	return err == nil && os.SameFile(a, b)
}

// clearStale removes a socket file at path that nobody listens on.
func clearStale(path string) error {
	state, info, err := socket.Probe(path)
	switch {
	case state == socket.Foreign:
		return fmt.Errorf("socket %s belongs to another user: %w", path, err)
	case err != nil:
		return fmt.Errorf("socket %s: %w", path, err)
	case state == socket.Absent:
		return nil
	case state == socket.Link:
		return fmt.Errorf("socket %s is a symbolic link: give the path it should have itself", path)
	case state == socket.NotSocket:
		return fmt.Errorf("socket %s exists and is not a socket (%s): it is left alone", path, fileKind(info))
	case state == socket.Served:
		return &SocketInUseError{Path: path}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the stale socket %s: %w", path, err)
	}
	return nil
}

func fileKind(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "a directory"
	case info.Mode().IsRegular():
		return "a regular file"
	}
	return info.Mode().Type().String()
}

func socketID(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fileID{}, fmt.Errorf("socket %s: %w", path, err)
	}
	return fileID{dev: uint64(st.Dev), ino: uint64(st.Ino)}, nil
}

// Path returns the absolute path of the socket.
func (s *Socket) Path() string { return s.path }

// Close stops listening and removes the socket's file if it is still ours.
func (s *Socket) Close() error {
	if id, err := socketID(s.path); err == nil && id == s.id {
		_ = os.Remove(s.path)
	}
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Serve serves every client that connects, each with the server that newServer
// returns for it (which may be one for all), until ctx is done or accepting
// fails, and closes the socket. A client's end ends its own calls only. It returns
// nil when ctx is done.
func (s *Socket) Serve(ctx context.Context, newServer func() *mcp.Server, o Options) error {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()

	var clients sync.WaitGroup
	places := make(chan struct{}, maxClients)
	var failure error
	for n := 1; ; n++ {
		c, err := s.listener.AcceptUnix()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				if isShortage(err) {
					waitFor(ctx, nil, 100*time.Millisecond)
					continue
				}
				failure = fmt.Errorf("accept on socket %s: %w", s.path, err)
			}
			break
		}
		select {
		case places <- struct{}{}:
		default:
			_ = c.SetWriteDeadline(time.Now().Add(linger))
			_, _ = c.Write(append(appendError(nil, nil, busyError), '\n'))
			_ = c.Close()
			continue
		}
		own := o
		own.Name = fmt.Sprintf("%s-%d", o.Name, n)
		clients.Go(func() {
			defer func() { <-places }()
			if err := Serve(ctx, newServer(), ConnStream(c), own); err != nil {
				own.Logger.Warn("a client's stream ended", "stream", own.Name, "error", err)
			}
		})
	}
	cancel()
	_ = s.Close()
	clients.Wait() // each within the bounds of Serve
	return failure
}

// Accept returns the next client, for callers that serve clients one after the
// other. It returns the error of a listener that ctx has closed as nil, nil.
func (s *Socket) Accept(ctx context.Context) (*Stream, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	for {
		c, err := s.listener.AcceptUnix()
		switch {
		case err == nil:
			return ConnStream(c), nil
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil, nil
		case !isShortage(err):
			return nil, fmt.Errorf("accept on socket %s: %w", s.path, err)
		}
		waitFor(ctx, nil, 100*time.Millisecond)
	}
}

// isShortage reports whether accepting may work again later.
func isShortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
