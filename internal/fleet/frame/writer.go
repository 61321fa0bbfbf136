package frame

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// ErrClosed is a write on a stream that has been closed on this side.
var ErrClosed = errors.New("channel: closed")

const (
	// maxQueued bounds the messages that wait for the stream.
	maxQueued = 256
	// gather is how many bytes of waiting messages go out in one write.
	gather = 64 << 10
)

// outgoing is one frame, or one line, on its way.
type outgoing struct {
	bytes  []byte
	pooled *Chunk
	mark   chan struct{} // closed when its turn comes: no bytes, see Flush
	// inOrder is a message among the bulk data.
	inOrder bool
}

// Writer puts messages on a stream so that a far end which does not read holds up no
// caller beyond its context. Messages overtake bulk data, and keep their order among
// themselves.
//
// A small message on an idle stream is written by its caller, as far as the system
// takes it at once: that saves a switch of goroutines on each call. All else is
// written by a goroutine of the Writer's.
type Writer struct {
	w      io.Writer
	direct func([]byte) (int, error) // writes what goes without waiting; nil if the stream cannot
	urgent chan outgoing
	bulk   chan outgoing
	rest   chan []byte   // what direct left of a message; comes with the turn
	turn   chan struct{} // holds one token while nobody writes
	ended  chan struct{} // closed by Close
	failed chan struct{} // closed at the first failed write
	done   chan struct{} // closed when the goroutine is gone
	queued atomic.Int64  // messages that are not yet written

	closeOnce, failOnce sync.Once
	err                 error // of the failed write; read after failed
}

// maxDirect is the largest message that its caller writes.
const maxDirect = 32 << 10

// NewWriter starts a Writer on w. Close ends it; a write in progress ends when
// the owner of w closes that.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{
		w: w, direct: directWriter(w), urgent: make(chan outgoing, maxQueued), bulk: make(chan outgoing, 1),
		rest: make(chan []byte, 1), turn: make(chan struct{}, 1),
		ended: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{}),
	}
	out.turn <- struct{}{}
	go out.run()
	return out
}

// Send sends a frame ahead of bulk data. It returns when the frame is written or
// queued, the context is done or the stream has failed.
func (w *Writer) Send(ctx context.Context, k Kind, body []byte) error {
	return w.send(ctx, Append(make([]byte, 0, headLen+len(body)), k, body))
}

// ErrBusy is a message that would have had to wait.
var ErrBusy = errors.New("channel: too much waits to be sent")

// TrySend is Send for who may not wait: ErrBusy where that would have to.
func (w *Writer) TrySend(k Kind, body []byte) error {
	b := Append(make([]byte, 0, headLen+len(body)), k, body)
	if sent, err := w.sendNow(b); sent || err != nil {
		return err
	}
	w.queued.Add(1)
	select {
	case w.urgent <- outgoing{bytes: b}:
		return nil
	default:
		w.queued.Add(-1)
		return ErrBusy
	}
}

// send sends the bytes of a message.
func (w *Writer) send(ctx context.Context, b []byte) error {
	if sent, err := w.sendNow(b); sent || err != nil {
		return err
	}
	w.queued.Add(1)
	err := w.queue(ctx, w.urgent, outgoing{bytes: b})
	if err != nil {
		w.queued.Add(-1)
	}
	return err
}

// sendNow writes a small message if nothing is being written, nor waits to be.
func (w *Writer) sendNow(b []byte) (sent bool, err error) {
	if err := w.over(); err != nil {
		return false, err
	}
	if w.direct != nil && len(b) <= maxDirect && w.queued.Load() == 0 {
		select {
		case <-w.turn:
			if w.queued.Load() == 0 {
				return true, w.sendDirect(b)
			}
			w.turn <- struct{}{}
		default:
		}
	}
	return false, nil
}

// sendDirect has the turn, and gives it up or passes it on with what is left.
func (w *Writer) sendDirect(b []byte) error {
	n, err := w.direct(b)
	if err != nil {
		w.fail(err)
	} else if n < len(b) {
		w.queued.Add(1)
		w.rest <- b[n:]
		return nil
	}
	w.turn <- struct{}{}
	return err
}

