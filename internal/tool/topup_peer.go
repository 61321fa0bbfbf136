package tool

// This file is a connection to another server of the topup contract: a session or
// a host behind a socket. Calls may be under way at once; their replies find them
// by their ids.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"topside/internal/compute/engine"
)

// The bounds of a connection attempt (contract topup, section 2).
const (
	handshakeWait = 2 * time.Second
	connectPause  = 50 * time.Millisecond
	// cancelWait is how long a cancelled call may take to answer.
	cancelWait = 5 * time.Second
	// longestPeerLine bounds one line of a peer, in bytes.
	longestPeerLine = 256 << 20
)

// peerWords are the words of a peer's failures, which differ between sessions and
// hosts.
type peerWords struct {
	prefix, owner string // "session w" and "local session w"
	ended         string // what happened to a call whose peer went away
}

var (
	errHandshakeEOF     = errors.New("handshake EOF / channel closed")
	errHandshakeTimeout = errors.New("handshake timed out")
)

// topupPeer is one connection.
type topupPeer struct {
	conn    net.Conn
	words   peerWords
	back    engine.Back
	writing sync.Mutex
	done    chan struct{} // closed when nothing more is read

	mu      sync.Mutex
	next    int64
	pending map[int64]chan peerMessage
}

type peerMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// dialTopup connects to a socket, and waits at most so long for somebody to listen.
func dialTopup(ctx context.Context, socket string, wait time.Duration) (net.Conn, error) {
	deadline := time.Now().Add(wait)
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		switch {
		case err == nil:
			return conn, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("topup-mcp: connect %s: %s", socket, SystemText(err))
		case time.Now().After(deadline):
			return nil, fmt.Errorf("topup-mcp: timed out after %.1fs waiting for socket %s", wait.Seconds(), socket)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(connectPause):
		}
	}
}

// newTopupPeer makes the handshake. With a back it tells the peer that it answers
// the back-channel. It owns conn, and closes it when it fails.
func newTopupPeer(ctx context.Context, conn net.Conn, words peerWords, back engine.Back) (*topupPeer, error) {
	p := &topupPeer{conn: conn, words: words, back: back, done: make(chan struct{}), pending: map[int64]chan peerMessage{}}
	go p.read()
	ctx, cancel := context.WithTimeout(ctx, handshakeWait)
	defer cancel()
	_, err := p.request(ctx, "initialize", json.RawMessage(
		`{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"topup-mcp","version":"0.1.0"}}`))
	if err == nil {
		err = p.send(peerLine{Method: "notifications/initialized"})
	}
	if err == nil && back != nil {
		// A refusal is tolerated: the peer is older.
		_, _ = p.request(ctx, "tools/call", json.RawMessage(`{"name":"_enable_back_channel","arguments":{}}`))
	}
	if err != nil {
		p.close()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, errHandshakeTimeout
		}
		return nil, errHandshakeEOF
	}
	return p, nil
}

// peerLine is a message to a peer.
type peerLine struct {
	Version string          `json:"jsonrpc"`
	ID      any             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

func (p *topupPeer) send(m peerLine) error {
	m.Version = "2.0"
	line, err := marshal(m)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.conn.Write(append(line, '\n'))
	return err
}

// read finds the calls that replies belong to, until the connection ends.
func (p *topupPeer) read() {
	defer close(p.done)
	defer p.conn.Close()
	r := bufio.NewReader(io.LimitReader(p.conn, 1<<62))
	for {
		line, err := readLine(r)
		if err != nil {
			return
		}
		var m peerMessage
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method != "" {
			if len(m.ID) > 0 {
				go p.answer(m)
			}
			continue
		}
		id, err := strconv.ParseInt(string(m.ID), 10, 64)
		if err != nil {
			continue
		}
		p.mu.Lock()
		waiting := p.pending[id]
		delete(p.pending, id)
		p.mu.Unlock()
		if waiting != nil {
			waiting <- m
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > longestPeerLine:
			return nil, fmt.Errorf("a reply of more than %d bytes", longestPeerLine)
		}
	}
}

// errPeerGone is the failure of a request whose peer went away under it;
// errPeerClosed of one made later.
var (
	errPeerGone   = errors.New("gone")
	errPeerClosed = errors.New("connection closed")
)

// peerRefusal is a JSON-RPC error of a peer.
type peerRefusal struct{ message string }

func (e *peerRefusal) Error() string { return e.message }

func (p *topupPeer) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	select {
	case <-p.done:
		return nil, errPeerClosed
	default:
	}
	answer := make(chan peerMessage, 1)
	p.mu.Lock()
	p.next++
	id := p.next
	p.pending[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.pending, id)
		p.mu.Unlock()
	}()
	if err := p.send(peerLine{ID: id, Method: method, Params: params}); err != nil {
		return nil, errPeerGone
	}
	take := func(m peerMessage) (json.RawMessage, error) {
		if m.Error != nil {
			return nil, &peerRefusal{m.Error.Message}
		}
		return m.Result, nil
	}
	select {
	case m := <-answer:
		return take(m)
	case <-p.done:
		select {
		case m := <-answer: // it came just before the end
			return take(m)
		default:
		}
		return nil, errPeerGone
	case <-ctx.Done():
	}
	if method != "tools/call" {
		return nil, ctx.Err()
	}
	p.cancel()
	select {
	case m := <-answer:
		return take(m)
	case <-p.done:
		return nil, errPeerGone
	case <-time.After(cancelWait):
		return nil, ctx.Err()
	}
}

