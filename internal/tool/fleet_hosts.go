package tool

// This file lists the hosts.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"topside/internal/fleet"
	"topside/internal/fleet/host"
	"topside/internal/fleet/link"
	"topside/internal/fleet/route"
	"topside/internal/see/plaintext"
)

// A hostRow is a host in the answer of list_hosts. What is not known is absent.
type hostRow struct {
	Host        string   `json:"host"`
	State       string   `json:"state"`
	LatencyMS   *float64 `json:"latency_ms,omitempty"`
	Version     string   `json:"version,omitempty"` // of topside there
	Description string   `json:"description,omitempty"`
	OS          string   `json:"os,omitempty"`
	Arch        string   `json:"arch,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Sessions    *int     `json:"sessions,omitempty"` // when it last connected
	InFlight    int      `json:"calls,omitempty"`
	LastSeen    string   `json:"last_seen,omitempty"`
	LastError   string   `json:"last_error,omitempty"`
	RetryInMS   int64    `json:"retry_in_ms,omitempty"`
	ReadOnly    bool     `json:"read_only,omitempty"`
	Allow       []string `json:"allow,omitempty"`
	Deny        []string `json:"deny,omitempty"`
	Source      string   `json:"source,omitempty"`
}

// hostsListed is the answer of list_hosts.
type hostsListed struct {
	Version string    `json:"version"` // of this side
	Hosts   []hostRow `json:"hosts"`
	LeftOut int       `json:"left_out,omitempty"`
	Allowed []string  `json:"allowed,omitempty"` // patterns
	Note    string    `json:"note,omitempty"`
}

const (
	// checkDeadline is how long a host may take to connect when it is checked.
	checkDeadline = 15 * time.Second
	// mostHostRows bounds the hosts that are listed.
	mostHostRows = 200
)

func (h *Hosts) list(ctx context.Context, call Call) (Result, error) {
	_ = h.fleet.Refresh() // one that cannot be read leaves what is known
	if call.Flag("check") {
		var names []string
		for _, e := range h.fleet.Known() {
			names = append(names, e.Name)
		}
		route.Each(ctx, names, checkDeadline, h.check)
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
	}
	answer := hostsListed{Version: h.version, Hosts: []hostRow{}, Allowed: h.fleet.Allowed()}
	for _, s := range h.fleet.Hosts() {
		if l := h.fleet.Started(s.Name); l != nil {
			l.Retry() // whoever looks means to use them
		}
		if len(answer.Hosts) == mostHostRows {
			answer.LeftOut++
			continue
		}
		answer.Hosts = append(answer.Hosts, hostRowOf(s))
	}
	var notes []string
	for _, note := range []string{h.note, h.fleet.Registry().Note()} {
		if note != "" {
			notes = append(notes, line(note))
		}
	}
	if len(answer.Hosts) == 0 && len(answer.Allowed) == 0 {
		notes = append(notes, "no host is known yet: a person adds one with: topside hosts add NAME (a name that ssh knows)")
	}
	answer.Note = strings.Join(notes, "; ")
	return Result{Structured: answer, Text: answer.text()}, nil
}

// check connects to a host, whatever the backoff, and waits for its first sign of life.
func (h *Hosts) check(ctx context.Context, name string) (json.RawMessage, error) {
	l, err := h.fleet.Link(name)
	if err != nil {
		return nil, err
	}
	if err := l.Connect(ctx); err != nil {
		return nil, err
	}
	return nil, l.Ping(ctx)
}

func hostRowOf(s fleet.Status) hostRow {
	r := hostRow{
		Host: s.Name, State: string(s.Link.Phase), Version: shortText(s.Version), Description: told(s.Description), OS: shortText(s.OS),
		Tags: s.Tags, InFlight: s.Link.InFlight, ReadOnly: s.ReadOnly, Allow: s.Allow, Deny: s.Deny, Source: s.Source,
	}
	if s.Link.Framed {
		far := s.Link.Far
		r.Version, r.Arch = shortText(far.Version), shortText(far.Arch)
		if r.OS == "" {
			r.OS = shortText(far.OS)
		}
	}
	if s.Link.Latency > 0 {
		ms := math.Round(float64(s.Link.Latency.Microseconds())/10) / 100
		r.LatencyMS = &ms
	}
	if s.Sessions >= 0 {
		r.Sessions = &s.Sessions
	}
	seen := s.LastSeen
	if s.Link.LastSeen.After(seen) {
		seen = s.Link.LastSeen
	}
	if !seen.IsZero() {
		r.LastSeen = seen.UTC().Format(time.RFC3339)
	}
	if s.Link.Phase == link.Broken {
		if s.Link.Reason != nil {
			r.LastError = line(s.Link.Reason.Error())
		}
		r.RetryInMS = s.Link.RetryIn.Milliseconds()
	}
	return r
}

// text is the list in lines.
func (l *hostsListed) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d hosts; this side is topside %s\n", len(l.Hosts)+l.LeftOut, l.Version)
	for i := range l.Hosts {
		r := &l.Hosts[i]
		fmt.Fprintf(&b, "%s: %s", r.Host, r.State)
		if r.LatencyMS != nil {
			fmt.Fprintf(&b, ", %v ms", *r.LatencyMS)
		}
		for _, word := range []string{r.OS, r.Arch} {
			if word != "" {
				b.WriteString(", " + word)
			}
		}
		if r.Version != "" {
			b.WriteString(", topside " + r.Version)
		}
		if r.Sessions != nil {
			fmt.Fprintf(&b, ", %d sessions", *r.Sessions)
		}
		for _, tag := range r.Tags {
			shown, _ := plaintext.Bounded(tag, 60)
			b.WriteString(" tag:" + shown)
		}
		if r.ReadOnly {
			b.WriteString(", read-only")
		}
		for _, restriction := range []struct {
			what string
			of   []string
		}{{"allows", r.Allow}, {"denies", r.Deny}} {
			if len(restriction.of) > 0 {
				fmt.Fprintf(&b, ", %s %s", restriction.what, strings.Join(restriction.of, ","))
			}
		}
		if r.LastSeen != "" {
			b.WriteString(", seen " + r.LastSeen)
		}
		if r.Source != "" {
			b.WriteString(", from the " + r.Source)
		}
		if r.Description != "" {
			b.WriteString(" (" + r.Description + ")")
		}
		if r.LastError != "" {
			b.WriteString("\n  " + r.LastError)
			if r.RetryInMS >= 500 {
				fmt.Fprintf(&b, "; tried again in %.0f s", float64(r.RetryInMS)/1000)
			}
		}
		b.WriteByte('\n')
	}
	if l.LeftOut > 0 {
		fmt.Fprintf(&b, "and %d more\n", l.LeftOut)
	}
	if len(l.Allowed) > 0 {
		fmt.Fprintf(&b, "allowed without being registered: %s\n", strings.Join(l.Allowed, ", "))
	}
	if l.Note != "" {
		b.WriteString(l.Note + "\n")
	}
	return b.String()
}

// permitFile tells whether a host may be sent a file, or asked for one.
func (h *Hosts) permitFile(tool, name string, reads bool) error {
	if host.IsLocal(name) {
		return fleet.ErrLocal
	}
	if err := h.fleet.Permit(name, tool, reads); err != nil {
		return err
	}
	if h.judge == nil {
		return nil
	}
	d := h.judge.Decide(tool, name, "")
	if d.Verdict == "allow" {
		return nil
	}
	why := fmt.Sprintf("line %d of the policy of this machine does not let files across without a person", d.Line)
	if d.Verdict == "deny" {
		why = fmt.Sprintf("line %d of the policy of this machine denies it", d.Line)
	}
	if d.Reason != "" {
		why += ": " + told(d.Reason)
	}
	return &host.PolicyError{Host: name, Tool: tool, Why: why}
}

var errStopping = errors.New("the server is ending")
