package tool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"topside/internal/see"
	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/display"
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
		got, _ := asJSON(t, w.row(o, c, x.r, display.Whole))
		if withoutIDs(got) != x.want {
			t.Errorf("%s:\n got %s\nwant %s", name, withoutIDs(got), x.want)
		}
	}
	if row := (&wsltop{options: WsltopOptions{ShowSecrets: true}}).row(o, c, byPID(t, c, 4242), display.Whole); !strings.Contains(row.Usage.Args, "hunter2") {
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
	w := rowWriter{o, c, false, listedLengths[0]}
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
	w := rowWriter{o, c, false, listedLengths[1]}
	row := w.row(byPID(t, c, 4242))
	if n := len([]rune(row.Usage.Args)); n != listedLengths[1].args || !row.Usage.ArgsCut || !strings.HasSuffix(row.Usage.Args, "…") {
		t.Errorf("%d characters, cut %v: %s", n, row.Usage.ArgsCut, row.Usage.Args)
	}
}

// listed lists rows of a world as the tool does.
func listed(t testing.TB, o *model.Observation, limit, offset int) (listing, []byte) {
	t.Helper()
	from := &lister{observation: o, catalogue: catalogue(t, o, resource.Flavour{})}
	from.rows, _ = newBook[rowKey, written](nil)
	from.lines, _ = newBook[rowKey, string](nil)
	l, found := from.found(resource.Query{Limit: limit}, offset)
	l.Snapshot = snapshotMeta{ID: "0123456789abcdef", Warnings: warningsOf(o.Warnings)}
	if err := from.fill(&l, found); err != nil {
		t.Fatal(err)
	}
	encoded, err := l.encode()
	if err != nil {
		t.Fatal(err)
	}
	return l, encoded
}

