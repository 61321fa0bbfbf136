package steer

// This file holds what a user may choose: thresholds, theme, layout, interval.

import (
	"context"
	"errors"

	"topside/internal/steer/config"
	"topside/internal/steer/policy"
	"topside/internal/steer/threshold"
)

// Config is the configuration in force: it is read again when its file changed.
func (a *Advisor) Config() config.Config { return a.store.Get() }

// Store is the configuration's file, for views that follow it.
func (a *Advisor) Store() *config.Store { return a.store }

// ConfigError is why the configuration's file cannot be used; nil when it can.
func (a *Advisor) ConfigError() error { return a.store.Err() }

// Policy is the policy in force, and why its file cannot be used.
func (a *Advisor) Policy() (*policy.Policy, error) { return a.rules.Current() }

// A Change is what to set; nil leaves as it is.
type Change struct {
	IntervalMS    *int64
	Theme, Layout *string
}

// A Changed says what became of a [Change].
type Changed struct {
	Config config.Config
	// Theme and Layout are false when there is none of that name.
	Interval, Theme, Layout bool
	// Moved is set when the interval was moved to the nearest bound.
	Moved bool
	// Unsaved is why the change holds in this process only; nil when it was
	// saved.
	Unsaved error
}

// Change sets every key of the change that can be set. A theme or layout that
// does not exist is reported, not an error; a negative interval is one, wraps
// [config.ErrInvalid], and then nothing is set.
func (a *Advisor) Change(c Change) (Changed, error) {
	var out Changed
	applied, err := a.store.Update(func(into *config.Config) error {
		if c.IntervalMS != nil {
			set, err := into.SetInterval(*c.IntervalMS)
			if err != nil {
				return err
			}
			out.Interval, out.Moved = true, set.Milliseconds() != *c.IntervalMS
		}
		out.Theme = c.Theme != nil && into.SetTheme(*c.Theme)
		out.Layout = c.Layout != nil && into.SetLayout(*c.Layout)
		return nil
	})
	out.Config = applied
	return out, out.saved(err)
}

// Applied names the keys that were set.
func (c *Changed) Applied() []string {
	var keys []string
	for _, k := range []struct {
		set  bool
		name string
	}{{c.Interval, "interval_ms"}, {c.Theme, "theme"}, {c.Layout, "layout"}} {
		if k.set {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// saved keeps a failure to save apart from a change that was refused.
func (c *Changed) saved(err error) error {
	var file *config.FileError
	if errors.As(err, &file) {
		c.Unsaved = err
		return nil
	}
	return err
}

// SetThresholds sets the limits of some metrics. The error wraps
// [threshold.ErrInvalid], and then nothing is set.
func (a *Advisor) SetThresholds(limits map[threshold.Metric]float64) (Changed, error) {
	var out Changed
	applied, err := a.store.Update(func(c *config.Config) error { return c.SetLimits(limits) })
	out.Config = applied
	if err := out.saved(err); err != nil {
		return out, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watch.Set(applied.Thresholds)
	return out, nil
}

// Limits are the limits of all metrics, without looking at the machine.
func (a *Advisor) Limits() threshold.Settings { return a.store.Get().Thresholds }

// Thresholds tells where every metric stands.
func (a *Advisor) Thresholds(ctx context.Context) ([]threshold.State, error) {
	if err := a.ready(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watch.States(), nil
}
