package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The reading side of one client: every line becomes an answer of our own (a
// fault), a message for one of the SDK's sessions, or nothing.
//
// The reading goroutine never writes to the stream itself: a client that does not
// read its replies must not keep us from seeing the end of its input.

const (
	// maxQueued bounds the faults that wait for a client which does not read, in
	// bytes. Beyond it they are dropped: that client has not read thousands.
	maxQueued = 1 << 20

	// maxBatch bounds the members of one batch.
	maxBatch = 1024

	// busyWait is how long the reader waits for a free place, while no call
	// finishes, before it refuses calls. It then refuses at once until one does, so
	// that cancellations behind the refused calls are still read soon.
	busyWait = time.Second

	// barrierEvery is the number of notifications passed on before the reader
	// waits until the SDK has handled them: its queue has no bound.
	barrierEvery = 64
)

// call is one request being served.
type call struct {
	raw       json.RawMessage // the id as the client wrote it
	size      int             // bytes of parameters held
	batch     *batch          // nil outside a batch
	listening bool            // subscriptions/listen: ends with the stream, not before
	handshake bool            // initialize: cannot be cancelled
	done      func()          // of its Admission; nil for none
	cancel    func()          // of its Admission; nil for the SDK's
	cancelled bool
	released  bool // no longer holds back the end of the stream
}

// batch collects the responses of one JSON-RPC batch. Guarded by peer.mu.
type batch struct {
	pending int // members to be answered, and one for the reader
	replies [][]byte
}

// peer is one client.
type peer struct {
	ctx    context.Context
	server *mcp.Server
	stream *Stream
	frames *frameReader
	o      Options
	log    *slog.Logger
	ready  *readyResults

	writing chan struct{} // holds one token while a line is being written
	done    chan struct{} // closed when the stream has ended
	failed  chan struct{} // closed at the first failed write

	inputEnded chan struct{} // closed when the client will send nothing more

	life    context.Context // of the calls that are answered beside the SDK
	endLife context.CancelFunc
	jobs    chan func()
	spare   chan struct{} // holds one token for each goroutine that waits for a job

	current   *session // the latest session; owned by the reader
	forwarded int      // notifications passed on since the last barrier; owned by the reader
	sessionWG sync.WaitGroup

	mu       sync.Mutex
	epoch    int64
	sessions map[int64]*session
	calls    int           // requests without a finished response
	bytes    int           // their parameters
	holding  int           // of these, the ones that hold back the end of the stream
	room     chan struct{} // closed by the next call that finishes; nil if nobody waits
	stalled  bool          // the reader has waited in vain, and no call has finished since
	idle     chan struct{} // closed when nothing holds back the end; nil before the end
	queue    [][]byte      // faults to be written
	queued   int           // their bytes
	draining bool          // a goroutine is writing the queue
	dropped  int
	writeErr error
}

func newPeer(ctx context.Context, server *mcp.Server, s *Stream, o Options) *peer {
	life, endLife := context.WithCancel(ctx)
	return &peer{
		life: life, endLife: endLife,
		jobs:  make(chan func()),
		spare: make(chan struct{}, maxSpare),

		ready:   newReadyResults(),
		ctx:     ctx,
		server:  server,
		stream:  s,
		frames:  newFrameReader(s, o.MaxFrame),
		o:       o,
		log:     o.Logger.With("stream", o.Name),
		writing: make(chan struct{}, 1),
		done:    make(chan struct{}),
		failed:  make(chan struct{}),

		inputEnded: make(chan struct{}),
		sessions:   make(map[int64]*session),
	}
}

// read serves lines until the end of input (nil) or a line that ends the stream.
func (p *peer) read() error {
	defer close(p.inputEnded)
	for {
		line, err := p.frames.next()
		switch {
		case errors.Is(err, ErrTooMuchHeld):
			p.reject(message{err: &jsonrpc.Error{
				Code:    codeServerBusy,
				Message: "the clients of this server hold too much memory in unfinished lines; the connection ends, try again later",
			}}, nil)
			return err
		case errors.Is(err, ErrFrameTooLarge):
			consequence := "the connection ends"
			if p.o.SkipLong {
				consequence = "it was dropped"
			}
			p.reject(message{err: &jsonrpc.Error{
				Code:    jsonrpc.CodeInvalidRequest,
				Message: fmt.Sprintf("invalid request: a line may have at most %d bytes; %s", p.o.MaxFrame, consequence),
			}}, nil)
			if p.o.SkipLong {
				p.frames.skipLine()
				continue
			}
			return fmt.Errorf("%w of %d bytes", ErrFrameTooLarge, p.o.MaxFrame)
		case err != nil:
			// The end of input, or a stream that broke: the client is gone.
			if !errors.Is(err, io.EOF) && !p.ended() {
				p.log.Debug("read ended", "error", err)
			}
			return nil
		}
		length := len(line)
		if err := p.accept(line); err != nil {
			return err
		}
		line = nil
		returnMemory(length)
		if p.ended() {
			return nil
		}
	}
}

// accept serves one line.
func (p *peer) accept(line []byte) error {
	if err := checkJSON(line); err != nil {
		if p.o.EndOnMalformed {
			return fmt.Errorf("%w: %v", ErrMalformed, err)
		}
		p.reject(fault(nil, jsonrpc.CodeParseError, err.Error()), nil)
		return nil
	}
	if p.o.StrayCalls && line[0] != '{' {
		p.dispatch(strayCall(nil), nil)
		return nil
	}
	if line[0] == '[' {
		p.acceptBatch(line)
		return nil
	}
	p.dispatch(parseMessage(line, p.o.leniency()), nil)
	return nil
}

// acceptBatch serves the members of an array as requests of their own, and their
// responses as one array. Protocol 2025-03-26 has batches, later ones do not;
// they are served in any.
func (p *peer) acceptBatch(line []byte) {
	n := 0
	for range elements(line) {
		if n++; n > maxBatch {
			break
		}
	}
	if n == 0 || n > maxBatch {
		text := "invalid request: an empty batch"
		if n > 0 {
			text = fmt.Sprintf("invalid request: a batch may have at most %d members", maxBatch)
		}
		p.reject(fault(nil, jsonrpc.CodeInvalidRequest, text), nil)
		return
	}
	b := &batch{pending: 1}
	for member := range elements(line) {
		p.dispatch(parseMessage(member, p.o.leniency()), b)
	}
	if reply := p.settle(b, nil); reply != nil {
		p.enqueue(reply)
	}
}

func (p *peer) dispatch(m message, b *batch) {
	switch m.kind {
	case faulty:
		p.reject(m, b)
	case request:
		p.request(m, b)
	case notification:
		p.notify(m)
	case response:
		p.respond(m)
	}
}

// request registers a call and hands it to its session.
func (p *peer) request(m message, b *batch) {
	size := len(m.params)
	if p.o.Screen != nil {
		if refusal := p.o.Screen(m.method, m.params); refusal != nil {
			p.reject(message{rawID: m.rawID, err: refusal}, b)
			return
		}
	}
	var admitted Admission
	var over func()
	if p.o.Admit != nil {
		var refusal *jsonrpc.Error
		if admitted, refusal = p.o.Admit(m.method, m.params); refusal != nil {
			p.reject(message{rawID: m.rawID, err: refusal}, b)
			return
		}
		m.params, over = admitted.Params, admitted.Done
		if admitted.Method != "" {
			m.method = admitted.Method
		}
		defer func() {
			if over != nil {
				over()
			}
		}()
	}
	modern := isSessionless(m.params)
	s, err := p.sessionFor(m.method, modern)
	if err != nil {
		p.log.Error("session could not be opened", "error", err)
		p.reject(fault(m.rawID, jsonrpc.CodeInternalError, "internal error: no session"), b)
		return
	}
	if !modern {
		m.params = mendParams(m.method, m.params)
	}
	c := &call{
		raw:       m.rawID,
		size:      size,
		batch:     b,
		listening: m.method == methodListen,
		handshake: m.method == methodInitialize,
		done:      over,
		cancel:    admitted.Cancel,
	}
	if !p.waitForRoom(c.size) {
		p.reject(fault(m.rawID, codeServerBusy, fmt.Sprintf(
			"too many requests in flight (at most %d): wait for replies, then send again", p.o.MaxInFlight)), b)
		return
	}
	if p.o.AnyID {
		m.id = p.unusedID(s, m.id)
	}
	if !p.register(s, m.id, c) {
		p.reject(fault(m.rawID, jsonrpc.CodeInvalidRequest,
			"invalid request: id "+string(m.rawID)+" is in use by a request in flight"), b)
		return
	}
	over = nil // the call's own from now on
	if admitted.Serve != nil {
		p.serve(s, m.id, m.method, admitted.Serve)
		return
	}
	s.deliver(&jsonrpc.Request{ID: m.id, Method: m.method, Params: m.params})
}

// sessionFor returns the session that a request belongs to, and opens one where
// it needs another than the current: a handshake always gets a fresh one, and a
// call of the older protocol one that has had a handshake or is as if.
func (p *peer) sessionFor(method string, modern bool) (*session, error) {
	s := p.current
	switch {
	case method == methodInitialize && !modern:
		return p.open(afterHandshake)
	case s == nil && modern:
		return p.open(perRequest)
	case s == nil, s.origin == perRequest && !modern:
		return p.open(assumed)
	}
	return s, nil
}

// open starts a session of the SDK and retires the current one, which goes on
// answering what it was asked.
func (p *peer) open(o origin) (*session, error) {
	p.mu.Lock()
	s := &session{
		peer:    p,
		epoch:   p.epoch,
		origin:  o,
		in:      make(chan jsonrpc.Message),
		done:    make(chan struct{}),
		barrier: make(chan struct{}, 1),
		calls:   make(map[jsonrpc.ID]*call),
	}
	p.epoch++
	p.sessions[s.epoch] = s
	p.mu.Unlock()

	var options *mcp.ServerSessionOptions
	if o == assumed {
		options = &mcp.ServerSessionOptions{State: assumedSession()}
	}
	ss, err := p.server.Connect(context.WithValue(p.ctx, readyContext{}, p.ready), s, options)
	if err != nil {
		p.mu.Lock()
		delete(p.sessions, s.epoch)
		p.mu.Unlock()
		return nil, err
	}
	p.sessionWG.Go(func() {
		_ = ss.Wait()
		p.mu.Lock()
		delete(p.sessions, s.epoch)
		retired := s.retired
		p.mu.Unlock()
		s.end()
		if !retired && !p.ended() {
			// The SDK has given the client up (a failed keep-alive).
			p.fail(io.ErrClosedPipe)
		}
	})
	old := p.current
	p.current = s
	if old != nil {
		p.mu.Lock()
		old.retired = true
		over := len(old.calls) == 0 && old.unwritten == 0
		p.mu.Unlock()
		if over {
			old.end()
		}
	}
	return s, nil
}

// waitForRoom reports whether one more call with size bytes may be served.
func (p *peer) waitForRoom(size int) bool {
	p.mu.Lock()
	if p.hasRoom(size) || p.stalled {
		defer p.mu.Unlock()
		return p.hasRoom(size)
	}
	deadline := time.NewTimer(busyWait)
	defer deadline.Stop()
	for {
		room := make(chan struct{})
		p.room = room
		p.mu.Unlock()
		select {
		case <-room:
		case <-p.done:
			return false
		case <-deadline.C:
			p.mu.Lock()
			defer p.mu.Unlock()
			p.stalled = true
			return p.hasRoom(size)
		}
		p.mu.Lock()
		if p.hasRoom(size) {
			p.mu.Unlock()
			return true
		}
	}
}

// hasRoom needs p.mu. A single call always has room, whatever its size.
func (p *peer) hasRoom(size int) bool {
	return p.calls < p.o.MaxInFlight && (p.calls == 0 || p.bytes+size <= 4*p.o.MaxFrame)
}

func (p *peer) register(s *session, id jsonrpc.ID, c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.calls[id] != nil {
		return false
	}
	s.calls[id] = c
	p.calls++
	p.bytes += c.size
	if c.listening {
		c.released = true
	} else {
		p.holding++
	}
	if c.batch != nil {
		c.batch.pending++
	}
	return true
}

// unusedID returns id, or one that no client uses when a call in flight has it.
func (p *peer) unusedID(s *session, id jsonrpc.ID) jsonrpc.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := 2; s.calls[id] != nil; n++ {
		id, _ = jsonrpc.MakeID(fmt.Sprintf("\x00d%d\x00%v", n, id.Raw()))
	}
	return id
}

