package tool

// This file is a connection to another server of the topup contract: a session
// behind a socket, or a host. Package link keeps it, makes it again when it broke,
// and carries any number of calls; here are the contract's words for what goes wrong
// (sections 7.1 and 7.3), and the cancelling of calls.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"
	"syscall"
	"time"

	"topside/internal/fleet/link"
	"topside/internal/fleet/route"
)

const (
	// connectPause is between two looks whether somebody listens on a socket.
	connectPause = 50 * time.Millisecond
	// cancelWait is how long a cancelled call may take to answer.
	cancelWait = 5 * time.Second
	// cancelSend is how long a peer may take to take a cancellation.
	cancelSend = 200 * time.Millisecond
)

// peerWords are the words of a peer's failures, which differ between sessions and
// hosts. A failed connection has both the prefix and the owner: clients search for
// the doubled text.
type peerWords struct {
	prefix, owner string // "session w" and "local session w"
	ended         string // what happened to a call whose peer went away
}

func hostWords(name string) peerWords {
	return peerWords{"remote " + name, "remote " + name, "channel: closed before response"}
}

func sessionWords(name string) peerWords {
	return peerWords{"session " + name, "local session " + name, "EOF awaiting response"}
}

// topupPeer is another server.
type topupPeer struct {
	link  *link.Link
	words peerWords
}

// alive tells whether there is a connection now.
func (p *topupPeer) alive() bool { return p.link.State().Phase == link.Connected }

// call makes a call of a tool and returns the peer's result as it is.
func (p *topupPeer) call(ctx context.Context, tool string, arguments json.RawMessage) (Result, error) {
	params, err := route.ToolParams(tool, arguments)
	if err != nil {
		return Result{}, err
	}
	result, err := p.request(ctx, "tools/call", params)
	if err != nil {
		return Result{}, err
	}
	return Result{Structured: PeerResult(result)}, nil
}

// request makes a call; it has the shape of a transfer.Caller. When ctx ends, the
// peer is told to cancel what runs and may answer for a moment: a cancelled
// evaluation has a result. Errors have the contract's words.
func (p *topupPeer) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	waiting, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		connected := p.alive()
		if connected {
			p.cancel(waiting)
		}
		close(told)
		if connected {
			select {
			case <-waiting.Done():
			case <-time.After(cancelWait):
			}
		}
		giveUp() // at once where it is being connected: nothing runs there for us
	})
	result, err := p.link.Call(waiting, method, params)
	if !stop() {
		<-told // ahead of the next call, which is not meant
	}
	if err != nil {
		return nil, p.failure(err)
	}
	return result, nil
}

// failure gives the failures of a link their words. What follows the contract's words
// is the reason, and what became of the work.
func (p *topupPeer) failure(err error) error {
	var refused *link.RemoteError
	var broken *link.BrokenError
	var unmade *link.ConnectError
	var given *link.DeadlineError
	switch {
	case errors.As(err, &refused):
		return topupUsage("%s: %s", p.words.prefix, refused.Message)
	case errors.As(err, &broken):
		return topupUsage("%s: %s: %s: %v; %s; the next call connects again", p.words.prefix, p.words.owner, p.words.ended, broken.Cause, fate(broken.Work))
	case errors.As(err, &unmade):
		text := fmt.Sprintf("%s: %s: connection closed: %v", p.words.prefix, p.words.owner, unmade.Cause)
		if unmade.RetryIn >= time.Second {
			text += fmt.Sprintf("; the next call in %v or later connects again", unmade.RetryIn.Round(time.Second))
		}
		return topupUsage("%s", text)
	case errors.As(err, &given):
		return topupUsage("%s: %s: cancelled", p.words.prefix, p.words.owner)
	}
	return topupUsage("%s: %s: %v", p.words.prefix, p.words.owner, err)
}

// fate says what became of an evaluation whose connection broke.
func fate(work link.Work) string {
	switch work {
	case link.NotStarted:
		return "it had not begun"
	case link.GoesOn:
		return "the work goes on there"
	case link.Unknown:
		return "whether it had begun is not known; if so, it goes on there"
	case link.Ended:
		return "the session there ended with the connection"
	}
	return "its reply is lost"
}

// cancel stops what runs in the peer's own session. It waits for little more than the
// message to be on its way.
func (p *topupPeer) cancel(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, cancelSend)
	defer stop()
	// A connection that has just broken cannot be told.
	_ = p.link.Notify(ctx, "notifications/cancelled", json.RawMessage(`{}`))
}

// untilListened tries again what failed because nobody listens on a socket, for at
// most that long. The error has the contract's words.
func untilListened(ctx context.Context, socket string, wait time.Duration, try func() error) error {
	deadline := time.Now().Add(wait)
	for {
		err := try()
		var unmade *link.ConnectError
		nobody := errors.As(err, &unmade) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED))
		var number syscall.Errno
		switch {
		case unmade == nil:
			return err
		case nobody && time.Now().After(deadline):
			return fmt.Errorf("topup-mcp: timed out after %.1fs waiting for socket %s", wait.Seconds(), socket)
		case !nobody && errors.As(unmade.Cause, &number):
			return fmt.Errorf("topup-mcp: connect %s: %s", socket, SystemText(err))
		case !nobody:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(connectPause):
		}
	}
}

// reason takes what a link says around the reason why there is no connection away.
func reason(err error) error {
	var unmade *link.ConnectError
	if errors.As(err, &unmade) {
		return unmade.Cause
	}
	return err
}

// peers are the sessions behind sockets, by name. The zero value holds none.
type peers struct {
	mu  sync.Mutex
	all map[string]*topupPeer
}

// get returns the peer of that name, connected or not, or nil.
func (s *peers) get(name string) *topupPeer {
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
		p.link.Close()
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
