package tool

// This file declares the steer toolset of the united surface: thresholds, alerts
// and guarded process actions. steer_kill.go sends signals; steer_alerts.go and
// steer_settings.go handle the rest. Descriptions are short, and limits that a
// handler explains better are not in the schemas: every client pays for them.

import (
	"context"
	"errors"

	"topside/internal/compute/engine"
	"topside/internal/compute/session"
	"topside/internal/see"
	"topside/internal/steer"
	"topside/internal/steer/action"
	"topside/internal/steer/alert"
	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
)

// SteerOptions say how the steer toolset answers.
type SteerOptions struct {
	Observer *see.Observer
	// Advisor may be nil where the tools are only described, or where the
	// machine cannot be observed.
	Advisor *steer.Advisor
	// ReadOnly leaves out of process_alerts what acknowledges and suppresses,
	// so that it only reads.
	ReadOnly bool
}

// A SteerError is a call that could not be answered. Its Code is one word for
// programs, Hint says what to call next.
type SteerError struct{ Code, Message, Hint string }

func (e *SteerError) Error() string { return e.Message }

// A steerer handles the calls of the steer toolset.
type steerer struct {
	observer *see.Observer
	advisor  *steer.Advisor
}

// SteerTools declares the steer toolset.
func SteerTools(o SteerOptions) []*Tool {
	s := &steerer{o.Observer, o.Advisor}
	text := func(name string) Property { return Property{Name: name, Type: String} }
	flag := func(name string) Property { return Property{Name: name, Type: Boolean} }
	filters := []Property{
		{Name: "severity", Type: String, Enum: []string{string(alert.Critical), string(alert.Warning), string(alert.Info)}},
		text("rule"), text("process"), text("unit"), flag("hidden"), flag("history"), {Name: "limit", Type: Integer},
	}
	alerts := &Tool{
		Name:        "process_alerts",
		Description: "Suspicious processes and why, worst first.",
		Input:       filters,
		Annotations: Annotations{ReadOnly: true},
		Output:      resultOf(list("alerts")), Handler: s.alerts,
	}
	if !o.ReadOnly {
		alerts.Description += " acknowledge takes an id, suppress a rule, process or unit."
		alerts.Input = append(filters, text("acknowledge"), flag("suppress"), flag("unsuppress"), text("note"))
		alerts.Exclusive = [][2]string{{"acknowledge", "suppress"}, {"acknowledge", "unsuppress"}, {"suppress", "unsuppress"}}
		alerts.Annotations = Annotations{Idempotent: true}
	}
	tools := []*Tool{
		{
			Name:        killTool,
			Description: "Signal a process if policy allows. dry_run shows what it would hit; escalate adds KILL.",
			Input: []Property{
				{Name: "pid", Type: Integer}, text("resource_id"), text("snapshot_id"),
				{Name: "signal", Type: String, Enum: signalNames(), Prefix: "SIG"},
				{Name: "wait_ms", Type: Integer}, flag("escalate"), flag("dry_run"),
			},
			Exclusive:   [][2]string{{"pid", "resource_id"}},
			Needs:       [][2]string{{"resource_id", "snapshot_id"}, {"snapshot_id", "resource_id"}},
			Annotations: Annotations{Destructive: true},
			Output:      resultOf(typed("outcome", String)), Handler: s.kill,
		},
		alerts,
		{
			Name:        "alerts_status",
			Description: "Alerts by severity; the five worst.",
			Annotations: Annotations{ReadOnly: true},
			Output:      resultOf(typed("critical", Integer)), Handler: s.status,
		},
		{
			Name:        "threshold_get",
			Description: "Limits, and where metrics stand.",
			Annotations: Annotations{ReadOnly: true},
			Output:      resultOf(list("metrics")), Handler: s.thresholds,
		},
		{
			Name:        "threshold_set",
			Description: "Set limits, 0 to 100; a crossing becomes an alert.",
			Input:       thresholdProperties(),
			Annotations: Annotations{Idempotent: true},
			Output:      resultOf(typed("limits", Object)), Handler: s.setThresholds,
		},
		{
			Name:        "config_get",
			Description: "Theme, layout and interval of topside top.",
			Annotations: Annotations{ReadOnly: true},
			Output:      resultOf(typed("theme", String)), Handler: s.configuration,
		},
		{
			Name:        "config_set",
			Description: "Change them, in running views too.",
			Input:       []Property{{Name: "interval_ms", Type: Integer}, text("theme"), text("layout")},
			Annotations: Annotations{Idempotent: true},
			Output:      resultOf(typed("set", Boolean)), Handler: s.configure,
		},
	}
	for _, t := range tools {
		t.Toolset = Steer
		t.Handler = s.served(t.Handler)
	}
	return tools
}

// resultOf is the schema of a result. None of its fields is required: a failure
// has an error instead of them.
func resultOf(fields ...Field) *Schema { return &Schema{Type: Object, Properties: fields} }

func signalNames() []string {
	names := make([]string, len(action.Signals))
	for i, s := range action.Signals {
		names[i] = string(s)
	}
	return names
}

func thresholdProperties() []Property {
	all := make([]Property, len(threshold.Metrics))
	for i, m := range threshold.Metrics {
		all[i] = Property{Name: string(m), Type: Number}
	}
	return all
}

// served answers for a handler where there is nothing to steer, and explains the
// errors of the steer packages.
func (s *steerer) served(h Handler) Handler {
	return func(ctx context.Context, c Call) (Result, error) {
		if s.advisor == nil {
			return Result{}, &SteerError{"unavailable", errNotObserved.Error(), ""}
		}
		answer, err := h(ctx, c)
		if answer.Text == "" && err == nil && answer.Question == nil {
			answer.Text = compact(answer.Structured)
		}
		return answer, steered(c, err)
	}
}

// steered turns the errors of the steer packages into those of this one.
func steered(c Call, err error) error {
	var file *config.FileError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, alert.ErrNoAlert):
		return &SteerError{"unknown_alert", err.Error(), "process_alerts lists the ids; hidden and history show the others"}
	case errors.Is(err, action.ErrInvalid), errors.Is(err, threshold.ErrInvalid), errors.Is(err, config.ErrInvalid) && !errors.As(err, &file):
		return c.Fault("", "%v", err)
	}
	return err
}

// Keepers are the processes of the sessions that run, which no signal may hit.
func (c *Computer) Keepers() []action.Protected {
	var all []action.Protected
	keep := func(name string, st session.Status) {
		if st.Pid > 0 {
			all = append(all, action.Protected{Target: action.Identity{PID: int32(st.Pid)}, Why: "keeps topside's session " + shown(name)})
		}
	}
	if local := c.live(""); local != nil {
		keep("", local.Status())
	}
	for _, l := range c.pool.List() {
		if l.Live {
			keep(l.Name, l.Status)
		}
	}
	if guardian := engine.Guardian(); guardian > 0 {
		all = append(all, action.Protected{Target: action.Identity{PID: int32(guardian)}, Why: "guards topside's sessions"})
	}
	return all
}
