package alert

// This file holds the book: what rules and thresholds find becomes alerts that
// last, end, are acknowledged, and are kept for a while.

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
)

// The bounds of a book.
const (
	MostActive  = 500 // alerts that last
	MostHistory = 200 // alerts that ended
	mostMembers = 10  // processes that an alert names
	// quiet is how long a cause must not be found before its alert ends.
	quiet = 20 * time.Second
)

// A Book keeps alerts. The zero value is empty and ready. It is not safe for
// concurrent use.
type Book struct {
	active     map[string]*record
	history    []Alert // newest last
	suppressed []config.Suppression
	dropped    int
	revision   int
	// resumable were written down as lasting, by id; see [Book.Resume].
	resumable map[string]Alert
	resumed   time.Time
}

type record struct {
	Alert
	members map[Identity]bool
	before  int  // processes that were counted before it was taken over
	seen    bool // in this pass
}

// ErrNoAlert is wrapped by the error of an id that no alert has.
var ErrNoAlert = errors.New("no such alert")

// Suppress replaces the suppressions. Alerts that they match stay in the book
// and are not shown.
func (b *Book) Suppress(all []config.Suppression) { b.suppressed = slices.Clone(all) }

// IDOf is the id of the alert of a cause.
func IDOf(cause string) string {
	sum := sha256.Sum256([]byte(cause))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// Update takes what the rules say at one moment: new causes begin alerts, and
// alerts whose cause is gone end.
func (b *Book) Update(now time.Time, findings []Finding) {
	if b.active == nil {
		b.active = map[string]*record{}
	}
	for _, f := range findings {
		b.take(now, f)
	}
	for cause, r := range b.active {
		if r.Limit != nil {
			continue // thresholds end by themselves
		}
		if !r.seen && now.Sub(r.LastSeen) >= quiet {
			b.end(cause, r, r.LastSeen)
		}
		r.seen = false
	}
	b.forgo(now)
}

func (b *Book) take(now time.Time, f Finding) {
	r := b.active[f.Cause]
	if r == nil {
		if len(b.active) >= MostActive && !b.makeRoom(f.Severity) {
			b.dropped++
			return
		}
		if r = b.resume(now, f); r == nil {
			r = &record{Alert: Alert{ID: IDOf(f.Cause), Finding: f, FirstSeen: now}, members: map[Identity]bool{}}
			b.revision++
		}
		b.active[f.Cause] = r
	}
	r.LastSeen = now
	if id := (Identity{f.PID, f.StartTicks}); !r.members[id] && len(r.members) < 10000 {
		r.members[id] = true
		r.Count = max(r.before, len(r.members))
		if len(r.Processes) < mostMembers {
			r.Processes = append(r.Processes, id)
		}
	}
	// The most severe finding of the pass speaks for the alert; among equals
	// the first.
	if !r.seen || f.Severity.Rank() < r.Severity.Rank() {
		if f.Severity != r.Severity {
			b.revision++
		}
		r.Finding = f
	}
	r.seen = true
}

// makeRoom drops an alert that is less severe; false when there is none.
func (b *Book) makeRoom(s Severity) bool {
	for cause, r := range b.active {
		if r.Severity.Rank() > s.Rank() {
			delete(b.active, cause)
			b.dropped++
			b.revision++
			return true
		}
	}
	return false
}

func (b *Book) end(cause string, r *record, at time.Time) {
	delete(b.active, cause)
	b.past(r.Alert, at)
}

// past writes an alert that ended into the history.
func (b *Book) past(a Alert, at time.Time) {
	a.Ended = at
	b.revision++
	b.history = append(b.history, a)
	if over := len(b.history) - MostHistory; over > 0 {
		b.history = slices.Delete(b.history, 0, over)
	}
}

// Cross takes the crossings of thresholds that began or ended, and the states
// of those that last.
func (b *Book) Cross(changed []threshold.Crossing, states []threshold.State) {
	if b.active == nil {
		b.active = map[string]*record{}
	}
	for _, c := range changed {
		cause := "threshold\x00" + string(c.Metric)
		if !c.Active() {
			if r := b.active[cause]; r != nil {
				r.describe(c)
				b.end(cause, r, c.Ended)
			}
			continue
		}
		finding := Finding{Rule: "threshold_" + string(c.Metric), Severity: Warning, Cause: cause}
		r := b.resume(c.Last, finding)
		if r == nil {
			r = &record{Alert: Alert{ID: IDOf(cause), FirstSeen: c.Began, Count: 1, Finding: finding}}
			b.revision++
		}
		b.active[cause] = r
	}
	for _, s := range states {
		if s.Crossing == nil {
			continue
		}
		if r := b.active["threshold\x00"+string(s.Metric)]; r != nil {
			r.describe(*s.Crossing)
		}
	}
}

func (r *record) describe(c threshold.Crossing) {
	unit := "%"
	if c.Metric == threshold.Temperature {
		unit = " °C"
	}
	peak := c.Peak
	if r.Peak != nil {
		peak = max(peak, *r.Peak)
	}
	r.LastSeen, r.Peak, r.Limit = c.Last, &peak, &c.Limit
	r.Process = string(c.Metric)
	r.Message = fmt.Sprintf("%s is %.1f%s, above the limit of %.1f%s", c.Metric, c.Value, unit, c.Limit, unit)
	if c.Subject != "" {
		r.Message += " (" + c.Subject + ")"
	}
	r.Evidence = []string{fmt.Sprintf("above since %s, peak %.1f%s", r.FirstSeen.UTC().Format(time.RFC3339), peak, unit)}
	r.Next = []string{"what uses it: the summary of the system"}
}

// A View says which alerts to list.
type View struct {
	// Acknowledged and Suppressed include those; History adds what ended.
	Acknowledged, Suppressed, History bool
}

// List returns alerts, the most severe first, then the newest; what ended
// comes last.
func (b *Book) List(v View, now time.Time) []Alert {
	out := make([]Alert, 0, len(b.active))
	for _, r := range b.active {
		if (v.Acknowledged || r.Acknowledged.IsZero()) && (v.Suppressed || !b.hides(&r.Alert, now)) {
			out = append(out, r.copy())
		}
	}
	slices.SortFunc(out, func(x, y Alert) int {
		return cmp.Or(cmp.Compare(x.Severity.Rank(), y.Severity.Rank()), y.FirstSeen.Compare(x.FirstSeen), cmp.Compare(x.Cause, y.Cause))
	})
	if v.History {
		for _, a := range slices.Backward(b.history) {
			if (v.Acknowledged || a.Acknowledged.IsZero()) && (v.Suppressed || !b.hides(&a, now)) {
				out = append(out, a)
			}
		}
	}
	return out
}

func (r *record) copy() Alert {
	a := r.Alert
	a.Processes = slices.Clone(a.Processes)
	return a
}

// Dropped is how many alerts found no room.
func (b *Book) Dropped() int { return b.dropped }

// Acknowledge marks an alert as seen by a person. It is shown again when it
// ends and comes back. The error wraps [ErrNoAlert].
func (b *Book) Acknowledge(id, note string, now time.Time) error {
	for _, r := range b.active {
		if r.ID == id {
			r.Acknowledged, r.Note = now, note
			b.revision++
			return nil
		}
	}
	for i := range b.history {
		if b.history[i].ID == id {
			b.history[i].Acknowledged, b.history[i].Note = now, note
			b.revision++
			return nil
		}
	}
	return fmt.Errorf("%w: %q; ids are those that process_alerts returned, and ended alerts are kept for a while only", ErrNoAlert, id)
}

// hides reports whether a suppression matches an alert.
func (b *Book) hides(a *Alert, now time.Time) bool {
	return slices.ContainsFunc(b.suppressed, func(s config.Suppression) bool { return Matches(s, a, now) })
}

// Matches reports whether a suppression that is still in force matches an
// alert.
func Matches(s config.Suppression, a *Alert, now time.Time) bool {
	if s.Validate() != nil || !s.Until.IsZero() && now.After(s.Until) {
		return false
	}
	if s.Rule != "" && s.Rule != a.Rule {
		return false
	}
	if s.Process != "" && s.Process != a.Process && s.Process != a.Executable && (strings.Contains(s.Process, "/") || s.Process != path.Base(a.Executable)) {
		return false
	}
	return s.Unit == "" || s.Unit == a.Unit || a.Container != "" && strings.HasPrefix(a.Container, s.Unit) && len(s.Unit) >= 6
}
