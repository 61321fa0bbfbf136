//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"topside/internal/fleet/frame"
	"topside/internal/socket"
)

// What a client of the socket sends first.
const (
	handOver  = 'F' // with two descriptors: frames travel on these
	direct    = 'D' // frames travel on the socket itself
	orderly   = 'E' // the daemon's last byte to a relay: the connection ended in order
	plainJSON = '{' // a client of the contracts
)

// ErrRunning says that another daemon holds the socket.
var ErrRunning = errors.New("a daemon is running on this socket already")

// Run runs a daemon until it has been idle for long enough, is told to end, or ctx
// is done; then it returns nil. ready, if not nil, is called when the socket
// listens. Where another daemon serves the socket, it returns ErrRunning.
func Run(ctx context.Context, c Config, ready func()) error {
	c = c.withDefaults()
	var err error
	if c.Socket, err = ExpandSocket(c.Socket); err != nil {
		return err
	}
	if c.State == "" {
		c.State = filepath.Dir(c.Socket)
	}
	l, release, err := listen(c.Socket)
	if err != nil {
		return err
	}
	defer release()
	d := newDaemon(ctx, c)
	stop := context.AfterFunc(d.ctx, func() { l.Close() })
	defer stop()
	d.work.Go(d.watchIdle)
	d.work.Go(d.sweep)
	if ready != nil {
		ready()
	}
	err = d.accept(l)
	l.Close()
	d.close()
	return err
}

// listen takes the place of the daemon: the lock, then the socket, owner-only.
func listen(path string) (*net.UnixListener, func(), error) {
	if len(path) > maxSocketPath {
		return nil, nil, fmt.Errorf("the path of the socket has %d bytes, at most %d: %s", len(path), maxSocketPath, path)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	if err := checkDir(dir); err != nil {
		return nil, nil, err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil, ErrRunning
		}
		return nil, nil, err
	}
	if err := clearStale(path); err != nil {
		lock.Close()
		return nil, nil, err
	}
	l, err := socket.Listen(path)
	if err != nil {
		lock.Close()
		return nil, nil, err
	}
	var mine os.FileInfo
	if mine, err = os.Lstat(path); err != nil {
		l.Close()
		lock.Close()
		return nil, nil, err
	}
	return l, func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(mine, now) {
			os.Remove(path)
		}
		lock.Close()
	}, nil
}

// checkDir refuses a folder in which others could replace the socket.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return nil
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("the folder of the socket belongs to another user: %s", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write to the folder of the socket: %s (chmod go-w it)", dir)
	}
	return nil
}

// clearStale removes the socket of a daemon that is gone; the lock is ours.
func clearStale(path string) error {
	state, _, err := socket.Probe(path)
	switch state {
	case socket.Absent, socket.Foreign:
		return err
	case socket.Link, socket.NotSocket:
		return fmt.Errorf("%s exists and is not a socket: it is left alone", path)
	case socket.Served:
		// Not a daemon, since that would hold the lock: an original topup, say.
		return fmt.Errorf("%s is served by another program", path)
	}
	return os.Remove(path)
}

func (d *Daemon) accept(l *net.UnixListener) error {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if d.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
				select {
				case <-time.After(50 * time.Millisecond):
				case <-d.ctx.Done():
				}
				continue
			}
			return err
		}
		if !d.enter() {
			c.Close()
			continue
		}
		d.work.Go(func() {
			defer d.leave()
			d.client(c)
		})
	}
}

// client serves one connection to the socket, of whatever kind.
func (d *Daemon) client(c *net.UnixConn) {
	defer c.Close()
	stop := context.AfterFunc(d.ctx, func() { c.Close() })
	defer stop()
	first, files, err := receive(c)
	if err != nil {
		return
	}
	switch {
	case first == handOver && len(files) == 2:
		d.relayed(c, files[0], files[1])
		return
	case first == direct && len(files) == 0:
		if _, err := io.WriteString(c, frame.Mark+frame.Form+"\n"); err == nil {
			d.attach(c)
		}
		return
	}
	for _, f := range files {
		f.Close()
	}
	if first == plainJSON && d.c.Plain != "" {
		if err := d.c.Serve(d.ctx, d.c.Plain, &prefixed{Conn: c, first: []byte{first}}); err != nil {
			d.c.Logger.Warn("plain client", "error", err)
		}
	}
}

// prefixed is a connection of which the first byte has been read.
type prefixed struct {
	net.Conn
	first []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// receive reads the first byte, blanks aside, and the descriptors that came with it.
func receive(c *net.UnixConn) (byte, []*os.File, error) {
	for {
		var b [1]byte
		oob := make([]byte, unix.CmsgSpace(4*4))
		n, oobn, _, _, err := c.ReadMsgUnix(b[:], oob)
		if err != nil || n == 0 {
			return 0, nil, io.EOF
		}
		var files []*os.File
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return 0, nil, err
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				continue
			}
			for _, fd := range fds {
				// Not blocking, so that the runtime can end a read that waits.
				_ = unix.SetNonblock(fd, true)
				files = append(files, os.NewFile(uintptr(fd), "ssh"))
			}
		}
		if len(files) == 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
			continue
		}
		return b[0], files, nil
	}
}

// channel is the two descriptors of an ssh channel, and the socket of the relay
// that brought them: where one ends, all do.
type channel struct {
	in, out *os.File
	relay   *net.UnixConn
	ending  func() bool // the daemon itself ends
	once    sync.Once
}

func (c *channel) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *channel) Write(b []byte) (int, error) { return c.out.Write(b) }

// input is what is read, so that a read can wait in the kernel.
func (c *channel) input() io.Reader { return c.in }

// SyscallConn lets small messages be written without a switch of goroutines.
func (c *channel) SyscallConn() (syscall.RawConn, error) { return c.out.SyscallConn() }

func (c *channel) Close() error {
	c.once.Do(func() {
		if !c.ending() {
			_, _ = c.relay.Write([]byte{orderly}) // it may be gone
		}
		c.relay.Close()
		c.in.Close()
		c.out.Close()
	})
	return nil
}

func (d *Daemon) relayed(relay *net.UnixConn, in, out *os.File) {
	c := &channel{in: in, out: out, relay: relay, ending: func() bool { return d.ctx.Err() != nil }}
	defer c.Close()
	widen(in)
	widen(out)
	if _, err := io.WriteString(out, frame.Mark+frame.Form+"\n"); err != nil {
		return
	}
	// The relay says nothing more; its end is that of the channel.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var b [1]byte
		_, _ = relay.Read(b[:])
		c.Close()
	}()
	d.attach(c)
	c.Close()
	<-gone
}
