package tool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"topside/internal/see"
	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/resource"
)

var anID = regexp.MustCompile(`("resource_id":|"parent_ids":\[)"[A-Za-z0-9_-]{12}"`)

// withoutIDs puts ID where ids are, which are random.
func withoutIDs(s string) string { return anID.ReplaceAllString(s, `$1"ID"`) }

func byPID(t testing.TB, c *resource.Catalogue, pid int32) *resource.Resource {
	t.Helper()
	r, ok := c.ByPID(pid)
	if !ok {
		t.Fatalf("no process %d", pid)
	}
	return r
}

func byKind(t testing.TB, c *resource.Catalogue, kind resource.Kind) *resource.Resource {
	t.Helper()
	all := c.All()
	for i := range all {
		if all[i].Kind == kind {
			return &all[i]
		}
	}
	t.Fatalf("no %s", kind)
	return nil
}

// The contract's three styles of absence: pid is null for what is no process,
// source, ppid, args and the CPU time are left out, cores_used is null.
func TestWsltopRows(t *testing.T) {
	t.Parallel()
	o := world()
	c := catalogue(t, o, resource.Flavour{WSL: true})
	w := &wsltop{}
	for name, x := range map[string]struct {
		r    *resource.Resource
		want string
	}{
		"process": {byPID(t, c, 4242), `{"resource_id":"ID","parent_ids":[],"cores_used":1,"usage":{"environment":"wsl","kind":"process","id":"4242","pid":4242,"ppid":700,` +
			`"name":"cc1plus","args":"/usr/lib/cc1plus -O2 --password [redacted] source.cc","cpu_percent":6.25,"cpu_time_seconds":12.35,"memory_bytes":419430400}}`},
		"container": {byKind(t, c, resource.Container), `{"resource_id":"ID","parent_ids":[],"cores_used":1.6,"usage":{"environment":"docker","kind":"container","id":"` + webID + `","pid":null,` +
			`"name":"` + webID[:12] + `","cpu_percent":10,"memory_bytes":913309696}}`},
		"process in a container": {byPID(t, c, 5000), `{"resource_id":"ID","parent_ids":["ID"],"cores_used":1.52,"usage":{"environment":"docker","source":"` + webID + `","kind":"process","id":"` + webID + `:5000","pid":5000,"ppid":1,` +
			`"name":"mysql","args":"/usr/bin/mysql -p[redacted]","cpu_percent":9.5,"cpu_time_seconds":12.35,"memory_bytes":209715200}}`},
		"unknown CPU": {byPID(t, c, 6000), `{"resource_id":"ID","parent_ids":[],"cores_used":null,"usage":{"environment":"wsl","kind":"process","id":"6000","pid":6000,"ppid":2,` +
			`"name":"kworker/0:1","cpu_percent":null,"cpu_time_seconds":12.35,"memory_bytes":0}}`},
	} {
		got, _ := asJSON(t, w.row(o, c, x.r))
		if withoutIDs(got) != x.want {
			t.Errorf("%s:\n got %s\nwant %s", name, withoutIDs(got), x.want)
		}
	}
	if row := (&wsltop{options: WsltopOptions{ShowSecrets: true}}).row(o, c, byPID(t, c, 4242)); !strings.Contains(row.Usage.Args, "hunter2") {
		t.Errorf("secrets are hidden on request too: %s", row.Usage.Args)
	}
	// The exact product: 3 % of 16 CPUs.
	if v := cores(model.Known(3), 16); *v != 0.48 {
		t.Errorf("3 %% of 16 are %v CPUs", *v)
	}
	if cores(model.Known(3), 0) != nil || cores(model.Known(-1), 16) != nil {
		t.Error("cores without CPUs, or of a negative share")
	}
}

