// Package config holds the configuration of steer: what the terminal view
// looks like, how often it samples, the limits of the thresholds, the path of
// the policy, and the alerts that a person does not want to see again.
//
// The file is JSON, owner-only, and replaced atomically ([Store]). Keys that
// this version does not know are reported and kept. The names of themes and
// layouts, and the bounds of the interval, are those of the xtop contract
// (sections 2.5 and 5).
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"topside/internal/steer/threshold"
)

// Version is the version of the file that this program writes.
const Version = 1

// The bounds of [Config.Interval].
const (
	MinInterval     = 100 * time.Millisecond
	MaxInterval     = time.Hour
	DefaultInterval = time.Second
)

// Themes are the names of the twelve themes, the default first.
var Themes = []string{"x", "berlin", "bogota", "helsinki", "lahabana", "london", "madrid", "miami", "oslo", "paris", "praha", "tokio"}

// Layouts are the display names of the seven layouts, the default first.
var Layouts = []string{"Dashboard", "Vertical", "Horizontal", "CPU Focus", "Memory Focus", "Network Focus", "Process Focus"}

// layoutModes are the names that the original's file uses instead.
var layoutModes = map[string]string{
	"CpuFocus": "CPU Focus", "MemoryFocus": "Memory Focus", "NetworkFocus": "Network Focus", "ProcessFocus": "Process Focus",
}

// A Config is the configuration. Treat it as a value: [Clone] it to change it.
type Config struct {
	Theme      string
	Layout     string // display name
	Interval   time.Duration
	Thresholds threshold.Settings
	// Policy is the path of the policy file; "" is "policy" beside this file.
	Policy    string
	policyOdd bool // the file's own is no path
	// Keys binds an action of the terminal view to key names.
	Keys map[string][]string
	// Suppressed are the alerts that are not shown.
	Suppressed []Suppression
	// Unknown are the keys of the file that this version does not know, with
	// their values; they are written back as they were.
	Unknown map[string]json.RawMessage
	// FileVersion is that of the file that was read; [Version] for a new one.
	FileVersion int
	// asRead are the file's known keys as they stood there, and base is what they
	// were understood as: what nobody changed is written back as it stood, even
	// where it was not understood. Neither is ever changed.
	asRead, base map[string]json.RawMessage
	// Remarks are what a reader of the configuration should know: unknown
	// keys, values that were out of bounds and are not used.
	Remarks []string
}

// A Suppression keeps alerts from being shown. Its fields are joined by "and";
// an empty one matches everything, and at least one must be set.
type Suppression struct {
	Rule    string    `json:"rule,omitempty"`
	Process string    `json:"process,omitempty"` // name, or path of the executable
	Unit    string    `json:"unit,omitempty"`    // systemd unit or container
	Reason  string    `json:"reason,omitempty"`
	Until   time.Time `json:"until,omitzero"` // zero is for ever
}

// ErrInvalid is wrapped by the errors of values that cannot be used.
var ErrInvalid = errors.New("invalid configuration")

// Validate reports a suppression that would match every alert.
func (s Suppression) Validate() error {
	if s.Rule == "" && s.Process == "" && s.Unit == "" {
		return fmt.Errorf("%w: a suppression needs a rule, a process or a unit; without any it would hide every alert", ErrInvalid)
	}
	return nil
}

// Default is the configuration of a new user.
func Default() Config {
	return Config{Theme: Themes[0], Layout: Layouts[0], Interval: DefaultInterval, Thresholds: threshold.Defaults(), FileVersion: Version}
}

// Clone returns a copy that shares nothing that can be changed.
func (c Config) Clone() Config {
	c.Thresholds = maps.Clone(c.Thresholds)
	c.Suppressed = slices.Clone(c.Suppressed)
	c.Unknown = maps.Clone(c.Unknown)
	c.Remarks = slices.Clone(c.Remarks)
	keys := make(map[string][]string, len(c.Keys))
	for action, names := range c.Keys {
		keys[action] = slices.Clone(names)
	}
	c.Keys = keys
	return c
}

// SetTheme chooses a theme by its exact name; it is false when there is none.
func (c *Config) SetTheme(name string) bool {
	if !slices.Contains(Themes, name) {
		return false
	}
	c.Theme = name
	c.unremark("theme")
	return true
}

