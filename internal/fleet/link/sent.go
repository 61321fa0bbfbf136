package link

import (
	"context"
	"time"

	"topside/internal/fleet/frame"
)

type sentKey struct{}

// WithSent returns a context with which Call calls sent when the call is on its way:
// what is sent after it arrives after it.
func WithSent(ctx context.Context, sent func()) context.Context {
	return context.WithValue(ctx, sentKey{}, sent)
}

// onItsWay tells whoever wants to know that a call was sent.
func onItsWay(ctx context.Context) {
	if sent, ok := ctx.Value(sentKey{}).(func()); ok {
		sent()
	}
}

// Ping asks the host whether it is there, and notes how long it took to say so. It
// does nothing without a connection, and where lines are spoken.
func (l *Link) Ping(ctx context.Context) error {
	l.mu.Lock()
	s := l.current
	l.mu.Unlock()
	if s == nil || !s.conn.Framed {
		return nil
	}
	return s.ping(ctx)
}

// ping asks the daemon whether it is there, and notes what it says.
func (s *session) ping(ctx context.Context) error {
	began := time.Now()
	var pong frame.Pong
	if err := s.Ask(ctx, frame.OpPing, nil, &pong); err != nil {
		return err
	}
	s.latency.Store(int64(time.Since(began)))
	if pong.Sessions != nil {
		s.l.mu.Lock()
		s.welcome.Sessions = *pong.Sessions
		s.l.mu.Unlock()
	}
	return nil
}