func (w *Writer) fail(err error) {
	w.failOnce.Do(func() {
		w.err = err
		close(w.failed)
	})
}

// over says why nothing can be sent any more; nil if it can.
func (w *Writer) over() error {
	select {
	case <-w.failed:
		return w.err
	case <-w.ended:
		return ErrClosed
	default:
		return nil
	}
}

// SendInOrder queues a frame behind the bulk data queued so far.
func (w *Writer) SendInOrder(ctx context.Context, k Kind, body []byte) error {
	return w.queue(ctx, w.bulk, outgoing{bytes: Append(make([]byte, 0, headLen+len(body)), k, body), inOrder: true})
}

// SendLine queues one line of the other dialect; body holds no line feed.
func (w *Writer) SendLine(ctx context.Context, body []byte) error {
	line := make([]byte, 0, len(body)+1)
	return w.send(ctx, append(append(line, body...), '\n'))
}

// SendData queues a piece of a stream, which is copied.
func (w *Writer) SendData(ctx context.Context, stream uint32, piece []byte) error {
	c := NewChunk()
	return w.SendChunk(ctx, stream, c, copy(c.Room(), piece))
}

// SendChunk queues the first n bytes of a chunk as a piece of a stream. The chunk is no
// longer the caller's, whatever the outcome.
func (w *Writer) SendChunk(ctx context.Context, stream uint32, c *Chunk, n int) error {
	b := appendHead((*c)[:0], Data, 4+n)
	b = binary.BigEndian.AppendUint32(b, stream)
	b = b[:dataHead+n]
	err := w.queue(ctx, w.bulk, outgoing{bytes: b, pooled: c})
	if err != nil {
		c.Release()
	}
	return err
}

func (w *Writer) queue(ctx context.Context, to chan outgoing, o outgoing) error {
	if err := w.over(); err != nil {
		return err
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
	w.queued.Add(1)
	if err := w.queue(ctx, w.urgent, outgoing{mark: mark}); err != nil {
		w.queued.Add(-1)
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
		o, ok := w.next()
		if !ok {
			return
		}
		out, count := o.bytes, 0
		if o.pooled == nil {
			count = 1
		}
		marks := []chan struct{}{o.mark}
		if o.pooled == nil && o.mark == nil && !o.inOrder && len(w.urgent) > 0 && len(out) < gather {
			// What waits already goes out together.
			many = append(many[:0], out...)
			for len(w.urgent) > 0 && len(many) < gather {
				next := <-w.urgent
				many, marks = append(many, next.bytes...), append(marks, next.mark)
				count++
			}
			out = many
		}
		ok = w.write(out)
		if o.pooled != nil {
			o.pooled.Release()
		}
		if cap(many) > 4*gather {
			many = nil
		}
		if !o.inOrder {
			w.queued.Add(-int64(count))
		}
		if !ok {
			return
		}
		for _, m := range marks {
			if m != nil {
				close(m)
			}
		}
	}
}

// next waits for something to write, messages first.
func (w *Writer) next() (o outgoing, ok bool) {
	for {
		select {
		case o = <-w.urgent:
			return o, true
		default:
		}
		select {
		case o = <-w.urgent:
			return o, true
		case o = <-w.bulk:
			return o, true
		case rest := <-w.rest:
			if !w.writeRest(rest) {
				return o, false
			}
		case <-w.ended:
			return o, false
		}
	}
}

// write writes when it has the turn.
func (w *Writer) write(b []byte) bool {
	for {
		select {
		case <-w.turn:
			if len(b) > 0 {
				if _, err := w.w.Write(b); err != nil {
					w.fail(err)
					return false
				}
			}
			w.turn <- struct{}{}
			return true
		case rest := <-w.rest:
			if !w.writeRest(rest) {
				return false
			}
		}
	}
}

// writeRest writes what direct left; the turn came with it.
func (w *Writer) writeRest(rest []byte) bool {
	_, err := w.w.Write(rest)
	w.queued.Add(-1)
	if err != nil {
		w.fail(err)
		return false
	}
	w.turn <- struct{}{}
	return true
}
