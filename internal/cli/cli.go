// Package cli is the command line: one file per command.
//
// It is the top of the house: it parses arguments, builds an observer (package
// see) and a surface (package contract), and hands both to a transport (package
// wire). Nothing imports it but main, and only here a command becomes an exit
// status.
//
// Standard output carries data or the protocol, standard error speaks to people.
// Statuses: 0 done, 1 failed, 2 wrong usage, 130 and 143 interrupted.
package cli

//go:generate go test -run ^TestReferenceIsFresh$ -update .

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"topside/internal/compute/engine/javascript"
)

// The exit statuses.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
	// An interrupted command ends with 128 and the signal's number, as shells
	// count it.
	statusSignal = 128
)

// Streams are the three standard streams of a command.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Standard returns the streams of the process.
func Standard() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// Main runs the command line args, args[0] being the name that the program was
// called by, and returns the exit status. The names of the other contracts'
// programs do what those programs do.
func Main(args []string, s Streams) int {
	name, rest := "topside", []string(nil)
	if len(args) > 0 {
		name, rest = programName(args[0]), args[1:]
	}
	if len(rest) > 0 && rest[0] == javascript.Argument {
		// The inside of a JavaScript session, started by a server.
		return javascript.Main(rest[1:])
	}
	if len(rest) > 0 {
		if status, ok := fleetMain(s, rest[0], rest[1:]); ok {
			return status
		}
	}
	if name == "topside" && len(rest) > 0 && (rest[0] == "topup" || rest[0] == "topup-opt") {
		// It watches signals itself.
		name, rest = rest[0], rest[1:]
	}
	switch name {
	case "wsltop":
		return report(s, "wsltop", interruptible(func(ctx context.Context) error { return runWsltop(ctx, s, rest) }))
	case "topup", "topup-opt":
		return topupMain(s, name, rest)
	case "xtop":
		return report(s, "xtop", interruptible(func(ctx context.Context) error { return runXtop(ctx, s, rest) }))
	}
	return report(s, "topside", interruptible(func(ctx context.Context) error { return runTopside(ctx, s, rest) }))
}

// programName is the base name without what Windows adds.
func programName(path string) string {
	base := filepath.Base(path)
	if ext := filepath.Ext(base); strings.EqualFold(ext, ".exe") {
		base = strings.TrimSuffix(base, ext)
	}
	return base
}

// A usageError is a command line that makes no sense; it ends with status 2.
type usageError struct {
	message string
	hint    string // the next step, on a line of its own; "" when there is none
}

func (e *usageError) Error() string { return e.message }

func badUsage(hint, format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...), hint: hint}
}

// A hinted error carries the next step for the person who reads it.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// A silentFailure has been reported already.
type silentFailure struct{}

func (silentFailure) Error() string { return "failed" }

// report writes an error for people and turns it into the exit status.
func report(s Streams, program string, err error) int {
	var (
		usage     *usageError
		signalled interrupted
		silent    silentFailure
		told      topupStatus
		hint      hinted
	)
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		// Whoever read our output had enough; that is no failure.
		return statusDone
	case errors.As(err, &signalled):
		return statusSignal + signalled.number()
	case errors.As(err, &told):
		return int(told)
	case errors.As(err, &silent):
		return statusFailed
	case errors.As(err, &usage):
		complain(s.Err, program, usage.message, usage.hint)
		return statusUsage
	case errors.As(err, &hint):
		complain(s.Err, program, err.Error(), hint.hint)
	default:
		complain(s.Err, program, err.Error(), "")
	}
	return statusFailed
}

func complain(w io.Writer, program, message, hint string) {
	fmt.Fprintf(w, "%s: %s\n", program, message)
	if hint != "" {
		fmt.Fprintln(w, hint)
	}
}

// runTopside parses and runs the commands of the program's own name.
func runTopside(ctx context.Context, s Streams, args []string) error {
	started := false
	root := newRoot(s, func() { started = true })
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	at, err := root.ExecuteContextC(ctx)
	var usage *usageError
	if err == nil || started || errors.As(err, &usage) {
		return err
	}
	// What cobra refuses before a command starts is a matter of usage.
	return badUsage("Run '"+at.CommandPath()+" --help' for the usage.", "%s", strings.TrimSpace(err.Error()))
}

// newRoot builds the tree of commands. started is called when a command begins,
// after its flags and arguments were found to be well formed.
func newRoot(s Streams, started func()) *cobra.Command {
	root := &cobra.Command{
		Use:   "topside",
		Short: "See a machine as an AI agent does: why is it busy?",
		Long: `topside gives an AI agent a machine to see, over the Model Context Protocol
(MCP), and a person the same through its commands.

Start with:
  topside demo       watch a client question the server about this machine
  topside doctor     what can be observed here, and what would make the rest work
  topside snapshot   one observation of this machine
  topside mcp        the server; your MCP client starts it`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Version:                    Version(),
		PersistentPreRun:           func(*cobra.Command, []string) { started() },
	}
	root.SetHelpCommand(newHelpCommand())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagFailure(err) })
	root.SetVersionTemplate("topside {{.Version}}\n")
	root.AddCommand(
		newMCPCommand(s), newWsltopCommand(s), newXtopCommand(s), newDemoCommand(s), newCallCommand(s),
		newSnapshotCommand(s), newTopCommand(s), newHostsCommand(s), newSetupCommand(s), newDoctorCommand(s), newVersionCommand(s),
	)
	root.AddCommand(
		newTopupCommand(s, "topup", "Be topup: a persistent OCaml toplevel over MCP"),
		newTopupCommand(s, "topup-opt", "Be topup-opt: the same with native phrases"),
	)
	return root
}

// flagFailure says in words which value an option wants.
func flagFailure(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	wants := "another value"
	switch kind := invalid.GetFlag().Value.Type(); {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"), kind == "count":
		wants = "a whole number"
	case strings.HasPrefix(kind, "float"):
		wants = "a number"
	case kind == "bool":
		wants = "true or false"
	case kind == "duration":
		wants = "a duration like 5s"
	}
	return fmt.Errorf("--%s must be %s, not %q", invalid.GetFlag().Name, wants, clean(invalid.GetValue()))
}

// noArguments refuses what stands behind the options.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, and was given %q", c.CommandPath(), args[0])
	}
	return nil
}

// newHelpCommand is cobra's own, but for its leniency with unknown topics.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Print the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || about == nil || len(rest) > 0 {
				return badUsage("Run 'topside --help' for the commands.", "there is no command %q", strings.Join(args, " "))
			}
			return about.Help()
		},
	}
}