// SetLayout chooses a layout by its display name, or by the name that it has in
// the original's file; it is false when there is none.
func (c *Config) SetLayout(name string) bool {
	if display, ok := layoutModes[name]; ok {
		name = display
	}
	if !slices.Contains(Layouts, name) {
		return false
	}
	c.Layout = name
	c.unremark("layout")
	return true
}

// SetInterval sets the sampling interval in milliseconds, moved to the nearest
// bound, and returns what it became. A negative one is an error that wraps
// [ErrInvalid].
func (c *Config) SetInterval(ms int64) (time.Duration, error) {
	if ms < 0 {
		return 0, fmt.Errorf("%w: interval_ms is %d; it must be from %d to %d", ErrInvalid, ms, MinInterval.Milliseconds(), MaxInterval.Milliseconds())
	}
	c.Interval = time.Duration(min(max(ms, MinInterval.Milliseconds()), MaxInterval.Milliseconds())) * time.Millisecond
	c.unremark("interval_ms")
	return c.Interval, nil
}

// SetLimits changes the limits of the metrics named and leaves how long they
// must be exceeded as it is. Nothing is changed when one of them is invalid.
func (c *Config) SetLimits(limits map[threshold.Metric]float64) error {
	changed := maps.Clone(c.Thresholds)
	if changed == nil {
		changed = threshold.Settings{}
	}
	for m, limit := range limits {
		setting := changed.Of(m)
		setting.Limit = limit
		changed[m] = setting
	}
	if err := changed.Validate(); err != nil {
		return err
	}
	c.Thresholds = changed
	return nil
}

// file is the shape of the configuration file.
type file struct {
	Version    int     `json:"version"`
	Theme      *string `json:"theme"`
	Layout     *string `json:"layout"`
	IntervalMS *int64  `json:"interval_ms"`
	Policy     *string `json:"policy,omitempty"`
	// What these hold is read one by one: a fault in one leaves the others be.
	Thresholds map[string]json.RawMessage `json:"thresholds"`
	Keys       map[string]json.RawMessage `json:"keybindings,omitempty"`
	Suppressed []json.RawMessage          `json:"suppressed,omitempty"`
}

type thresholdInFile struct {
	Limit *float64 `json:"limit"`
	Hold  *float64 `json:"hold_seconds,omitempty"`
	Slack *float64 `json:"slack,omitempty"`
}

// fleetKey is the part of the file that says which hosts there are (docs/fleet.md).
const fleetKey = "fleet"

var knownKeys = []string{"version", "theme", "layout", "interval_ms", "thresholds", "policy", "keybindings", "suppressed"}

// Parse reads the content of a configuration file. What is missing has its
// default; a value that cannot be used is remarked upon and has its default
// too. The error is of content that is not one JSON object, and says where.
func Parse(data []byte) (Config, error) {
	c := Default()
	if len(bytes.TrimSpace(data)) == 0 {
		return c, fmt.Errorf("%w: the file is empty", ErrInvalid)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return c, fmt.Errorf("%w: %s", ErrInvalid, describe(data, err))
	}
	if keys == nil { // null
		return c, fmt.Errorf("%w: the file must hold one JSON object", ErrInvalid)
	}
	var f file
	for key, raw := range keys {
		if !slices.Contains(knownKeys, key) {
			if c.Unknown == nil {
				c.Unknown = map[string]json.RawMessage{}
			}
			c.Unknown[key] = raw
		}
	}
	for _, key := range knownKeys {
		raw, ok := keys[key]
		if !ok {
			continue
		}
		one, _ := json.Marshal(map[string]json.RawMessage{key: raw})
		trial := f
		if err := json.Unmarshal(one, &trial); err != nil {
			c.remark("%s: %s is not what it takes; its default is used", key, shorten(raw))
			c.policyOdd = c.policyOdd || key == "policy"
			continue
		}
		f = trial
	}
	c.take(&f)
	c.remarkNested(keys["thresholds"])
	c.asRead = map[string]json.RawMessage{}
	for _, key := range knownKeys {
		if raw, ok := keys[key]; ok {
			c.asRead[key] = raw
		}
	}
	var err error
	if c.base, err = c.known(); err != nil {
		return c, err
	}
	for _, key := range slices.Sorted(maps.Keys(c.Unknown)) {
		if key == fleetKey {
			continue // kept as it is, and read by those who need it
		}
		c.remark("%s: not known to this version; it is kept in the file", key)
	}
	return c, nil
}

