package frame

import (
	"encoding/json"
	"fmt"
)

// Window is how many bytes of a stream may be on their way without having been
// taken: the memory that a transfer costs each side.
const Window = 8 << 20

// maxItems bounds the pieces that wait in a stream. An honest sender fills its
// pieces, so that a window has thirty-two.
const maxItems = 128

// Stream is one transfer on a connection, as its receiver sees it.
type Stream struct {
	ID uint32
	// In holds what has come, in order. Whoever takes an item releases it.
	In chan Item
}

// NewStream makes a stream.
func NewStream(id uint32) *Stream { return &Stream{ID: id, In: make(chan Item, maxItems)} }

// Item is a piece of data, or a note about the stream.
type Item struct {
	Data []byte
	Note *Note

	pooled *Chunk
}

// Release gives the memory of the item back.
func (i Item) Release() {
	if i.pooled != nil {
		i.pooled.Release()
	}
}

// PutData adds the piece that r has just read, and takes its memory. A sender that has
// not kept to the window gives an ErrTooLarge, and its connection has to end.
func (s *Stream) PutData(r *Reader) error {
	select {
	case s.In <- Item{Data: r.piece(), pooled: r.chunk}:
		r.chunk = nil
		return nil
	default:
		return fmt.Errorf("%w: more data than the window of stream %d lets in", ErrTooLarge, s.ID)
	}
}

// PutNote adds a note about the stream.
func (s *Stream) PutNote(n Note) error {
	select {
	case s.In <- Item{Note: &n}:
		return nil
	default:
		return fmt.Errorf("%w: too many notes about stream %d", ErrTooLarge, s.ID)
	}
}

// Drain releases what nobody takes any more.
func (s *Stream) Drain() {
	for {
		select {
		case i := <-s.In:
			i.Release()
		default:
			return
		}
	}
}

// OfStream returns the stream that a note is about, 0 if none.
func (n Note) OfStream() uint32 {
	var of struct {
		Stream uint32 `json:"stream"`
	}
	if n.Args != nil {
		_ = json.Unmarshal(n.Args, &of)
	}
	return of.Stream
}
