package alert

// This file is an alert as it is written down, and what a book takes over from
// what was: alerts outlast the server that found them.

import (
	"time"
)

// Kept is an alert in the ledger's file.
type Kept struct {
	ID           string      `json:"id"`
	Rule         string      `json:"rule"`
	Severity     Severity    `json:"severity"`
	Message      string      `json:"message"`
	PID          int32       `json:"pid"`
	StartTicks   uint64      `json:"start_ticks,omitempty"`
	Process      string      `json:"process,omitempty"`
	Executable   string      `json:"executable,omitempty"`
	User         string      `json:"user,omitempty"`
	Unit         string      `json:"unit,omitempty"`
	Container    string      `json:"container,omitempty"`
	Evidence     []string    `json:"evidence,omitempty"`
	Next         []string    `json:"next,omitempty"`
	FirstSeen    time.Time   `json:"first_seen"`
	LastSeen     time.Time   `json:"last_seen"`
	Ended        time.Time   `json:"ended,omitzero"`
	Count        int         `json:"count"`
	Processes    [][2]uint64 `json:"processes,omitempty"` // id and start, in ticks
	Peak         *float64    `json:"peak,omitempty"`
	Limit        *float64    `json:"limit,omitempty"`
	Acknowledged time.Time   `json:"acknowledged,omitzero"`
	Note         string      `json:"note,omitempty"`
}

// KeptOf is the alert as it is written down.
func KeptOf(a Alert) Kept {
	k := Kept{
		ID: a.ID, Rule: a.Rule, Severity: a.Severity, Message: a.Message, PID: a.PID, StartTicks: a.StartTicks,
		Process: a.Process, Executable: a.Executable, User: a.User, Unit: a.Unit, Container: a.Container, Evidence: a.Evidence, Next: a.Next,
		FirstSeen: a.FirstSeen.UTC(), LastSeen: a.LastSeen.UTC(), Ended: a.Ended.UTC(), Count: a.Count,
		Peak: a.Peak, Limit: a.Limit, Acknowledged: a.Acknowledged.UTC(), Note: a.Note,
	}
	for _, p := range a.Processes {
		k.Processes = append(k.Processes, [2]uint64{uint64(uint32(p.PID)), p.StartTicks})
	}
	return k
}

// Alert is what was written down.
func (k Kept) Alert() Alert {
	a := Alert{
		ID: k.ID, FirstSeen: k.FirstSeen, LastSeen: k.LastSeen, Ended: k.Ended, Count: k.Count, Peak: k.Peak, Limit: k.Limit,
		Acknowledged: k.Acknowledged, Note: k.Note,
		Finding: Finding{
			Rule: k.Rule, Severity: k.Severity, PID: k.PID, StartTicks: k.StartTicks, Process: k.Process,
			Executable: k.Executable, User: k.User, Unit: k.Unit, Container: k.Container, Message: k.Message, Evidence: k.Evidence, Next: k.Next,
		},
	}
	for _, p := range k.Processes[:min(len(k.Processes), mostMembers)] {
		a.Processes = append(a.Processes, Identity{int32(uint32(p[0])), p[1]})
	}
	return a
}

// lull is how long an alert may have been out of everybody's sight and still be
// the same when its cause is found again, by other processes than before.
const lull = 15 * time.Minute

// Resume takes over alerts that lasted when they were written down. They are not
// listed before a rule finds them again. One whose process is still there, or
// that was seen not long ago, goes on, with what a person said of it.
func (b *Book) Resume(lasting []Alert, now time.Time) {
	if b.resumable == nil {
		b.resumable = map[string]Alert{}
	}
	b.resumed = now
	for _, a := range lasting[:min(len(lasting), MostActive)] {
		b.resumable[a.ID] = a
	}
}

// resume returns the record of an alert that goes on; nil when it is a new one.
func (b *Book) resume(now time.Time, f Finding) *record {
	id := IDOf(f.Cause)
	old, ok := b.resumable[id]
	if !ok {
		return nil
	}
	delete(b.resumable, id)
	r := &record{Alert: old, members: map[Identity]bool{}, before: old.Count}
	r.Cause = f.Cause
	for _, p := range old.Processes {
		r.members[p] = true
	}
	if f.PID != 0 && r.members[Identity{f.PID, f.StartTicks}] || now.Sub(old.LastSeen) <= lull {
		return r
	}
	b.past(old, old.LastSeen)
	return nil
}

// forgo ends what was taken over and not found again for long enough.
func (b *Book) forgo(now time.Time) {
	if len(b.resumable) == 0 || now.Sub(b.resumed) < lull {
		return
	}
	for id, a := range b.resumable {
		delete(b.resumable, id)
		b.past(a, a.LastSeen)
	}
}

// Adopt takes over what other servers know of the same alerts: that a person saw
// them, and that they are older; and what ended there.
func (b *Book) Adopt(lasting, past []Alert) {
	byID := make(map[string]*Alert, len(b.active))
	for _, r := range b.active {
		byID[r.ID] = &r.Alert
	}
	for i := range lasting {
		theirs, ours := &lasting[i], byID[lasting[i].ID]
		if ours == nil || theirs.LastSeen.Before(ours.FirstSeen) {
			continue
		}
		if theirs.FirstSeen.Before(ours.FirstSeen) {
			ours.FirstSeen = theirs.FirstSeen
		}
		if theirs.Acknowledged.After(ours.Acknowledged) {
			ours.Acknowledged, ours.Note = theirs.Acknowledged, theirs.Note
		}
	}
	b.history = past
}

// Lasting are the alerts that last, whoever has acknowledged or suppressed them;
// Past are those that ended, the oldest first.
func (b *Book) Lasting() []Alert {
	out := make([]Alert, 0, len(b.active))
	for _, r := range b.active {
		out = append(out, r.copy())
	}
	return out
}

// Past are the alerts that ended, the oldest first.
func (b *Book) Past() []Alert { return append([]Alert(nil), b.history...) }

// Revision grows with every change that should outlast this process: an alert
// that began, ended or became worse, and one that was acknowledged.
func (b *Book) Revision() int { return b.revision }
