package tool

// This file puts the tools of the united surface on other hosts: it gives them the
// arguments host and hosts, and declares the fleet toolset. The other files of this
// part: fleet_call.go calls one host, fleet_many.go many, fleet_rows.go merges lists
// of many, fleet_hosts.go lists the hosts, fleet_watch.go tells when there begin to be
// any, fleet_files.go moves files, and fleet_error.go says what went wrong.

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"topside/internal/fleet"
	"topside/internal/fleet/host"
	"topside/internal/see/plaintext"
	"topside/internal/steer"
)

// The arguments that choose where a call goes.
const (
	hostArgument  = "host"
	hostsArgument = "hosts"
)

// HostsOptions say which hosts there are, and who has a say.
type HostsOptions struct {
	Fleet fleet.Options
	// Elsewhere judges and writes down calls to other hosts; nil lets all pass.
	Elsewhere *steer.Elsewhere
	// Note is what list_hosts says beside them; "" for nothing.
	Note string
}

// Hosts are the other machines of one server, for all of its clients. It connects to
// none before it is asked to, and is safe for concurrent use. Close it when done.
type Hosts struct {
	fleet   *fleet.Fleet
	judge   *steer.Elsewhere
	version string
	note    string

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	lastToken uint64
	listening map[uint64]progressing
	moves     map[string]*move
	watchers  map[*watcher]bool
	unwatched chan struct{} // closed when the last watcher goes
}

// NewHosts makes Hosts. The error is about the registry.
func NewHosts(o HostsOptions) (*Hosts, error) {
	h := &Hosts{judge: o.Elsewhere, note: o.Note, version: o.Fleet.Version, listening: map[uint64]progressing{}, moves: map[string]*move{}, watchers: map[*watcher]bool{}}
	o.Fleet.Notifications = h.notified
	o.Fleet.RelayOnly = true
	f, err := fleet.New(o.Fleet)
	if err != nil {
		return nil, err
	}
	h.fleet = f
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// Close ends transfers and every connection.
func (h *Hosts) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	err := h.fleet.Close() // what waits on a connection ends with it
	h.work.Wait()
	return err
}

// Any reports whether there is a host to call: the tools have host and hosts then.
func (h *Hosts) Any() bool {
	if h == nil {
		return false
	}
	_ = h.fleet.Refresh() // one that cannot be read leaves what is known
	return h.fleet.Any()
}