// refuseOpen answers the calls that are still running with an error: the client
// may wait for them although it sends nothing more. The channel is closed when
// the answers are written.
func (p *peer) refuseOpen() <-chan struct{} {
	p.mu.Lock()
	var lines [][]byte
	for _, s := range p.sessions {
		for _, c := range s.calls {
			if c.batch != nil || c.cancelled || c.listening {
				continue
			}
			lines = append(lines, append(appendError(nil, c.raw, &jsonrpc.Error{
				Code:    codeServerBusy,
				Message: "the input ended before this call was done, and the call was cancelled: keep the input open until the reply is there",
			}), '\n'))
			c.cancelled = true // its own reply would be the second
		}
	}
	p.mu.Unlock()
	for _, line := range lines {
		p.enqueue(line)
	}
	written := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.draining {
		close(written)
		return written
	}
	p.idle, p.holding = written, 0
	return written
}

// abandon ends the admissions of the calls that will have no response.
func (p *peer) abandon() {
	p.mu.Lock()
	var over []func()
	for _, s := range p.sessions {
		for _, c := range s.calls {
			if c.done != nil {
				over = append(over, c.done)
				c.done = nil
			}
		}
	}
	p.mu.Unlock()
	for _, done := range over {
		done()
	}
}

// finish accounts for a call whose response is written or suppressed.
func (p *peer) finish(s *session, c *call) {
	p.mu.Lock()
	done := c.done
	c.done = nil
	p.mu.Unlock()
	if done != nil {
		done()
	}
	p.mu.Lock()
	p.calls--
	p.bytes -= c.size
	s.unwritten--
	p.release(c)
	p.stalled = false
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
	over := s.retired && len(s.calls) == 0 && s.unwritten == 0
	p.mu.Unlock()
	returnMemory(c.size)
	if over {
		s.end()
	}
}

