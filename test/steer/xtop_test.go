//go:build linux

// Package steer tests thresholds, alerts and process actions from outside: the
// real binary, real processes of our own. xtop_test.go follows the xtop contract
// row by row, united_test.go the steer toolset of the united surface, and
// person_test.go the questions that a policy asks.
package steer

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// A home is a user's folder of its own.
type home string

func newHome(t testing.TB) home { return home(t.TempDir()) }

func (h home) env() bed.Option { return bed.Env(h.variables()...) }

func (h home) variables() []string {
	return []string{"HOME=" + string(h), "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_CACHE_HOME=" + filepath.Join(string(h), "cache")}
}

func (h home) write(t testing.TB, name, content string) {
	t.Helper()
	path := filepath.Join(string(h), ".config", "topside", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h home) audit(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(string(h), ".local", "state", "topside", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// target starts a process of our own to act on.
func target(t testing.TB, command string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(command, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// An xtop is a server of the contract.
type xtop struct {
	*bed.Server
	t testing.TB
}

func startXtop(t testing.TB, h home, options ...bed.Option) xtop {
	t.Helper()
	return xtop{bed.Start(t, []string{"xtop", "mcp"}, append(options, h.env())...), t}
}

// call calls a tool with arguments in JSON. It returns the text, or the error.
func (x xtop) call(tool, arguments string) (text string, failure *bed.RPCError) {
	x.t.Helper()
	params := map[string]any{"name": tool}
	if arguments != "" {
		params["arguments"] = json.RawMessage(arguments)
	}
	reply := x.Do("tools/call", params)
	if reply.Error != nil {
		return "", reply.Error
	}
	var r map[string]any
	if err := json.Unmarshal(reply.Result, &r); err != nil {
		x.t.Fatal(err)
	}
	content, _ := r["content"].([]any)
	if len(r) != 1 || len(content) != 1 {
		x.t.Fatalf("%s: the result is not one text block and nothing else: %s", tool, reply.Result)
	}
	block := content[0].(map[string]any)
	if block["type"] != "text" {
		x.t.Fatalf("%s: %v", tool, block)
	}
	return block["text"].(string), nil
}

func (x xtop) object(tool, arguments string) map[string]any {
	x.t.Helper()
	var v map[string]any
	x.into(&v, tool, arguments)
	return v
}

func (x xtop) list(tool, arguments string) []map[string]any {
	x.t.Helper()
	var v []map[string]any
	x.into(&v, tool, arguments)
	if v == nil {
		x.t.Fatalf("%s %s: not a list", tool, arguments)
	}
	return v
}

func (x xtop) into(v any, tool, arguments string) {
	x.t.Helper()
	text, failure := x.call(tool, arguments)
	if failure != nil {
		x.t.Fatalf("%s %s: %v", tool, arguments, failure)
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		x.t.Fatalf("%s %s: %v in %s", tool, arguments, err, text)
	}
}

func keysOf(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var order = []string{"system_summary", "processes_top", "processes_search", "process_info", "process_kill", "threshold_set",
	"threshold_get", "config_get", "config_set", "process_alerts", "alerts_status", "plugin_status"}

// TestXtopWire follows section 1.1.
func TestXtopWire(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	for id, line := range map[string]string{
		`1`:         `{"id":1,"method":"initialize"}`,
		`"a"`:       `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"x":[1]}`: `{"jsonrpc":"2.0","id":{"x":[1]},"method":"initialize","params":7}`,
	} {
		x.Send(line)
		want := `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"xtop","version":"0.1.0"}}`
		if reply := x.Await(id); string(reply.Result) != want {
			t.Errorf("%s: %s", line, reply.Line)
		}
	}
	x.Note("notifications/initialized", nil)
	x.Note("notifications/cancelled", map[string]any{"requestId": 99})
	x.Send("")
	x.Send("   ")
	x.Send(`{"jsonrpc":"2.0","method":"notifications/initialized","id":null}`)
	if reply := x.Do("ping", nil); string(reply.Result) != "{}" {
		t.Errorf("ping: %s", reply.Line)
	}
	for _, method := range []string{"resources/list", "prompts/list", "logging/setLevel", "server/discover", "x"} {
		reply := x.Do(method, map[string]any{})
		if reply.Error == nil || reply.Error.Code != -32601 || reply.Error.Message != "Method not found: "+method {
			t.Errorf("%s: %s", method, reply.Line)
		}
	}
	for id, line := range map[string]string{
		"7":  `{"jsonrpc":"2.0","id":7}`,
		"8":  `{"jsonrpc":"2.0","id":8,"method":5}`,
		"9":  `{"jsonrpc":"2.0","id":9,"method":""}`,
		"-1": `{"jsonrpc":"2.0","id":-1,"method":null}`,
	} {
		x.Send(line)
		if reply := x.Await(id); reply.Error == nil || reply.Error.Code != -32601 || reply.Error.Message != "Method not found: " {
			t.Errorf("%s: %s", line, reply.Line)
		}
	}
	before := len(x.Lines())
	x.Send(`[{"jsonrpc":"2.0","id":10,"method":"ping"}]`)
	x.Send(`17`)
	x.Do("ping", nil)
	if got := x.Lines()[before:]; len(got) != 3 || got[0] != `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found: "}}` || got[1] != got[0] {
		t.Errorf("an array and a number are answered by %q", got)
	}
	for _, call := range []string{`{"name":"nope"}`, `{"name":"process.info"}`, `{}`, `[]`, `{"name":5}`} {
		reply := x.Do("tools/call", json.RawMessage(call))
		name := ""
		if m := regexp.MustCompile(`"name":"([^"]*)"`).FindStringSubmatch(call); m != nil {
			name = m[1]
		}
		if reply.Error == nil || reply.Error.Code != -32601 || reply.Error.Message != "Tool not found: "+name {
			t.Errorf("%s: %s", call, reply.Line)
		}
	}
	if status, _ := x.Close(5 * time.Second); status != 0 {
		t.Errorf("the end of input gives status %d", status)
	}
}

// TestXtopOrder: replies come in the order of the requests, and what was read
// before the end of input is answered.
func TestXtopOrder(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	for id, line := range []string{
		`"method":"tools/call","params":{"name":"processes_top"}`, `"method":"ping"`, `"method":"nope"`, `"method":"tools/list"`,
		`"method":"tools/call","params":{"name":"nope"}`, `"method":"initialize"`, `"method":"tools/call","params":{"name":"system_summary"}`, `"method":"ping"`,
	} {
		x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, id, line))
	}
	if status, _ := x.Close(20 * time.Second); status != 0 {
		t.Errorf("status %d", status)
	}
	if got := x.Order(); !slices.Equal(got, []string{"0", "1", "2", "3", "4", "5", "6", "7"}) {
		t.Errorf("the replies came in the order %v", got)
	}
}

// TestXtopMalformed: a line that is not JSON ends the server with a status.
func TestXtopMalformed(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`{broken`, `{"id":1`, "{\"id\":1,\"method\":\"\xff\"}", `nonsense`} {
		x := startXtop(t, newHome(t))
		x.Do("ping", nil)
		x.Send(line)
		if status, _ := x.Close(10 * time.Second); status != 1 || !strings.Contains(x.Stderr(), "invalid JSON-RPC: ") {
			t.Errorf("%q: status %d, stderr %q", line, status, x.Stderr())
		}
		if lines := x.Lines(); len(lines) != 1 {
			t.Errorf("%q was answered: %q", line, lines)
		}
	}
}

// TestXtopTools follows section 1.2: names, order and schemas.
func TestXtopTools(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	var list struct{ Tools []map[string]any }
	reply := x.Do("tools/list", nil)
	if err := json.Unmarshal(reply.Result, &list); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{
		"processes_top": "count integer, filter string", "processes_search": "fields string, pattern string!", "process_info": "pid integer!",
		"process_kill": "pid integer!", "threshold_set": "cpu number!, disk number!, mem number!", "config_set": "interval_ms integer, layout string, theme string",
	}
	var names []string
	for _, tool := range list.Tools {
		name := tool["name"].(string)
		names = append(names, name)
		if keys := keysOf(tool); !slices.Equal(keys, []string{"description", "inputSchema", "name"}) || tool["description"] == "" {
			t.Errorf("%s has %v", name, keys)
		}
		schema := tool["inputSchema"].(map[string]any)
		required, _ := schema["required"].([]any)
		var got []string
		properties := schema["properties"].(map[string]any)
		for _, p := range keysOf(properties) {
			property := properties[p].(map[string]any)
			text := p + " " + property["type"].(string)
			if slices.Contains(required, any(p)) {
				text += "!"
			}
			got = append(got, text)
			for key := range property {
				if key != "type" && key != "description" && !(p == "count" && key == "default" && property[key] == 10.0) {
					t.Errorf("%s.%s has %s", name, p, key)
				}
			}
		}
		if strings.Join(got, ", ") != types[name] || schema["type"] != "object" || schema["additionalProperties"] != nil {
			t.Errorf("%s: %v, want %s", name, got, types[name])
		}
	}
	if !slices.Equal(names, order) {
		t.Errorf("the tools are %v", names)
	}
}

// TestXtopErrors follows the error catalogue (section 1.6) and the coercions of
// section 1.2.
func TestXtopErrors(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	for _, c := range []struct {
		tool, arguments string
		code            int
		message         string // with … at its end, a prefix
	}{
		{"process_info", ``, -32602, "missing required argument: pid"},
		{"process_info", `{"pid":5.0}`, -32602, "missing required argument: pid"},
		{"process_info", `{"pid":"5"}`, -32602, "missing required argument: pid"},
		{"process_info", `{"pid":9223372036854775808}`, -32602, "missing required argument: pid"},
		{"process_info", `{"pid":null}`, -32602, "missing required argument: pid"},
		{"process_info", `null`, -32602, "missing required argument: pid"},
		{"process_info", `[5]`, -32602, "missing required argument: pid"},
		{"process_info", `{"pid":-1}`, -32000, "invalid pid: -1"},
		{"process_info", `{"pid":4294967296}`, -32000, "invalid pid: 4294967296"},
		{"process_info", `{"pid":4294967295}`, -32000, "process 4294967295 not found"},
		{"process_info", `{"pid":0}`, -32000, "process 0 not found"},
		{"process_kill", `{}`, -32602, "missing required argument: pid"},
		{"process_kill", `{"pid":1e1}`, -32602, "missing required argument: pid"},
		{"process_kill", `{"pid":-7}`, -32000, "invalid pid: -7"},
		{"process_kill", `{"pid":4294967296}`, -32000, "invalid pid: 4294967296"},
		{"threshold_set", `{}`, -32602, "missing required argument: cpu"},
		{"threshold_set", `{"cpu":"80","mem":80,"disk":80}`, -32602, "missing required argument: cpu"},
		{"threshold_set", `{"cpu":80}`, -32602, "missing required argument: mem"},
		{"threshold_set", `{"cpu":80,"mem":70}`, -32602, "missing required argument: disk"},
		{"threshold_set", `{"cpu":-1,"mem":70,"disk":5}`, -32000, "invalid cpu threshold: …"},
		{"threshold_set", `{"cpu":1,"mem":101,"disk":5}`, -32000, "invalid mem threshold: …"},
		{"threshold_set", `{"cpu":1,"mem":1,"disk":1e6}`, -32000, "invalid disk threshold: …"},
		{"config_set", `{}`, -32602, "expected interval_ms, theme, or layout"},
		{"config_set", `{"interval_ms":"5","theme":5,"layout":["x"]}`, -32602, "expected interval_ms, theme, or layout"},
		{"config_set", `{"interval_ms":-5}`, -32000, "invalid interval_ms: …"},
		{"processes_top", `{"count":0}`, -32000, "count must be > 0"},
		{"processes_top", `{"filter":"("}`, -32000, "invalid regex in filter: …"},
		{"processes_search", ``, -32000, "search pattern cannot be empty"},
		{"processes_search", `{"pattern":" \t "}`, -32000, "search pattern cannot be empty"},
		{"processes_search", `{"pattern":5}`, -32000, "search pattern cannot be empty"},
		{"processes_search", `{"pattern":"(?<=x)"}`, -32000, "invalid regex: …"},
		{"processes_search", `{"pattern":"[a-z&&[^x]]"}`, -32000, "invalid regex: && in a class…"},
		{"processes_top", `{"filter":"[[a]~~b]"}`, -32000, "invalid regex in filter: a class inside a class…"},
		{"processes_search", `{"pattern":"` + strings.Repeat("x", 1001) + `"}`, -32000, "invalid regex: it is longer than 1000 characters"},
		{"processes_search", `{"pattern":"(((a{1000}){1000}){1000})"}`, -32000, "invalid regex: …"},
	} {
		text, failure := x.call(c.tool, c.arguments)
		prefix, cut := strings.CutSuffix(c.message, "…")
		if failure == nil || failure.Code != c.code || failure.Message != c.message && !(cut && strings.HasPrefix(failure.Message, prefix)) {
			t.Errorf("%s %.80s: %v %s, want %d %s", c.tool, c.arguments, failure, text, c.code, c.message)
		}
	}
}

var record = []string{"cmd", "cpu", "cwd", "exe", "mem_bytes", "name", "pid", "ppid", "run_time", "state", "threads", "user"}

// TestXtopProcesses follows sections 1.3 and 1.4 for the tools that list.
func TestXtopProcesses(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	folder := t.TempDir()
	weird := filepath.Join(folder, "a,fields=b")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sleep, weird); err != nil {
		t.Fatal(err)
	}
	odd := target(t, weird, "60")
	burner := bed.Play(t, bed.Burner, "90").PID()
	bed.Play(t, bed.Crowd, "5")

	for arguments, want := range map[string]int{`{}`: 10, `{"count":3}`: 3, `{"count":3.0}`: 10, `{"count":"3"}`: 10, `{"count":-3}`: 10, `{"count":null,"other":1}`: 10} {
		rows := x.list("processes_top", arguments)
		if len(rows) != want {
			t.Errorf("processes_top %s gives %d", arguments, len(rows))
		}
		for i, r := range rows {
			if !slices.Equal(keysOf(r), record) {
				t.Errorf("a record has %v", keysOf(r))
			}
			if i > 0 && r["cpu"].(float64) > rows[i-1]["cpu"].(float64) {
				t.Errorf("processes_top is not sorted: %v", rows)
			}
		}
	}
	if rows := x.list("processes_top", `{"count":100000}`); len(rows) > 200 {
		t.Errorf("processes_top gives %d", len(rows))
	}
	if len(x.list("processes_top", `{"count":5,"filter":""}`)) != 5 || len(x.list("processes_top", `{"filter":"no such process anywhere"}`)) != 0 {
		t.Error("an empty filter must match all, a strange one nothing")
	}

	has := func(rows []map[string]any, pid int) bool {
		return slices.ContainsFunc(rows, func(r map[string]any) bool { return r["pid"] == float64(pid) })
	}
	if rows := x.list("processes_top", `{"count":200,"filter":"`+regexp.QuoteMeta(weird)+`"}`); len(rows) != 1 || !has(rows, odd.Process.Pid) {
		t.Errorf("the filter on the first argument finds %v", rows)
	}
	for _, c := range []struct {
		arguments string
		found     bool
	}{
		{`{"pattern":"a,fields=b"}`, true},
		{`{"pattern":" a,fields=b "}`, true},
		{`{"pattern":"a,fields=b","fields":"cmd"}`, true},
		{`{"pattern":"a,fields=b","fields":"exe, cmd"}`, true},
		{`{"pattern":"a,fields=b","fields":["user","cmd"]}`, true},
		{`{"pattern":"A,FIELDS=B"}`, false},
		{`{"pattern":"(?i)A,FIELDS=B"}`, true},
		{`{"pattern":"a,fields=b","fields":"exe"}`, false},
		{`{"pattern":"a,fields=b","fields":"nothing"}`, false},
		{`{"pattern":"a,fields=b","fields":"Name"}`, false},
		{`{"pattern":"a,fields=b","fields":""}`, false},
		{`{"pattern":"a,fields=b","fields":5}`, true},
		{`{"pattern":"^` + strconv.Itoa(os.Getuid()) + `$","fields":"user"}`, true},
		{`{"pattern":"^Sleep$","fields":"state"}`, true},
		{`{"pattern":"\\w,f\\w+=[\\w]$"}`, true},
	} {
		rows := x.list("processes_search", c.arguments)
		// Searches by user or state can find more than their limit.
		if has(rows, odd.Process.Pid) != c.found && !(c.found && len(rows) == 100) {
			t.Errorf("processes_search %s: found %v, want %v", c.arguments, !c.found, c.found)
		}
		if len(rows) > 100 {
			t.Errorf("processes_search %s gives %d", c.arguments, len(rows))
		}
	}

	text, failure := x.call("process_info", fmt.Sprintf(`{"pid":%d}`, burner))
	if failure != nil {
		t.Fatal(failure)
	}
	if !regexp.MustCompile(`^{"cmd":"bed-[^ ]*","cpu":\d+\.\d,"cwd":"/.*","exe":"/.*","mem_bytes":\d+,"name":".*","pid":\d+,"ppid":\d+,"run_time":\d+,"state":"(Run|Sleep)","threads":\d+,"user":"\d+"}$`).MatchString(text) {
		t.Errorf("process_info: %s", text)
	}
	info := x.object("process_info", `{"pid":1}`)
	if info["ppid"] != nil || info["user"] != "0" || info["run_time"].(float64) < 1 {
		t.Errorf("process 1: %v", info)
	}
	// Threads are no processes, wherever one looks.
	for _, id := range threadsOf(t, burner) {
		if _, failure := x.call("process_info", fmt.Sprintf(`{"pid":%d}`, id)); failure == nil || failure.Message != fmt.Sprintf("process %d not found", id) {
			t.Errorf("a thread: %v", failure)
		}
	}
}

// threadsOf are the ids of a process's threads but the first.
func threadsOf(t *testing.T, pid int) []int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, e := range entries {
		if id, _ := strconv.Atoi(e.Name()); id != pid {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		t.Fatal("it has no threads")
	}
	return ids
}

// TestXtopFigures holds figures against the machine's.
func TestXtopFigures(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	s := x.object("system_summary", `{}`)
	if want := []string{"alerts", "cpu_avg", "disks", "hostname", "interfaces", "mem_pct", "mem_total_gb", "mem_used_gb", "processes", "uptime_secs"}; !slices.Equal(keysOf(s), want) {
		t.Errorf("%v", keysOf(s))
	}
	name, _ := os.Hostname()
	total := s["mem_total_gb"].(float64)
	if s["hostname"] != name || total <= 0 || s["mem_used_gb"].(float64) > total || s["cpu_avg"].(float64) > 100 || s["uptime_secs"].(float64) < 1 || !slices.Contains(s["interfaces"].([]any), any("lo")) {
		t.Errorf("%v", s)
	}
	text, _ := x.call("system_summary", ``)
	if !regexp.MustCompile(`^{"alerts":\d+,"cpu_avg":\d+\.\d,"disks":\d+,"hostname":".+","interfaces":\[.*\],"mem_pct":\d+,"mem_total_gb":\d+\.\d,"mem_used_gb":\d+\.\d,"processes":\d+,"uptime_secs":\d+}$`).MatchString(text) {
		t.Errorf("system_summary: %s", text)
	}
	// Every process counts, and none of its threads.
	near := func() bool {
		entries, _ := os.ReadDir("/proc")
		n := 0
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err == nil {
				n++
			}
		}
		got := int(x.object("system_summary", ``)["processes"].(float64))
		return got >= n-15 && got <= n+15
	}
	counted := false
	for try := 0; try < 5 && !counted; try++ { // others start processes meanwhile
		counted = near()
	}
	if !counted {
		t.Error("system_summary does not count the processes")
	}
	// run_time runs.
	c := target(t, "sleep", "60")
	first := x.object("process_info", fmt.Sprintf(`{"pid":%d}`, c.Process.Pid))
	time.Sleep(1100 * time.Millisecond)
	if again := x.object("process_info", fmt.Sprintf(`{"pid":%d}`, c.Process.Pid)); again["run_time"].(float64) < 1 || first["run_time"].(float64) > 30 {
		t.Errorf("run_time %v, then %v", first["run_time"], again["run_time"])
	}
}

// TestXtopExec: an exec makes another program of a process.
func TestXtopExec(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	c := exec.Command("sh", "-c", "read line; exec sleep 60")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	arguments := fmt.Sprintf(`{"pid":%d}`, c.Process.Pid)
	if before := x.object("process_info", arguments); before["name"] == "sleep" {
		t.Fatalf("%v", before)
	}
	fmt.Fprintln(in)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.Process.Pid))
		if string(comm) == "sleep\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not exec")
		}
	}
	if after := x.object("process_info", arguments); after["name"] != "sleep" || after["cmd"] != "sleep" || !strings.HasSuffix(after["exe"].(string), "sleep") && !strings.HasSuffix(after["exe"].(string), "coreutils") {
		t.Errorf("after the exec: %v", after)
	}
}

