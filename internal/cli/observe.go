package cli

// This file holds the options that say what is observed and over which window;
// every command that observes takes the same ones.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"topside/internal/see"
	"topside/internal/see/resource"
)

// peoplesInterval is the window of the commands that a person waits for.
const peoplesInterval = time.Second

// An observing is what a command was told about observation.
type observing struct {
	root           string
	intervalMS     int64
	withoutEngines bool
}

func (o *observing) flags(f *pflag.FlagSet, interval time.Duration) {
	f.StringVar(&o.root, "root", "/", "observe the machine whose proc/ and sys/ are in this `folder`: a host's root\nmounted into a container, or a recorded tree")
	f.Int64Var(&o.intervalMS, "interval-ms", interval.Milliseconds(), "sample over this many `milliseconds`, from 100 to 60000")
	f.BoolVar(&o.withoutEngines, "no-engines", false, "leave the sockets of Docker and Podman alone; containers keep their ids as names")
}

// options checks what was given.
func (o *observing) options(flavour resource.Flavour) (see.Options, error) {
	interval, err := intervalOf(o.intervalMS, see.MaxInterval)
	if err != nil {
		return see.Options{}, err
	}
	if o.root == "" {
		return see.Options{}, badUsage("", `--root is empty: name a folder that holds proc/, for example "/"`)
	}
	return see.Options{Root: o.root, Interval: interval, WithoutEngines: o.withoutEngines, Flavour: flavour}, nil
}

// intervalOf checks an interval in milliseconds; a limit of zero is none.
func intervalOf(ms int64, limit time.Duration) (time.Duration, error) {
	least, most := see.MinInterval.Milliseconds(), limit.Milliseconds()
	switch {
	case most == 0 && ms < least:
		return 0, badUsage("", "--interval-ms must be at least %d, not %d", least, ms)
	case most != 0 && (ms < least || ms > most):
		return 0, badUsage("", "--interval-ms must be from %d to %d, not %d", least, most, ms)
	case ms > int64(24*time.Hour/time.Millisecond):
		return 0, badUsage("", "--interval-ms must be at most a day, not %d", ms)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// observer makes the observer of a command. The caller closes it.
func (o *observing) observer(flavour resource.Flavour) (*see.Observer, error) {
	options, err := o.options(flavour)
	if err != nil {
		return nil, err
	}
	return newObserver(options)
}

func newObserver(options see.Options) (*see.Observer, error) {
	observer, err := see.New(options)
	if err == nil {
		return observer, nil
	}
	if runtime.GOOS != "linux" && options.Root == "/" {
		return nil, fmt.Errorf("%w (%v)", errUnsupported, err)
	}
	return nil, err
}

// errUnsupported says that this build has nothing to observe by itself.
var errUnsupported = errors.New("this machine cannot be observed yet: only Linux can, or a recorded tree with --root")

// An observed machine is one snapshot and the observer that keeps it, until end
// is called.
type observed struct {
	observer *see.Observer
	snapshot *see.Snapshot
}

func (o observed) end() { closeSoon(o.observer) }

// observeOnce makes one observation over the whole interval.
func observeOnce(ctx context.Context, options see.Options) (observed, error) {
	observer, err := newObserver(options)
	if err != nil {
		return observed{}, err
	}
	var now time.Duration
	snapshot, err := observer.Select(ctx, see.Selector{MaxAge: &now})
	if err != nil {
		closeSoon(observer)
		return observed{}, err
	}
	return observed{observer, snapshot}, nil
}
