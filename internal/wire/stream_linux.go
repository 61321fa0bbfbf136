package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// original keeps the files that os.Stdin and os.Stdout were: once unreachable,
// they would close descriptors 0 and 1, and whatever got those numbers next would
// receive the prints meant for standard output.
var original []*os.File

// Stdio claims standard input and output for the protocol. Descriptor 1 and
// os.Stdout become standard error, so that no print of any library reaches the
// client; descriptor 0 and os.Stdin become /dev/null, so that none reads the
// client's messages. Call it once, first thing. Children inherit neither stream.
func Stdio() (*Stream, error) {
	in, err := claimInput()
	if err != nil {
		return nil, fmt.Errorf("claim standard input: %w", err)
	}
	out, err := claimOutput()
	if err != nil {
		_ = in.Close()
		return nil, fmt.Errorf("claim standard output: %w", err)
	}
	return NewStream(in, out), nil
}

func claimInput() (io.ReadCloser, error) {
	in, err := openInput(unix.Stdin)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	if err := unix.Dup3(int(null.Fd()), unix.Stdin, 0); err != nil {
		_ = null.Close()
		_ = in.Close()
		return nil, err
	}
	original = append(original, os.Stdin)
	os.Stdin = null
	return in, nil
}

func claimOutput() (io.WriteCloser, error) {
	out, err := openOutput(unix.Stdout)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup3(unix.Stderr, unix.Stdout, 0); err != nil {
		_ = out.Close()
		return nil, err
	}
	original = append(original, os.Stdout)
	os.Stdout = os.Stderr
	return out, nil
}

// A read that waits must end when the stream is closed, which the runtime can do
// for descriptors in non-blocking mode only. That mode belongs to the open file
// description, not to the descriptor: set on an inherited one it would also change
// the file for every process that shares it (a shell's terminal, siblings reading
// one pipe). So it is never set on what was inherited:
//
//   - a pipe is opened anew through /dev/fd, which gives a description of our own;
//   - anything else (a socket, a terminal, a file, a pipe of another user) is read
//     blockingly, after poll has said that there is something to read or that we
//     are to stop.

func openInput(fd int) (io.ReadCloser, error) {
	if f := reopenPipe(fd, unix.O_RDONLY); f != nil {
		return f, nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(own)
		return nil, err
	}
	return &polledInput{fd: own, wake: wake}, nil
}

// openOutput needs no such care: a write that waits on a client which does not
// read is left behind when the process exits.
func openOutput(fd int) (io.WriteCloser, error) {
	if f := reopenPipe(fd, unix.O_WRONLY); f != nil {
		return f, nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return &blockingOutput{fd: own}, nil
}

// reopenPipe returns a non-blocking file of our own on the pipe fd, or nil.
func reopenPipe(fd, mode int) *os.File {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil
	}
	name := fmt.Sprintf("/dev/fd/%d", fd)
	own, err := unix.Open(name, mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var again unix.Stat_t
	if err := unix.Fstat(own, &again); err != nil || again.Ino != st.Ino || again.Dev != st.Dev {
		_ = unix.Close(own)
		return nil
	}
	return os.NewFile(uintptr(own), name)
}

// polledInput reads a descriptor whose mode is not ours to change. Reads are made
// by one goroutine.
type polledInput struct {
	fd, wake  int
	closeOnce sync.Once

	mu      sync.Mutex
	reading bool
	closed  bool
}

func (p *polledInput) Read(b []byte) (int, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return 0, os.ErrClosed
	}
	p.reading = true
	p.mu.Unlock()
	n, err := p.read(b)
	p.mu.Lock()
	p.reading = false
	closed := p.closed
	p.mu.Unlock()
	if closed {
		p.free()
		return 0, os.ErrClosed
	}
	return n, err
}

func (p *polledInput) read(b []byte) (int, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}, {Fd: int32(p.wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return 0, os.NewSyscallError("poll", err)
		}
		if fds[1].Revents != 0 {
			return 0, os.ErrClosed
		}
		n, err := unix.Read(p.fd, b)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Close ends a read in progress; the descriptors are closed when it has returned.
func (p *polledInput) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	if p.reading {
		_, err := unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		return err
	}
	p.free()
	return nil
}

func (p *polledInput) free() {
	p.closeOnce.Do(func() {
		_ = unix.Close(p.fd)
		_ = unix.Close(p.wake)
	})
}

// blockingOutput writes a descriptor in whatever mode it came: one that its owner
// has made non-blocking is waited for with poll.
type blockingOutput struct {
	fd int

	mu      sync.Mutex
	writing bool
	closed  bool
}

func (o *blockingOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return 0, os.ErrClosed
	}
	o.writing = true
	o.mu.Unlock()
	n, err := o.write(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	if o.closed {
		_ = unix.Close(o.fd)
	}
	return n, err
}

func (o *blockingOutput) write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Write(o.fd, b[done:])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			fds := []unix.PollFd{{Fd: int32(o.fd), Events: unix.POLLOUT}}
			if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return done, os.NewSyscallError("poll", err)
			}
		case err != nil:
			return done, os.NewSyscallError("write", err)
		default:
			done += n
		}
	}
	return done, nil
}

// Close does not end a write in progress; it closes the descriptor after it.
func (o *blockingOutput) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	if o.writing {
		return nil
	}
	return unix.Close(o.fd)
}
