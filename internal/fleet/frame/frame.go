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

// Reader cuts frames out of a stream. It is for one goroutine at a time.
type Reader struct {
	r     *bufio.Reader
	max   int
	chunk *Chunk // the body of the last Data frame, unless a stream has taken it

	// The frame that is being read, as far as it has come: a read that a deadline
	// interrupts is taken up again by the next one.
	head [headLen]byte
	have int // bytes of head, then of body
	kind Kind
	size int
	body []byte // nil while the head is read
}

// NewReader returns a Reader of r that accepts messages of at most max bytes
// (DefaultMax if zero).
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMax
	}
	return &Reader{r: buffered(r), max: max}
}

func buffered(r io.Reader) *bufio.Reader {
	switch r := r.(type) {
	case *Patient:
		return r.Reader
	case *bufio.Reader:
		return r
	}
	return bufio.NewReaderSize(r, 64<<10)
}

// Next returns the next frame. A body of kind Data is valid until the next call,
// other bodies belong to the caller. At a clean end it returns io.EOF, in
// mid-frame io.ErrUnexpectedEOF. After os.ErrDeadlineExceeded it may be called
// again, and nothing is lost; other errors are final.
func (r *Reader) Next() (Kind, []byte, error) {
	if r.body == nil {
		if err := r.begin(); err != nil {
			return 0, nil, err
		}
	}
	for {
		if err := r.fill(r.body); err != nil {
			return 0, nil, midFrame(err)
		}
		if len(r.body) == r.size {
			break
		}
		// A length alone costs the sender nothing: no more is allocated than has come.
		grown := make([]byte, min(r.size, 2*len(r.body)))
		copy(grown, r.body)
		r.body = grown
	}
	body := r.body
	r.have, r.body = 0, nil
	return r.kind, body, nil
}

// begin reads the head of a frame and makes room for the body.
func (r *Reader) begin() error {
	if err := r.fill(r.head[:]); err != nil {
		if r.have > 0 {
			return midFrame(err)
		}
		return err
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
		return fmt.Errorf("%w: frame begins with %q", ErrGarbage, r.head[:])
	}
	if n < 0 || n > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, limit)
	}
	r.kind, r.size, r.have = kind, n, 0
	if kind != Data {
		r.body = make([]byte, min(n, step))
		return nil
	}
	if n < 4 {
		return fmt.Errorf("%w: data of no stream", ErrGarbage)
	}
	if r.chunk == nil {
		r.chunk = NewChunk()
	}
	r.body = (*r.chunk)[headLen : headLen+n]
	return nil
}

// fill reads until b is full, from where the last fill of it stopped.
func (r *Reader) fill(b []byte) error {
	for r.have < len(b) {
		n, err := r.r.Read(b[r.have:])
		if r.have += n; err != nil && r.have < len(b) {
			return err
		}
	}
	return nil
}

// piece is the piece of the Data frame that was read last.
func (r *Reader) piece() []byte { return (*r.chunk)[dataHead : headLen+r.size] }

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
