package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"topside/internal/fleet/frame"
)

const (
	// ackAfter is how long a call runs before its front end is told that it has begun.
	// Only then can the front end say for certain, when the connection breaks, that
	// the work goes on.
	ackAfter = 250 * time.Millisecond

	// maxWaiting bounds the messages that wait for the tool server.
	maxWaiting = 1024
	// maxKept bounds the replies kept for a front end, in bytes.
	maxKept = 64 << 20
	// maxRing bounds the small replies kept after they were sent: they may have been
	// lost on the way.
	maxRing = 1 << 20
	// Large is the size from which a front end confirms a reply.
	Large = 64 << 10

	codeBusy = -32000
	codeLost = -32001

	// closedText is what a session gets that asks its client for something while
	// there is none (topup contract, section 8).
	closedText = "channel: closed before response"
)

var errTooMany = &frame.Failure{Kind: "busy", Text: "too many front ends are connected"}

// front is one front end: a stream of a tool server that outlives connections.
type front struct {
	d       *Daemon
	id      string
	surface string
	stream  *stream // what the tool server serves
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	at      *attachment // nil while there is no connection
	away    time.Time   // since when
	expiry  *time.Timer
	acks    *time.Timer // goes off while a call may have to be acknowledged
	armed   bool        // acks will go off; it is not stopped by the end of a call
	running map[uint64]*call
	asked   map[string]struct{} // requests of the tool server without an answer
	kept    []reply
	bytes   int // of kept
	ring    int // what the small replies that were sent count
	ended   bool
}

type call struct {
	began time.Time
	acked bool
}

type reply struct {
	id   uint64
	body []byte
	sent bool
}

func newFront(d *Daemon, id, surface string) *front {
	f := &front{
		d: d, id: id, surface: surface,
		running: map[uint64]*call{}, asked: map[string]struct{}{}, away: time.Now(),
	}
	f.stream = newStream(d.c.MaxMessage, f.fromServer)
	f.ctx, f.cancel = context.WithCancel(d.ctx)
	return f
}

// serve runs the tool server.
func (f *front) serve() {
	err := f.d.c.Serve(f.ctx, f.surface, f.stream)
	f.stream.Close()
	text := "the tool server ended"
	if err != nil {
		text += ": " + err.Error()
		f.d.c.Logger.Warn("tool server", "surface", f.surface, "error", err)
	}
	f.mu.Lock()
	running := slices.Collect(maps.Keys(f.running))
	at := f.at
	f.mu.Unlock()
	for _, id := range running {
		f.finish(id, frame.ErrorReply(rawID(id), codeLost, text))
	}
	if at != nil {
		at.finish()
	}
	f.end()
	f.d.forget(f)
}

// end ends the tool server, and with it what it still runs. It may be called more
// than once.
func (f *front) end() {
	f.mu.Lock()
	f.ended = true
	at := f.at
	for _, t := range []*time.Timer{f.expiry, f.acks} {
		if t != nil {
			t.Stop()
		}
	}
	f.mu.Unlock()
	f.stream.Close() // the end of its input comes first: it may finish in order
	f.cancel()
	if at != nil {
		at.close()
	}
}

func rawID(id uint64) json.RawMessage { return strconv.AppendUint(nil, id, 10) }

// attach makes a the front end's connection, in place of an earlier one, and sorts
// the calls that it awaits.
func (f *front) attach(a *attachment, awaiting []uint64, w *frame.Welcome) error {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return &frame.Failure{Kind: "ended", Text: "this session has just ended; connect again"}
	}
	old := f.at
	f.at = a
	f.stream.from(a)
	if f.expiry != nil {
		f.expiry.Stop()
	}
	for _, id := range awaiting {
		switch {
		case f.running[id] != nil:
			w.Running = append(w.Running, id)
		case slices.ContainsFunc(f.kept, func(r reply) bool { return r.id == id }):
			w.Replied = append(w.Replied, id)
		default:
			w.Lost = append(w.Lost, id)
		}
	}
	// What the front end does not await has arrived, or nobody wants it.
	f.kept = slices.DeleteFunc(f.kept, func(r reply) bool { return !slices.Contains(w.Replied, r.id) })
	f.measure()
	f.mu.Unlock()
	if old != nil {
		old.close()
	}
	return nil
}