// call makes a call of a tool and returns the peer's result as it is.
func (p *topupPeer) call(ctx context.Context, name string, arguments json.RawMessage) (Result, error) {
	var params object
	params.add("name", encode(name))
	params.add("arguments", arguments)
	result, err := p.request(ctx, "tools/call", params.bytes())
	var refusal *peerRefusal
	switch {
	case err == nil:
		return Result{Structured: PeerResult(result)}, nil
	case errors.As(err, &refusal):
		return Result{}, topupUsage("%s: %s", p.words.prefix, refusal.message)
	case errors.Is(err, errPeerClosed):
		return Result{}, topupUsage("%s: %s: connection closed", p.words.prefix, p.words.owner)
	case errors.Is(err, errPeerGone):
		return Result{}, topupUsage("%s: %s: %s", p.words.prefix, p.words.owner, p.words.ended)
	}
	return Result{}, topupUsage("%s: %s: cancelled", p.words.prefix, p.words.owner)
}

// cancel stops what runs in the peer's own session.
func (p *topupPeer) cancel() {
	_ = p.send(peerLine{Method: "notifications/cancelled", Params: json.RawMessage(`{}`)})
}

// answer serves a request of the peer: the back-channel.
func (p *topupPeer) answer(m peerMessage) {
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(m.Params, &call)
	text, err := answerBack(p.back, call.Name, readTopupArguments(call.Arguments))
	isError := err != nil
	if isError {
		text = err.Error()
	}
	result, merr := marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}, "isError": isError})
	if merr == nil {
		_ = p.send(peerLine{ID: m.ID, Result: result})
	}
}

func (p *topupPeer) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// close ends the connection and waits for its reader.
func (p *topupPeer) close() {
	_ = p.conn.Close()
	<-p.done
}

// peers are connections by name. The zero value holds none.
type peers struct {
	mu  sync.Mutex
	all map[string]*topupPeer
}

// get returns the live connection of that name, or nil.
func (s *peers) get(name string) *topupPeer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[name]; p != nil && p.alive() {
		return p
	}
	return nil
}

// last returns the connection of that name, dead ones included, or nil.
func (s *peers) last(name string) *topupPeer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

func (s *peers) put(name string, p *topupPeer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*topupPeer{}
	}
	s.all[name] = p
}

func (s *peers) drop(name string) {
	s.mu.Lock()
	p := s.all[name]
	delete(s.all, name)
	s.mu.Unlock()
	if p != nil {
		p.close()
	}
}

func (s *peers) close() {
	s.mu.Lock()
	all := maps.Clone(s.all)
	s.mu.Unlock()
	for name := range all {
		s.drop(name)
	}
}

// readEnvelope returns the text of a result and whether it is an error.
func readEnvelope(raw json.RawMessage) (text string, isError bool) {
	var envelope struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if json.Unmarshal(raw, &envelope) != nil || len(envelope.Content) == 0 {
		return "the answer has no content", true
	}
	return envelope.Content[0].Text, envelope.IsError
}

// evaluationError is the message of a failed evaluation in a peer's result, or "".
func evaluationError(r Result) string {
	raw, _ := r.Structured.(PeerResult)
	text, isError := readEnvelope(json.RawMessage(raw))
	if isError {
		return text
	}
	var result struct {
		Error *topupError `json:"error"`
	}
	if json.Unmarshal([]byte(text), &result) == nil && result.Error != nil {
		return result.Error.Message
	}
	return ""
}