// release lets the stream end without waiting for c. It needs p.mu.
func (p *peer) release(c *call) {
	if !c.released {
		c.released = true
		p.holding--
		p.checkIdle()
	}
}

// checkIdle needs p.mu.
func (p *peer) checkIdle() {
	if p.idle != nil && p.holding == 0 && !p.draining {
		close(p.idle)
		p.idle = nil
	}
}

// notify hands on the notifications that the SDK knows. Unknown ones are ignored
// here, since the SDK would queue a flood of them without a bound.
func (p *peer) notify(m message) {
	if p.o.OnNotification != nil {
		p.o.OnNotification(m.method, m.params)
	}
	s := p.current
	if s == nil {
		return
	}
	switch m.method {
	case notifyCancelled:
		p.cancel(m)
	case notifyInitialized:
		if s.origin == afterHandshake && !s.initialized {
			s.initialized = true
			s.deliver(&jsonrpc.Request{Method: m.method, Params: m.params})
		}
	case notifyProgress, notifyRoots:
		if s.stuck && !s.passedBarrier() {
			return
		}
		s.deliver(&jsonrpc.Request{Method: m.method, Params: m.params})
		if p.forwarded++; p.forwarded%barrierEvery == 0 {
			s.waitForBarrier()
		}
	}
}

