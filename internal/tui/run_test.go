//go:build !race

package tui

// This file runs the view in this process. Not under the race detector: the
// reader that bubbletea cancels at its end closes a descriptor while another
// goroutine of its own may still ask for it (cancelreader v0.2.2), which the
// detector reports. "make test" runs this test beside the others without it.

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/steer/threshold"
)

// A view that has ended, by a key, by the end of its input or by its context,
// leaves nothing running. It does not run beside other tests, whose goroutines
// would count.
func TestRunLeavesNothing(t *testing.T) {
	gone := errors.New("no longer wanted")
	for name, c := range map[string]struct {
		end  func(in *os.File, cancel context.CancelCauseFunc)
		want error
	}{
		"key":     {func(in *os.File, _ context.CancelCauseFunc) { io.WriteString(in, "q") }, nil},
		"ctrl+c":  {func(in *os.File, _ context.CancelCauseFunc) { io.WriteString(in, "\x03") }, nil},
		"closed":  {func(in *os.File, _ context.CancelCauseFunc) { in.Close() }, ErrClosed},
		"context": {func(_ *os.File, cancel context.CancelCauseFunc) { cancel(gone) }, gone},
	} {
		ignored := goleak.IgnoreCurrent()
		inRead, inWrite := pipe(t)
		outRead, outWrite := pipe(t)
		drawn := make(chan string, 1)
		go func() { drawn <- drain(outRead) }()
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- Run(ctx, Options{
				Source: &recorded{t: t}, In: inRead, Out: outWrite, Environ: []string{"TERM=xterm-256color", "COLORTERM=truecolor"},
				Configuration: &fixed{settings: Settings{Theme: "oslo", Layout: "Dashboard", Interval: 100 * time.Millisecond, Thresholds: threshold.Defaults()}},
			})
		}()
		time.Sleep(300 * time.Millisecond) // a few frames
		c.end(inWrite, cancel)
		if err := <-ended; !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		inWrite.Close()
		outWrite.Close()
		screen := <-drawn
		for _, sequence := range []string{"\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h", "\x1b[?1002l"} {
			if !strings.Contains(screen, sequence) {
				t.Errorf("%s: the terminal was never sent %q", name, sequence)
			}
		}
		cancel(nil)
		if err := goleak.Find(ignored); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		inRead.Close() // not before its readers are gone
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

func drain(r *os.File) string {
	defer r.Close()
	data, _ := io.ReadAll(r)
	return string(data)
}
