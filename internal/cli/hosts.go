package cli

// This file holds "topside hosts": the registry of other machines, what is the case
// with them now, and topside onto them.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"topside/internal/fleet"
	"topside/internal/fleet/host"
	"topside/internal/fleet/install"
	"topside/internal/fleet/link"
)

func newHostsCommand(s Streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "hosts",
		Short: "The other machines: list, add, check, install topside on them",
		Long: `The registry of other machines. A host is a name that ssh knows: of DNS, or a Host
entry of ~/.ssh/config, where users, ports, keys and jump hosts belong. Every tool
can then be called on it, over your own OpenSSH, which never prompts here.

  topside hosts add build1 --tag ci --description "build machine"
  topside hosts install build1
  topside hosts check
  topside call get_system_summary host=build1`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badUsage("Run 'topside hosts --help' for the commands.", "there is no command hosts %q", clean(args[0]))
			}
			return listHosts(s, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	c.AddCommand(
		newHostsListCommand(s), newHostsAddCommand(s), newHostsRemoveCommand(s), newHostsTagCommand(s),
		newHostsCheckCommand(s), newHostsInstallCommand(s), newHostsStopCommand(s),
	)
	return c
}

// withFleet makes the fleet of this user for one command.
func withFleet(s Streams, do func(*fleet.Fleet) error) error {
	options, err := fleetOptions()
	if err != nil {
		return err
	}
	if note := options.Registry.Note(); note != "" {
		fmt.Fprintln(s.Err, "topside: "+clean(note))
	}
	f, err := fleet.New(options)
	if err != nil {
		return err
	}
	err = do(f)
	var unknown *host.UnknownError
	if errors.As(err, &unknown) && !unknown.Tag && len(unknown.Known) == 0 {
		for _, e := range f.Known() {
			unknown.Known = append(unknown.Known, e.Name)
		}
	}
	return errors.Join(hostFailure(err), f.Close())
}

// hostFailure gives the errors of hosts their next step.
func hostFailure(err error) error {
	var unknown *host.UnknownError
	var invalid *host.InvalidError
	switch {
	case errors.As(err, &unknown) && !unknown.Tag:
		return hinted{err, "Run 'topside hosts' for those that are known, and 'topside hosts add NAME' to add one."}
	case errors.As(err, &invalid):
		return badUsage("A host is a name that ssh takes: topside hosts add build1", "%s", err)
	}
	return err
}