// resend sends the kept replies after the welcome.
func (f *front) resend(a *attachment) {
	f.mu.Lock()
	var bodies [][]byte
	for i := range f.kept {
		f.kept[i].sent = true
		bodies = append(bodies, f.kept[i].body)
	}
	f.measure()
	f.mu.Unlock()
	for _, b := range bodies {
		if a.out.Send(a.ctx, frame.Message, b) != nil {
			return
		}
	}
}

// detach is the end of a connection. What runs goes on for Config.Keep.
func (f *front) detach(a *attachment, bye bool) {
	f.mu.Lock()
	if f.at != a {
		f.mu.Unlock()
		return
	}
	f.at = nil
	f.stream.from(nil)
	f.away = time.Now()
	asked := f.asked
	f.asked = map[string]struct{}{}
	if !bye && !f.ended {
		f.expiry = time.AfterFunc(f.d.c.Keep, func() { f.expire(a) })
	}
	f.mu.Unlock()
	for id := range asked {
		f.stream.give(frame.ErrorReply(json.RawMessage(id), codeLost, closedText))
	}
	if bye {
		f.end()
		f.d.forget(f)
	}
}

// expire ends a front end that has not come back.
func (f *front) expire(*attachment) {
	if _, away := f.awaySince(); away {
		f.d.c.Logger.Info("a front end did not come back", "front", f.id)
		f.end()
		f.d.forget(f)
	}
}

func (f *front) awaySince() (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away, f.at == nil
}

// fromFront takes a message of the front end. An error ends the connection.
func (f *front) fromFront(a *attachment, message []byte) error {
	e, err := frame.Scan(message)
	if err != nil {
		return err
	}
	line, err := frame.OneLine(message)
	if err != nil {
		return err
	}
	switch {
	case e.IsRequest():
		id, err := strconv.ParseUint(string(e.ID), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: the id of a call is not a number of the link's: %q", frame.ErrGarbage, frame.Excerpt(e.ID))
		}
		f.begin(id)
		if !f.stream.give(line) {
			f.finish(id, frame.ErrorReply(e.ID, codeBusy, "too many calls wait on this host: try again later"))
		}
	case e.IsResponse():
		f.mu.Lock()
		_, ok := f.asked[string(e.ID)]
		delete(f.asked, string(e.ID))
		f.mu.Unlock()
		if ok && !f.stream.give(line) {
			return fmt.Errorf("%w: the tool server does not read", frame.ErrTooLarge)
		}
	default:
		f.stream.give(line) // a notification that finds no room is lost, as they may be
	}
	return nil
}

func (f *front) begin(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[id] = &call{began: time.Now()}
	switch {
	case f.armed:
	case f.acks == nil:
		f.acks = time.AfterFunc(ackAfter, f.sendAcks)
	default:
		f.acks.Reset(ackAfter)
	}
	f.armed = true
}

// sendAcks tells the front end which calls run for longer than a moment.
func (f *front) sendAcks() {
	f.mu.Lock()
	var due frame.Calls
	more := false
	for id, c := range f.running {
		switch {
		case c.acked:
		case time.Since(c.began) >= ackAfter:
			c.acked = true
			due.IDs = append(due.IDs, id)
		default:
			more = true
		}
	}
	f.armed = more && !f.ended
	if f.armed {
		f.acks.Reset(ackAfter)
	}
	at := f.at
	f.mu.Unlock()
	if at != nil && len(due.IDs) > 0 {
		at.note(frame.OpAck, due)
	}
}

