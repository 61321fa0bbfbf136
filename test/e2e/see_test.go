//go:build linux

package e2e

// The see toolset of the united surface, on this machine.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"topside/test/bed"
)

func startSee(t *testing.T, args ...string) *bed.Server {
	t.Helper()
	s := bed.Start(t, append([]string{"mcp", "--toolsets", "see", "--interval-ms", "500", "--no-engines"}, args...))
	s.Handshake("2025-11-25")
	return s
}

// seeRow is a row of the united surface.
type seeRow struct {
	row
	Usage struct {
		usage
		User      string `json:"user"`
		State     string `json:"state"`
		Kernel    bool   `json:"kernel"`
		ArgsCut   bool   `json:"args_cut"`
		Processes int    `json:"processes"`
	} `json:"usage"`
	Absent  map[string]string `json:"absent"`
	Details json.RawMessage   `json:"details"`
}

type seeList struct {
	Snapshot snapshot `json:"snapshot"`
	Matched  int      `json:"matched"`
	Returned int      `json:"returned"`
	LeftOut  int      `json:"left_out"`
	Data     []seeRow `json:"data"`
}

type inspected struct {
	Snapshot snapshot `json:"snapshot"`
	Data     seeRow   `json:"data"`
}

// details are those of a process that the tests look at.
type details struct {
	State       string `json:"state"`
	Threads     int    `json:"threads"`
	UID         *int   `json:"uid"`
	StartedAt   string `json:"started_at"`
	Executable  string `json:"executable"`
	Directory   string `json:"working_directory"`
	Descriptors *int   `json:"open_descriptors"`
	Limits      map[string]struct {
		Soft, Hard *uint64
	} `json:"limits"`
	Memory struct {
		Virtual uint64  `json:"virtual_bytes"`
		Peak    *uint64 `json:"peak_rss_bytes"`
	} `json:"memory"`
	Faults   json.RawMessage `json:"faults"`
	IO       json.RawMessage `json:"io"`
	Switches json.RawMessage `json:"context_switches"`
}

// find lists what a query matches and wants exactly the row of one process.
func find(t *testing.T, s *bed.Server, pid int, a bed.Arguments) (seeRow, snapshot) {
	t.Helper()
	var list seeList
	query := bed.Arguments{"limit": 1000}
	for k, v := range a {
		query[k] = v
	}
	s.Get("list_resources", query, &list)
	for _, r := range list.Data {
		if r.Usage.PID != nil && *r.Usage.PID == pid {
			return r, list.Snapshot
		}
	}
	t.Fatalf("process %d is not among the %d resources that match %v", pid, list.Matched, a)
	return seeRow{}, snapshot{}
}

func inspect(t *testing.T, s *bed.Server, snapshotID, id string) (seeRow, details) {
	t.Helper()
	var answer inspected
	s.Get("inspect_resource", bed.Arguments{"snapshot_id": snapshotID, "resource_id": id}, &answer)
	var d details
	if err := json.Unmarshal(answer.Data.Details, &d); err != nil {
		t.Fatal(err)
	}
	return answer.Data, d
}

// Each reply conforms to the schema that the tool declares.
func TestRepliesConformToTheirSchemas(t *testing.T) {
	t.Parallel()
	s := startSee(t)
	var listed struct {
		Tools []struct {
			Name         string
			OutputSchema *jsonschema.Schema
			InputSchema  *jsonschema.Schema
		}
	}
	if err := json.Unmarshal(s.Do("tools/list", nil).Result, &listed); err != nil {
		t.Fatal(err)
	}
	schemas := map[string]*jsonschema.Resolved{}
	for _, tool := range listed.Tools {
		if tool.OutputSchema == nil {
			t.Fatalf("%s declares no output", tool.Name)
		}
		resolved, err := tool.OutputSchema.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		schemas[tool.Name] = resolved
		for name, property := range tool.InputSchema.Properties {
			if property.Type == "" || len(property.Types) > 0 || property.Ref != "" || property.Type == "array" && property.Items == nil {
				t.Errorf("%s.%s: some clients reject its schema", tool.Name, name)
			}
		}
	}
	check := func(name string, a bed.Arguments) json.RawMessage {
		t.Helper()
		r := bed.ResultOf(t, s.Call(name, a))
		var value any
		if err := json.Unmarshal(r.Structured, &value); err != nil {
			t.Fatal(err)
		}
		if err := schemas[name].Validate(value); err != nil {
			t.Errorf("%s %v: %v", name, a, err)
		}
		if r.Text() == "" || !utf8.ValidString(r.Text()) {
			t.Errorf("%s %v: the text is empty or no UTF-8", name, a)
		}
		return r.Structured
	}
	var list seeList
	if err := json.Unmarshal(check("list_resources", bed.Arguments{"max_age_ms": 0, "limit": 1000}), &list); err != nil {
		t.Fatal(err)
	}
	id := list.Snapshot.ID
	check("get_system_summary", bed.Arguments{"snapshot_id": id})
	for _, r := range list.Data {
		check("inspect_resource", bed.Arguments{"snapshot_id": id, "resource_id": r.ID})
		check("list_children", bed.Arguments{"snapshot_id": id, "resource_id": r.ID})
	}
	check("get_system_summary", bed.Arguments{"snapshot_id": "unknown"})
	check("list_resources", bed.Arguments{"snapshot_id": id, "parent": "unknown"})
	check("inspect_resource", bed.Arguments{"snapshot_id": id, "resource_id": "unknown"})
}

