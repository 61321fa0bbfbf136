package cli

// This file holds "topside setup": the server in the configuration of MCP clients.

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"topside/internal/registration"
)

func newSetupCommand(s Streams) *cobra.Command {
	var o setup
	words := clientWords()
	c := &cobra.Command{
		Use:   "setup [CLIENT] [-- ARGUMENTS]",
		Short: "Register the server with an MCP client",
		Long: `Write into a client's configuration that it starts this program as its server, or
list the clients and what each of them starts.

CLIENT is one of ` + strings.Join(words, ", ") + `.
Only the entry of the server changes: comments, order and everything else in the
file stay, and a file that cannot be changed so is left alone, with what to write
there by hand. ARGUMENTS go to "topside mcp".`,
		Example: `  topside setup
  topside setup claude-code
  topside setup cursor --dry-run -- --read-only
  topside setup codex --remove`,
		ValidArgs: words,
		RunE: func(c *cobra.Command, args []string) error {
			place, err := registrationPlace()
			if err != nil {
				return err
			}
			own := len(args)
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				own = dash
			}
			o.arguments = args[own:]
			switch {
			case own == 0 && (o.remove || o.dryRun || len(o.arguments) > 0):
				return badUsage("", "name a client: %s", strings.Join(words, ", "))
			case own == 0:
				return o.list(s, place)
			case own > 1:
				return badUsage("", "one client at a time; what comes after -- goes to topside mcp")
			}
			client, ok := registration.Find(args[0])
			if !ok {
				return badUsage("", "no client is called %s; there are %s", clean(args[0]), strings.Join(words, ", "))
			}
			return o.run(s, place, client)
		},
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", unitedService.name, "the server's `name` in the client")
	f.BoolVar(&o.remove, "remove", false, "take the server out")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the file as it would be, and write nothing")
	return c
}

func clientWords() []string {
	var words []string
	for _, c := range registration.Clients() {
		words = append(words, c.Word)
	}
	return words
}

func registrationPlace() (registration.Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return registration.Place{}, fmt.Errorf("no home, so no configuration of clients: %w", err)
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return registration.Place{}, fmt.Errorf("no place for the configuration of clients: %w", err)
	}
	return registration.Place{System: runtime.GOOS, Home: home, Config: config, Getenv: os.Getenv}, nil
}

// A setup is what the command was told.
type setup struct {
	name           string
	remove, dryRun bool
	arguments      []string
}

func (o setup) run(s Streams, place registration.Place, client registration.Client) error {
	if strings.TrimSpace(o.name) == "" || strings.ContainsFunc(o.name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return badUsage("", "%q is no name for a server", o.name)
	}
	if o.remove {
		change, err := client.Remove(place, o.name)
		if err != nil {
			return err
		}
		if change.Nothing() {
			_, err = fmt.Fprintf(s.Out, "%s has no server called %s (%s)\n", client.Title, o.name, clean(change.Path))
			return err
		}
		return o.carryOut(s, change, fmt.Sprintf("removed %s from %s", o.name, client.Title), client)
	}
	path, stays := registrable()
	if !stays {
		return errors.New("this program was built for one run, and a client would not find it again: build one that stays (make build) and run its setup")
	}
	arguments := append(slices.Clone(unitedService.args), o.arguments...)
	change, err := client.Add(place, registration.Server{Name: o.name, Command: path, Args: arguments})
	if err != nil {
		return err
	}
	if change.Nothing() && !o.dryRun {
		_, err = fmt.Fprintf(s.Out, "%s starts it already (%s)\n", client.Title, clean(change.Path))
		return err
	}
	line := shellWord(path)
	for _, a := range arguments {
		line += " " + shellWord(a)
	}
	return o.carryOut(s, change, fmt.Sprintf("registered %s with %s: %s", o.name, client.Title, clean(line)), client)
}

func (o setup) carryOut(s Streams, change registration.Change, done string, client registration.Client) error {
	if o.dryRun {
		fmt.Fprintf(s.Err, "%s would be:\n", clean(change.Path))
		_, err := s.Out.Write(change.After)
		return err
	}
	if err := change.Write(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.Out, "%s\n  in %s; restart %s to have it so\n", done, clean(change.Path), client.Title)
	return err
}

// list shows what each client starts.
func (o setup) list(s Streams, place registration.Place) error {
	t := newTable("CLIENT", "STARTS", "FILE")
	for _, client := range registration.Clients() {
		line, err := client.Runs(place, o.name)
		starts, _ := commandLine(line, false)
		switch {
		case err != nil:
			starts = "?"
			fmt.Fprintf(s.Err, "topside: %s\n", clean(err.Error()))
		case line == nil:
			starts = "-"
		}
		t.add(client.Word, starts, clean(client.Path(place)))
	}
	t.write(s.Out, paletteFor(s.Out), "", columnsOf(s.Out))
	return nil
}
