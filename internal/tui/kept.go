package tui

// This file reads and keeps the settings in the configuration of steer, which
// servers and other views share.

import (
	"topside/internal/steer/config"
)

// Kept is a configuration file.
type Kept struct{ store *config.Store }

// NewKept returns the settings of a store.
func NewKept(s *config.Store) *Kept { return &Kept{s} }

// Current returns the settings, read again if the file was changed.
func (k *Kept) Current() Settings {
	c := k.store.Get()
	s := Settings{Theme: c.Theme, Layout: c.Layout, Interval: c.Interval, Thresholds: c.Thresholds, Keys: c.Keys}
	if err := k.store.Err(); err != nil {
		s.Fault = err.Error()
	} else if len(c.Remarks) > 0 {
		s.Fault = "configuration: " + c.Remarks[0]
	}
	return s
}

// Choose keeps a theme and a layout.
func (k *Kept) Choose(theme, layout string) error {
	_, err := k.store.Update(func(c *config.Config) error {
		c.SetTheme(theme)
		c.SetLayout(layout)
		return nil
	})
	return err
}
