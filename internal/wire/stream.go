package wire

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Stream is the two byte streams of one client.
type Stream struct {
	r         io.Reader
	w         io.Writer
	closers   []io.Closer
	closeOnce sync.Once
	closeErr  error
}

// NewStream returns the stream that reads r and writes w. Closing it closes both.
func NewStream(r io.ReadCloser, w io.WriteCloser) *Stream {
	return &Stream{r: r, w: w, closers: []io.Closer{r, w}}
}

// ConnStream returns the stream of a network connection.
func ConnStream(c net.Conn) *Stream {
	return &Stream{r: c, w: c, closers: []io.Closer{c}}
}

// Read implements [io.Reader].
func (s *Stream) Read(b []byte) (int, error) { return s.r.Read(b) }

// Write implements [io.Writer].
func (s *Stream) Write(b []byte) (int, error) { return s.w.Write(b) }

// Close ends the stream, and reads and writes that wait on it where the kind of
// file allows it. It may be called more than once.
func (s *Stream) Close() error {
	s.closeOnce.Do(func() {
		for _, c := range s.closers {
			s.closeErr = errors.Join(s.closeErr, c.Close())
		}
	})
	return s.closeErr
}