// unremark drops what was said of a key that is set now.
func (c *Config) unremark(key string) {
	c.Remarks = slices.DeleteFunc(c.Remarks, func(r string) bool { return strings.HasPrefix(r, key+":") })
}

// remarkNested tells of keys inside a threshold that are not known.
func (c *Config) remarkNested(thresholds json.RawMessage) {
	var all map[string]json.RawMessage
	if json.Unmarshal(thresholds, &all) != nil {
		return
	}
	for _, metric := range slices.Sorted(maps.Keys(all)) {
		var fields map[string]json.RawMessage
		if json.Unmarshal(all[metric], &fields) != nil {
			continue // remarked upon as a whole
		}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if !slices.Contains([]string{"limit", "hold_seconds", "slack"}, key) {
				c.remark("thresholds: %s.%s is not known to this version; it is kept in the file", metric, key)
			}
		}
	}
}

func (c *Config) remark(format string, args ...any) {
	c.Remarks = append(c.Remarks, fmt.Sprintf(format, args...))
}

// take applies what a file says.
func (c *Config) take(f *file) {
	if f.Version > 0 {
		c.FileVersion = f.Version
	}
	if f.Theme != nil && !c.SetTheme(*f.Theme) {
		c.remark("theme: there is none called %q; %s is used", *f.Theme, c.Theme)
	}
	if f.Layout != nil && !c.SetLayout(*f.Layout) {
		c.remark("layout: there is none called %q; %s is used", *f.Layout, c.Layout)
	}
	if f.IntervalMS != nil {
		if set, err := c.SetInterval(*f.IntervalMS); err != nil || set.Milliseconds() != *f.IntervalMS {
			c.remark("interval_ms: %d is out of bounds; %d is used", *f.IntervalMS, c.Interval.Milliseconds())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Thresholds)) {
		if !slices.Contains(threshold.Metrics, threshold.Metric(name)) {
			c.remark("thresholds: %s is not known to this version; it is kept in the file", name)
			continue
		}
		var in thresholdInFile
		if raw := f.Thresholds[name]; json.Unmarshal(raw, &in) != nil {
			c.remark("thresholds: %s of %s is not what it takes; its default is used", shorten(raw), name)
			continue
		}
		c.takeThreshold(threshold.Metric(name), in)
	}
	if f.Policy != nil {
		c.Policy = *f.Policy
	}
	for _, action := range slices.Sorted(maps.Keys(f.Keys)) {
		var names []string
		if raw := f.Keys[action]; json.Unmarshal(raw, &names) != nil {
			c.remark("keybindings: %s of %s is not a list of keys; its default is used", shorten(raw), action)
			continue
		}
		if c.Keys == nil {
			c.Keys = map[string][]string{}
		}
		c.Keys[action] = names
	}
	for _, raw := range f.Suppressed {
		s, err := suppressionOf(raw)
		if err != nil {
			c.remark("suppressed: %v", err)
			continue
		}
		c.Suppressed = append(c.Suppressed, s)
	}
}

// suppressionOf reads one of the file's suppressions.
func suppressionOf(raw json.RawMessage) (Suppression, error) {
	var s Suppression
	if json.Unmarshal(raw, &s) != nil {
		return s, fmt.Errorf("%w: %s is no suppression; it is kept in the file and hides nothing", ErrInvalid, shorten(raw))
	}
	return s, s.Validate()
}

func (c *Config) takeThreshold(m threshold.Metric, in thresholdInFile) {
	setting := c.Thresholds.Of(m)
	if in.Limit != nil {
		setting.Limit = *in.Limit
	}
	if in.Hold != nil {
		if math.IsNaN(*in.Hold) || *in.Hold < 0 || *in.Hold > threshold.LongestHold.Seconds() {
			c.remark("thresholds: the hold_seconds of %s is out of bounds; its default is used", m)
		} else {
			setting.Hold = time.Duration(*in.Hold * float64(time.Second))
		}
	}
	if in.Slack != nil {
		setting.Slack = *in.Slack
	}
	if err := setting.Validate(m); err != nil {
		c.remark("thresholds: %v; its default is used", err)
		return
	}
	c.Thresholds[m] = setting
}

