package engine

import "context"

// Batch is a row of evaluations that the child makes one after the other without waiting for the server in between.
// It ends after a failure, and after an evaluation that was interrupted. Languages say in Capabilities whether they
// have it.
type Batch struct {
	c       *Child
	seq     uint64
	sources []string
	begun   bool // the child was given the sources
	next    int
}

// Batch prepares the evaluation of sources under the numbers from seq on. Nothing is sent before the first Next.
func (c *Child) Batch(seq uint64, sources []string) *Batch {
	return &Batch{c: c, seq: seq, sources: sources}
}

// Running tells whether the child works on the batch, so that Next must be called. A nil Batch does not run.
func (b *Batch) Running() bool { return b != nil && b.begun && b.next < len(b.sources) }

// Next returns the reply to the next evaluation. Its output ends where the reply says: the child has gone on. The error
// is a *Death when the process ended first, and then, as after a reply without More, the batch has ended.
func (b *Batch) Next(ctx context.Context, call *Call) (Reply, error) {
	exchange := func() (Dict, error) {
		if !b.begun {
			b.begun = true
			sources := make(List, len(b.sources))
			for i, s := range b.sources {
				sources[i] = s
			}
			request := Dict{{"op", "batch"}, {"seq", int64(b.seq)}, {"sources", sources}}
			if backActive(ctx, b.c.back) {
				request = append(request, Pair{"back", int64(1)})
			}
			b.c.send(request)
		}
		return b.c.await(ctx, int64(b.seq)+int64(b.next))
	}
	if err := ctx.Err(); err != nil && !b.begun {
		return Reply{}, err
	}
	d, err := b.c.run(ctx, 0, call, exchange)
	b.next++
	if err != nil {
		b.next = len(b.sources)
		return Reply{}, err
	}
	r := parseReply(d)
	if !r.More {
		b.next = len(b.sources)
	}
	return r, nil
}