// TestXtopKill signals processes of our own, and tries what must not be hit.
func TestXtopKill(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	x := startXtop(t, h)
	c := target(t, "sleep", "60")
	kill := func(pid int) map[string]any {
		t.Helper()
		r := x.object("process_kill", fmt.Sprintf(`{"pid":%d}`, pid))
		if r["pid"] != float64(pid) || r["killed"] == false && (r["reason"] == nil || r["reason"] == "") {
			t.Errorf("process_kill %d: %v", pid, r)
		}
		return r
	}
	if r := kill(c.Process.Pid); r["killed"] != true {
		t.Errorf("%v", r)
	}
	if err := c.Wait(); err == nil || err.(*exec.ExitError).Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", err)
	}
	for name, pid := range map[string]int{"a process that is gone": c.Process.Pid, "process 1": 1, "process 0": 0, "a huge id": 4294967295, "the server": x.PID(), "its client": os.Getpid(), "the client's parent": os.Getppid()} {
		if r := kill(pid); r["killed"] != false {
			t.Errorf("%s: %v", name, r)
		}
	}
	if r := kill(threadsOf(t, bed.Play(t, bed.Burner, "1").PID())[0]); r["killed"] != false {
		t.Errorf("a thread: %v", r)
	}
	h.write(t, "policy", "confirm name=sleep because \"ask\"\n")
	if r := kill(target(t, "sleep", "61").Process.Pid); r["killed"] != false || r["outcome"] != "denied" || !strings.Contains(r["reason"].(string), "cannot ask") {
		t.Errorf("a policy that asks: %v", r)
	}
	h.write(t, "policy", "deny name=sleep because \"it is asleep\"\n")
	if r := kill(target(t, "sleep", "62").Process.Pid); r["killed"] != false || !strings.Contains(r["reason"].(string), "it is asleep") {
		t.Errorf("a policy that denies: %v", r)
	}
	log := h.audit(t)
	for _, want := range []string{`"outcome":"signalled"`, `"signal":"TERM"`, `"outcome":"denied"`, `"stage":"declined"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log does not have %s:\n%s", want, log)
		}
	}
}

// TestXtopSettings sets thresholds and the configuration, which another server
// sees at once.
func TestXtopSettings(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	x, other := startXtop(t, h), startXtop(t, h)
	say := func(x xtop, tool, arguments, want string) {
		t.Helper()
		if text, failure := x.call(tool, arguments); failure != nil || text != want {
			t.Errorf("%s %s: %s %v, want %s", tool, arguments, text, failure, want)
		}
	}
	name, _ := os.Hostname()
	say(x, "threshold_get", ``, `{"cpu":90.0,"disk":90.0,"mem":90.0}`)
	say(x, "threshold_set", `{"cpu":85,"mem":80.0,"disk":92.5}`, `{"cpu":85.0,"disk":92.5,"mem":80.0,"set":true}`)
	say(x, "threshold_set", `{"cpu":0,"mem":100,"disk":1e1,"cpu":3}`, `{"cpu":3.0,"disk":10.0,"mem":100.0,"set":true}`)
	say(other, "threshold_get", `{}`, `{"cpu":3.0,"disk":10.0,"mem":100.0}`)
	say(x, "config_get", ``, `{"hostname":"`+name+`","interval_ms":1000,"layout":"Dashboard","theme":"x"}`)
	say(x, "config_set", `{"interval_ms":2000}`, `{"interval_ms":2000,"set":true}`)
	say(x, "config_set", `{"theme":"tokio"}`, `{"set":true,"theme":"tokio"}`)
	say(x, "config_set", `{"layout":"CPU Focus"}`, `{"layout":"CPU Focus","set":true}`)
	say(x, "config_set", `{"interval_ms":"5","theme":"oslo"}`, `{"set":true,"theme":"oslo"}`)
	say(x, "config_set", `{"interval_ms":1500,"theme":"miami","layout":"Vertical"}`, `{"interval_ms":1500,"layout":"Vertical","set":true,"theme":"miami"}`)
	say(x, "config_set", `{"interval_ms":1000000000000000}`, `{"interval_ms":3600000,"reason":"interval_ms is from 100 to 3600000: 1000000000000000 became 3600000","set":true}`)
	say(x, "config_set", `{"interval_ms":0}`, `{"interval_ms":100,"reason":"interval_ms is from 100 to 3600000: 0 became 100","set":true}`)
	for _, bad := range []string{`{"theme":"nosuch"}`, `{"theme":"Miami"}`, `{"layout":"cpu focus"}`, `{"theme":""}`} {
		if r := x.object("config_set", bad); r["set"] != false || r["reason"] == nil {
			t.Errorf("config_set %s: %v", bad, r)
		}
	}
	if r := x.object("config_set", `{"theme":"paris","layout":"nosuch"}`); r["set"] != false || fmt.Sprint(r["applied"]) != "[theme]" || other.object("config_get", ``)["theme"] != "paris" {
		t.Errorf("what can be set is not set: %v", r)
	}
	say(other, "config_get", ``, `{"hostname":"`+name+`","interval_ms":100,"layout":"Vertical","theme":"paris"}`)
}

// TestXtopAlerts: there are alerts at the first call.
func TestXtopAlerts(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	alerts := x.list("process_alerts", ``)
	if len(alerts) > 50 {
		t.Errorf("%d alerts", len(alerts))
	}
	rank := map[any]int{"Critical": 0, "Warning": 1, "Info": 2}
	for i, a := range alerts {
		for _, key := range []string{"message", "pid", "process", "rule", "severity", "first_seen", "evidence"} {
			if a[key] == nil {
				t.Errorf("an alert without %s: %v", key, a)
			}
		}
		if i > 0 && rank[a["severity"]] < rank[alerts[i-1]["severity"]] {
			t.Errorf("the alerts are not sorted by severity: %v", alerts)
		}
	}
	s := x.object("alerts_status", ``)
	if want := []string{"alerts", "critical", "info", "total", "warning"}; !slices.Equal(keysOf(s), want) || len(s["alerts"].([]any)) > 5 || s["critical"].(float64)+s["warning"].(float64)+s["info"].(float64) != s["total"].(float64) {
		t.Errorf("alerts_status: %v", s)
	}
}

// TestXtopFindsAtOnce: a program that runs from memory is found by the first
// call of a server that starts after it.
func TestXtopFindsAtOnce(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("/dev/shm", "steer-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "sleep")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	c := target(t, path, "60")
	x := startXtop(t, newHome(t))
	alerts := x.list("process_alerts", ``)
	if !slices.ContainsFunc(alerts, func(a map[string]any) bool {
		return a["rule"] == "suspicious_exe_path" && a["pid"] == float64(c.Process.Pid)
	}) {
		t.Errorf("a program in /dev/shm is not found: %v", alerts)
	}
}

// TestXtopStatus follows plugin_status.
func TestXtopStatus(t *testing.T) {
	t.Parallel()
	x := startXtop(t, newHome(t))
	status := func(result string, ticks int) {
		t.Helper()
		s := x.object("plugin_status", ``)
		if want := []string{"active_alerts", "critical_alerts", "enabled", "last_action", "last_result", "ticks"}; !slices.Equal(keysOf(s), want) {
			t.Errorf("%v", keysOf(s))
		}
		if s["enabled"] != true || s["last_action"] != "plugin.status()" || s["ticks"] != float64(ticks) || !regexp.MustCompile(`^`+result+`$`).MatchString(s["last_result"].(string)) {
			t.Errorf("%v, want last_result %s and %d ticks", s, result, ticks)
		}
	}
	status("", 1)
	text, _ := x.call("threshold_get", ``)
	status(fmt.Sprintf(`ok \(%d chars\)`, len(text)), 3)
	x.call("processes_top", `{"count":0}`)
	status("error: count must be > 0", 5)
	x.call("process_info", `{}`) // did not get as far as a tick
	x.call("nope", `{}`)
	status(`ok \(\d+ chars\)`, 6)
	x.call("config_set", `{"interval_ms":-1}`) // is not remembered
	status(`ok \(\d+ chars\)`, 8)
	if r := x.object("process_info", `{"pid":1}`); !reflect.DeepEqual(r["pid"], 1.0) {
		t.Errorf("%v", r)
	}
}

// TestXtopBrokenConfiguration: a configuration that cannot be used is told once on
// stderr, and by the tools that show it; nothing of it is lost.
func TestXtopBrokenConfiguration(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, "config.json", "null")
	x := startXtop(t, h)
	for _, tool := range []string{"config_get", "threshold_get"} {
		if r := x.object(tool, ``); !strings.Contains(fmt.Sprint(r["problem"]), "one JSON object") {
			t.Errorf("%s: %v", tool, r)
		}
	}
	if r := x.object("config_set", `{"theme":"oslo"}`); r["set"] != true || !strings.Contains(fmt.Sprint(r["reason"]), "this server only") {
		t.Errorf("config_set: %v", r)
	}
	if r := x.object("threshold_set", `{"cpu":1,"mem":2,"disk":3}`); r["set"] != true || r["reason"] == nil {
		t.Errorf("threshold_set: %v", r)
	}
	if data, err := os.ReadFile(filepath.Join(string(h), ".config", "topside", "config.json")); string(data) != "null" || err != nil {
		t.Errorf("the file is %q, %v", data, err)
	}
	if n := strings.Count(x.Stderr(), "one JSON object"); n != 1 {
		t.Errorf("it is told %d times on stderr: %s", n, x.Stderr())
	}
}

// TestCallsOfContracts: topside call reaches the tools of the contracts that have
// programs of their own.
func TestCallsOfContracts(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	run := func(args ...string) (string, int) {
		t.Helper()
		c := exec.Command(bed.Binary(), append([]string{"call"}, args...)...)
		c.Env, c.Dir = append(os.Environ(), h.variables()...), string(h)
		out := bed.RunCommand(t, c)
		return out.Stdout + out.Stderr, out.Status
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--surface", "xtop", "--list"}, 0, "plugin_status"},
		{[]string{"--surface", "xtop", "threshold_get"}, 0, `{"cpu":90.0,"disk":90.0,"mem":90.0}`},
		{[]string{"--surface", "xtop", "config_set", "theme=oslo", "--json-output"}, 0, `"set": true`},
		{[]string{"--surface", "xtop", "process_info"}, 2, "missing required argument: pid"},
		{[]string{"--surface", "xtop", "processes_search", "pattern=("}, 1, "invalid regex: "},
		{[]string{"--surface", "topup", "--list"}, 0, "eval_batch"},
		{[]string{"--surface", "other", "--list"}, 2, "topside, wsltop, xtop or topup"},
	} {
		if text, status := run(c.args...); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%v: status %d, %s", c.args, status, text)
		}
	}
}
