package tool

// This file lists, acknowledges and suppresses alerts for the steer toolset.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"topside/internal/steer"
	"topside/internal/steer/alert"
	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
)

// The bounds of process_alerts.
const (
	alertsDefault = 20
	alertsMost    = 100
	// longestAlerts bounds the list, in characters of JSON.
	longestAlerts = 32_000
)

// An alertList is the answer of process_alerts.
type alertList struct {
	Alerts  []alertRow `json:"alerts"`
	Matched int        `json:"matched"`
	LeftOut int        `json:"left_out"`
	Done    string     `json:"done,omitempty"` // what was acknowledged or suppressed
	Unsaved string     `json:"unsaved,omitempty"`
}

func (s *steerer) alerts(ctx context.Context, c Call) (Result, error) {
	if err := boundTexts(c, "acknowledge", "note", "rule", "process", "unit"); err != nil {
		return Result{}, err
	}
	answer := alertList{}
	if err := s.handleAlerts(ctx, c, &answer); err != nil {
		return Result{}, err
	}
	view := alert.View{Acknowledged: c.Flag("hidden"), Suppressed: c.Flag("hidden"), History: c.Flag("history")}
	all, err := s.advisor.Alerts(ctx, view)
	if err != nil {
		return Result{}, err
	}
	if answer.Done == "" {
		all = filtered(all, c)
	}
	most := alertsDefault
	if w, ok := c.Integer("limit"); ok {
		if w.Negative {
			return Result{}, c.Fault("limit", "must be from 0 to %d", alertsMost)
		}
		most = int(min(w.Int(), alertsMost))
	}
	answer.Matched, answer.Alerts = len(all), alertRows(all, most)
	length := 0
	for i := range answer.Alerts {
		if length += len(compact(answer.Alerts[i])); length > longestAlerts && i > 0 {
			answer.Alerts = answer.Alerts[:i]
			break
		}
	}
	answer.LeftOut = answer.Matched - len(answer.Alerts)
	return Result{Structured: answer, Text: answer.text()}, nil
}

// boundTexts refuses texts that are too long to name anything.
func boundTexts(c Call, arguments ...string) error {
	for _, a := range arguments {
		if n := length(c.Text(a)); n > filterLength {
			return c.Fault(a, "must be a string of at most %d characters; got %d", filterLength, n)
		}
	}
	return nil
}

// handleAlerts does what the call wants done to alerts before they are listed.
func (s *steerer) handleAlerts(ctx context.Context, c Call, answer *alertList) error {
	if err := checkAlertsCall(c); err != nil {
		return err
	}
	suppression := config.Suppression{Rule: c.Text("rule"), Process: c.Text("process"), Unit: c.Text("unit"), Reason: c.Text("note")}
	var err error
	switch id := c.Text("acknowledge"); {
	case id != "":
		// The book is empty before the first look at the machine.
		if _, err := s.advisor.Alerts(ctx, alert.View{}); err != nil {
			return err
		}
		err = s.advisor.Acknowledge(id, c.Text("note"))
		if errors.Is(err, alert.ErrNoAlert) {
			return err
		}
		answer.Done = "acknowledged " + line(id)
	case c.Flag("suppress"), c.Flag("unsuppress"):
		what := "suppress"
		if c.Flag("unsuppress") {
			what = "unsuppress"
		}
		if suppression.Validate() != nil {
			return c.Fault(what, "needs a rule, a process or a unit; several are joined by and")
		}
		if what == "suppress" {
			err = s.advisor.Suppress(suppression)
		} else {
			err = s.advisor.Unsuppress(suppression)
		}
		if errors.Is(err, steer.ErrNoSuppression) {
			return c.Fault(what, "matches no suppression: none is of exactly %s; config_get lists those in force", describeSuppression(suppression))
		}
		answer.Done = what + "ed " + describeSuppression(suppression)
	}
	if err != nil {
		answer.Unsaved = "it holds in this server only: " + line(err.Error())
	}
	return nil
}

// checkAlertsCall refuses a call that would do nothing that its arguments name.
func checkAlertsCall(c Call) error {
	acts := c.Text("acknowledge") != "" || c.Flag("suppress")
	switch rule := c.Text("rule"); {
	case c.Has("acknowledge") && c.Text("acknowledge") == "":
		return c.Fault("acknowledge", "must be the id of an alert, such as process_alerts lists; got an empty text")
	case c.Has("note") && !acts:
		return c.Fault("note", "goes with acknowledge or suppress, and says nothing alone")
	case rule != "" && !knownRule(rule):
		return c.Fault("rule", "must be one of %s; got %s", strings.Join(ruleNames(), ", "), named(rule))
	}
	return nil
}

