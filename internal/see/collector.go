package see

// This file decides over which window a new observation is made: from a
// baseline that is already there when it is of a good age, else from a new one.

import (
	"context"
	"sync"
	"time"

	"topside/internal/see/model"
	"topside/internal/see/sample"
)

// shortestWindow is the least age of a baseline that is used at once: below
// it, clock ticks of 10 ms make CPU figures too coarse. An interval that is
// shorter by the user's choice lowers it.
const shortestWindow = 500 * time.Millisecond

// keptBaselines bounds the passes that are kept as baselines.
const keptBaselines = 3

type windowKey struct{}

// windowOf is the window that whoever collects accepts; see [Selector.Window].
func windowOf(ctx context.Context) time.Duration {
	window, _ := ctx.Value(windowKey{}).(time.Duration)
	return window
}

// A sampler takes passes; [sample.Sampler] in production.
type sampler interface {
	Take(context.Context) (*sample.Pass, error)
	Live() bool
	Close() error
}

// A collector makes observations, one at a time.
type collector struct {
	sampler  sampler
	interval time.Duration
	shortest time.Duration

	// turn holds one token: whoever has it may use the sampler and baselines.
	turn      chan struct{}
	baselines []*sample.Pass // oldest first

	stop    context.CancelFunc
	started sync.WaitGroup
}

func newCollector(s sampler, interval time.Duration) *collector {
	c := &collector{sampler: s, interval: interval, shortest: min(shortestWindow, interval), turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// start takes the first baseline in the background. Collections wait for it,
// since it holds the turn.
func (c *collector) start(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	if !c.sampler.Live() {
		return
	}
	<-c.turn
	c.started.Go(func() {
		defer func() { c.turn <- struct{}{} }()
		// A failure here is not lost: the first collection meets it again.
		if pass, err := c.sampler.Take(ctx); err == nil {
			c.remember(pass)
		}
	})
}

func (c *collector) close() error {
	if c.stop != nil {
		c.stop()
	}
	c.started.Wait()
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	return c.sampler.Close()
}

func (c *collector) collect(ctx context.Context) (*model.Observation, error) {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { c.turn <- struct{}{} }()
	if !c.sampler.Live() {
		pass, err := c.sampler.Take(ctx)
		if err != nil {
			return nil, err
		}
		return model.Alone(pass, "a recorded tree has no second sample to compare with"), nil
	}
	baseline, err := c.baseline(ctx)
	if err != nil {
		return nil, err
	}
	pass, err := c.sampler.Take(ctx)
	if err != nil {
		return nil, err
	}
	c.remember(pass)
	return model.Between(baseline, pass), nil
}

// baseline returns a pass of a good age, waiting until there is one.
func (c *collector) baseline(ctx context.Context) (*sample.Pass, error) {
	if kept := c.suitable(max(2*c.interval, windowOf(ctx))); kept != nil {
		return kept, nil
	}
	pass, wait := c.newest(), c.shortest
	if pass == nil || age(pass) >= c.shortest {
		taken, err := c.sampler.Take(ctx)
		if err != nil {
			return nil, err
		}
		c.remember(taken)
		pass, wait = taken, c.interval
	}
	return pass, sleep(ctx, wait-age(pass))
}

// suitable returns the kept baseline whose age is closest to the interval,
// among those neither too young nor too old.
func (c *collector) suitable(oldest time.Duration) *sample.Pass {
	var best *sample.Pass
	for _, pass := range c.baselines {
		if a := age(pass); a < c.shortest || a > oldest {
			continue
		}
		if best == nil || (age(pass)-c.interval).Abs() < (age(best)-c.interval).Abs() {
			best = pass
		}
	}
	return best
}

func (c *collector) newest() *sample.Pass {
	if len(c.baselines) == 0 {
		return nil
	}
	return c.baselines[len(c.baselines)-1]
}

// remember keeps a pass as a baseline. Old ones go; when there are too many,
// the middle ones go, since the oldest gives the longest window and the newest
// will be the one to compare with later.
func (c *collector) remember(pass *sample.Pass) {
	kept := make([]*sample.Pass, 0, keptBaselines+1)
	for _, old := range c.baselines {
		if age(old) <= 2*c.interval {
			kept = append(kept, old)
		}
	}
	if len(kept) == keptBaselines {
		kept = append(kept[:1], kept[2:]...)
	}
	c.baselines = append(kept, pass)
}

func age(p *sample.Pass) time.Duration { return time.Since(p.Ended) }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