func TestUnitedRows(t *testing.T) {
	t.Parallel()
	o := world()
	c := catalogue(t, o, resource.Flavour{})
	w := rowWriter{o, c, false, argsOfFewRows}
	for name, x := range map[string]struct {
		r    *resource.Resource
		want string
	}{
		"process": {byPID(t, c, 4242), `{"resource_id":"ID","parent_ids":[],"cores_used":1,"usage":{"environment":"linux","kind":"process","id":"4242","pid":4242,"ppid":700,` +
			`"name":"cc1plus","args":"-O2 --password [redacted] source.cc","user":"bob","state":"S","cpu_percent":6.25,"cpu_time_seconds":12.3,"memory_bytes":419430400}}`},
		"process of a unit": {byPID(t, c, 700), `{"resource_id":"ID","parent_ids":["ID"],"cores_used":0.08,"usage":{"environment":"linux","kind":"process","id":"700","pid":700,"ppid":1,` +
			`"name":"sshd: /usr/sbin/sshd -D","user":"root","state":"S","cpu_percent":0.5,"cpu_time_seconds":12.3,"memory_bytes":8388608}}`},
		"kernel task without a rate": {byPID(t, c, 6000), `{"resource_id":"ID","parent_ids":[],"usage":{"environment":"linux","kind":"process","id":"6000","pid":6000,"ppid":2,` +
			`"name":"kworker/0:1","kernel":true,"user":"root","state":"S","cpu_time_seconds":12.3,"memory_bytes":0},"absent":{"cpu_percent":"no earlier sample of it to compare with"}}`},
		"process in a container, no permission": {byPID(t, c, 5000), `{"resource_id":"ID","parent_ids":["ID"],"cores_used":1.52,"usage":{"environment":"docker","source":"9c41aa000000","kind":"process","id":"5000","pid":5000,"ppid":1,` +
			`"name":"mysql","args":"-p[redacted]","state":"S","cpu_percent":9.5,"cpu_time_seconds":12.3,"memory_bytes":209715200},"absent":{"user":"no permission"}}`},
		"container": {byKind(t, c, resource.Container), `{"resource_id":"ID","parent_ids":[],"cores_used":1.6,"usage":{"environment":"docker","kind":"container","id":"9c41aa000000","name":"9c41aa000000",` +
			`"cpu_percent":10,"memory_bytes":913309696,"processes":1}}`},
		"unit": {byKind(t, c, resource.Application), `{"resource_id":"ID","parent_ids":[],"cores_used":0.08,"usage":{"environment":"linux","kind":"application","id":"ssh.service","name":"ssh.service",` +
			`"cpu_percent":0.5,"memory_bytes":8388608,"processes":1}}`},
	} {
		got, _ := asJSON(t, w.row(x.r))
		if withoutIDs(got) != x.want {
			t.Errorf("%s:\n got %s\nwant %s", name, withoutIDs(got), x.want)
		}
	}
}

func TestArgsAreCutAndSaySo(t *testing.T) {
	t.Parallel()
	o := world()
	o.Processes[2].Facts.Args = []string{"/usr/bin/java", strings.Repeat("x", 1<<20), "--password", "hunter2"}
	c := catalogue(t, o, resource.Flavour{})
	w := rowWriter{o, c, false, argsOfMany}
	row := w.row(byPID(t, c, 4242))
	if n := len([]rune(row.Usage.Args)); n != argsOfMany || !row.Usage.ArgsCut || !strings.HasSuffix(row.Usage.Args, "…") {
		t.Errorf("%d characters, cut %v: %s", n, row.Usage.ArgsCut, row.Usage.Args)
	}
}

