package tool

// This file reads and writes thresholds and the configuration for the steer
// toolset.

import (
	"context"
	"time"

	"topside/internal/steer"
	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
)

// A metricRow is one threshold and where its metric stands. A value that was not
// measured is absent.
type metricRow struct {
	Metric   string       `json:"metric"`
	Limit    float64      `json:"limit"`
	Hold     float64      `json:"hold_seconds"`
	Slack    float64      `json:"slack"`
	State    string       `json:"state"`
	Value    *float64     `json:"value,omitempty"`
	Subject  string       `json:"subject,omitempty"`
	Since    string       `json:"since,omitempty"`
	Crossing *crossingRow `json:"crossing,omitempty"`
}

type crossingRow struct {
	Began string  `json:"began"`
	Peak  float64 `json:"peak"`
}

// A thresholdList is the answer of threshold_get: the contract's three keys, and
// every metric.
type thresholdList struct {
	CPU     float64     `json:"cpu"`
	Memory  float64     `json:"mem"`
	Disk    float64     `json:"disk"`
	Metrics []metricRow `json:"metrics"`
	Problem string      `json:"problem,omitempty"` // of the configuration's file
}

func (s *steerer) thresholds(ctx context.Context, _ Call) (Result, error) {
	states, err := s.advisor.Thresholds(ctx)
	if err != nil {
		return Result{}, err
	}
	limits := s.advisor.Limits()
	answer := thresholdList{
		CPU: limits.Of(threshold.CPU).Limit, Memory: limits.Of(threshold.Memory).Limit, Disk: limits.Of(threshold.Disk).Limit,
		Problem: configProblem(s.advisor),
	}
	for _, st := range states {
		// The passes see a change of the file with their next look only.
		setting := limits.Of(st.Metric)
		row := metricRow{
			Metric: string(st.Metric), Limit: setting.Limit, Hold: setting.Hold.Seconds(), Slack: setting.Slack,
			State: string(st.Level), Subject: line(st.Subject), Since: stampOf(st.Since),
		}
		if st.Known {
			row.Value = new(round(st.Value, 1))
		}
		if st.Crossing != nil {
			row.Crossing = &crossingRow{stampOf(st.Crossing.Began), round(st.Crossing.Peak, 1)}
		}
		answer.Metrics = append(answer.Metrics, row)
	}
	return Result{Structured: answer}, nil
}

// configProblem is why the configuration's file cannot be used; "" when it can.
func configProblem(a *steer.Advisor) string {
	if err := a.ConfigError(); err != nil {
		return line(err.Error())
	}
	return ""
}

// A settled is the answer of threshold_set: the limits in force, by metric.
type settled struct {
	Set     bool               `json:"set"`
	Limits  map[string]float64 `json:"limits"`
	Unsaved string             `json:"unsaved,omitempty"`
}

func (s *steerer) setThresholds(_ context.Context, c Call) (Result, error) {
	limits := map[threshold.Metric]float64{}
	for _, m := range threshold.Metrics {
		if v, ok := c.Number(string(m)); ok {
			if v < 0 || v > 100 {
				return Result{}, c.Fault(string(m), "must be a number from 0 to 100; got %v", v)
			}
			limits[m] = v
		}
	}
	if len(limits) == 0 {
		return Result{}, c.Fault("", "give at least one limit; %s", c.tool.argumentNames())
	}
	changed, err := s.advisor.SetThresholds(limits)
	if err != nil {
		return Result{}, err
	}
	answer := settled{Set: true, Limits: map[string]float64{}, Unsaved: unsaved(changed)}
	for _, m := range threshold.Metrics {
		answer.Limits[string(m)] = changed.Config.Thresholds.Of(m).Limit
	}
	return Result{Structured: answer}, nil
}

func unsaved(c steer.Changed) string {
	if c.Unsaved == nil {
		return ""
	}
	return "it holds in this server only: " + line(c.Unsaved.Error())
}

// A configured is the answer of config_get and config_set.
type configured struct {
	Set        *bool           `json:"set,omitempty"`
	Applied    []string        `json:"applied,omitempty"` // the keys that were set, when not all were
	Reason     string          `json:"reason,omitempty"`
	Theme      string          `json:"theme"`
	Layout     string          `json:"layout"`
	IntervalMS int64           `json:"interval_ms"`
	Hostname   string          `json:"hostname"`
	File       string          `json:"file,omitempty"`
	Policy     string          `json:"policy,omitempty"`
	Problem    string          `json:"problem,omitempty"`
	Remarks    []string        `json:"remarks,omitempty"`
	Suppressed []suppressedRow `json:"suppressed,omitempty"`
	Themes     []string        `json:"themes,omitempty"`
	Layouts    []string        `json:"layouts,omitempty"`
}

// A suppressedRow is one suppression of alerts.
type suppressedRow struct {
	Rule    string `json:"rule,omitempty"`
	Process string `json:"process,omitempty"`
	Unit    string `json:"unit,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Until   string `json:"until,omitempty"`
}

func (s *steerer) configurationOf(c config.Config) configured {
	return configured{
		Theme: c.Theme, Layout: c.Layout, IntervalMS: int64(c.Interval / time.Millisecond), Hostname: hostname(s.observer), Problem: configProblem(s.advisor),
	}
}

func (s *steerer) configuration(context.Context, Call) (Result, error) {
	c := s.advisor.Config()
	answer := s.configurationOf(c)
	answer.File, answer.Policy = line(s.advisor.Store().Path()), line(s.advisor.Store().PolicyPath())
	answer.Themes, answer.Layouts, answer.Remarks = config.Themes, config.Layouts, toldAll(c.Remarks)
	for _, x := range c.Suppressed[:min(len(c.Suppressed), alertsMost)] {
		answer.Suppressed = append(answer.Suppressed, suppressedRow{told(x.Rule), told(x.Process), told(x.Unit), told(x.Reason), stampOf(x.Until)})
	}
	if _, err := s.advisor.Policy(); err != nil {
		answer.Remarks = append(answer.Remarks, "every action is denied: "+line(err.Error()))
	}
	return Result{Structured: answer}, nil
}

func (s *steerer) configure(_ context.Context, c Call) (Result, error) {
	change := changeOf(c)
	if change == (steer.Change{}) {
		return Result{}, c.Fault("", "give interval_ms, theme or layout")
	}
	changed, err := s.advisor.Change(change)
	if err != nil {
		return Result{}, err
	}
	answer := s.configurationOf(changed.Config)
	set, applied := outcome(change, changed)
	answer.Set, answer.Applied = &set, applied
	answer.Reason = notChanged(change, changed)
	return Result{Structured: answer}, nil
}
