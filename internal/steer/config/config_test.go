package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"topside/internal/steer/threshold"
)

func TestSetters(t *testing.T) {
	t.Parallel()
	c := Default()
	if !c.SetTheme("tokio") || c.SetTheme("Tokio") || c.SetTheme("seul") || c.Theme != "tokio" {
		t.Errorf("theme %q", c.Theme)
	}
	if !c.SetLayout("CPU Focus") || !c.SetLayout("NetworkFocus") || c.SetLayout("cpu focus") || c.Layout != "Network Focus" {
		t.Errorf("layout %q", c.Layout)
	}
	for ms, want := range map[int64]time.Duration{0: MinInterval, 1: MinInterval, 2000: 2 * time.Second, math.MaxInt64: MaxInterval} {
		if got, err := c.SetInterval(ms); err != nil || got != want || c.Interval != want {
			t.Errorf("interval %d: %v, %v", ms, got, err)
		}
	}
	if _, err := c.SetInterval(-1); !errors.Is(err, ErrInvalid) {
		t.Errorf("a negative interval: %v", err)
	}
	if err := c.SetLimits(map[threshold.Metric]float64{threshold.CPU: 85, threshold.Disk: 101}); !errors.Is(err, threshold.ErrInvalid) || c.Thresholds.Of(threshold.CPU).Limit != 90 {
		t.Errorf("one bad limit of two: %v, %v", err, c.Thresholds)
	}
	if err := c.SetLimits(map[threshold.Metric]float64{threshold.CPU: 85}); err != nil || c.Thresholds.Of(threshold.CPU).Limit != 85 || c.Thresholds.Of(threshold.CPU).Hold == 0 {
		t.Errorf("a limit: %v, %v", err, c.Thresholds)
	}
	if len(Themes) != 12 || len(Layouts) != 7 {
		t.Errorf("%d themes and %d layouts", len(Themes), len(Layouts))
	}
}