// TestListBudget lists 30 processes with long names, arguments and parents, and
// with warnings: the list has room for them, and what is cut says so.
func TestListBudget(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"options": {"/opt/application/bin/some-long-worker-name", strings.Repeat("--option=value ", 20)},
		"titles":  {strings.Repeat("a long title: ", 20), strings.Repeat("--option=value ", 20)},
		"quotes":  {strings.Repeat(`"\`, 200), strings.Repeat(`"\`, 200)},
		"wide":    {strings.Repeat("漢", 200), strings.Repeat("漢", 3000)},
	} {
		o := world()
		for i := range int32(40) {
			p := process(1000000+i, 999999, model.Known(99.99), 1<<40, 1, strings.Repeat("www-data", 3), args...)
			p.CPUSeconds = 123456.78
			o.Processes = append(o.Processes, p)
		}
		for range 3 {
			o.Warnings = append(o.Warnings, strings.Repeat("w", 300))
		}
		l, encoded := listed(t, o, 30, 0)
		if n := utf8.RuneCount(encoded); n > listBudget || l.Returned != len(l.Data) || l.Returned+l.LeftOut != l.Matched || l.NextOffset != l.Returned {
			t.Errorf("%s: %d rows have %d characters: %+v", name, l.Returned, n, l.Snapshot)
		}
		if l.Returned < 30 && (l.Cut == "" || l.Returned < 20) {
			t.Errorf("%s: %d rows, cut %q", name, l.Returned, l.Cut)
		}
		if text := l.text(Call{}); utf8.RuneCountInString(text) > listBudget/2 {
			t.Errorf("%s: the text has %d characters", name, len(text))
		}
		var rows struct{ Data []row }
		if err := json.Unmarshal(encoded, &rows); err != nil || !rows.Data[0].Usage.ArgsCut || name != "options" && !rows.Data[0].Usage.NameCut {
			t.Errorf("%s: %v, a cut is not marked: %+v", name, err, rows.Data[0].Usage)
		}
	}
}

// TestOffset pages through a list and sees every row once.
func TestOffset(t *testing.T) {
	t.Parallel()
	o := world()
	seen := map[string]bool{}
	for offset, pages := 0, 0; ; pages++ {
		l, encoded := listed(t, o, 2, offset)
		var rows struct{ Data []row }
		if err := json.Unmarshal(encoded, &rows); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows.Data {
			if seen[r.Usage.ID] {
				t.Errorf("%s is on two pages", r.Usage.ID)
			}
			seen[r.Usage.ID] = true
		}
		if l.Offset+l.Returned+l.LeftOut != l.Matched || (l.LeftOut > 0) != (l.NextOffset > 0) || pages > 9 {
			t.Fatalf("%+v", l)
		}
		if l.LeftOut == 0 {
			break
		}
		if text := l.text(Call{}); !strings.Contains(text, fmt.Sprintf("offset=%d goes on", l.NextOffset)) {
			t.Error(text)
		}
		offset = l.NextOffset
	}
	if len(seen) != 7 {
		t.Errorf("%d rows of 7", len(seen))
	}
	if l, _ := listed(t, o, 2, 1<<31-1); l.Returned != 0 || l.LeftOut != 0 || l.Matched != 7 {
		t.Errorf("behind the end: %+v", l)
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
	w := rowWriter{o, c, false, inspectedLengths}
	descriptors := 42
	d := &see.Details{
		Descriptors: &descriptors,
		Limits:      map[string]proc.Limit{"Max open files": {Soft: 1024, HardUnlimited: true, Unit: "files"}, "Max cpu time": {SoftUnlimited: true, HardUnlimited: true}},
		Absent:      map[string]proc.Reason{"status": proc.Vanished},
	}
	i := w.inspection(byPID(t, c, 4242), d, 100)
	encoded, _ := asJSON(t, i)
	for _, part := range []string{
		`"args":"-O2 --password [redacted] source.cc"`, `"program":"/usr/lib/cc1plus"`, `"unlimited":["cpu_time"]`,
		`"state":"uninterruptible sleep","threads":12`, `"open_descriptors":42`, `"executable_deleted":true`,
		`"age_seconds":957.6`, `"limits":{"open_files":{"soft":1024,"hard_unlimited":true,"unit":"files"}}`,
		`"absent":{"io":"no permission","status":"vanished while being read","working_directory":"no permission"}`,
	} {
		if !strings.Contains(encoded, part) {
			t.Errorf("no %s in\n%s", part, encoded)
		}
	}
	if text := i.text(snapshotMeta{}); !strings.Contains(text, "cc1plus -O2") || !strings.Contains(text, `"open_descriptors":42`) || !strings.Contains(text, "no permission") {
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
	g.Usage.Missing[cgroup.FigurePIDsLimit] = proc.NoPermission
	g.Info = &container.Info{Names: []string{"web"}, Image: "https://user:hunter2@registry/nginx:1.27\x1b[31m", State: "running", Summary: "Up 2 hours",
		Labels: map[string]string{"db.password": "hunter2", "owner": "ops\u202e", "url": "http://u:hunter2@h/"}}
	for n := range 60 {
		g.Info.Labels[fmt.Sprintf("z%02d", n)] = "v"
	}
	c := catalogue(t, o, resource.Flavour{})
	w := rowWriter{o, c, false, inspectedLengths}
	i := w.inspection(byKind(t, c, resource.Container), nil, 100)
	encoded, _ := asJSON(t, i)
	for _, part := range []string{
		`"name":"web"`, `"full_id":"` + webID + `"`, `"image":"https://user:[redacted]@registry/nginx:1.27"`, `"unlimited":["cpu","memory"]`, `"status":"Up 2 hours"`, `"db.password":"[redacted]"`, `"owner":"ops"`, `"url":"http://u:[redacted]@h/"`,
		`"labels_left_out":23`, `"current_bytes":1000,"inactive_file_bytes":400`, `"oom_kills":3`, `"throttled_periods_percent":12.3`, `"absent":{"io":"not supported by this kernel","pids_limit":"no permission"}`,
	} {
		if !strings.Contains(encoded, part) {
			t.Errorf("no %s in\n%s", part, encoded)
		}
	}
	if strings.Contains(encoded, "hunter2") {
		t.Errorf("a secret came through: %s", encoded)
	}
}

// What one resource has is whole, or marked.
func TestInspectionIsWhole(t *testing.T) {
	t.Parallel()
	unit := strings.Repeat("u", 200) + ".service"
	o := world()
	o.Groups[1].Placement.Unit = unit
	o.Processes[1].Facts.Placement.Unit = unit
	long := strings.Repeat("漢", 3000)
	o.Processes[2].Facts.Args = []string{"/usr/bin/x", long, "ENDMARK"}
	c := catalogue(t, o, resource.Flavour{})
	w := rowWriter{o, c, false, inspectedLengths}
	if i := w.inspection(byKind(t, c, resource.Application), nil, 100); i.Usage.Name != unit || i.Details.Unit != unit || i.Usage.NameCut {
		t.Errorf("a unit: %+v", i.Usage)
	}
	if i := w.inspection(byPID(t, c, 700), nil, 100); i.Details.Unit != unit {
		t.Errorf("a process of it: %+v", i.Details)
	}
	if i := w.inspection(byPID(t, c, 4242), nil, 100); i.Usage.Args != long+" ENDMARK" || i.Usage.ArgsCut {
		t.Errorf("arguments that fit are cut: %v, …%s", i.Usage.ArgsCut, i.Usage.Args[len(i.Usage.Args)-20:])
	}
	o.Processes[2].Facts.Args[1] = strings.Repeat(long, 4)
	if i := w.inspection(byPID(t, c, 4242), nil, 100); !i.Usage.ArgsCut || !strings.HasSuffix(i.Usage.Args, "…") {
		t.Errorf("a cut is not marked: %v", i.Usage.ArgsCut)
	}
	w.lengths = listedLengths[0]
	if row := w.row(byKind(t, c, resource.Application)); !row.Usage.NameCut || !strings.HasSuffix(row.Usage.Name, "…") {
		t.Errorf("a cut name is not marked: %+v", row.Usage)
	}
}

// A process with a title of its own has no arguments but those behind it.
func TestArgsAreBehindTheProgram(t *testing.T) {
	t.Parallel()
	o := world()
	c := catalogue(t, o, resource.Flavour{})
	list, inspect := rowWriter{o, c, false, listedLengths[0]}, rowWriter{o, c, false, inspectedLengths}
	for pid, want := range map[int32]string{1: "", 700: "", 4242: "-O2 --password [redacted] source.cc", 6000: ""} {
		r := byPID(t, c, pid)
		if row, i := list.row(r), inspect.inspection(r, nil, 100); row.Usage.Args != want || i.Usage.Args != want {
			t.Errorf("%d: listed %q, inspected %q, want %q", pid, row.Usage.Args, i.Usage.Args, want)
		}
	}
}

// More inactive cache than usage is no zero.
func TestOvercountedMemory(t *testing.T) {
	t.Parallel()
	o := world()
	current, inactive := uint64(1000), uint64(1400)
	o.Groups[0].Usage = cgroup.Usage{MemoryCurrent: &current, MemoryInactiveFile: &inactive}
	o.Groups[0].Memory = model.Known(0)
	c := catalogue(t, o, resource.Flavour{})
	w := rowWriter{o, c, false, listedLengths[0]}
	if row := w.row(byKind(t, c, resource.Container)); row.Usage.MemoryBytes != nil || !strings.Contains(row.Absent["memory_bytes"], "inactive file cache") {
		t.Errorf("%+v %v", row.Usage, row.Absent)
	}
}

// The contract has the whole command line, up to what is read of it.
func TestWsltopArgsAreWhole(t *testing.T) {
	t.Parallel()
	o := world()
	o.Processes[2].Facts.Args = []string{"/usr/bin/x", strings.Repeat("y", 100_000), "ENDMARK"}
	c := catalogue(t, o, resource.Flavour{WSL: true, ShowSecrets: true})
	w := &wsltop{options: WsltopOptions{ShowSecrets: true}}
	r := byPID(t, c, 4242)
	if row := w.row(o, c, r, display.Whole); !strings.HasSuffix(row.Usage.Args, " ENDMARK") || row.Usage.ArgsTruncated {
		t.Errorf("%d characters, truncated %v", len(row.Usage.Args), row.Usage.ArgsTruncated)
	}
	o.Processes[2].Facts.Args[1] = strings.Repeat("y", display.Whole)
	if row := w.row(o, c, r, display.Whole); !row.Usage.ArgsTruncated {
		t.Error("a line longer than what is read is not marked")
	}
	if n := argsLengthOf([]*resource.Resource{r}); n != display.Whole {
		t.Error(n)
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	list := SeeTools(nil, false)[1]
	for arguments, want := range map[string]string{
		`{}`: "a newer snapshot", `{"name_contains":"X"}`: "case-sensitive", `{"unit":"x"}`: "must be given whole",
	} {
		call, err := CheckLenient(list, json.RawMessage(arguments))
		if err != nil || !strings.Contains(hintOf(call, ""), want) {
			t.Errorf("%s: %q, %v", arguments, hintOf(call, ""), err)
		}
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
	}{{"hunter2", false, 0}, {"hunter2", true, 2}, {"hunt", false, 0}, {"password", false, 1}, {`source\.cc`, false, 1}, {"^cc1", false, 1}, {".", false, c.Len()}, {`redacted`, false, 2}, {`mysql -p`, false, 1}} {
		q := resource.Query{Match: regexp.MustCompile(x.match), Limit: 1}
		lines, _ := newBook[rowKey, string](nil)
		rows, matched, _ := find(c, q, x.showSecrets, lines)
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
		l.Data = append(l.Data, written{json: row, characters: len(row)})
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
	if len(encoded) > 40_000 || got.Returned != len(got.Data) || got.Returned == 0 || got.Returned+got.LeftOut != 1200 || !strings.Contains(got.Cut, fmt.Sprintf("offset=%d goes on", got.Returned)) {
		t.Errorf("%d bytes, %d rows, returned %d, left out %d, cut %q", len(encoded), len(got.Data), got.Returned, got.LeftOut, got.Cut)
	}
	empty := listing{}
	if encoded, err := empty.encode(); err != nil || !strings.HasSuffix(string(encoded), `,"data":[]}`) {
		t.Errorf("an empty list: %s, %v", encoded, err)
	}
}

// A book that is full starts anew rather than grow.
func TestABookIsBounded(t *testing.T) {
	t.Parallel()
	b, _ := newBook[string, int](nil)
	for i := range 3 * keptLists {
		b.bound(keptLists)
		if got, err := b.of(fmt.Sprint(i), func() (int, error) { return i, nil }); got != i || err != nil {
			t.Fatal(got, err)
		}
		if len(b.kept) > keptLists {
			t.Fatalf("%d are kept", len(b.kept))
		}
	}
}
