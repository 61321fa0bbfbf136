package tool

// This file watches whether there are hosts: the tools of a server have host and
// hosts, and there are more of them, as long as there are.

import "time"

// lookEvery is how often the registry and the configuration of ssh are looked at where
// somebody wants to hear of it: a stat each, and a read of what has changed.
const lookEvery = 2 * time.Second

// A watcher hears when there begin or cease to be hosts.
type watcher struct {
	changed func()
	before  bool
}

// Watch calls changed, one call at a time, whenever there begin or cease to be hosts,
// until stop, or Close. stop does not wait.
func (h *Hosts) Watch(changed func()) (stop func()) {
	if h == nil {
		return func() {}
	}
	w := &watcher{changed, h.Any()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return func() {}
	}
	h.watchers[w] = true
	if len(h.watchers) == 1 {
		h.unwatched = make(chan struct{})
		unwatched := h.unwatched
		h.work.Go(func() { h.look(unwatched) })
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.watchers[w] {
			return
		}
		delete(h.watchers, w)
		if len(h.watchers) == 0 {
			close(h.unwatched)
		}
	}
}

// look tells the watchers until there are none.
func (h *Hosts) look(unwatched <-chan struct{}) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-unwatched:
			return
		case <-h.ctx.Done():
			return
		}
		now := h.Any()
		var tell []func()
		h.mu.Lock()
		for w := range h.watchers {
			if w.before != now {
				w.before = now
				tell = append(tell, w.changed)
			}
		}
		h.mu.Unlock()
		for _, changed := range tell {
			changed()
		}
	}
}