// TestListBudget lists 30 processes with long names, arguments and parents.
func TestListBudget(t *testing.T) {
	t.Parallel()
	o := world()
	for i := range int32(40) {
		p := process(1000000+i, 999999, model.Known(99.99), 1<<40, 1, "www-data", "/opt/application/bin/some-long-worker-name", strings.Repeat("--option=value ", 20))
		p.CPUSeconds = 123456.78
		o.Processes = append(o.Processes, p)
	}
	c := catalogue(t, o, resource.Flavour{})
	w := rowWriter{o, c, false, listedArgs(30)}
	found, matched := c.Query(resource.Query{Limit: 30})
	l := listing{Snapshot: snapshotMeta{ID: "0123456789abcdef", Warnings: []string{}}, Matched: matched, Returned: 30}
	for _, r := range found {
		row, err := w.written(r)
		if err != nil {
			t.Fatal(err)
		}
		l.Data = append(l.Data, row)
	}
	encoded, err := l.encode()
	if err != nil || len(encoded) > listBudget {
		t.Errorf("30 rows have %d characters, more than %d: %v", len(encoded), listBudget, err)
	}
	if text := l.text(Call{}); len(text) > listBudget/2 || strings.Count(text, "\n") != 33 {
		t.Errorf("the text has %d characters in %d lines", len(text), strings.Count(text, "\n"))
	}
}

func TestInspectProcess(t *testing.T) {
	t.Parallel()
	o := world()
	o.System.Uptime = 1000 * time.Second
	p := &o.Processes[2]
	p.State, p.Threads, p.IOAbsent = 'D', 12, proc.NoPermission
	p.Facts.Executable, p.Facts.Deleted = "/usr/lib/cc1plus", true
	p.Facts.Absent = map[string]proc.Reason{"directory": proc.NoPermission}
	c := catalogue(t, o, resource.Flavour{})
	w := rowWriter{o, c, false, longestArgs}
	descriptors := 42
	d := &see.Details{
		Descriptors: &descriptors,
		Limits:      map[string]proc.Limit{"Max open files": {Soft: 1024, HardUnlimited: true, Unit: "files"}, "Max cpu time": {SoftUnlimited: true, HardUnlimited: true}},
		Absent:      map[string]proc.Reason{"status": proc.Vanished},
	}
	i := w.inspection(byPID(t, c, 4242), d, 100)
	encoded, _ := asJSON(t, i)
	for _, part := range []string{
		`"args":"/usr/lib/cc1plus -O2 --password [redacted] source.cc"`,
		`"state":"uninterruptible sleep","threads":12`, `"open_descriptors":42`, `"executable_deleted":true`,
		`"age_seconds":957.6`, `"limits":{"open_files":{"soft":1024,"unit":"files"}}`,
		`"absent":{"io":"no permission","status":"vanished while being read","working_directory":"no permission"}`,
	} {
		if !strings.Contains(encoded, part) {
			t.Errorf("no %s in\n%s", part, encoded)
		}
	}
	if text := i.text(snapshotMeta{}); !strings.Contains(text, "cc1plus") || !strings.Contains(text, `"open_descriptors":42`) || !strings.Contains(text, "no permission") {
		t.Errorf("the text is not enough:\n%s", text)
	}
	if encoded, _ := asJSON(t, w.inspection(byPID(t, c, 4242), nil, 0)); !strings.Contains(encoded, `"descriptors":"not read"`) || !strings.Contains(encoded, `"started_at":"the time since boot is unknown"`) {
		t.Errorf("absent details are not named: %s", encoded)
	}
}

