package daemon

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"topside/internal/fleet/frame"
)

// stream is the connection that a tool server serves: lines that a front end sends
// wait in it, bounded, and lines that the tool server writes are taken in the
// goroutine that writes them. A tool server that waits for a line reads the front
// end's connection itself. So a call costs no goroutine of its own, nor a switch to one.
type stream struct {
	take func(line []byte) // takes a line of the tool server; the line is its own
	max  int               // the longest line, in bytes

	mu      sync.Mutex
	waiting [][]byte
	bytes   int
	more    chan struct{} // has a token when something waits, or may be read for, or it is closed
	readers int           // who wait for more
	closed  bool
	source  lineSource // the connection to read for a line; nil if there is none

	writing sync.Mutex
	part    []byte // a line that is not complete
}

// lineSource is a connection that a reader of the stream may read for itself: it gives
// the lines that come to the stream, and returns false if another reads it, or its end
// has come.
type lineSource interface{ readMessage() bool }

// maxWaitingBytes bounds the messages that wait for the tool server.
const maxWaitingBytes = 2 * frame.DefaultMax

func newStream(max int, take func([]byte)) *stream {
	if max <= 0 {
		max = frame.DefaultMax
	}
	return &stream{take: take, max: max, more: make(chan struct{}, 1)}
}

// give adds a line for the tool server; false if too much waits already.
func (s *stream) give(line []byte) bool {
	s.mu.Lock()
	full := s.closed || len(s.waiting) >= maxWaiting || len(s.waiting) > 0 && s.bytes+len(line) > maxWaitingBytes
	if !full {
		s.waiting = append(s.waiting, append(line, '\n'))
		s.bytes += len(line) + 1
	}
	wake := s.readers > 0
	s.mu.Unlock()
	if wake {
		s.wake()
	}
	return !full
}

// from sets the connection that readers of the stream read; nil for none.
func (s *stream) from(source lineSource) {
	s.mu.Lock()
	s.source = source
	s.mu.Unlock()
}

// reads reports whether somebody reads the stream and waits for a line: whoever reads
// the connection may leave that to it.
func (s *stream) reads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readers > 0
}

func (s *stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Read implements net.Conn for the tool server.
func (s *stream) Read(b []byte) (int, error) {
	for {
		s.mu.Lock()
		n := 0
		for n < len(b) && len(s.waiting) > 0 {
			m := copy(b[n:], s.waiting[0])
			n += m
			if s.waiting[0] = s.waiting[0][m:]; len(s.waiting[0]) == 0 {
				s.waiting[0] = nil
				s.waiting = s.waiting[1:]
			}
		}
		s.bytes -= n
		closed, source := s.closed, s.source
		s.mu.Unlock()
		switch {
		case n > 0 || len(b) == 0:
			return n, nil
		case closed:
			s.wake() // another reader
			return 0, io.EOF
		case source != nil && source.readMessage():
			continue
		}
		s.await()
	}
}

// await waits until there may be something to read.
func (s *stream) await() {
	s.mu.Lock()
	ready := len(s.waiting) > 0 || s.closed
	if !ready {
		s.readers++
	}
	s.mu.Unlock()
	if ready {
		return
	}
	<-s.more
	s.mu.Lock()
	s.readers--
	s.mu.Unlock()
}

// Write implements net.Conn for the tool server.
func (s *stream) Write(b []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	written := 0
	for {
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return written, io.ErrClosedPipe
		}
		at := bytes.IndexByte(b, '\n')
		if at < 0 {
			if len(s.part)+len(b) > s.max {
				s.Close()
				return written, frame.ErrTooLarge
			}
			s.part = append(s.part, b...)
			return written + len(b), nil
		}
		line := append(s.part, b[:at]...)
		s.part = nil
		b, written = b[at+1:], written+at+1
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.take(line)
		}
	}
}

// Close ends the stream for both sides; what waits can still be read.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed, s.source = true, nil
	s.mu.Unlock()
	s.wake()
	return nil
}

type address struct{}

func (address) Network() string { return "fleet" }
func (address) String() string  { return "front end" }

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn: a stream has none.
func (s *stream) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn: a stream has none.
func (s *stream) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn: a stream has none.
func (s *stream) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