// cancel passes a cancellation on to the session whose call it names, the latest
// first. One that names no call in flight is dropped.
func (p *peer) cancel(m message) {
	var rawID json.RawMessage
	if m.params != nil {
		for key, v := range members(m.params) {
			if key == "requestId" {
				rawID, _ = checkID(v, p.o.AnyID)
			}
		}
	}
	if rawID == nil {
		return
	}
	id := sdkID(rawID)
	p.mu.Lock()
	var s *session
	var c *call
	for _, each := range p.sessions {
		if found := each.calls[id]; found != nil && (s == nil || each.epoch > s.epoch) {
			s, c = each, found
		}
	}
	if c == nil || c.cancelled || c.handshake {
		p.mu.Unlock()
		return
	}
	c.cancelled = true
	var reply []byte
	if !p.o.AnswerCancelled {
		// Nothing will be written for it: neither the end of the stream nor the
		// rest of its batch waits for the handler.
		p.release(c)
		if c.batch != nil {
			reply = c.batch.settle(nil)
			c.batch = nil
		}
	}
	p.mu.Unlock()
	if reply != nil {
		p.enqueue(reply)
	}
	if c.cancel != nil {
		c.cancel()
		return
	}
	params, err := json.Marshal(map[string]any{"requestId": id.Raw()})
	if err != nil {
		return
	}
	s.deliver(&jsonrpc.Request{Method: notifyCancelled, Params: params})
}

