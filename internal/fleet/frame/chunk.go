package frame

import (
	"sync"
	"time"
)

// dataHead is what stands before the piece in a Data frame.
const dataHead = headLen + 4

// Chunk is memory for one piece of a stream, with room for what goes before it on the
// wire: a piece is read from a file, sent, received and written without being copied.
type Chunk []byte

const (
	// maxSpare is how many chunks are kept for reuse: those of two full windows.
	maxSpare = 2 * Window / MaxChunk
	// spareFor is how long they are kept while nobody takes one.
	spareFor = 5 * time.Second
)

// spare is the chunks that wait to be used again. A sync.Pool would lose them to each
// collection of garbage, of which a transfer that allocates its chunks has many, and
// the first touch of new memory costs as much as two copies of it.
var spare struct {
	sync.Mutex
	chunks []*Chunk
	taken  bool // since the timer was last set
	timer  *time.Timer
}

// NewChunk returns a chunk, which Release, or sending it, gives back.
func NewChunk() *Chunk {
	spare.Lock()
	defer spare.Unlock()
	spare.taken = true
	if n := len(spare.chunks); n > 0 {
		c := spare.chunks[n-1] // the one most likely to be in a cache
		spare.chunks[n-1] = nil
		spare.chunks = spare.chunks[:n-1]
		return c
	}
	c := make(Chunk, dataHead+MaxChunk)
	return &c
}

// Room is where the piece goes: MaxChunk bytes.
func (c *Chunk) Room() []byte { return (*c)[dataHead:] }

// Release gives the chunk back. It must not be used after that.
func (c *Chunk) Release() {
	spare.Lock()
	defer spare.Unlock()
	if len(spare.chunks) >= maxSpare {
		return
	}
	spare.chunks = append(spare.chunks, c)
	if spare.timer == nil {
		spare.timer = time.AfterFunc(spareFor, dropSpare)
	}
}

// dropSpare gives the memory up when no transfer has needed it for a while.
func dropSpare() {
	spare.Lock()
	defer spare.Unlock()
	if spare.taken {
		spare.taken = false
		spare.timer.Reset(spareFor)
		return
	}
	spare.chunks, spare.timer = nil, nil
}
