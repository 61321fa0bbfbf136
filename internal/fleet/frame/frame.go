// Package frame is the lowest layer of fleet: how messages are cut out of the
// byte stream between a front end and a host, and how they are put on it.
//
// Two dialects exist. Between two topsides a stream carries frames: one byte for
// the kind, four for the length (big-endian), then the body. A frame holds a
// JSON-RPC message of the tool servers, a control message of fleet itself, or
// bytes of a file; lengths in front make bulk data cheap and let a message
// overtake it. Towards an original topup (topup contract, section 3.1) a stream
// carries lines, one JSON-RPC message each; see [Lines].
//
// Everything that is read is bounded: the far end may be hostile.
package frame

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Mark begins the line with which a daemon or a relay opens a stream. What a login
// shell prints before it is skipped. Behind the mark stands the form of the frames
// ("1"), or "none" where there is no daemon.
const Mark = "TOPSIDE-FLEET/"

// Form is the form of the frames described above.
const Form = "1"

// Kind tells what the body of a frame is.
type Kind byte

// The kinds of frames.
const (
	// Message is a JSON-RPC message to or from the tool server behind a daemon.
	Message Kind = 'M'
	// Control is a [Note] between the link and the daemon.
	Control Kind = 'C'
	// Data is a piece of a file: four bytes for the stream, then at most MaxChunk bytes.
	Data Kind = 'D'
)

const (
	// DefaultMax is the largest message accepted, in bytes, as on the other wires.
	DefaultMax = 64 << 20
	// MaxControl is the largest control message accepted, in bytes.
	MaxControl = 4 << 20
	// MaxChunk is the most that one Data frame carries, in bytes.
	MaxChunk = 256 << 10

	headLen = 5
	// step is how much is allocated ahead of the bytes that have really come.
	step = 1 << 20
)

// ErrTooLarge is a message over its limit. The stream cannot go on.
var ErrTooLarge = errors.New("message exceeds the frame limit")

// ErrGarbage is a stream that does not carry what was agreed.
var ErrGarbage = errors.New("not the protocol of topside")

// Reader cuts frames out of a stream. It is for one goroutine.
type Reader struct {
	r     *bufio.Reader
	max   int
	head  [headLen]byte
	chunk []byte // reused for Data
}

// NewReader returns a Reader of r that accepts messages of at most max bytes
// (DefaultMax if zero).
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMax
	}
	br, ok := r.(*bufio.Reader)
	if !ok {
		br = bufio.NewReaderSize(r, 64<<10)
	}
	return &Reader{r: br, max: max}
}

// Next returns the next frame. A body of kind Data is valid until the next call,
// other bodies belong to the caller. At a clean end it returns io.EOF, in
// mid-frame io.ErrUnexpectedEOF.
func (r *Reader) Next() (Kind, []byte, error) {
	if _, err := io.ReadFull(r.r, r.head[:]); err != nil {
		return 0, nil, err
	}
	kind, n := Kind(r.head[0]), int(binary.BigEndian.Uint32(r.head[1:]))
	limit := 0
	switch kind {
	case Message:
		limit = r.max
	case Control:
		limit = MaxControl
	case Data:
		limit = MaxChunk + 4
	default:
		return 0, nil, fmt.Errorf("%w: frame begins with %q", ErrGarbage, r.head[:])
	}
	if n < 0 || n > limit {
		return 0, nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, limit)
	}
	if kind == Data {
		if n < 4 {
			return 0, nil, fmt.Errorf("%w: data of no stream", ErrGarbage)
		}
		if r.chunk == nil {
			r.chunk = make([]byte, MaxChunk+4)
		}
		_, err := io.ReadFull(r.r, r.chunk[:n])
		return kind, r.chunk[:n], midFrame(err)
	}
	body, err := r.body(n)
	return kind, body, midFrame(err)
}

// body reads n bytes, and allocates no more than a step ahead of what has come: a
// length alone costs the sender nothing.
func (r *Reader) body(n int) ([]byte, error) {
	body := make([]byte, min(n, step))
	if _, err := io.ReadFull(r.r, body); err != nil {
		return nil, err
	}
	for len(body) < n {
		have := len(body)
		grown := make([]byte, min(n, 2*have))
		copy(grown, body)
		if _, err := io.ReadFull(r.r, grown[have:]); err != nil {
			return nil, err
		}
		body = grown
	}
	return body, nil
}

func midFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendHead appends the head of a frame with n bytes of body.
func appendHead(b []byte, k Kind, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, byte(k)), uint32(n))
}

// Append appends a whole frame to b.
func Append(b []byte, k Kind, body []byte) []byte {
	return append(appendHead(b, k, len(body)), body...)
}

// SplitData takes the body of a Data frame apart.
func SplitData(body []byte) (stream uint32, chunk []byte) {
	return binary.BigEndian.Uint32(body), body[4:]
}