func TestParseRemarks(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(`{"version":1,"theme":"nope","layout":7,"interval_ms":5,"future":{"a":[1]},"thresholds":{"cpu":{"limit":500},"mem":{"limit":70,"hold_seconds":-1},"gpu":{"limit":1}},"suppressed":[{},{"rule":"r"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Remarks) != 8 {
		t.Errorf("%d remarks: %q", len(c.Remarks), c.Remarks)
	}
	if c.Theme != "x" || c.Layout != "Dashboard" || c.Interval != MinInterval || c.Thresholds.Of(threshold.CPU).Limit != 90 || c.Thresholds.Of(threshold.Memory).Limit != 70 || len(c.Suppressed) != 1 {
		t.Errorf("%+v", c)
	}
	if string(c.Unknown["future"]) != `{"a":[1]}` {
		t.Errorf("unknown keys: %s", c.Unknown)
	}
}

func TestParseErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "empty", "  \n": "empty", "{\n\"theme\": \"x\",\n": "line", "[]": "one JSON object", "null": "one JSON object", " null\n": "one JSON object", "7": "one JSON object", "{\n]": "line 2", "null x": "line 1"} {
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFormatIsReadAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.SetTheme(rapid.SampledFrom(Themes).Draw(t, "theme"))
		c.SetLayout(rapid.SampledFrom(Layouts).Draw(t, "layout"))
		if _, err := c.SetInterval(rapid.Int64Range(0, 1e9).Draw(t, "ms")); err != nil {
			t.Fatal(err)
		}
		m := rapid.SampledFrom(threshold.Metrics).Draw(t, "metric")
		if err := c.SetLimits(map[threshold.Metric]float64{m: rapid.Float64Range(0, 100).Draw(t, "limit")}); err != nil {
			t.Fatal(err)
		}
		c.Policy = rapid.String().Draw(t, "policy")
		c.Unknown = map[string]json.RawMessage{"zzz": json.RawMessage(`[1,2]`)}
		data, err := c.Format()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		again.Remarks, again.asRead, again.base = nil, nil, nil
		again.Unknown = c.Unknown // its blanks may differ
		c.Policy = strings.ToValidUTF8(c.Policy, "\ufffd")
		if !reflect.DeepEqual(c, again) {
			t.Fatalf("%+v\nbecame %+v", c, again)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"theme":"x","thresholds":{"cpu":{"limit":1}},"a":null}`))
	f.Add([]byte(`{"interval_ms":1e99,"keybindings":{"q":["x"]}}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if c.Interval < MinInterval || c.Interval > MaxInterval || c.Thresholds.Validate() != nil {
			t.Errorf("%q gives %+v", data, c)
		}
		if err != nil {
			return
		}
		if _, err := c.Format(); err != nil {
			t.Errorf("%q cannot be written again: %v", data, err)
		}
	})
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func theme(name string) func(*Config) error {
	return func(c *Config) error {
		if !c.SetTheme(name) {
			return fmt.Errorf("no theme %s", name)
		}
		return nil
	}
}

func TestStoreKeepsAndReloads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "config.json")
	one, two := open(t, path), open(t, path)
	if _, err := one.Update(theme("oslo")); err != nil {
		t.Fatal(err)
	}
	if got := two.Get().Theme; got != "oslo" {
		t.Errorf("the other view has %q", got)
	}
	// Each changes another key: neither undoes the other's.
	if _, err := two.Update(func(c *Config) error { c.SetLayout("Vertical"); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := one.Get(); got.Theme != "oslo" || got.Layout != "Vertical" {
		t.Errorf("both changes: %+v", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if _, err := one.Update(theme("none")); err == nil || one.Get().Theme != "oslo" {
		t.Errorf("a change that fails: %v", err)
	}
	if p := one.PolicyPath(); p != filepath.Join(filepath.Dir(path), "policy") {
		t.Errorf("the policy is at %s", p)
	}
}

func TestConcurrentChangesAreAllKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	var wg sync.WaitGroup
	for i := range 8 {
		s := open(t, path)
		wg.Go(func() {
			_, err := s.Update(func(c *Config) error {
				c.Suppressed = append(c.Suppressed, Suppression{Rule: fmt.Sprint(i)})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := open(t, path).Get().Suppressed; len(got) != 8 {
		t.Errorf("%d of 8 are kept", len(got))
	}
}

// What cannot be read is not overwritten; the change holds in memory.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"truncated": "{\"theme\": \"oslo\", \"my", "not an object": "[1]", "newer": `{"version": 99, "theme": "oslo", "hologram": true}`,
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if (err == nil) != (name == "newer") {
			t.Errorf("%s: opened with %v", name, err)
		}
		applied, err := s.Update(theme("paris"))
		var failed *FileError
		if !errors.As(err, &failed) || applied.Theme != "paris" || s.Get().Theme != "paris" {
			t.Errorf("%s: %v, %q, %q", name, err, applied.Theme, s.Get().Theme)
		}
		if name == "newer" && !errors.Is(err, ErrNewer) {
			t.Errorf("newer: %v", err)
		}
		if data, _ := os.ReadFile(path); string(data) != content {
			t.Errorf("%s: the file is now %s", name, data)
		}
	}
}

func TestUnknownKeysAreKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"theme":"oslo","mine":{"a":1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if len(s.Get().Remarks) != 1 {
		t.Errorf("remarks: %q", s.Get().Remarks)
	}
	if _, err := s.Update(theme("paris")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), `"mine"`) {
		t.Errorf("the file lost a key: %s, %v", data, err)
	}
}

func TestOddFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{folder: "folder", empty: "empty"} {
		s, err := Open(path)
		var failed *FileError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), says) || s.Get().Theme != "x" {
			t.Errorf("%s: %v", path, err)
		}
	}
	// An empty file may have named a policy before it was emptied: to write over it
	// would end the denial of every action.
	s, _ := Open(empty)
	if _, err := s.Update(theme("oslo")); err == nil || s.PolicyUnknown() == "" {
		t.Errorf("an empty file: %v, %q", err, s.PolicyUnknown())
	}
	// A folder that cannot be made is a place that cannot be written.
	s, err := Open(filepath.Join(empty, "below", "config.json"))
	if err == nil {
		t.Error("a file below a file can be read")
	}
	if applied, err := s.Update(theme("oslo")); err == nil || applied.Theme != "oslo" {
		t.Errorf("below a file: %v", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(func(c *Config) error { c.Policy = "~/rules"; return nil }); err == nil || s.PolicyPath() != filepath.Join(home, "rules") {
		t.Errorf("the home: %s, %v", s.PolicyPath(), err)
	}
	if m := InMemory(); m.PolicyPath() != "" {
		t.Errorf("a policy of %q", m.PolicyPath())
	} else if c, err := m.Update(theme("oslo")); err != nil || c.Theme != "oslo" || m.Get().Theme != "oslo" {
		t.Errorf("in memory: %v", err)
	}
}

// A file that was emptied while a server knew what was in it is written again.
func TestEmptiedFileIsRestored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"policy": "rules", "theme": "oslo"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(theme("paris")); err != nil || s.PolicyUnknown() != "" {
		t.Errorf("%v, %q", err, s.PolicyUnknown())
	}
	if got := open(t, path).Get(); got.Policy != "rules" || got.Theme != "paris" {
		t.Errorf("%+v", got)
	}
}

// What is no file, or leads to none, cannot be read: it is neither replaced nor
// taken for a configuration that nobody wrote.
func TestLinksThatLeadNowhere(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	link := func(name, target string) string {
		path := filepath.Join(folder, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, path := range []string{link("gone", "/nowhere/config.json"), link("loop", "loop"), filepath.Join(link("home", "/nowhere"), "topside", "config.json")} {
		s, err := Open(path)
		if err == nil || s.PolicyUnknown() == "" {
			t.Errorf("%s: %v, %q", path, err, s.PolicyUnknown())
		}
		if _, err := s.Update(theme("paris")); err == nil {
			t.Errorf("%s was written", path)
		}
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is a link no more", path)
		}
	}
}

// A fault in one threshold, key or suppression leaves the others be, and what was
// not understood stays in the file when the others change.
func TestFaultsInsideAreApart(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(`{"version":1,"thresholds":{"cpu":50,"mem":{"limit":40}},"keybindings":{"help":5,"quit":["x"]},
		"suppressed":[{"rule":"a","tag":7},{"rule":5},{},{"rule":"b","until":"2030-01-01T00:00:00+01:00"},"?"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Thresholds["mem"].Limit != 40 || c.Thresholds["cpu"].Limit != Default().Thresholds["cpu"].Limit {
		t.Errorf("thresholds: %+v", c.Thresholds)
	}
	if len(c.Keys) != 1 || c.Keys["quit"][0] != "x" {
		t.Errorf("keys: %v", c.Keys)
	}
	if len(c.Suppressed) != 2 || c.Suppressed[1].Rule != "b" {
		t.Errorf("suppressed: %+v", c.Suppressed)
	}
	if len(c.Remarks) != 5 {
		t.Errorf("remarks: %q", c.Remarks)
	}
	c.Suppressed = append(c.Suppressed[:1:1], Suppression{Process: "new"})
	if err := c.SetLimits(map[threshold.Metric]float64{"disk": 70}); err != nil {
		t.Fatal(err)
	}
	out, err := c.Format()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Thresholds map[string]any    `json:"thresholds"`
		Keys       map[string]any    `json:"keybindings"`
		Suppressed []json.RawMessage `json:"suppressed"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, raw := range got.Suppressed {
		kept = append(kept, strings.Join(strings.Fields(string(raw)), ""))
	}
	if want := `{"rule":"a","tag":7} {"rule":5} {} "?" {"process":"new"}`; strings.Join(kept, " ") != want {
		t.Errorf("suppressed: %s, want %s", strings.Join(kept, " "), want)
	}
	if got.Thresholds["cpu"] != 50.0 || got.Thresholds["disk"] == nil || got.Keys["help"] != 5.0 {
		t.Errorf("%s", out)
	}
}

// A crash in the middle of a write leaves a temporary file and the old content.
func TestCrashInMidWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "config.json")
	s := open(t, path)
	if _, err := s.Update(theme("oslo")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, ".config.json123"), []byte("{\"theme\":"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path).Get(); got.Theme != "oslo" || len(got.Remarks) != 0 {
		t.Errorf("after the crash: %+v", got)
	}
}

// What nobody changed is written back as it stood, known or not.
func TestWhatWasNotUnderstoodIsKept(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(`{"version":1,"theme":"nope","layout":"zz","interval_ms":"fast","thresholds":{"cpu":{"limit":50},"gpu":{"limit":5},"mem":{"limit":40,"x":1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if remarks := strings.Join(c.Remarks, "\n"); !strings.Contains(remarks, "mem.x") || !strings.Contains(remarks, "theme:") {
		t.Errorf("remarks: %s", remarks)
	}
	if !c.SetTheme("miami") || c.SetLimits(map[threshold.Metric]float64{threshold.Disk: 70}) != nil {
		t.Fatal("not set")
	}
	if strings.Contains(strings.Join(c.Remarks, "\n"), "theme:") {
		t.Error("the remark on the theme outlives it")
	}
	out, err := c.Format()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	thresholds, _ := got["thresholds"].(map[string]any)
	mem, _ := thresholds["mem"].(map[string]any)
	disk, _ := thresholds["disk"].(map[string]any)
	if got["theme"] != "miami" || got["layout"] != "zz" || got["interval_ms"] != "fast" || thresholds["gpu"] == nil || mem["x"] != 1.0 || mem["limit"] != 40.0 || disk["limit"] != 70.0 {
		t.Errorf("%s", out)
	}
}