// Expand returns the names that a selection stands for, as far as they are known.
func (h *Hosts) Expand(selection []string) []string {
	var names []string
	for _, s := range namesIn(selection) {
		found, err := h.fleet.Select([]string{s})
		if err != nil {
			found = []string{s}
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// On returns the tools with the arguments that choose a host, for one client. Those
// of the contracts, and of fleet itself, stay as they are.
func (h *Hosts) On(tools []*Tool) []*Tool {
	r := &remote{Hosts: h, tickets: map[string]ticket{}}
	out := make([]*Tool, len(tools))
	for i, t := range tools {
		out[i] = t
		if t.Toolset == See || t.Toolset == Steer || t.Toolset == Compute {
			out[i] = r.placed(t)
		}
	}
	return out
}

// remote is the hosts as one client has them.
type remote struct {
	*Hosts
	ticketsMu sync.Mutex
	tickets   map[string]ticket // of replies that can still be collected
}

// placed is a tool that can work on other hosts.
func (r *remote) placed(base *Tool) *Tool {
	t := *base
	t.Description = strings.Replace(t.Description, " on this machine", "", 1)
	t.Input = append(slices.Clone(base.Input), Property{Name: hostArgument, Type: String})
	if manyable(base) {
		t.Input = append(t.Input, Property{Name: hostsArgument, Type: Array})
		t.Exclusive = append(slices.Clone(base.Exclusive), [2]string{hostArgument, hostsArgument})
	}
	t.Handler = func(ctx context.Context, call Call) (Result, error) {
		name := call.Text(hostArgument)
		switch {
		case call.Has(hostsArgument):
			return r.many(ctx, base, call)
		case host.IsLocal(name):
			return base.Handler(ctx, call.without(hostArgument))
		}
		return r.one(ctx, base, call, name)
	}
	return &t
}

// manyable reports whether a tool works on many hosts at a time: those that read, and
// the two that are a broadcast's.
func manyable(t *Tool) bool {
	return t.Annotations.ReadOnly || t.Name == "eval" || t.Name == "cancel" || t.Name == alertsTool
}

// alertsTool reads unless it is asked to acknowledge or suppress.
const alertsTool = "process_alerts"

// changing are the arguments of alertsTool that change something.
var changing = []string{"acknowledge", "suppress", "unsuppress", "note"}

// onlyReads reports whether a call changes nothing on its host.
func onlyReads(t *Tool, call Call) bool {
	switch {
	case t.Annotations.ReadOnly:
		return true
	case t.Name == alertsTool:
		return !slices.ContainsFunc(changing, func(a string) bool { return call.Text(a) != "" || call.Flag(a) })
	case t.Name == killTool:
		return call.Flag("dry_run")
	}
	return false
}

// without returns the call without some of its arguments.
func (c Call) without(names ...string) Call {
	c.values = slices.DeleteFunc(slices.Clone(c.values), func(v value) bool { return slices.Contains(names, v.name) })
	return c
}

// forwarded are the arguments as they came, for another host: without those that
// chose it and those that were null, and with others in place of some.
func (c Call) forwarded(instead map[string]json.RawMessage) json.RawMessage {
	sent, err := members(unquoted(c.sent))
	if err != nil { // it was checked
		return json.RawMessage("{}")
	}
	var o object
	for _, m := range sent {
		if _, replaced := instead[m.name]; replaced || m.name == hostArgument || m.name == hostsArgument || isNull(m.sent) {
			continue
		}
		o.add(m.name, m.sent)
	}
	for _, name := range slices.Sorted(maps.Keys(instead)) {
		if instead[name] != nil {
			o.add(name, instead[name])
		}
	}
	return o.bytes()
}

// Places reads where a call would go, for whoever keeps calls in order: its session,
// and its hosts, "" for this machine. Arguments that are not understood are of this
// machine's default session.
func Places(arguments json.RawMessage) (session string, hosts []string, many bool) {
	var place struct {
		Session json.RawMessage `json:"session"`
		Host    json.RawMessage `json:"host"`
		Hosts   json.RawMessage `json:"hosts"`
	}
	_ = json.Unmarshal(unquoted(arguments), &place)
	session, _ = textOf(place.Session)
	if text, isText := textOf(place.Hosts); len(place.Hosts) > 0 && !isNull(place.Hosts) {
		if list, ok := texts(place.Hosts, text, isText); ok {
			hosts, _ = list.([]string)
		}
		return session, hosts, true
	}
	name, _ := textOf(place.Host)
	return session, []string{Place(name)}, false
}

// Place is a host's name as [Places] gives it.
func Place(name string) string {
	if host.IsLocal(name) {
		return ""
	}
	return name
}

// instructedHosts bounds the hosts that the instructions name.
const instructedHosts = 20

// Instructions is what a client should know of the hosts; "" where there are none.
func (h *Hosts) Instructions() string {
	if !h.Any() {
		return ""
	}
	var b strings.Builder
	b.WriteString(`Other hosts: host runs a tool there, hosts (names, tag:NAME, or * for this machine and all) on many at a time, with a result for each. Snapshots, resource_ids, sessions, runs and paths belong to their host: pass the same host again. list_hosts tells what is reachable; after a broken connection just call again.`)
	known := h.fleet.Known()
	for i, e := range known {
		if i == instructedHosts {
			b.WriteString("\n- and more: list_hosts")
			break
		}
		b.WriteString("\n- " + e.Name)
		if e.Description != "" {
			shown, _ := plaintext.Bounded(e.Description, 60)
			b.WriteString(": " + shown)
		}
		for _, tag := range e.Tags {
			shown, _ := plaintext.Bounded(tag, 30)
			b.WriteString(" tag:" + shown)
		}
		if e.ReadOnly {
			b.WriteString(" (read-only)")
		}
	}
	return b.String()
}

// The longest waits for hosts.
const (
	// eachDeadline is how long one of many hosts may take.
	eachDeadline = 15 * time.Second
	// waitMargin is added to what a tool may wait over there.
	waitMargin = 7 * time.Second
	// oneDeadline is how long the only host may take: a signal is waited for for 30 s.
	// Where code is evaluated it is what clients wait for, who give up after a minute.
	oneDeadline  = 40 * time.Second
	evalDeadline = 57 * time.Second
)

// deadlineOf is how long a call may take on one of many hosts.
func deadlineOf(t *Tool, call Call) time.Duration {
	if _, waits := t.property("wait"); !waits {
		return eachDeadline
	}
	wait := float64(defaultWait)
	if given, ok := call.Number("wait"); ok {
		wait = min(max(given, 0), longestWait)
	}
	return max(time.Duration(wait*float64(time.Second))+waitMargin, eachDeadline)
}

// FleetTools declares the fleet toolset. The hosts may be nil where the tools are only
// described.
func FleetTools(h *Hosts) []*Tool {
	name := Property{Name: hostArgument, Type: String, Required: true}
	here := Property{Name: "local_path", Type: String}
	there := Property{Name: "remote_path", Type: String}
	source := func(p Property) Property { p.Required = true; return p }
	overwrite, wait := Property{Name: "overwrite", Type: Boolean}, Property{Name: "wait", Type: Number}
	moved := resultOf(typed("state", String))
	tools := []*Tool{
		{
			Name:        "list_hosts",
			Description: "Hosts, their state and tags. check connects to all.",
			Input:       []Property{{Name: "check", Type: Boolean}},
			Annotations: Annotations{ReadOnly: true, OpenWorld: true},
			Output:      resultOf(), Handler: h.list,
		},
		{
			Name:        "push_file",
			Description: "Copy a file or folder to a host. While it is running, the same call follows it; a broken one goes on.",
			Input:       []Property{name, source(here), there, overwrite, wait},
			Annotations: Annotations{Destructive: true, OpenWorld: true}, Output: moved, Handler: h.push,
		},
		{
			Name:        "pull_file",
			Description: "Copy from a host, likewise.",
			Input:       []Property{name, source(there), here, overwrite, wait},
			Annotations: Annotations{Destructive: true, OpenWorld: true}, Output: moved, Handler: h.pull,
		},
	}
	for _, t := range tools {
		t.Toolset = Fleet
		if h == nil {
			t.Handler = noHosts
		}
	}
	return tools
}

// FleetTool reports whether a tool is offered only where there is a host.
func FleetTool(t *Tool) bool { return t.Toolset == Fleet && t.Name != "list_hosts" }

func noHosts(context.Context, Call) (Result, error) {
	return Result{}, &FleetError{"unavailable", "this server has no hosts", ""}
}