func TestInspectContainer(t *testing.T) {
	t.Parallel()
	o := world()
	current, inactive, kills := uint64(1000), uint64(400), uint64(3)
	g := &o.Groups[0]
	g.Usage = cgroup.Usage{MemoryCurrent: &current, MemoryInactiveFile: &inactive, OOMKills: &kills, Missing: map[string]proc.Reason{cgroup.FigureIO: proc.Unsupported}}
	g.Throttled = model.Known(12.34)
	g.Info = &container.Info{Names: []string{"web"}, Image: "nginx:1.27\x1b[31m", State: "running", Summary: "Up 2 hours",
		Labels: map[string]string{"db.password": "hunter2", "owner": "ops\u202e", "url": "http://u:hunter2@h/"}}
	for n := range 60 {
		g.Info.Labels[fmt.Sprintf("z%02d", n)] = "v"
	}
	c := catalogue(t, o, resource.Flavour{})
	w := rowWriter{o, c, false, longestArgs}
	i := w.inspection(byKind(t, c, resource.Container), nil, 100)
	encoded, _ := asJSON(t, i)
	for _, part := range []string{
		`"name":"web"`, `"full_id":"` + webID + `"`, `"image":"nginx:1.27"`, `"status":"Up 2 hours"`, `"db.password":"[redacted]"`, `"owner":"ops"`, `"url":"http://u:[redacted]@h/"`,
		`"labels_left_out":23`, `"current_bytes":1000,"inactive_file_bytes":400`, `"oom_kills":3`, `"throttled_periods_percent":12.3`, `"absent":{"io":"not supported by this kernel"}`,
	} {
		if !strings.Contains(encoded, part) {
			t.Errorf("no %s in\n%s", part, encoded)
		}
	}
	if strings.Contains(encoded, "hunter2") {
		t.Errorf("a secret came through: %s", encoded)
	}
}

func TestShortID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		webID: webID[:12], webID + ":7": webID[:12] + ":7", "4242": "4242", "": "", "ssh.service": "ssh.service",
		strings.Repeat("z", 64): strings.Repeat("z", 64),
	} {
		if got := shortID(id); got != want {
			t.Errorf("shortID(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	if got := warningsOf(nil); got == nil || len(got) != 0 {
		t.Errorf("no warnings became %#v, which is no empty array", got)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = "\x1b[31m" + strings.Repeat("w", 5000)
	}
	got := warningsOf(many)
	if len(got) != shownWarnings+1 || got[shownWarnings] != "980 more warnings were left out" || len([]rune(got[0])) != warningLength || strings.Contains(got[0], "\x1b") {
		t.Errorf("%d warnings, the last %q", len(got), got[len(got)-1])
	}
}

// A secret that is hidden in replies is not found by a filter either.
func TestMatchDoesNotTellSecrets(t *testing.T) {
	t.Parallel()
	o := world()
	c := catalogue(t, o, resource.Flavour{})
	for _, x := range []struct {
		match       string
		showSecrets bool
		want        int
	}{{"hunter2", false, 0}, {"hunter2", true, 2}, {"hunt", false, 0}, {"password", false, 1}, {`source\.cc`, false, 1}, {"^cc1", false, 1}, {".", false, c.Len()}} {
		q := resource.Query{Match: regexp.MustCompile(x.match), Limit: 1}
		rows, matched := find(c, q, x.showSecrets)
		if matched != x.want || len(rows) != min(1, x.want) {
			t.Errorf("%+v: %d matched, %d returned", x, matched, len(rows))
		}
	}
}

// A list that would be too long for a client ends early, and says so.
func TestALongListIsCut(t *testing.T) {
	t.Parallel()
	l := listing{Matched: 1200, Returned: 1000, LeftOut: 200}
	for range 1000 {
		row, err := marshal(row{ID: "abcdefghijkl", ParentIDs: []string{}, Usage: usage{Name: strings.Repeat("n", 100)}})
		if err != nil {
			t.Fatal(err)
		}
		l.Data = append(l.Data, written{json: row})
	}
	encoded, err := l.encode()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Matched, Returned int
		LeftOut           int `json:"left_out"`
		Cut               string
		Data              []row
	}
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	if len(encoded) > 40_000 || got.Returned != len(got.Data) || got.Returned == 0 || got.Returned+got.LeftOut != 1200 || got.Cut == "" {
		t.Errorf("%d bytes, %d rows, returned %d, left out %d, cut %q", len(encoded), len(got.Data), got.Returned, got.LeftOut, got.Cut)
	}
	empty := listing{}
	if encoded, err := empty.encode(); err != nil || !strings.HasSuffix(string(encoded), `,"data":[]}`) {
		t.Errorf("an empty list: %s, %v", encoded, err)
	}
}
