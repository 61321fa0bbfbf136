package fleet

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// A gate bounds the connections that are being made at a time: each costs a key
// exchange, and a process or two, here and where they all lead to one machine. Fifty
// at once are slower than eight after eight, and none of them is done in time. A
// connection that takes long waits for the network, and keeps its place for a moment
// only: a host that does not answer is in nobody's way.
type gate struct {
	places chan struct{}
	hold   time.Duration
}

// placeFor is how long a connection that is being made keeps its place.
const placeFor = time.Second

func newGate() *gate {
	return &gate{make(chan struct{}, max(8, 4*runtime.GOMAXPROCS(0))), placeFor}
}

// enter waits for a place. done gives it back, if time has not.
func (g *gate) enter(ctx context.Context) (done func(), err error) {
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var once sync.Once
	leave := func() { once.Do(func() { <-g.places }) }
	timer := time.AfterFunc(g.hold, leave)
	return func() {
		timer.Stop()
		leave()
	}, nil
}