func describeSuppression(s config.Suppression) string {
	var parts []string
	for _, p := range [][2]string{{"rule", s.Rule}, {"process", s.Process}, {"unit", s.Unit}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+line(p[1]))
		}
	}
	return strings.Join(parts, ", ")
}

func ruleNames() []string {
	var names []string
	for _, r := range alert.Rules() {
		names = append(names, r.Name)
	}
	for _, m := range threshold.Metrics {
		names = append(names, "threshold_"+string(m))
	}
	return names
}

func knownRule(name string) bool { return slices.Contains(ruleNames(), name) }

// filtered are the alerts that the call asks for.
func filtered(all []alert.Alert, c Call) []alert.Alert {
	least := alert.Severity(c.Text("severity"))
	by := config.Suppression{Rule: c.Text("rule"), Process: c.Text("process"), Unit: c.Text("unit")}
	now := time.Now()
	kept := all[:0:0]
	for i := range all {
		a := &all[i]
		if least != "" && a.Severity.Rank() > least.Rank() || by.Validate() == nil && !alert.Matches(by, a, now) {
			continue
		}
		kept = append(kept, *a)
	}
	return kept
}

// text is the list in words.
func (l *alertList) text() string {
	var b strings.Builder
	if l.Done != "" {
		b.WriteString(l.Done + "\n")
	}
	if l.Unsaved != "" {
		b.WriteString(l.Unsaved + "\n")
	}
	fmt.Fprintf(&b, "%d alerts", l.Matched)
	if l.LeftOut > 0 {
		fmt.Fprintf(&b, ", %d left out", l.LeftOut)
	}
	for i := range l.Alerts {
		l.Alerts[i].write(&b)
	}
	return b.String()
}

func (a *alertRow) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s %s %s: %s", a.ID, a.Severity, a.Rule, a.Message)
	if a.PID != 0 {
		fmt.Fprintf(b, " [%s %d", a.Process, a.PID)
		if a.Count > 1 {
			fmt.Fprintf(b, " and %d more", a.Count-1)
		}
		b.WriteString("]")
	}
	fmt.Fprintf(b, " since %s", a.FirstSeen)
	for _, part := range [][2]string{{"ended", a.Ended}, {"acknowledged", a.Acknowledged}, {"note", a.Note}, {"unit", a.Unit}, {"container", a.Container}} {
		if part[1] != "" {
			fmt.Fprintf(b, ", %s %s", part[0], part[1])
		}
	}
	for _, e := range a.Evidence {
		b.WriteString("\n  because " + e)
	}
	for _, n := range a.Next {
		b.WriteString("\n  next: " + n)
	}
}

// An alertStatus is the answer of alerts_status.
type alertStatus struct {
	xtopAlerts
	Passes   uint64   `json:"passes"`
	LastPass string   `json:"last_pass"`
	Dropped  int      `json:"dropped,omitempty"`
	Packages []string `json:"package_databases"`
	Warnings []string `json:"warnings,omitempty"`
}

func (s *steerer) status(ctx context.Context, _ Call) (Result, error) {
	st, err := s.advisor.Status(ctx)
	if err != nil {
		return Result{}, err
	}
	answer := alertStatus{
		xtopAlerts: xtopAlerts{alertRows(st.Alerts, xtopAlertsHead), st.Critical, st.Info, st.Total, st.Warning},
		Passes:     st.Passes, LastPass: stampOf(st.Last), Dropped: st.Dropped, Packages: append([]string{}, st.Packages...),
	}
	if len(st.Warnings) > 0 {
		answer.Warnings = warningsOf(st.Warnings)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d alerts: %d critical, %d warnings, %d infos; last look %s", st.Total, st.Critical, st.Warning, st.Info, answer.LastPass)
	for _, warning := range answer.Warnings {
		b.WriteString("\nwarning: " + warning)
	}
	for i := range answer.Alerts {
		answer.Alerts[i].write(&b)
	}
	return Result{Structured: answer, Text: b.String()}, nil
}
