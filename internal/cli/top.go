package cli

// This file holds "topside top": the terminal view.

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"topside/internal/see"
	"topside/internal/see/resource"
	"topside/internal/steer"
	"topside/internal/steer/config"
	"topside/internal/tui"
	"topside/internal/tui/layout"
	"topside/internal/tui/screen"
	"topside/internal/tui/theme"
)

// A topCommand is what "topside top" was told.
type topCommand struct {
	observing     observing
	theme, layout string
	glyphs        string
	showSecrets   bool
}

func newTopCommand(s Streams) *cobra.Command {
	var top topCommand
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch this machine in the terminal",
		Long: `Watch this machine: CPU by core, memory, disks, network, pressure, processes,
containers and units, and alerts. Press ? for the keys.

Theme, layout and interval are those of the configuration, and follow it while
the view runs; the options below change them for this view alone.`,
		Example: `  topside top
  topside top --layout "CPU Focus" --theme oslo
  topside top --root /host`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return top.run(c.Context(), s, c.Flags().Changed("interval-ms"))
		},
	}
	f := c.Flags()
	top.observing.flags(f, peoplesInterval)
	f.StringVar(&top.theme, "theme", "", "colours: "+strings.Join(theme.Names(), ", "))
	f.StringVar(&top.layout, "layout", "", "arrangement: "+strings.Join(layout.Names(), ", "))
	f.StringVar(&top.glyphs, "graphs", "", "draw with braille, block or ascii characters; chosen by the terminal")
	f.BoolVar(&top.showSecrets, "show-secrets", false, "do not redact passwords, tokens and keys in arguments")
	return c
}

func (t *topCommand) run(ctx context.Context, s Streams, intervalGiven bool) error {
	options, err := t.view()
	if err != nil {
		return err
	}
	observed, err := t.observing.options(resource.Flavour{ShowSecrets: t.showSecrets})
	if err != nil {
		return err
	}
	in, out, err := terminalOf(s)
	if err != nil {
		return err
	}
	if intervalGiven {
		options.Interval = observed.Interval
	} else {
		observed.Interval = configuredInterval()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	source, err := tui.NewLive(ctx, observed)
	if err != nil {
		return err
	}
	defer source.Close()
	advisor, err := adviseView(source.Observer())
	if err != nil {
		return err
	}
	defer advisor.Close()
	options.Source, options.In, options.Out = source, in, out
	options.Configuration = tui.NewKept(advisor.Store())
	options.Sessions = sessionsOf()
	if source.Observer().Live() {
		options.Alerts = tui.NewAdvised(advisor)
	}
	if observed.Root == "/" {
		// Elsewhere the same PID can be another process.
		options.Actor = tui.NewAdvised(advisor)
	}
	err = tui.Run(ctx, options)
	if errors.Is(err, tui.ErrClosed) {
		return silentFailure{} // nobody is there to read why
	}
	return err
}

// configuredInterval is that of the user's configuration, so that the first
// observer is already one of the right window.
func configuredInterval() time.Duration {
	store := config.InMemory()
	if path, _, err := steer.Paths(); err == nil {
		store, _ = config.Open(path)
	}
	return min(max(store.Get().Interval, see.MinInterval), see.MaxInterval)
}

// adviseView makes the advisor of a view, with the user's configuration where
// there is a place for one.
func adviseView(observer *see.Observer) (*steer.Advisor, error) {
	o := steer.Options{Observer: observer}
	if configuration, auditLog, err := steer.Paths(); err == nil {
		o.Config, o.Audit = configuration, auditLog
	}
	return steer.New(o)
}

// view checks the options that say how it looks.
func (t *topCommand) view() (tui.Options, error) {
	o := tui.Options{Theme: t.theme, Layout: t.layout, ShowSecrets: t.showSecrets, Glyphs: screen.GlyphsFor(os.Getenv)}
	if t.theme != "" && !slices.Contains(theme.Names(), t.theme) {
		return o, badUsage("The themes are "+strings.Join(theme.Names(), ", ")+".", "there is no theme %q", t.theme)
	}
	if t.layout != "" {
		i := slices.IndexFunc(layout.Names(), func(name string) bool { return sameLayout(name, t.layout) })
		if i < 0 {
			return o, badUsage("The layouts are "+strings.Join(layout.Names(), ", ")+".", "there is no layout %q", t.layout)
		}
		o.Layout = layout.Names()[i]
	}
	if t.glyphs != "" {
		g, ok := screen.GlyphsByName(t.glyphs)
		if !ok {
			return o, badUsage("It can be braille, block or ascii.", "--graphs cannot be %q", t.glyphs)
		}
		o.Glyphs = g
	}
	return o, nil
}

// sameLayout compares names as people type them: "cpu-focus", "CPUFocus".
func sameLayout(a, b string) bool {
	plain := strings.NewReplacer(" ", "", "-", "", "_", "")
	return strings.EqualFold(plain.Replace(a), plain.Replace(b))
}

// terminalOf returns the streams as the terminal that a view needs.
func terminalOf(s Streams) (in, out *os.File, err error) {
	in, okIn := s.In.(*os.File)
	out, okOut := s.Out.(*os.File)
	if !okIn || !okOut || !isTerminal(in) || !isTerminal(out) {
		return nil, nil, hinted{errors.New("the view needs a terminal for its input and its output"), "For a single observation: topside snapshot."}
	}
	return in, out, nil
}
