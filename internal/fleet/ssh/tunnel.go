package ssh

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/host"
)

// Waits of the contract (topup, section 2).
const (
	attemptWait  = time.Second
	greetingWait = 2 * time.Second
	attemptPause = 100 * time.Millisecond
)

// The failures of the handshake where lines are spoken.
var (
	ErrHandshakeEOF     = errors.New("handshake EOF / channel closed")
	ErrHandshakeTimeout = errors.New("handshake timed out")
)

// tunnel opens the form of the original topup. home is the far user's, "" if it is
// not known.
func (d Dialer) tunnel(ctx context.Context, home string) (*Conn, error) {
	remote := d.Socket
	switch {
	case remote == "":
		remote = "~/.topup/sockets/topup.sock"
		fallthrough
	case len(remote) > 1 && remote[:2] == "~/":
		if home == "" {
			out, err := d.Run(ctx, d.Host, Shell(`printf %s "$HOME"`), nil)
			if err != nil {
				return nil, err
			}
			home = out
		}
		remote = home + remote[1:]
	}
	if err := host.CheckSocket(remote); err != nil {
		return nil, err
	}
	dir, remove, err := socketDir()
	if err != nil {
		return nil, err
	}
	local := filepath.Join(dir, folderSocket)
	client := d.Client
	// The first of an option counts. ssh tells of a refused channel at this level only.
	client.Options = append(slices.Clone(client.Options), "-o", "LogLevel=INFO")
	p, err := client.Start(d.Host, []string{"-o", "ExitOnForwardFailure=yes", "-L", local + ":" + remote}, Shell(tunnelScript(remote)), false)
	if err != nil {
		remove()
		return nil, err
	}
	c, err := d.attempts(ctx, p, local)
	if err != nil {
		p.Close()
		remove()
		return nil, err
	}
	c.process, c.Socket = p, remote
	c.cleanup = remove
	return c, nil
}

// What the folder of a tunnel holds.
const (
	folderPrefix = "topside-tunnel-"
	folderSocket = "topup.sock"
	folderLock   = "lock"
)

// socketDir makes an owner-only folder for a socket, whose path has at most some
// hundred bytes, and removes those that killed front ends have left.
func socketDir() (dir string, remove func(), err error) {
	parent := os.TempDir()
	if len(parent) > 60 {
		parent = "/tmp"
	}
	sweepFolders(parent)
	if dir, err = os.MkdirTemp(parent, folderPrefix); err != nil {
		return "", nil, err
	}
	release, err := holdFolder(dir)
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, func() {
		os.RemoveAll(dir)
		release()
	}, nil
}

// attempts connects through the tunnel until the far side answers "initialize".
func (d Dialer) attempts(ctx context.Context, p *Process, local string) (*Conn, error) {
	var last error
	for {
		c, err := d.attempt(ctx, local)
		if err == nil {
			return c, nil
		}
		if ctx.Err() == nil {
			last = err
		}
		pause := time.NewTimer(attemptPause)
		select {
		case <-pause.C:
		case <-p.Done():
			pause.Stop()
			return nil, p.Failure(0)
		case <-ctx.Done():
			pause.Stop()
			if last == nil {
				last = ctx.Err()
			}
			return nil, fmt.Errorf("timed out waiting for daemon (last: %w)%s%s", last, soFar(p, nil), unopened(p))
		}
	}
}

// unopened says what it may mean that sshd opened no channel to the socket: it gives
// the same answer where it may not as where there is none.
func unopened(p *Process) string {
	if !refusedChannel.MatchString(p.Stderr()) {
		return ""
	}
	return "; sshd opened no channel to the socket: topup over there has not made it, or sshd does not forward sockets (AllowStreamLocalForwarding, DisableForwarding)"
}

func (d Dialer) attempt(ctx context.Context, local string) (*Conn, error) {
	dialer := net.Dialer{Timeout: attemptWait}
	s, err := dialer.DialContext(ctx, "unix", local)
	if err != nil {
		return nil, fmt.Errorf("timed out after %.1fs waiting for socket %s", attemptWait.Seconds(), local)
	}
	return d.greet(ctx, s)
}

// greet makes the handshake of the Model Context Protocol, by which an original
// topup shows that it is there.
func (d Dialer) greet(ctx context.Context, s net.Conn) (c *Conn, err error) {
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	until := time.Now().Add(greetingWait)
	if t, ok := ctx.Deadline(); ok && t.Before(until) {
		until = t
	}
	if err := s.SetDeadline(until); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"topside","version":"1"}}}` + "\n"
	if _, err := s.Write([]byte(hello)); err != nil {
		return nil, ErrHandshakeEOF
	}
	r := bufio.NewReaderSize(s, 64<<10)
	line, err := frame.NewLines(r, 1<<20).Next()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, ErrHandshakeTimeout
	case errors.Is(err, frame.ErrTooLarge):
		return nil, err
	case err != nil:
		return nil, ErrHandshakeEOF
	}
	e, err := frame.Scan(line)
	if err != nil {
		return nil, err
	}
	if e.Error != nil || !json.Valid(e.Result) {
		return nil, fmt.Errorf("%w: handshake answered with %q", frame.ErrGarbage, frame.Excerpt(line))
	}
	if err := s.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return &Conn{Reader: r, Writer: s, socket: s, Socket: d.Socket, Greeting: e.Result}, nil
}
