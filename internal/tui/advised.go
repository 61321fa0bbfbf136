package tui

// This file connects the view with steer: alerts of its rules, signals by its
// policy.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"topside/internal/steer"
	act "topside/internal/steer/action"
	"topside/internal/steer/alert"
)

// Advised is the alerts and signals of an advisor.
type Advised struct{ advisor *steer.Advisor }

// NewAdvised returns the alerts and signals of an advisor, and begins its passes.
func NewAdvised(a *steer.Advisor) *Advised {
	a.Begin()
	return &Advised{a}
}

// patience is how long a frame waits for the rules' first pass. They look at
// the machine at their own pace, and what they found is shown with the next
// sample.
const patience = 10 * time.Millisecond

// mostAlerts bounds the alerts that are shown.
const mostAlerts = 200

// Judge returns the alerts that last, then those that ended.
func (a *Advised) Judge(ctx context.Context, _ *Scene) ([]Alert, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := a.advisor.Alerts(ctx, alert.View{Acknowledged: true, History: true})
	if err != nil {
		return nil, err
	}
	out := make([]Alert, 0, min(len(found), mostAlerts))
	for i := range found[:min(len(found), mostAlerts)] {
		f := &found[i]
		out = append(out, Alert{
			ID: f.ID, Severity: string(f.Severity), Rule: f.Rule, Message: f.Message, Process: f.Process, PID: f.PID,
			Count: f.Count, Since: f.FirstSeen, Ended: f.Ended, Seen: !f.Acknowledged.IsZero(), Evidence: f.Evidence, Next: f.Next,
		})
	}
	return out, nil
}

// Acknowledge says that a person has seen an alert.
func (a *Advised) Acknowledge(id string) error {
	return a.advisor.Acknowledge(id, "in topside top")
}

// The names under which policy and audit log know the view.
const (
	viewTool   = "process_kill"
	viewClient = "topside top"
)

func request(t Target, signal string) act.Request {
	return act.Request{
		Tool: viewTool, Client: viewClient, Signal: act.Signal(signal),
		Target: act.Identity{PID: t.PID, StartTicks: t.StartTicks},
	}
}

// Preview makes a dry run.
func (a *Advised) Preview(ctx context.Context, t Target, signal string) (Preview, error) {
	r := request(t, signal)
	r.DryRun = true
	result, err := a.advisor.Act(ctx, r)
	if err != nil {
		return Preview{}, err
	}
	switch result.Outcome {
	case act.WouldSignal:
		return Preview{Notes: notes(result)}, nil
	case act.NeedsPerson:
		a.advisor.Revoke(result.Confirmation)
		return Preview{Notes: append(notes(result), "the policy asks for confirmation: "+orNone(result.Decision.Reason))}, nil
	}
	return Preview{Refusal: whyNot(result)}, nil
}

func orNone(s string) string {
	if s == "" {
		return "no reason is given"
	}
	return s
}

func whyNot(r *act.Result) string {
	if r.Reason != "" {
		return r.Reason
	}
	return string(r.Outcome)
}

// notes are what to weigh before a signal is sent.
func notes(r *act.Result) []string {
	var out []string
	if r.Process.Unit != "" {
		out = append(out, "it runs in the unit "+r.Process.Unit+", which may start it again")
	}
	if r.Process.Container != "" {
		out = append(out, "it runs in the container "+r.Process.Container)
	}
	s := r.Surroundings
	if s == nil {
		return out
	}
	if n := len(s.Children) + s.More; n > 0 {
		names := make([]string, 0, 4)
		for i := range s.Children[:min(len(s.Children), 4)] {
			names = append(names, s.Children[i].Name)
		}
		out = append(out, plural(n, "descendant")+": "+strings.Join(names, ", "))
	}
	if len(s.Listening) > 0 {
		out = append(out, "it listens on "+strings.Join(s.Listening[:min(len(s.Listening), 4)], ", "))
	}
	return out
}

// endWait is how long the view waits to tell whether a process ended.
const endWait = 2 * time.Second

// Signal sends a signal. The person at the keys has agreed, which is what a
// policy that asks for confirmation wants.
func (a *Advised) Signal(ctx context.Context, t Target, signal string) (string, error) {
	r := request(t, signal)
	if s := r.Signal; s == act.Term || s == act.Kill || s == act.Int {
		r.Wait = endWait
	}
	result, err := a.advisor.Act(ctx, r)
	if err == nil && result.Outcome == act.NeedsPerson {
		r.Confirmation = result.Confirmation
		result, err = a.advisor.Act(ctx, r)
	}
	if err != nil {
		return "", err
	}
	who := fmt.Sprintf("%d (%s)", t.PID, t.Name)
	switch result.Outcome {
	case act.Signalled:
		return "sent SIG" + signal + " to " + who, nil
	case act.Exited:
		return fmt.Sprintf("%s ended %v after SIG%s", who, result.ExitedAfter.Round(time.Millisecond), signal), nil
	case act.StillAlive:
		return who + " is still there after SIG" + signal, nil
	}
	return "", errors.New("nothing was sent to " + who + ": " + whyNot(result))
}
