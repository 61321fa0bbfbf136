package tool

// This file writes alerts, for the xtop contract (section 1.4) and for the steer
// toolset: the contract's five keys, and beside them when, how often, why, and
// what to look at next.

import (
	"context"
	"time"

	"topside/internal/see/plaintext"
	"topside/internal/see/secret"
	"topside/internal/steer/alert"
)

// An alertRow is one alert; its keys are in the order of the alphabet.
type alertRow struct {
	Acknowledged string   `json:"acknowledged,omitempty"`
	Container    string   `json:"container,omitempty"`
	Count        int      `json:"count"`
	Ended        string   `json:"ended,omitempty"`
	Evidence     []string `json:"evidence,omitempty"`
	Exe          string   `json:"exe,omitempty"`
	FirstSeen    string   `json:"first_seen"`
	ID           string   `json:"id"`
	LastSeen     string   `json:"last_seen"`
	Limit        *float64 `json:"limit,omitempty"`
	Message      string   `json:"message"`
	Next         []string `json:"next,omitempty"`
	Note         string   `json:"note,omitempty"`
	Peak         *float64 `json:"peak,omitempty"`
	PID          int32    `json:"pid"` // 0 for the machine as a whole
	PIDs         []int32  `json:"pids,omitempty"`
	Process      string   `json:"process"`
	Rule         string   `json:"rule"`
	Severity     string   `json:"severity"`
	Unit         string   `json:"unit,omitempty"`
	User         string   `json:"user,omitempty"`
}

// The bounds of an alert's texts.
const (
	alertText     = 400
	alertEvidence = 10
)

func alertRowOf(a *alert.Alert) alertRow {
	row := alertRow{
		ID: a.ID, Rule: a.Rule, Severity: string(a.Severity), Message: told(a.Message), PID: a.PID, Process: told(a.Process), Exe: told(a.Executable),
		User: told(a.User), Unit: told(a.Unit), Container: told(a.Container), Count: a.Count,
		FirstSeen: stampOf(a.FirstSeen), LastSeen: stampOf(a.LastSeen), Ended: stampOf(a.Ended), Acknowledged: stampOf(a.Acknowledged),
		Note: told(a.Note), Evidence: toldAll(a.Evidence), Next: toldAll(a.Next), Peak: a.Peak, Limit: a.Limit,
	}
	if len(a.Processes) > 1 {
		for _, p := range a.Processes {
			row.PIDs = append(row.PIDs, p.PID)
		}
	}
	return row
}

// told is a text about a process, clean, bounded and without secrets.
func told(s string) string {
	shown, _ := plaintext.Bounded(s, alertText)
	return secret.Text(shown)
}

func toldAll(all []string) []string {
	out := make([]string, 0, min(len(all), alertEvidence))
	for _, s := range all[:min(len(all), alertEvidence)] {
		out = append(out, told(s))
	}
	return out
}

// stampOf is a time in an answer; "" for none.
func stampOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func alertRows(all []alert.Alert, most int) []alertRow {
	rows := make([]alertRow, 0, min(len(all), most))
	for i := range all[:min(len(all), most)] {
		rows = append(rows, alertRowOf(&all[i]))
	}
	return rows
}

func (x *Xtop) alerts(ctx context.Context, _ Call) (Result, error) {
	if x.advisor == nil {
		return Result{}, errNotObserved
	}
	all, err := x.advisor.Alerts(ctx, alert.View{})
	if err != nil {
		return Result{}, err
	}
	return Result{Structured: alertRows(all, xtopAlertsMost)}, nil
}

// An xtopAlerts is the answer of alerts_status.
type xtopAlerts struct {
	Alerts   []alertRow `json:"alerts"`
	Critical int        `json:"critical"`
	Info     int        `json:"info"`
	Total    int        `json:"total"`
	Warning  int        `json:"warning"`
}

func (x *Xtop) alertsStatus(ctx context.Context, _ Call) (Result, error) {
	if x.advisor == nil {
		return Result{}, errNotObserved
	}
	s, err := x.advisor.Status(ctx)
	if err != nil {
		return Result{}, err
	}
	return Result{Structured: xtopAlerts{alertRows(s.Alerts, xtopAlertsHead), s.Critical, s.Info, s.Total, s.Warning}}, nil
}
