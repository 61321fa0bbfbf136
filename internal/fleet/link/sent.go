package link

import "context"

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
