// Package tui is the terminal view: what "topside top" shows.
//
// It sits beside tool, above see and steer: it draws the snapshots of see, and
// obeys the configuration, shows the alerts and sends the signals of steer. It
// reaches them through narrow interfaces ([Source], [Configuration], [Alerts],
// [Actor]) and owns neither. Below it, theme holds the colours, screen the
// cells that are drawn into, and layout the rectangles.
//
// The view is a bubbletea model: messages change the state ([Model.Update]),
// and the state is drawn as one frame ([Model.View]). What takes time
// (sampling, judging, reading details, signalling) runs in commands and comes
// back as messages. Text from outside passes through see/plaintext, and command
// lines through see/secret.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"

	"topside/internal/tui/screen"
)

// Options say what a view shows and with whom it speaks.
type Options struct {
	Source        Source
	Configuration Configuration
	Alerts        Alerts   // nil when none are judged
	Actor         Actor    // nil when no signals can be sent
	Sessions      Sessions // nil when there are none to list
	// Theme, Layout and Interval hold until the configuration changes; zero
	// leaves them to it.
	Theme, Layout string
	Interval      time.Duration
	ShowSecrets   bool
	// Glyphs are what is drawn with; the zero value is braille.
	Glyphs screen.Glyphs
	// In and Out are the terminal; Environ describes it, nil is the process's.
	In, Out *os.File
	Environ []string

	// warm shows scenes before the first frame; tests have a history by it.
	warm func(take func(*Scene, []Alert))
}

// framesPerSecond bounds how often the screen is written to.
const framesPerSecond = 30

// ErrClosed says that the terminal went away.
var ErrClosed = errors.New("the terminal was closed")

// Run shows the view until it is quit, ctx ends, or the terminal goes away. In
// every case, a panic included, the terminal is as it was before. The error is
// nil when it was quit, and wraps [ErrClosed] when the terminal is gone.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer watchHangup(cancel)()
	m := newModel(ctx, o)
	if o.warm != nil {
		o.warm(func(s *Scene, a []Alert) { m.take(sampled{scene: s, alerts: a, judged: true}) })
	}
	if err := o.Source.Retune(m.interval()); err != nil {
		return err
	}
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler(),
		tea.WithInput(&watched{File: o.In, cancel: cancel}), tea.WithOutput(&watched{File: o.Out, cancel: cancel}),
	}
	if o.Environ != nil {
		options = append(options, tea.WithEnvironment(o.Environ))
	}
	_, err := tea.NewProgram(m, options...).Run()
	switch cause := context.Cause(ctx); {
	case errors.Is(err, tea.ErrProgramPanic):
		return fmt.Errorf("the view failed: %w", err)
	case cause != nil:
		return cause
	case err != nil:
		return fmt.Errorf("the terminal failed: %w", err)
	}
	return nil
}

// watchHangup ends the view when the terminal's line is hung up.
func watchHangup(cancel context.CancelCauseFunc) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-hangups:
			cancel(fmt.Errorf("%w: hung up", ErrClosed))
		case <-done:
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(done)
		<-ended
	}
}

// A watched is a terminal that ends the view when it can no longer be read or
// written: the end of its input is no key, and says that nobody is there.
type watched struct {
	*os.File
	cancel context.CancelCauseFunc
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.File.Read(p)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrClosed) {
		w.cancel(fmt.Errorf("%w: %w", ErrClosed, err))
	}
	return n, err
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	if err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
		w.cancel(fmt.Errorf("%w: %w", ErrClosed, err))
	}
	return n, err
}