// A token is about four characters of the JSON.
func TestBudgets(t *testing.T) {
	t.Parallel()
	s := startSee(t)
	var answer struct{ Snapshot snapshot }
	r := s.Get("get_system_summary", bed.Arguments{"max_age_ms": 0}, &answer)
	if n := utf8.RuneCount(r.Structured); n > 4000 {
		t.Errorf("the summary has %d characters, more than 4,000:\n%s", n, r.Structured)
	}
	for _, by := range []string{"cpu", "memory", "name"} {
		r = s.Get("list_resources", bed.Arguments{"snapshot_id": answer.Snapshot.ID, "sort_by": by, "limit": 30}, &answer)
		if n := utf8.RuneCount(r.Structured); n > 12000 {
			t.Errorf("a list of 30 by %s has %d characters, more than 12,000", by, n)
		}
	}
	reply := s.Do("tools/list", nil)
	if n := len(reply.Result); n > 8000 {
		t.Errorf("the tool list has %d characters; all toolsets together must stay below 20,000", n)
	}
}

func TestSummaryHasTheMachinesFigures(t *testing.T) {
	t.Parallel()
	s := startSee(t)
	var answer struct {
		Snapshot snapshot
		Data     struct {
			CPUs         int      `json:"host_logical_cpu_count"`
			CPU          *float64 `json:"host_cpu_percent"`
			Unaccounted  *float64 `json:"unaccounted_cpu_percent"`
			Modes        map[string]any
			Load         map[string]float64
			Memory       map[string]uint64 `json:"host_memory"`
			Pressure     map[string]any
			Environments map[string]struct {
				Status, Reason string
				CPU            *float64 `json:"cpu_percent"`
				Memory         *uint64  `json:"memory_bytes"`
			}
			Filesystems []map[string]any
			ByCPU       []map[string]any `json:"busiest_by_cpu"`
			ByMemory    []map[string]any `json:"busiest_by_memory"`
			NotMeasured []map[string]any `json:"not_measured"`
		}
	}
	s.Get("get_system_summary", bed.Arguments{"max_age_ms": 0}, &answer)
	d := answer.Data
	if d.CPU == nil || *d.CPU < 0 || *d.CPU > 100 {
		t.Errorf("host_cpu_percent %v", d.CPU)
	}
	if d.Unaccounted == nil || *d.Unaccounted < 0 || *d.Unaccounted > 100 {
		t.Errorf("unaccounted_cpu_percent %v", d.Unaccounted)
	}
	if len(d.ByCPU) != 5 || len(d.ByMemory) != 5 {
		t.Errorf("the five busiest: %d by CPU, %d by memory", len(d.ByCPU), len(d.ByMemory))
	}
	for _, busy := range append(d.ByCPU, d.ByMemory...) {
		id, _ := busy["resource_id"].(string)
		var one inspected
		s.Get("inspect_resource", bed.Arguments{"snapshot_id": answer.Snapshot.ID, "resource_id": id}, &one)
	}
	var names []string
	for name, e := range d.Environments {
		names = append(names, name)
		if !slices.Contains([]string{"ok", "absent", "unreachable", "disabled", "denied"}, e.Status) {
			t.Errorf("%s has the status %q", name, e.Status)
		}
		if (e.CPU == nil || e.Memory == nil) && e.Reason == "" {
			t.Errorf("%s has a null without a reason", name)
		}
	}
	slices.Sort(names)
	if want := []string{"containerd", "docker", "kubernetes", "linux", "lxc", "podman"}; !slices.Equal(names, want) {
		t.Errorf("environments %v", names)
	}
	if e := d.Environments["docker"]; e.Status != "disabled" {
		t.Errorf("docker without engines is %q", e.Status)
	}
	total := meminfo(t, "MemTotal")
	if d.Memory["total_bytes"] != total {
		t.Errorf("memory of %d bytes, want %d", d.Memory["total_bytes"], total)
	}
	available := meminfo(t, "MemAvailable")
	if !near(float64(d.Memory["available_bytes"]), float64(available), 0.05*float64(total)) {
		t.Errorf("available %d, want about %d", d.Memory["available_bytes"], available)
	}
	if d.Memory["used_bytes"] != total-d.Memory["available_bytes"] {
		t.Error("used is not total minus available")
	}
	if len(d.Load) == 0 || len(d.Filesystems) == 0 {
		t.Errorf("load %v, filesystems %v", d.Load, d.Filesystems)
	}
	for _, resource := range []string{"cpu", "memory", "io"} {
		if _, err := os.Stat("/proc/pressure/" + resource); err == nil && d.Pressure[resource] == nil {
			t.Errorf("no pressure of %s", resource)
		}
	}
}