func newHostsListCommand(s Streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the known hosts",
		Args:  noArguments,
		RunE:  func(*cobra.Command, []string) error { return listHosts(s, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

// hostRow is a host as "topside hosts --json" shows it. What is not known is null.
type hostRow struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	OS          *string  `json:"os"`
	Tags        []string `json:"tags"`
	Version     *string  `json:"topside_version"`
	LastSeen    *string  `json:"last_seen"`
	ReadOnly    bool     `json:"read_only"`
	Allow       []string `json:"allow"`
	Deny        []string `json:"deny"`
	Source      string   `json:"source"`
}

func rowOf(e host.Entry) hostRow {
	r := hostRow{
		Name: e.Name, Description: e.Description, Tags: append([]string{}, e.Tags...), ReadOnly: e.ReadOnly,
		Allow: append([]string{}, e.Allow...), Deny: append([]string{}, e.Deny...), Source: e.Source,
	}
	if r.Source == "" {
		r.Source = "registry"
	}
	known := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	r.OS, r.Version = known(e.OS), known(e.Version)
	if !e.LastSeen.IsZero() {
		r.LastSeen = known(e.LastSeen.UTC().Format(time.RFC3339))
	}
	return r
}

func listHosts(s Streams, asJSON bool) error {
	return withFleet(s, func(f *fleet.Fleet) error {
		known := f.Known()
		if asJSON {
			rows := make([]hostRow, len(known))
			for i, e := range known {
				rows[i] = rowOf(e)
			}
			return writeJSON(s.Out, map[string]any{"hosts": rows})
		}
		if len(known) == 0 {
			_, err := fmt.Fprintln(s.Out, "No hosts yet. Add one that ssh reaches: topside hosts add NAME")
			return err
		}
		t := newTable("HOST", "OS", "TOPSIDE", "LAST SEEN", "TAGS", "LIMITS", "DESCRIPTION")
		for _, e := range known {
			t.add(e.Name, orUnknown(e.OS), orUnknown(e.Version), seenText(e.LastSeen), strings.Join(e.Tags, ","), permissionsText(e), clean(e.Description))
		}
		var b strings.Builder
		t.write(&b, paletteFor(s.Out), "", columnsOf(s.Out))
		_, err := io.WriteString(s.Out, b.String())
		return err
	})
}

// orUnknown is one text of outside for a column.
func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return brief(clean(text), 40)
}

func seenText(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// permissionsText says what the entry of a host forbids.
func permissionsText(e host.Entry) string {
	var parts []string
	if e.ReadOnly {
		parts = append(parts, "read-only")
	}
	if len(e.Allow) > 0 {
		parts = append(parts, "only "+strings.Join(e.Allow, ","))
	}
	if len(e.Deny) > 0 {
		parts = append(parts, "not "+strings.Join(e.Deny, ","))
	}
	if len(parts) == 0 {
		return unknown
	}
	return strings.Join(parts, "; ")
}

func newHostsAddCommand(s Streams) *cobra.Command {
	var (
		entry  host.Entry
		change = map[string]func(*host.Entry){}
	)
	c := &cobra.Command{
		Use:   "add HOST",
		Short: "Add a host to the registry, or change what it says of one",
		Long: `Add a host to the registry, or change what it says of one: options that are left
out change nothing, and an empty value forgets. Nothing is connected;
"topside hosts check HOST" does that.`,
		Example: `  topside hosts add build1 --tag ci --tag fast
  topside hosts add db1 --read-only --description "the database"
  topside hosts add web1 --deny process_kill --deny 'compile_*'`,
		RunE: func(c *cobra.Command, args []string) error {
			name, err := oneHost(c, args)
			if err != nil {
				return err
			}
			if c.Flags().Changed("socket") && entry.RemoteSocket != "" {
				if err := host.CheckSocket(entry.RemoteSocket); err != nil {
					return hostFailure(err)
				}
			}
			if err := checkPatterns(tagsOf(entry.Allow), tagsOf(entry.Deny)); err != nil {
				return err
			}
			if err := checkTags(tagsOf(entry.Tags)); err != nil {
				return err
			}
			return withFleet(s, func(f *fleet.Fleet) error {
				_, known := f.Registry().Get(name)
				err := f.Registry().Update(name, true, func(e *host.Entry) {
					for flag, apply := range change {
						if c.Flags().Changed(flag) {
							apply(e)
						}
					}
				})
				if err != nil {
					return err
				}
				verb := "added"
				if known {
					verb = "changed"
				}
				_, err = fmt.Fprintf(s.Out, "%s %s; 'topside hosts check %s' tries it\n", verb, name, name)
				return err
			})
		},
	}
	f := c.Flags()
	f.StringVar(&entry.Description, "description", "", "say what the host is, in a few `words`")
	f.StringVar(&entry.OS, "os", "", "name its operating `system`; a connection finds it out by itself")
	f.StringArrayVar(&entry.Tags, "tag", nil, "give it these `tags`, in place of those that it had; hosts are chosen by them as tag:NAME")
	f.BoolVar(&entry.ReadOnly, "read-only", false, "allow only tools that change nothing there")
	f.StringArrayVar(&entry.Allow, "allow", nil, "allow only these `tools` there, by name or pattern (eval, list_*)")
	f.StringArrayVar(&entry.Deny, "deny", nil, "deny these `tools` there; this wins over --allow")
	f.StringVar(&entry.RemoteSocket, "socket", "", "find the daemon at this absolute `path` there, in place of its default")
	change["description"] = func(e *host.Entry) { e.Description = entry.Description }
	change["os"] = func(e *host.Entry) { e.OS = entry.OS }
	change["tag"] = func(e *host.Entry) { e.Tags = tagsOf(entry.Tags) }
	change["read-only"] = func(e *host.Entry) { e.ReadOnly = entry.ReadOnly }
	change["allow"] = func(e *host.Entry) { e.Allow = tagsOf(entry.Allow) }
	change["deny"] = func(e *host.Entry) { e.Deny = tagsOf(entry.Deny) }
	change["socket"] = func(e *host.Entry) { e.RemoteSocket = entry.RemoteSocket }
	return c
}

// checkPatterns refuses patterns that could match nothing.
func checkPatterns(lists ...[]string) error {
	for _, p := range slices.Concat(lists...) {
		if _, err := filepath.Match(p, "eval"); err != nil {
			return badUsage("Patterns are names of tools in which * and ? stand for any characters.", "%q is no pattern: %v", clean(p), err)
		}
	}
	return nil
}

// checkTags refuses tags that are not one word to choose hosts by.
func checkTags(tags []string) error {
	for _, tag := range tags {
		odd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }
		if strings.ContainsFunc(tag, odd) || tag == host.All || len(tag) > longestTag || strings.HasPrefix(tag, host.TagPrefix) {
			return badUsage("Hosts are chosen by their tags as tag:NAME.", "%q is no tag: it is one word of at most %d bytes", clean(tag), longestTag)
		}
	}
	return nil
}

// longestTag bounds a tag, in bytes.
const longestTag = 60

// tagsOf is a list without blanks, empty words and repetitions. Words may have commas
// between them.
func tagsOf(words []string) []string {
	var out []string
	for _, w := range strings.Split(strings.Join(words, ","), ",") {
		if w = strings.TrimSpace(w); w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// oneHost takes the name of a host from the arguments.
func oneHost(c *cobra.Command, args []string) (string, error) {
	if len(args) != 1 {
		return "", badUsage("", "%s takes one host, and was given %d", c.CommandPath(), len(args))
	}
	if host.IsLocal(args[0]) {
		return "", badUsage("A host is another machine, by a name that ssh takes.", "%q is this machine", args[0])
	}
	if err := host.CheckName(args[0]); err != nil {
		return "", hostFailure(err)
	}
	return args[0], nil
}

func newHostsRemoveCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "remove HOST",
		Short: "Forget a host; nothing is changed over there",
		RunE: func(c *cobra.Command, args []string) error {
			name, err := oneHost(c, args)
			if err != nil {
				return err
			}
			return withFleet(s, func(f *fleet.Fleet) error {
				if _, registered := f.Registry().Get(name); !registered {
					if _, err := f.Entry(name); err == nil {
						return fmt.Errorf("%s is not in the registry: it is known by the configuration (fleet.ssh_config, fleet.allow), and to be taken out there", name)
					}
				}
				if err := f.Registry().Remove(name); err != nil {
					return err
				}
				still := ""
				if _, err := f.Entry(name); err == nil {
					still = " from the registry; it stays known by the configuration (fleet.ssh_config, fleet.allow)"
				}
				_, err := fmt.Fprintf(s.Out, "removed %s%s\n", name, still)
				return err
			})
		},
	}
}

func newHostsTagCommand(s Streams) *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use:     "tag HOST TAG...",
		Short:   "Give a host tags, or take them away",
		Example: "  topside hosts tag web1 web eu\n  topside hosts tag web1 eu --remove",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return badUsage("", "%s takes a host and at least one tag", c.CommandPath())
			}
			name, err := oneHost(c, args[:1])
			if err != nil {
				return err
			}
			words := tagsOf(args[1:])
			if !remove {
				if err := checkTags(words); err != nil {
					return err
				}
			}
			return withFleet(s, func(f *fleet.Fleet) error {
				var now []string
				_, unknown := f.Entry(name) // one of the configuration becomes one of the registry
				err := f.Registry().Update(name, unknown == nil, func(e *host.Entry) {
					if remove {
						e.Tags = slices.DeleteFunc(e.Tags, func(t string) bool { return slices.Contains(words, t) })
					} else {
						e.Tags = tagsOf(append(e.Tags, words...))
					}
					now = e.Tags
				})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.Out, "%s: %s\n", name, strings.Join(now, ", "))
				return err
			})
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "take these tags away")
	return c
}

