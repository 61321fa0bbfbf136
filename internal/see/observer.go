package see

// This file holds the observer: one machine, its sampler and its snapshots.

import (
	"context"
	"errors"
	"time"

	"topside/internal/see/container"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
	"topside/internal/see/sample"
	"topside/internal/see/store"
)

// Options say what to observe and how.
type Options struct {
	// Root is the folder that has proc/ and sys/ below it; "" is "/".
	Root string
	// Interval is the window to sample over; 0 is [DefaultInterval].
	Interval time.Duration
	// WithoutEngines leaves the container engines' sockets alone.
	WithoutEngines bool
	// Flavour says how resources are named.
	Flavour resource.Flavour
}

// The bounds of [Options.Interval] (contract wsltop, section 6.1).
const (
	DefaultInterval = 3 * time.Second
	MinInterval     = 100 * time.Millisecond
	MaxInterval     = 60 * time.Second
)

// An Observer answers questions about one machine. It is safe for concurrent
// use. Close it when done.
type Observer struct {
	options   Options
	fs        proc.FS
	collector *collector
	store     *store.Store[*content]
}

// New returns an observer of the machine at o.Root. It reads nothing yet but
// what tells whether there is a machine; [Observer.Start] takes the baseline.
func New(o Options) (*Observer, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	fs, err := proc.NewFS(o.Root)
	if err != nil {
		return nil, err
	}
	sampler := sample.NewSampler(fs, sample.Options{Engines: engines(fs, o)})
	observer := &Observer{options: o, fs: fs, collector: newCollector(sampler, o.Interval)}
	observer.store = store.New(Capacity, Retention, observer.collect)
	return observer, nil
}

func engines(fs proc.FS, o Options) *container.Engines {
	if o.WithoutEngines {
		return nil
	}
	return container.NewEngines(fs, container.EngineOptions{})
}

// Start takes the baseline in the background, so that the first question can
// be answered over a window that has already begun. It ends with ctx.
func (o *Observer) Start(ctx context.Context) { o.collector.start(ctx) }

// Close ends what Start began and releases what the observer holds open.
func (o *Observer) Close() error { return o.collector.close() }

// Root is the observed root.
func (o *Observer) Root() string { return o.options.Root }

// Live reports whether a running kernel is observed, not a recorded tree.
func (o *Observer) Live() bool { return o.fs.Live() }

// FS gives the files that the observer reads.
func (o *Observer) FS() proc.FS { return o.fs }

// Select returns the snapshot that s asks for. Its errors are [*Error]s with
// the codes SnapshotUnavailable, CollectionFailed, AmbiguousResource and
// InvalidHierarchy, or the context's.
func (o *Observer) Select(ctx context.Context, s Selector) (*Snapshot, error) {
	if s.SnapshotID != "" {
		kept, err := o.store.Pinned(s.SnapshotID)
		if err != nil {
			return nil, failure(SnapshotUnavailable,
				"take a new one with max_age_ms 0 and use the ids that it returns",
				"no snapshot with that id is kept: it is older than 60 s, was pushed out by newer ones, or is not of this server")
		}
		return &Snapshot{id: kept.ID, content: kept.Value, fs: o.fs}, nil
	}
	maxAge := DefaultMaxAge
	if s.MaxAge != nil {
		maxAge = *s.MaxAge
	}
	if maxAge > 0 {
		maxAge = max(maxAge, sameMoment)
	}
	if s.Window > 0 {
		ctx = context.WithValue(ctx, windowKey{}, s.Window)
	}
	kept, err := o.store.Latest(ctx, maxAge)
	if err != nil {
		return nil, collectionError(ctx, err)
	}
	return &Snapshot{id: kept.ID, content: kept.Value, fs: o.fs}, nil
}

func collectionError(ctx context.Context, err error) error {
	var known *Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known):
		return known
	case errors.Is(err, resource.ErrAmbiguous):
		return failure(AmbiguousResource, "try again with max_age_ms 0", "the sample contradicts itself: %v", err)
	case errors.Is(err, resource.ErrHierarchy):
		return failure(InvalidHierarchy, "try again with max_age_ms 0", "the sample contradicts itself: %v", err)
	}
	return failure(CollectionFailed, "run topside doctor to see what can be observed here", "this machine could not be sampled: %v", err)
}

// collect makes the content of one new snapshot.
func (o *Observer) collect(ctx context.Context) (*content, error) {
	observation, err := o.collector.collect(ctx)
	if err != nil {
		return nil, err
	}
	if observation.TableError != nil && o.options.Flavour.WSL {
		// The process list is a required collector of that contract.
		return nil, observation.TableError
	}
	catalogue, err := resource.Build(observation, o.options.Flavour)
	if err != nil {
		return nil, err
	}
	return &content{observation: observation, catalogue: catalogue}, nil
}

// A content is what a snapshot holds: immutable, but for the details that are
// read once when they are first asked for.
type content struct {
	observation *model.Observation
	catalogue   *resource.Catalogue
	details     detailCache
}
