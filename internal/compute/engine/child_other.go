//go:build !unix

package engine

import (
	"context"
	"errors"
	"os"
	"time"
)

// Child is a running engine; this system has none yet.
type Child struct {
	Language Language
	Out, Err *Capture
	back     Back
}

// errSystem is returned for everything: sessions need descriptors beyond the standard three and process groups.
var errSystem = errors.New("sessions do not run on this operating system yet; use Linux, WSL or macOS")

// Start always fails on this system.
func Start(ctx context.Context, lang Language, o Options) (*Child, error) { return nil, errSystem }

func (c *Child) call(ctx context.Context, request Dict, limit time.Duration, call *Call) (Dict, error) {
	return nil, errSystem
}

func (c *Child) run(ctx context.Context, limit time.Duration, call *Call, exchange func() (Dict, error)) (Dict, error) {
	return nil, errSystem
}

func (c *Child) send(request Dict) {}

func (c *Child) await(ctx context.Context, seq int64) (Dict, error) { return nil, errSystem }

// Pid is 0 on this system.
func (c *Child) Pid() int { return 0 }

// Alive is false on this system.
func (c *Child) Alive() bool { return false }

// Interrupt does nothing on this system.
func (c *Child) Interrupt() bool { return false }

// Nudge does nothing on this system.
func (c *Child) Nudge() {}

// Reset does nothing on this system.
func (c *Child) Reset() bool { return false }

// Retire does nothing on this system.
func (c *Child) Retire(*Child) {}

// Close does nothing on this system.
func (c *Child) Close() error { return nil }

// Discard does nothing on this system.
func (c *Capture) Discard(from, to int64) {}

func fileSize(f *os.File) int64 { return 0 }

// Check always reports an end on this system.
func (c *Child) Check() *Death { return &Death{} }

// Guardian is 0: nothing guards sessions here.
func Guardian() int { return 0 }