// checkWait bounds the check of one host; ssh's own bound for a connection is less.
const checkWait = 25 * time.Second

func newHostsCheckCommand(s Streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [HOST...]",
		Short: "Connect to hosts now, all of them by default, and say what is the case",
		Long: `Connect to hosts now, to all known ones by default, in parallel, and say for each
whether calls can be made, and if not, why and what would help. HOST is a name or
tag:NAME.

Status 0 when every host answered, 1 otherwise.`,
		RunE: func(c *cobra.Command, args []string) error {
			return withFleet(s, func(f *fleet.Fleet) error {
				if len(args) == 0 {
					for _, e := range f.Known() {
						args = append(args, e.Name)
					}
					if len(args) == 0 {
						return listHosts(s, asJSON)
					}
				}
				chosen, err := f.Select(args)
				if err != nil {
					return err
				}
				chosen = slices.DeleteFunc(chosen, host.IsLocal)
				return reportChecks(s, checkHosts(c.Context(), f, chosen), asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}

// A hostCheck is how one host was found.
type hostCheck struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`
	MS       *float64 `json:"latency_ms"`
	Version  *string  `json:"topside_version"`
	OS       *string  `json:"os"`
	Sessions *int     `json:"sessions"`
	Problem  *string  `json:"problem"`
}

func checkHosts(ctx context.Context, f *fleet.Fleet, names []string) []hostCheck {
	checks := make([]hostCheck, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, checkWait)
			defer cancel()
			checks[i] = checkHost(ctx, f, name)
		})
	}
	group.Wait()
	return checks
}

func checkHost(ctx context.Context, f *fleet.Fleet, name string) hostCheck {
	c := hostCheck{Name: name, State: "unreachable"}
	_, err := f.Start(ctx, name, "")
	if err != nil {
		problem := clean(err.Error())
		c.Problem = &problem
		return c
	}
	st := f.Started(name).State()
	if st.Phase != link.Connected {
		problem := "the connection ended at once"
		if st.Reason != nil {
			problem = clean(st.Reason.Error())
		}
		c.Problem = &problem
		return c
	}
	c.State = "connected"
	if latency, err := roundTrip(ctx, f, name); err == nil {
		ms := float64(latency.Microseconds()) / 1000
		c.MS = &ms
	}
	if st.Framed {
		version, system, sessions := st.Far.Version, st.Far.OS, st.Far.Sessions
		c.Version, c.OS, c.Sessions = &version, &system, &sessions
	}
	return c
}

// roundTrip is the time of an empty call on a connected host, the best of a few.
func roundTrip(ctx context.Context, f *fleet.Fleet, name string) (best time.Duration, err error) {
	for range 3 {
		begin := time.Now()
		if _, err := f.Call(ctx, name, "ping", nil); err != nil {
			return 0, err
		}
		if took := time.Since(begin); best == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

func reportChecks(s Streams, checks []hostCheck, asJSON bool) error {
	failed := slices.ContainsFunc(checks, func(c hostCheck) bool { return c.Problem != nil })
	if asJSON {
		if err := writeJSON(s.Out, map[string]any{"hosts": checks}); err != nil {
			return err
		}
	} else {
		t := newTable("HOST", "STATE", ">LATENCY", "TOPSIDE", "OS", ">SESSIONS", "")
		for _, c := range checks {
			row := []string{c.Name, c.State, unknown, unknown, unknown, unknown, ""}
			if c.MS != nil {
				row[2] = fmt.Sprintf("%.1f ms", *c.MS)
			}
			if c.Version != nil {
				row[3], row[4], row[5] = orUnknown(*c.Version), orUnknown(*c.OS), fmt.Sprint(*c.Sessions)
			}
			if c.Problem != nil {
				row[6] = *c.Problem
			}
			t.add(row...)
		}
		var b strings.Builder
		t.write(&b, paletteFor(s.Out), "", 0) // a problem is worth its whole length
		if _, err := io.WriteString(s.Out, b.String()); err != nil {
			return err
		}
	}
	if failed {
		return silentFailure{}
	}
	return nil
}

func newHostsInstallCommand(s Streams) *cobra.Command {
	var (
		yes  bool
		from string
	)
	c := &cobra.Command{
		Use:   "install HOST",
		Short: "Copy topside to a host, into ~/.local/bin there, after asking",
		Long: `Look at what a host is, say which binary would be copied where, ask, copy it,
compare it by its hash over there, and put it into ~/.local/bin/topside in one step.
It needs no root there, and nothing but a shell. A host of the same kind as this
machine gets this very program; for others the binary is looked for as
topside-OS-ARCH beside this program and in a folder dist beside it ("make cross"
makes them), or named with --from.`,
		RunE: func(c *cobra.Command, args []string) error {
			name, err := oneHost(c, args)
			if err != nil {
				return err
			}
			return withFleet(s, func(f *fleet.Fleet) error { return installOn(c.Context(), s, f, name, from, yes) })
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().StringVar(&from, "from", "", "copy this `file`, a static binary for that host")
	return c
}

func installOn(ctx context.Context, s Streams, f *fleet.Fleet, name, from string, yes bool) error {
	plan, err := f.PlanInstall(ctx, name, binaryFor(from))
	if err != nil {
		return err
	}
	if plan.UpToDate() {
		_, err := fmt.Fprintf(s.Out, "%s has this version already: %s\n", name, plan.Path)
		return errors.Join(err, registerInstalled(f, name))
	}
	verb := "install"
	if plan.Installed != "" {
		verb = "replace"
	}
	fmt.Fprintf(s.Out, "%s on %s (%s/%s): %s\n  from    %s\n  size    %.1f MB\n  sha256  %s\n",
		verb, name, plan.OS, plan.Arch, clean(plan.Path), plan.Source, float64(plan.Size)/1e6, plan.SHA256)
	if !yes && !agreed(s) {
		return errors.New("nothing was installed: answer yes, or use --yes")
	}
	if err := f.Install(ctx, plan); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "installed %s on %s\n", clean(plan.Path), name)
	if plan.Installed != "" {
		fmt.Fprintf(s.Out, "a daemon that runs there goes on with the program that it has; 'topside hosts stop %s' ends it, and the sessions there\n", name)
	}
	return registerInstalled(f, name)
}

// registerInstalled makes a host known on which topside was installed. That it was
// seen tells running servers to try it again at once.
func registerInstalled(f *fleet.Fleet, name string) error {
	return f.Registry().Update(name, true, func(e *host.Entry) { e.LastSeen = time.Now() })
}

// agreed asks on the terminal, or reads a line where there is none.
func agreed(s Streams) bool {
	fmt.Fprint(s.Out, "Go on? [y/N] ")
	line, _ := bufio.NewReader(io.LimitReader(s.In, 100)).ReadString('\n') // no answer is a no
	if !isTerminal(s.In) {
		fmt.Fprintln(s.Out)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}

// binaryFor finds the binary of a platform: the file that was named, this very
// program, or one that stands beside it.
func binaryFor(from string) install.Binary {
	return func(p install.Platform) (string, error) {
		if from != "" {
			info, err := os.Stat(from)
			if err == nil && !info.Mode().IsRegular() {
				err = fmt.Errorf("%s is no regular file", from)
			}
			return from, err
		}
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		if p.OS == runtime.GOOS && p.Arch == runtime.GOARCH {
			return self, nil
		}
		file := fmt.Sprintf("topside-%s-%s", p.OS, p.Arch)
		folder := filepath.Dir(self)
		places := []string{filepath.Join(folder, file), filepath.Join(folder, "dist", file), filepath.Join(folder, "..", "dist", file)}
		for _, place := range places {
			if info, err := os.Stat(place); err == nil && info.Mode().IsRegular() {
				return place, nil
			}
		}
		return "", hinted{
			fmt.Errorf("the host is %s/%s, and no %s stands beside this program", p.OS, p.Arch, file),
			"Build it with 'make cross', or name a static binary for that host: --from FILE",
		}
	}
}

func newHostsStopCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "stop HOST",
		Short: "End the daemon on a host, and with it the sessions that run there",
		Long: `End topside's daemon on a host, and with it the sessions that run there. It ends
by itself after half an hour without clients and sessions; this is for before that.
The logs of sessions stay.`,
		RunE: func(c *cobra.Command, args []string) error {
			name, err := oneHost(c, args)
			if err != nil {
				return err
			}
			return withFleet(s, func(f *fleet.Fleet) error { return stopDaemon(c.Context(), s, f, name) })
		},
	}
}

func stopDaemon(ctx context.Context, s Streams, f *fleet.Fleet, name string) error {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	l, err := f.Link(name)
	if err != nil {
		return err
	}
	if err := l.Connect(ctx); err != nil {
		return err
	}
	l.Drop(ctx, true)
	_, err = fmt.Fprintf(s.Out, "the daemon on %s was told to end\n", name)
	return err
}
