package frame

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// ErrClosed is a write on a stream that has been closed on this side.
var ErrClosed = errors.New("channel: closed")

const (
	// maxQueued bounds the messages that wait for the stream.
	maxQueued = 256
	// gather is how many bytes of waiting messages go out in one write.
	gather = 64 << 10
)

var chunks = sync.Pool{New: func() any {
	b := make([]byte, 0, headLen+4+MaxChunk)
	return &b
}}

// outgoing is one frame, or one line, on its way.
type outgoing struct {
	bytes  []byte
	pooled *[]byte
	mark   chan struct{} // closed when its turn comes: no bytes, see Flush
}

// Writer puts messages on a stream from one goroutine of its own, so that a far
// end which does not read holds up no caller beyond its context. Messages
// overtake bulk data, and keep their order among themselves.
type Writer struct {
	w      io.Writer
	urgent chan outgoing
	bulk   chan outgoing
	ended  chan struct{} // closed by Close
	failed chan struct{} // closed at the first failed write
	done   chan struct{} // closed when the goroutine is gone

	closeOnce sync.Once
	err       error // of the failed write; read after failed
}

// NewWriter starts a Writer on w. Close ends it; a write in progress ends when
// the owner of w closes that.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{
		w: w, urgent: make(chan outgoing, maxQueued), bulk: make(chan outgoing, 1),
		ended: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{}),
	}
	go out.run()
	return out
}

// Send queues a frame ahead of bulk data. It returns when the frame is queued, the
// context is done or the stream has failed.
func (w *Writer) Send(ctx context.Context, k Kind, body []byte) error {
	return w.queue(ctx, w.urgent, outgoing{bytes: Append(make([]byte, 0, headLen+len(body)), k, body)})
}

// SendInOrder queues a frame behind the bulk data queued so far.
func (w *Writer) SendInOrder(ctx context.Context, k Kind, body []byte) error {
	return w.queue(ctx, w.bulk, outgoing{bytes: Append(make([]byte, 0, headLen+len(body)), k, body)})
}

// SendLine queues one line of the other dialect; body holds no line feed.
func (w *Writer) SendLine(ctx context.Context, body []byte) error {
	line := make([]byte, 0, len(body)+1)
	return w.queue(ctx, w.urgent, outgoing{bytes: append(append(line, body...), '\n')})
}

// SendData queues a piece of a stream, which is copied.
func (w *Writer) SendData(ctx context.Context, stream uint32, chunk []byte) error {
	buf := chunks.Get().(*[]byte)
	b := appendHead((*buf)[:0], Data, 4+len(chunk))
	b = binary.BigEndian.AppendUint32(b, stream)
	b = append(b, chunk...)
	err := w.queue(ctx, w.bulk, outgoing{bytes: b, pooled: buf})
	if err != nil {
		chunks.Put(buf)
	}
	return err
}

func (w *Writer) queue(ctx context.Context, to chan outgoing, o outgoing) error {
	select {
	case <-w.failed:
		return w.err
	case <-w.ended:
		return ErrClosed
	default:
	}
	select {
	case to <- o:
		return nil
	case <-w.failed:
		return w.err
	case <-w.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Failed is closed when a write has failed.
func (w *Writer) Failed() <-chan struct{} { return w.failed }

// Err is the error of the failed write, once Failed is closed.
func (w *Writer) Err() error { return w.err }

// Close ends the writer; what is still queued is dropped. It does not wait for a
// write that is stuck: closing the stream below ends that.
func (w *Writer) Close() { w.closeOnce.Do(func() { close(w.ended) }) }

// Flush waits until the messages queued before it have been written.
func (w *Writer) Flush(ctx context.Context) error {
	mark := make(chan struct{})
	if err := w.queue(ctx, w.urgent, outgoing{mark: mark}); err != nil {
		return err
	}
	select {
	case <-mark:
		return nil
	case <-w.failed:
		return w.err
	case <-w.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Writer) run() {
	defer close(w.done)
	var many []byte
	for {
		var o outgoing
		select {
		case o = <-w.urgent:
		default:
			select {
			case o = <-w.urgent:
			case o = <-w.bulk:
			case <-w.ended:
				return
			}
		}
		if o.mark != nil {
			close(o.mark)
			continue
		}
		out := o.bytes
		var mark chan struct{}
		if o.pooled == nil && len(w.urgent) > 0 && len(out) < gather {
			// What waits already goes out together.
			many = append(many[:0], out...)
			for len(w.urgent) > 0 && len(many) < gather && mark == nil {
				next := <-w.urgent
				many, mark = append(many, next.bytes...), next.mark
			}
			out = many
		}
		_, err := w.w.Write(out)
		if o.pooled != nil {
			chunks.Put(o.pooled)
		}
		if cap(many) > 4*gather {
			many = nil
		}
		if err != nil {
			w.err = err
			close(w.failed)
			return
		}
		if mark != nil {
			close(mark)
		}
	}
}
