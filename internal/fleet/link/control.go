package link

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/transfer"
)

var errClosedFile = os.ErrClosed

var (
	_ transfer.Session = (*session)(nil)
	_ transfer.Peer    = (*Link)(nil)
)

// Session returns the connection for transfers; it makes one if there is none. The
// far side must be a topside that can move files.
func (l *Link) Session(ctx context.Context) (transfer.Session, error) {
	s, err := l.session(ctx, false)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	able := s.can(frame.CanFiles)
	l.mu.Unlock()
	if !able {
		return nil, &frame.Failure{Kind: "unknown", Text: fmt.Sprintf("host %s has no topside that moves files; install or upgrade it there (`topside hosts install %s`)", l.o.Host, l.o.Host)}
	}
	return s, nil
}

// Ask makes a control operation and reads its answer into ok, which may be nil.
func (s *session) Ask(ctx context.Context, op string, args, ok any) error {
	return s.ask(ctx, op, args, ok, s.out.Send)
}

// AskInOrder does it behind the data sent before.
func (s *session) AskInOrder(ctx context.Context, op string, args, ok any) error {
	return s.ask(ctx, op, args, ok, s.out.SendInOrder)
}

type sender func(context.Context, frame.Kind, []byte) error

func (s *session) ask(ctx context.Context, op string, args, ok any, send sender) error {
	answer := make(chan frame.Note, 1)
	s.mu.Lock()
	s.nextAsk++
	id := s.nextAsk
	s.asks[id] = answer
	s.mu.Unlock()
	s.awaiting.Add(1)
	defer func() {
		s.mu.Lock()
		_, unanswered := s.asks[id]
		delete(s.asks, id)
		s.mu.Unlock()
		if unanswered {
			s.awaiting.Add(-1)
		}
	}()
	n, err := frame.Request(id, op, args)
	if err != nil {
		return err
	}
	body, err := n.Encode()
	if err != nil {
		return err
	}
	if err := send(ctx, frame.Control, body); err != nil {
		return s.because(err)
	}
	s.turn.Keeper()
	select {
	case n := <-answer:
		if n.Failed != nil {
			return n.Failed
		}
		if ok == nil || n.OK == nil {
			return nil
		}
		if err := json.Unmarshal(n.OK, ok); err != nil {
			return fmt.Errorf("%w: the answer to %s: %v", frame.ErrGarbage, op, err)
		}
		return nil
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return s.because(ctx.Err())
	}
}

// because prefers the reason why the connection ended. A failed write is one, and
// ssh's own words for it follow soon.
func (s *session) because(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.out.Failed():
		<-s.done // see watchWrites
	default:
	}
	if why := s.Err(); why != nil {
		return why
	}
	return err
}

// Tell sends a note that has no answer.
func (s *session) Tell(ctx context.Context, op string, args any) error {
	n, err := frame.Request(0, op, args)
	if err != nil {
		return err
	}
	body, err := n.Encode()
	if err != nil {
		return err
	}
	return s.because(s.out.Send(ctx, frame.Control, body))
}

// tellSoon sends a note that does not matter enough to wait for its sending.
func (s *session) tellSoon(op string, args any) {
	n, err := frame.Request(0, op, args)
	if err != nil {
		return
	}
	if body, err := n.Encode(); err == nil {
		_ = s.out.TrySend(frame.Control, body)
	}
}

// SendChunk sends a piece of a stream.
func (s *session) SendChunk(ctx context.Context, stream uint32, c *frame.Chunk, n int) error {
	return s.because(s.out.SendChunk(ctx, stream, c, n))
}

// OpenStream makes a stream.
func (s *session) OpenStream() *frame.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextStream++
	st := frame.NewStream(s.nextStream)
	s.streams[st.ID] = st
	s.awaiting.Add(1)
	s.turn.Keeper()
	return st
}

// CloseStream ends a stream; what still comes for it is dropped.
func (s *session) CloseStream(st *frame.Stream) {
	s.mu.Lock()
	if s.streams[st.ID] == st {
		s.awaiting.Add(-1)
	}
	delete(s.streams, st.ID)
	s.mu.Unlock()
	st.Drain()
}

func (s *session) stream(id uint32) *frame.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// note takes a control message of the daemon; answer is set if it answers a question.
func (s *session) note(body []byte) (answer bool, err error) {
	n, err := frame.DecodeNote(body)
	if err != nil {
		return false, err
	}
	if n.Op == "" {
		s.mu.Lock()
		asked := s.asks[n.ID]
		delete(s.asks, n.ID)
		s.mu.Unlock()
		if asked == nil {
			return false, s.countUnasked()
		}
		s.unasked = 0
		s.awaiting.Add(-1)
		asked <- n
		return true, nil
	}
	if n.Op == frame.OpAck {
		var c frame.Calls
		if err := json.Unmarshal(n.Args, &c); err != nil {
			return false, fmt.Errorf("%w: %v", frame.ErrGarbage, err)
		}
		s.l.acked(c.IDs)
		return false, s.countUnasked()
	}
	if st := s.stream(n.OfStream()); st != nil {
		s.unasked = 0
		return false, st.PutNote(n)
	}
	return false, s.countUnasked()
}

// data takes a piece of a stream.
func (s *session) data(body []byte) error {
	id, _ := frame.SplitData(body)
	st := s.stream(id)
	if st == nil {
		return s.countUnasked()
	}
	s.unasked = 0
	return st.PutData(s.frames)
}