func meminfo(t *testing.T, name string) uint64 {
	t.Helper()
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var kb uint64
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func TestFilters(t *testing.T) {
	t.Parallel()
	player := bed.Play(t, bed.Actor, "", func(c *exec.Cmd) { c.Args = []string{"filter-player", "--colour=blue-4711", "x"} })
	s := startSee(t)
	user := fmt.Sprint(os.Getuid())
	for _, a := range []bed.Arguments{
		{"match": `colour=blue-\d{4}$|colour=blue-4711 x`},
		{"match": `^filter-player$`},
		{"name_contains": "lter-play"},
		{"name_contains": "filter-player", "user": user},
		{"match": "blue-4711", "environment": "linux", "resource_kind": "process"},
	} {
		r, _ := find(t, s, player.PID(), a)
		if r.Usage.Name != "filter-player" {
			t.Errorf("%v: name %q", a, r.Usage.Name)
		}
	}
	for _, a := range []bed.Arguments{
		{"match": "blue-4711", "user": "no-such-user"},
		{"match": "blue-4711", "environment": "docker"},
		{"match": "blue-4711", "resource_kind": "container"},
		{"match": "blue-4711", "container": "none-such"},
		{"match": "blue-4711", "unit": "none-such.service"},
		{"name_contains": "Filter-Player"},
	} {
		var list seeList
		s.Get("list_resources", a, &list)
		if list.Matched != 0 || list.Returned != 0 || list.LeftOut != 0 || list.Data == nil || len(list.Data) != 0 {
			t.Errorf("%v: %d match", a, list.Matched)
		}
	}
	var list seeList
	s.Get("list_resources", bed.Arguments{"limit": 2}, &list)
	if list.Returned != 2 || list.LeftOut != list.Matched-2 || len(list.Data) != 2 || list.Matched < 5 {
		t.Errorf("matched %d, returned %d, left out %d", list.Matched, list.Returned, list.LeftOut)
	}
}

// The united surface takes what clients send for what they mean, and says what
// was wrong with the rest.
func TestLenientArguments(t *testing.T) {
	t.Parallel()
	s := startSee(t)
	for _, args := range []string{
		`{"limit":"3"}`, `{"limit":3.0}`, `{"max_age_ms":"60000","limit":3}`, `{"limit":3,"sort_by":"memory"}`,
	} {
		reply := s.Do("tools/call", map[string]any{"name": "list_resources", "arguments": json.RawMessage(args)})
		var list seeList
		r := bed.ResultOf(t, reply)
		if err := json.Unmarshal(r.Structured, &list); err != nil || list.Returned != 3 {
			t.Errorf("%s: %v %.300s", args, err, reply.Line)
		}
	}
	for _, test := range []struct{ args, says string }{
		{`{"limit":"many"}`, "limit"},
		{`{"limit":3.5}`, "limit"},
		{`{"limit":-1}`, "limit"},
		{`{"limit":1001}`, "1000"},
		{`{"colour":"blue"}`, "name_contains"},
		{`{"environment":"mars"}`, "podman"},
		{`{"match":"("}`, "match"},
		{`{"snapshot_id":"a","max_age_ms":0}`, "max_age_ms"},
		{`{"parent":"x"}`, "snapshot_id"},
	} {
		reply := s.Do("tools/call", map[string]any{"name": "list_resources", "arguments": json.RawMessage(test.args)})
		message := ""
		if reply.Error != nil {
			message = reply.Error.Message
		} else {
			_, message = toolError(t, reply)
		}
		if !strings.Contains(message, test.says) {
			t.Errorf("%s: %q does not mention %q", test.args, message, test.says)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	const hidden = "hunter2-5f3a"
	player := bed.Play(t, bed.Actor, "", func(c *exec.Cmd) {
		c.Args = []string{"secret-player", "--password=" + hidden, "--token", hidden, "https://user:" + hidden + "@example.com/x", "API_KEY=" + hidden, "--verbose"}
	})
	for _, show := range []bool{false, true} {
		var args []string
		if show {
			args = []string{"--show-secrets"}
		}
		s := startSee(t, args...)
		r, snap := find(t, s, player.PID(), bed.Arguments{"name_contains": "secret-player"})
		reply := s.Call("inspect_resource", bed.Arguments{"snapshot_id": snap.ID, "resource_id": r.ID})
		list := s.Call("list_resources", bed.Arguments{"snapshot_id": snap.ID, "name_contains": "secret-player"})
		for _, line := range []string{reply.Line, list.Line} {
			if strings.Contains(line, hidden) != show {
				t.Errorf("--show-secrets %v: %s", show, line)
			}
		}
		if !strings.Contains(reply.Line, "--verbose") || !strings.Contains(reply.Line, "example.com") {
			t.Errorf("too much is hidden: %s", reply.Line)
		}
	}
	// What is hidden cannot be guessed letter by letter either.
	s := startSee(t)
	var list seeList
	s.Get("list_resources", bed.Arguments{"match": "password=hunter2"}, &list)
	if list.Matched != 0 {
		t.Error("the filter finds secrets that are hidden")
	}
	// The other ways to look, and the contract that shares the redaction.
	run := bed.RunBinary(t, "snapshot", "--json", "--interval-ms", "100", "--no-engines")
	if strings.Contains(run.Stdout, hidden) || !strings.Contains(run.Stdout, "secret-player") {
		t.Error("topside snapshot shows secrets, or not the process")
	}
	run = bed.RunBinary(t, "snapshot", "--json", "--interval-ms", "100", "--no-engines", "--show-secrets")
	if !strings.Contains(run.Stdout, hidden) {
		t.Error("topside snapshot --show-secrets hides secrets")
	}
}

func TestInvisibleCharactersAreStripped(t *testing.T) {
	t.Parallel()
	player := bed.Play(t, bed.Actor, "", func(c *exec.Cmd) {
		c.Args = []string{"strip-player", "red\x1b[31mtext\x1b]0;title\a", "zero\u200bwidth", "right\u202eleft", "tag\U000E0041", "line\nbreak", "bad\xff\xfe"}
	})
	s := startSee(t)
	r, snap := find(t, s, player.PID(), bed.Arguments{"name_contains": "strip-player"})
	for _, reply := range []bed.Reply{
		s.Call("inspect_resource", bed.Arguments{"snapshot_id": snap.ID, "resource_id": r.ID}),
		s.Call("list_resources", bed.Arguments{"snapshot_id": snap.ID, "name_contains": "strip-player"}),
	} {
		result := bed.ResultOf(t, reply)
		if bad := regexp.MustCompile(`\x1b|\a|\x{200b}|\x{202e}|\x{E0041}|\\u001b|\\u0007|\\u200b|\\u202e`).FindString(reply.Line); bad != "" {
			t.Errorf("%q came through: %s", bad, reply.Line)
		}
		if !strings.Contains(result.Text(), "redtext") || !strings.Contains(result.Text(), "zerowidth") {
			t.Errorf("the text around was lost: %s", result.Text())
		}
	}
}

func TestInspectTellsAllOfAProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	player := bed.Play(t, bed.Hoard, "64", func(c *exec.Cmd) { c.Dir = dir })
	s := startSee(t)
	r, snap := find(t, s, player.PID(), bed.Arguments{"max_age_ms": 0, "name_contains": "bed-hoard"})
	one, d := inspect(t, s, snap.ID, r.ID)
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", player.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if d.Executable != exe || d.Directory != dir {
		t.Errorf("executable %q in %q, want %q in %q", d.Executable, d.Directory, exe, dir)
	}
	if d.UID == nil || *d.UID != os.Getuid() {
		t.Errorf("uid %v", d.UID)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", player.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if d.Descriptors == nil || *d.Descriptors != len(fds) {
		t.Errorf("%v descriptors, want %d", d.Descriptors, len(fds))
	}
	if d.State == "" || d.StartedAt == "" || d.Limits["open_files"].Soft == nil || d.Memory.Peak == nil || d.Faults == nil || d.Switches == nil {
		t.Errorf("details are missing: %s", one.Details)
	}
	if d.IO == nil && one.Absent["io"] == "" {
		t.Error("neither I/O nor a reason")
	}
	if got, want := *one.Usage.Memory, float64(statusKB(t, player.PID(), "VmRSS"))*1024; !near(got, want, 0.05*want) {
		t.Errorf("%v bytes resident, want about %v", got, want)
	}
	ps := psFigure(t, player.PID(), "rss") * 1024
	if got := *one.Usage.Memory; !near(got, ps, 0.05*ps) {
		t.Errorf("%v bytes resident, ps says %v", got, ps)
	}
	if got, want := d.Threads, psFigure(t, player.PID(), "nlwp"); !near(float64(got), want, 2) {
		t.Errorf("%d threads, ps says %v", got, want)
	}
	// The details of a process that ended are absent with a reason, not those
	// of whoever has its number now.
	gone := bed.Play(t, bed.Actor, "")
	r, snap = find(t, s, gone.PID(), bed.Arguments{"max_age_ms": 0, "name_contains": "bed-actor"})
	if err := gone.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = gone.Cmd.Wait()
	one, d = inspect(t, s, snap.ID, r.ID)
	if d.Descriptors != nil || one.Absent["descriptors"] == "" || *one.Usage.PID != gone.PID() {
		t.Errorf("a process that is gone: %v %v", d.Descriptors, one.Absent)
	}
}

func psFigure(t *testing.T, pid int, column string) float64 {
	t.Helper()
	out, err := exec.Command("ps", "-o", column+"=", "-p", fmt.Sprint(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var v float64
	if _, err := fmt.Sscan(string(out), &v); err != nil {
		t.Fatalf("ps -o %s: %q", column, out)
	}
	return v
}

func TestChoosingTools(t *testing.T) {
	t.Parallel()
	names := func(args ...string) []string {
		t.Helper()
		s := bed.Start(t, append([]string{"mcp"}, args...))
		var r struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(s.Do("tools/list", nil).Result, &r); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	all := []string{"get_system_summary", "list_resources", "inspect_resource", "list_children"}
	if got := names("--toolsets", "see"); !slices.Equal(got, all) {
		t.Errorf("see offers %v", got)
	}
	for _, args := range [][]string{nil, {"--read-only"}, {"--read-only", "--toolsets", "see"}} {
		if got := names(args...); len(got) < len(all) || !slices.Equal(got[:len(all)], all) {
			t.Errorf("%v offers %v", args, got)
		}
	}
	if got := names("--exclude-tools", "list_children,inspect_resource", "--toolsets", "see"); !slices.Equal(got, all[:2]) {
		t.Errorf("exclusions leave %v", got)
	}
	for _, args := range [][]string{{"--toolsets", "nonsense"}, {"--exclude-tools", "nonsense"}, {"--interval-ms", "99"}, {"--root", "/nowhere"}, {"extra"}} {
		if r := bed.RunBinary(t, append([]string{"mcp"}, args...)...); r.Status == 0 || r.Stdout != "" || r.Stderr == "" {
			t.Errorf("mcp %v: status %d, stdout %q, stderr %q", args, r.Status, r.Stdout, r.Stderr)
		}
	}
}