// fromServer takes a line of the tool server.
func (f *front) fromServer(line []byte) {
	e, err := frame.Scan(line)
	if err != nil {
		f.d.c.Logger.Error("the tool server wrote what is no message", "error", err)
		return
	}
	switch {
	case e.IsResponse():
		if id, err := strconv.ParseUint(string(e.ID), 10, 64); err == nil {
			f.finish(id, line)
		}
	case e.IsRequest():
		f.ask(e.ID, line)
	default:
		f.mu.Lock()
		at := f.at
		f.mu.Unlock()
		if at != nil {
			_ = at.out.Send(at.ctx, frame.Message, line) // lost with the connection, as notifications may be
		}
	}
}

// ask passes a request of the tool server on, or refuses it where nobody is there.
func (f *front) ask(id json.RawMessage, line []byte) {
	f.mu.Lock()
	at := f.at
	if at != nil {
		f.asked[string(id)] = struct{}{}
	}
	f.mu.Unlock()
	if at == nil {
		f.stream.give(frame.ErrorReply(id, codeLost, closedText))
		return
	}
	_ = at.out.Send(at.ctx, frame.Message, line) // a failure detaches, which answers it
}

// finish sends the reply of a call and keeps it until it has surely arrived.
func (f *front) finish(id uint64, body []byte) {
	f.mu.Lock()
	if f.running[id] == nil {
		f.mu.Unlock()
		return // answered already, or never asked
	}
	delete(f.running, id)
	at := f.at
	if len(body) > maxKept {
		body = frame.ErrorReply(rawID(id), codeLost, fmt.Sprintf("the reply of %d bytes is too large to be passed on", len(body)))
	}
	f.kept = append(f.kept, reply{id: id, body: body, sent: at != nil})
	f.bytes += len(body)
	f.prune()
	f.mu.Unlock()
	if at != nil {
		_ = at.out.Send(at.ctx, frame.Message, body) // it is kept for the next connection
	}
}

// inRing reports whether a reply is small and was sent: it is kept in case it was lost
// on the way, until others push it out.
func (r reply) inRing() bool { return r.sent && len(r.body) < Large }

// ringCost is what a small reply counts, with what it takes to hold it.
func (r reply) ringCost() int { return len(r.body) + 64 }

// prune keeps the kept replies, of which the last one is new, within their bounds. It
// needs f.mu. The ring is cut to half when it is full, so that a call costs nothing
// on average.
func (f *front) prune() {
	if last := f.kept[len(f.kept)-1]; last.inRing() {
		f.ring += last.ringCost()
	}
	if f.ring > maxRing {
		left := maxRing / 2
		f.ring = 0
		for i := len(f.kept) - 1; i >= 0; i-- {
			r := &f.kept[i]
			if !r.inRing() {
				continue
			}
			if left -= r.ringCost(); left < 0 {
				f.bytes -= len(r.body)
				r.id = 0 // no call has it
			} else {
				f.ring += r.ringCost()
			}
		}
		f.kept = slices.DeleteFunc(f.kept, func(r reply) bool { return r.id == 0 })
	}
	for i := 0; f.bytes > maxKept && i < len(f.kept)-1; i++ {
		r := &f.kept[i]
		note := frame.ErrorReply(rawID(r.id), codeLost, fmt.Sprintf("the reply of %d bytes came while there was no connection, and could not be kept", len(r.body)))
		if len(note) < len(r.body) {
			f.bytes += len(note) - len(r.body)
			r.body = note
		}
	}
}

// measure counts the kept replies anew. It needs f.mu.
func (f *front) measure() {
	f.bytes, f.ring = 0, 0
	for _, r := range f.kept {
		f.bytes += len(r.body)
		if r.inRing() {
			f.ring += r.ringCost()
		}
	}
}

// got drops large replies that have arrived.
func (f *front) got(ids []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = slices.DeleteFunc(f.kept, func(r reply) bool { return slices.Contains(ids, r.id) })
	f.measure()
}

// drop forgets calls whose replies nobody wants any more.
func (f *front) drop(ids []uint64) {
	f.mu.Lock()
	for _, id := range ids {
		delete(f.running, id)
	}
	f.mu.Unlock()
	f.got(ids)
}
