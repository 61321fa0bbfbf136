package tui

// This file holds what the view asks of the rest of the program, as narrow
// interfaces, so that it runs on recorded scenes as well as on a live machine.

import (
	"context"
	"time"

	"topside/internal/see"
	"topside/internal/see/model"
	"topside/internal/see/resource"
	"topside/internal/steer/threshold"
)

// A Scene is one observation as the view shows it. It is immutable.
type Scene struct {
	Observation *model.Observation
	Catalogue   *resource.Catalogue
	// ClockTicks are the kernel's ticks in a second; 0 is unknown.
	ClockTicks uint64
	// Snapshot is where the scene comes from; nil in a recorded one.
	Snapshot *see.Snapshot
}

// A Source observes the machine.
type Source interface {
	// Sample takes a new observation.
	Sample(context.Context) (*Scene, error)
	// Details reads what is known of one process of a scene beyond its row.
	Details(context.Context, *Scene, *resource.Resource) *see.Details
	// Retune makes later observations span that interval.
	Retune(time.Duration) error
}

// Settings are what the view obeys. They may change at any time, by another
// program.
type Settings struct {
	Theme      string
	Layout     string
	Interval   time.Duration
	Thresholds threshold.Settings
	Keys       map[string][]string
	// Fault says what is wrong with the configuration; "" when nothing is.
	Fault string
}

// A Configuration keeps settings.
type Configuration interface {
	// Current returns the settings as they are now. It is called at every tick
	// and must be quick.
	Current() Settings
	// Choose keeps a theme and a layout. An error means that they hold for
	// this view only.
	Choose(theme, layout string) error
}

// An Alert is one cause for concern.
type Alert struct {
	ID       string
	Severity string // "Critical", "Warning" or "Info"
	Rule     string
	Message  string
	Process  string
	PID      int32 // 0 for the whole machine
	Count    int   // of processes that it is about
	Since    time.Time
	Ended    time.Time // zero while it lasts
	Seen     bool      // acknowledged
	Evidence []string
	Next     []string
}

// Alerts judges observations.
type Alerts interface {
	// Judge returns the alerts after one more observation, the most severe
	// first.
	Judge(context.Context, *Scene) ([]Alert, error)
	// Acknowledge says that a person has seen an alert.
	Acknowledge(id string) error
}

// A Target is a process for all time of one boot.
type Target struct {
	PID        int32
	StartTicks uint64
	Name       string
}

// A Preview says what a signal would do.
type Preview struct {
	// Refusal says why it would not be sent; "" when it would.
	Refusal string
	// Notes are facts to weigh: children, ports, the unit that would restart it.
	Notes []string
}

// An Actor sends signals.
type Actor interface {
	Preview(context.Context, Target, string) (Preview, error)
	// Signal sends one and tells what came of it.
	Signal(context.Context, Target, string) (string, error)
}

// A Session is one persistent session.
type Session struct {
	Name, Engine, State string
	Since               time.Time
}

// Sessions lists sessions.
type Sessions interface {
	List(context.Context) ([]Session, error)
}