// known is every key that this version writes, as JSON.
func (c *Config) known() (map[string]json.RawMessage, error) {
	ms := c.Interval.Milliseconds()
	f := struct {
		file
		Thresholds map[string]thresholdInFile `json:"thresholds"`
		Keys       map[string][]string        `json:"keybindings,omitempty"`
		Suppressed []Suppression              `json:"suppressed,omitempty"`
	}{file: file{Version: max(c.FileVersion, Version), Theme: &c.Theme, Layout: &c.Layout, IntervalMS: &ms}, Keys: c.Keys, Suppressed: c.Suppressed}
	if c.Policy != "" {
		f.Policy = &c.Policy
	}
	f.Thresholds = map[string]thresholdInFile{}
	for m, s := range c.Thresholds {
		hold := s.Hold.Seconds()
		f.Thresholds[string(m)] = thresholdInFile{Limit: &s.Limit, Hold: &hold, Slack: &s.Slack}
	}
	encoded, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(encoded, &all); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return all, nil
}

// Format writes the content of a configuration file.
func (c Config) Format() ([]byte, error) {
	all, err := c.known()
	if err != nil {
		return nil, err
	}
	for key, raw := range c.asRead {
		switch {
		case bytes.Equal(all[key], c.base[key]):
			all[key] = raw
		case key == "thresholds":
			all[key] = changedThresholds(raw, all[key], c.base[key])
		case key == "suppressed":
			all[key] = changedSuppressed(raw, c.Suppressed)
		}
	}
	for key, raw := range c.Unknown {
		if _, taken := all[key]; !taken {
			all[key] = raw
		}
	}
	out, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return append(out, '\n'), nil
}

// changedThresholds writes the metrics that were changed into the thresholds as
// they stood in the file, and leaves the others and all unknown keys alone.
func changedThresholds(stood, now, base json.RawMessage) json.RawMessage {
	var old map[string]json.RawMessage
	var changed, before map[string]map[string]json.RawMessage
	if json.Unmarshal(stood, &old) != nil || json.Unmarshal(now, &changed) != nil || json.Unmarshal(base, &before) != nil || old == nil {
		return now
	}
	for metric, fields := range changed {
		if maps.EqualFunc(fields, before[metric], func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			continue
		}
		var kept map[string]json.RawMessage
		if json.Unmarshal(old[metric], &kept) != nil || kept == nil {
			kept = map[string]json.RawMessage{}
		}
		maps.Copy(kept, fields)
		encoded, err := json.Marshal(kept)
		if err != nil {
			return now
		}
		old[metric] = encoded
	}
	merged, err := json.Marshal(old)
	if err != nil {
		return now
	}
	return merged
}

// changedSuppressed writes the suppressions of now: those that stood in the file as
// they stood there, what was not understood of them too, and then the new ones.
func changedSuppressed(stood json.RawMessage, now []Suppression) json.RawMessage {
	var old []json.RawMessage
	if json.Unmarshal(stood, &old) != nil {
		old = nil
	}
	left, out := slices.Clone(now), []json.RawMessage{}
	for _, raw := range old {
		s, err := suppressionOf(raw)
		if err == nil {
			at := slices.IndexFunc(left, s.equal)
			if at < 0 {
				continue // it was taken back
			}
			left = slices.Delete(left, at, at+1)
		}
		out = append(out, raw)
	}
	for _, s := range left {
		if raw, err := json.Marshal(s); err == nil {
			out = append(out, raw)
		}
	}
	merged, err := json.Marshal(out)
	if err != nil {
		return stood
	}
	return merged
}

func (s Suppression) equal(o Suppression) bool {
	same := s.Until.Equal(o.Until)
	s.Until, o.Until = time.Time{}, time.Time{}
	return same && s == o
}

// describe says what is wrong with JSON and in which line.
func describe(data []byte, err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	at := int64(-1)
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		return "the file must hold one JSON object"
	}
	if at < 0 || at > int64(len(data)) {
		return err.Error()
	}
	return fmt.Sprintf("line %d: %v", 1+bytes.Count(data[:at], []byte{'\n'}), err)
}

func shorten(raw []byte) string {
	const enough = 60
	text := strings.Join(strings.Fields(string(raw)), " ")
	if len(text) > enough {
		return text[:enough] + "…"
	}
	return text
}
