// Package threshold watches figures of the whole machine against limits, and
// turns a crossing that lasts into an event with a start, a peak and an end.
//
// It is a pure state machine inside steer: it reads nothing and owns no
// clock. Readings come in with the time they were taken at ([Watch.Observe]),
// crossings go out. [ReadingsOf] makes the readings of one observation of see.
package threshold

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Metric names a figure that can be watched. All are in percent, but for
// temperature, which is in degrees Celsius.
type Metric string

// The metrics. Disk and Inodes stand for the fullest filesystem, Temperature
// for the hottest sensor, Descriptors for the kernel's table of open files,
// and the three pressures for the share of the last ten seconds in which some
// task stood still for the resource (PSI "some", avg10).
const (
	CPU            Metric = "cpu"
	Memory         Metric = "mem"
	Disk           Metric = "disk"
	Swap           Metric = "swap"
	PressureCPU    Metric = "psi_cpu"
	PressureMemory Metric = "psi_memory"
	PressureIO     Metric = "psi_io"
	Temperature    Metric = "temperature"
	Descriptors    Metric = "descriptors"
	Inodes         Metric = "inodes"
)

// Metrics are all metrics, in the order in which people read them.
var Metrics = []Metric{CPU, Memory, Disk, Swap, PressureCPU, PressureMemory, PressureIO, Temperature, Descriptors, Inodes}

// A Setting is the limit of one metric.
type Setting struct {
	// Limit is from 0 to 100. A reading above it crosses; 100 is never
	// crossed by a percentage and so switches its metric off.
	Limit float64 `json:"limit"`
	// Hold is how long readings must stay above the limit before the crossing
	// counts.
	Hold time.Duration `json:"-"`
	// Slack is how far below the limit a reading must fall to end a crossing,
	// so that a figure that trembles around its limit is one crossing.
	Slack float64 `json:"slack"`
}

// Settings are the limits of all metrics. A metric that is missing has its
// default.
type Settings map[Metric]Setting

// Defaults are the settings of a new configuration: 90 for the three metrics
// that the xtop contract knows (section 2.4).
func Defaults() Settings {
	return Settings{
		CPU:            {Limit: 90, Hold: 30 * time.Second, Slack: 5},
		Memory:         {Limit: 90, Hold: 10 * time.Second, Slack: 3},
		Disk:           {Limit: 90, Hold: 0, Slack: 1},
		Swap:           {Limit: 80, Hold: 30 * time.Second, Slack: 5},
		PressureCPU:    {Limit: 80, Hold: 60 * time.Second, Slack: 10},
		PressureMemory: {Limit: 20, Hold: 30 * time.Second, Slack: 5},
		PressureIO:     {Limit: 60, Hold: 60 * time.Second, Slack: 10},
		Temperature:    {Limit: 90, Hold: 30 * time.Second, Slack: 5},
		Descriptors:    {Limit: 80, Hold: 0, Slack: 2},
		Inodes:         {Limit: 90, Hold: 0, Slack: 1},
	}
}

// Of returns the setting of a metric, its default when there is none.
func (s Settings) Of(m Metric) Setting {
	if setting, ok := s[m]; ok {
		return setting
	}
	return Defaults()[m]
}

// ErrInvalid is wrapped by the errors of limits that mean nothing.
var ErrInvalid = errors.New("invalid threshold")

// LongestHold bounds [Setting.Hold].
const LongestHold = time.Hour

// Validate reports what is wrong with a limit; the error wraps [ErrInvalid].
func (s Setting) Validate(m Metric) error {
	switch {
	case !slices.Contains(Metrics, m):
		return fmt.Errorf("%w: there is no metric %q; the metrics are %s", ErrInvalid, m, names())
	case math.IsNaN(s.Limit) || s.Limit < 0 || s.Limit > 100:
		return fmt.Errorf("%w: %s is %v; it must be a number from 0 to 100", ErrInvalid, m, s.Limit)
	case math.IsNaN(s.Slack) || s.Slack < 0 || s.Slack > 100:
		return fmt.Errorf("%w: the slack of %s is %v; it must be a number from 0 to 100", ErrInvalid, m, s.Slack)
	case s.Hold < 0 || s.Hold > LongestHold:
		return fmt.Errorf("%w: the hold of %s is %v; it must be from 0 s to %v", ErrInvalid, m, s.Hold, LongestHold)
	}
	return nil
}

func names() string {
	var all []string
	for _, m := range Metrics {
		all = append(all, string(m))
	}
	return strings.Join(all, ", ")
}

// Validate checks every setting, in the order of [Metrics], unknown ones last.
func (s Settings) Validate() error {
	for _, m := range Metrics {
		if setting, ok := s[m]; ok {
			if err := setting.Validate(m); err != nil {
				return err
			}
		}
	}
	for m, setting := range s {
		if err := setting.Validate(m); err != nil {
			return err
		}
	}
	return nil
}

// A Reading is one figure at one time. Known is false when it could not be
// read; it then changes nothing.
type Reading struct {
	Metric Metric
	Value  float64
	Known  bool
	// Subject says what the figure is of, where there are several: the mount
	// point of the fullest filesystem, the hottest sensor.
	Subject string
}