// respond routes a client's response to the session that asked (see outgoingID).
func (p *peer) respond(m message) {
	n, err := strconv.ParseInt(string(m.rawID), 10, 64)
	if err != nil || p.o.Asker.answered(n, m) {
		return
	}
	p.mu.Lock()
	s := p.sessions[n>>epochShift]
	p.mu.Unlock()
	if s == nil {
		return
	}
	id, err := jsonrpc.MakeID(float64(n & (1<<epochShift - 1)))
	if err != nil {
		return
	}
	r := &jsonrpc.Response{ID: id, Result: m.result}
	if m.err != nil {
		r.Result, r.Error = nil, m.err
	}
	s.deliver(r)
}

// reject answers a faulty message, in its batch or at once.
func (p *peer) reject(m message, b *batch) {
	reply := appendError(nil, m.rawID, m.err)
	if b != nil {
		p.mu.Lock()
		b.replies = append(b.replies, reply)
		p.mu.Unlock()
		return
	}
	p.enqueue(append(reply, '\n'))
}

// settle takes one member of a batch as done, with its reply if it has one, and
// returns the whole answer, line end included, when the batch is complete.
func (p *peer) settle(b *batch, reply []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.settle(reply)
}

func (b *batch) settle(reply []byte) []byte {
	if reply != nil {
		b.replies = append(b.replies, reply)
	}
	if b.pending--; b.pending > 0 || len(b.replies) == 0 {
		return nil
	}
	return joinBatch(b.replies)
}

// enqueue has a line of the reader's written by another goroutine.
func (p *peer) enqueue(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queued > 0 && p.queued+len(line) > maxQueued {
		if p.dropped++; p.dropped == 1 {
			p.log.Warn("the client does not read its replies; answers to faulty messages are dropped")
		}
		return
	}
	p.queue = append(p.queue, line)
	p.queued += len(line)
	if !p.draining {
		p.draining = true
		go p.writeQueue()
	}
}

func (p *peer) writeQueue() {
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.draining = false
			p.queue = nil
			p.checkIdle()
			p.mu.Unlock()
			return
		}
		line := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		err := p.writeLine(context.Background(), line)
		p.mu.Lock()
		p.queued -= len(line)
		if err != nil {
			p.queue, p.queued, p.draining = nil, 0, false
			p.checkIdle()
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

// drain waits, at the end of input, until nothing is left to be answered, for at
// most Options.Drain.
func (p *peer) drain(ctx context.Context) {
	p.mu.Lock()
	idle := make(chan struct{})
	p.idle = idle
	p.checkIdle()
	p.mu.Unlock()

	var limit <-chan time.Time
	if p.o.Drain > 0 {
		t := time.NewTimer(p.o.Drain)
		defer t.Stop()
		limit = t.C
	}
	select {
	case <-idle:
	case <-ctx.Done():
	case <-p.failed:
	case <-limit:
	}
}

func (p *peer) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// close ends every session; the SDK then cancels what they still run.
func (p *peer) close() {
	close(p.done)
	p.endLife()
}

func (p *peer) sessionsDone() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		p.sessionWG.Wait()
		close(done)
	}()
	return done
}
