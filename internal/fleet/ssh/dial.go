package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/host"
)

// Conn is an open way to a host.
type Conn struct {
	io.Reader // a *frame.Patient where frames are spoken
	io.Writer
	Framed bool   // frames and a daemon of topside; otherwise lines and an original topup
	Socket string // on the far side, as far as it is known here
	// Greeting is the result of "initialize" where lines are spoken.
	Greeting json.RawMessage

	process *Process // nil for a local socket
	socket  net.Conn // nil for the relay
	cleanup func()
}

// Close ends the way and what was started for it.
func (c *Conn) Close() {
	if c.socket != nil {
		c.socket.Close()
	}
	if c.process != nil {
		c.process.Close()
	}
	if c.cleanup != nil {
		c.cleanup()
	}
}

// Why says, when the stream has ended, what ended it; nil if nothing is known. It
// waits for ssh's own words for a moment.
func (c *Conn) Why() error {
	if c.process == nil {
		return nil
	}
	if e := c.process.Failure(endGrace); e != nil {
		return e
	}
	return nil
}

// Pid is the process id of ssh, 0 if there is none.
func (c *Conn) Pid() int {
	if c.process == nil {
		return 0
	}
	return c.process.Pid()
}

// Dialer reaches one host. It prefers the relay: `ssh HOST topside fleet-relay`,
// whose standard input and output carry frames to the daemon's socket. Where only
// the original topup is installed it uses the form of the contract (section 7.2):
// `ssh -L LOCAL:REMOTE -- HOST SHELL-COMMAND` with `topup --socket`.
type Dialer struct {
	Client
	Host    string
	Program string // topside on the far side, "topside" if empty
	// Socket is the daemon's socket there: absolute, or beginning with "~/"; ""
	// for the default of the far side.
	Socket string
	// Override is a socket on this machine to be used instead of ssh, see
	// host.OverrideVariable. It carries lines, and is tried once.
	Override string
	// TopupOnly never asks for topside on the far side, RelayOnly never for topup.
	TopupOnly, RelayOnly bool
}

// maxBanner is how much a login shell may print before the relay speaks.
const maxBanner = 64 << 10

// Dial opens a way. It fails as soon as ssh ends, with an *Error, and at the end of
// the context.
func (d Dialer) Dial(ctx context.Context) (*Conn, error) {
	if d.Override != "" {
		return d.local(ctx)
	}
	if err := host.CheckName(d.Host); err != nil {
		return nil, err
	}
	home := ""
	if !d.TopupOnly {
		c, far, err := d.relay(ctx)
		if c != nil || err != nil {
			return c, err
		}
		if d.RelayOnly {
			return nil, &Error{Host: d.Host, Cause: CommandNotFound, Text: "only the original topup is there"}
		}
		home = far
	}
	return d.tunnel(ctx, home)
}

func (d Dialer) local(ctx context.Context) (*Conn, error) {
	dialer := net.Dialer{Timeout: time.Second}
	s, err := dialer.DialContext(ctx, "unix", d.Override)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", d.Override, plain(err))
	}
	return d.greet(ctx, s)
}

// plain leaves the system's own words of a failed connect.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// relay returns nil and the home there when the far side has only topup.
func (d Dialer) relay(ctx context.Context) (c *Conn, home string, err error) {
	p, err := d.Start(d.Host, []string{"-o", "ClearAllForwardings=yes"}, Shell(relayScript(d.Program, d.Socket)), true)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if c == nil {
			p.Close()
		}
	}()
	stop := context.AfterFunc(ctx, p.Kill)
	r := frame.NewPatient(p.Out)
	rest, skipped, err := frame.SkipTo(r.Reader, frame.Mark, maxBanner)
	if !stop() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, "", &Error{Host: d.Host, Cause: Silent, Text: oneLine(p.Stderr() + " " + string(skipped))}
		}
		return nil, "", ctx.Err()
	}
	if err != nil {
		if errors.Is(err, frame.ErrGarbage) {
			p.Kill()
			return nil, "", err
		}
		if e := p.Failure(endGrace); e != nil {
			return nil, "", e
		}
		return nil, "", fmt.Errorf("no answer from the relay: %w%s", err, soFar(p, skipped))
	}
	switch words := strings.SplitN(rest, " ", 3); {
	case words[0] == frame.Form:
		return &Conn{Reader: r, Writer: p.In, Framed: true, Socket: d.Socket, process: p}, "", nil
	case words[0] == "none" && len(words) == 3 && words[1] == "topup":
		return nil, words[2], nil
	default:
		return nil, "", fmt.Errorf("%w: the relay there speaks form %q, this side %s; upgrade topside here", frame.ErrGarbage, frame.Excerpt([]byte(rest)), frame.Form)
	}
}

func soFar(p *Process, skipped []byte) string {
	text := oneLine(p.Stderr() + " " + string(skipped))
	if text == "" {
		return ""
	}
	return " (it said: " + strings.TrimSpace(text) + ")"
}

// NewConn makes a Conn of a stream that something else opened. pid and why may be
// missing.
func NewConn(stream io.ReadWriteCloser, framed bool) *Conn {
	return &Conn{Reader: frame.NewPatient(stream), Writer: stream, Framed: framed, cleanup: func() { stream.Close() }}
}