// A Crossing is a stretch of time in which a metric was above its limit.
type Crossing struct {
	Metric  Metric
	Subject string
	Limit   float64
	Began   time.Time
	Ended   time.Time // zero while it lasts
	Last    time.Time // the last reading inside it
	Peak    float64
	PeakAt  time.Time
	Value   float64 // at Last
}

// Active reports whether the crossing has not ended.
func (c Crossing) Active() bool { return c.Ended.IsZero() }

// A Level is where a metric stands.
type Level string

// The levels, in the order in which a rising metric takes them.
const (
	Unknown Level = "unknown" // no reading
	Normal  Level = "normal"
	Rising  Level = "above the limit, not yet for long enough"
	Crossed Level = "crossed"
)

// A State is one metric as [Watch.States] reports it.
type State struct {
	Metric   Metric
	Setting  Setting
	Level    Level
	Value    float64
	Known    bool
	Subject  string
	Since    time.Time // when the level began; zero for Unknown
	Crossing *Crossing // the active one, nil without
}

// A Watch holds the state of every metric. The zero value watches with the
// defaults. It is not safe for concurrent use.
type Watch struct {
	settings Settings
	states   map[Metric]*state
}

type state struct {
	last     Reading
	read     bool // at least one known reading
	since    time.Time
	above    time.Time // the first reading above the limit; zero when below
	pending  Crossing  // what the crossing will be if it lasts
	crossing *Crossing
}

// NewWatch returns a watch with these settings, which must be valid.
func NewWatch(s Settings) *Watch { return &Watch{settings: s} }

// Set replaces the settings. A crossing that lasts is judged by the new ones
// at the next reading.
func (w *Watch) Set(s Settings) { w.settings = s }

// Observe takes readings of one moment and returns the crossings that began
// or ended with them. Readings that are unknown leave their metric as it is.
// Moments must not run backwards; one that does is taken as no time passed.
func (w *Watch) Observe(now time.Time, readings []Reading) []Crossing {
	var changed []Crossing
	for _, r := range readings {
		if !slices.Contains(Metrics, r.Metric) {
			continue
		}
		s := w.state(r.Metric)
		if !r.Known || math.IsNaN(r.Value) {
			s.last.Known = false
			continue
		}
		if !s.read {
			s.since = now
		}
		s.last, s.read = r, true
		if c, ok := s.step(now, r, w.settings.Of(r.Metric)); ok {
			changed = append(changed, c)
		}
	}
	return changed
}

func (w *Watch) state(m Metric) *state {
	if w.states == nil {
		w.states = map[Metric]*state{}
	}
	s := w.states[m]
	if s == nil {
		s = new(state)
		w.states[m] = s
	}
	return s
}

// step moves one metric on by a known reading.
func (s *state) step(now time.Time, r Reading, limit Setting) (Crossing, bool) {
	if s.crossing != nil {
		return s.within(now, r, limit)
	}
	if r.Value <= limit.Limit {
		if !s.above.IsZero() {
			s.above, s.since = time.Time{}, now
		}
		return Crossing{}, false
	}
	if s.above.IsZero() {
		s.above, s.since = now, now
		s.pending = Crossing{Metric: r.Metric, Began: now, Peak: math.Inf(-1)}
	}
	s.pending.take(now, r, limit)
	if now.Sub(s.above) < limit.Hold {
		return Crossing{}, false
	}
	begun := s.pending
	s.crossing, s.above, s.since = &begun, time.Time{}, now
	return begun, true
}

// within moves on a crossing that lasts: it ends when the reading is below the
// limit by more than the slack, or at 0 where the slack is larger than the
// limit.
func (s *state) within(now time.Time, r Reading, limit Setting) (Crossing, bool) {
	if r.Value > max(limit.Limit-limit.Slack, 0) {
		s.crossing.take(now, r, limit)
		return Crossing{}, false
	}
	ended := *s.crossing
	ended.Ended, ended.Value = now, r.Value
	s.crossing, s.since = nil, now
	return ended, true
}

func (c *Crossing) take(now time.Time, r Reading, limit Setting) {
	c.Last, c.Value, c.Limit = now, r.Value, limit.Limit
	if r.Value > c.Peak {
		c.Peak, c.PeakAt, c.Subject = r.Value, now, r.Subject
	}
}

// States reports every metric, in the order of [Metrics].
func (w *Watch) States() []State {
	out := make([]State, 0, len(Metrics))
	for _, m := range Metrics {
		s := w.state(m)
		report := State{Metric: m, Setting: w.settings.Of(m), Level: Unknown, Value: s.last.Value, Known: s.last.Known, Subject: s.last.Subject, Since: s.since}
		switch {
		case s.crossing != nil:
			lasting := *s.crossing
			report.Level, report.Crossing = Crossed, &lasting
		case !s.read:
		case !s.above.IsZero():
			report.Level = Rising
		default:
			report.Level = Normal
		}
		out = append(out, report)
	}
	return out
}
