package resource

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"topside/internal/see/container"
	"topside/internal/see/model"
	"topside/internal/see/sample"
)

// world is a machine with a unit, a container of docker inside another unit,
// one of podman, and a pod.
func world() *model.Observation {
	unit := func(name, path string) container.Attribution {
		return container.Attribution{Runtime: container.Systemd, Unit: name, UnitPath: path, Path: path}
	}
	group := func(key string, isContainer bool, parent int, a container.Attribution) model.Group {
		return model.Group{Group: &sample.Group{Key: key, Container: isContainer, Placement: a, Parent: parent}}
	}
	o := &model.Observation{CPUs: 16, Groups: []model.Group{
		group("u1", false, -1, unit("cron.service", "/system.slice/cron.service")),
		group("c1", true, 2, container.Attribution{Runtime: container.Docker, ContainerID: "aaaabbbbcccc"}),
		group("u2", false, -1, unit("web.service", "/system.slice/web.service")),
		group("c2", true, -1, container.Attribution{Runtime: container.Podman, ContainerID: "ddddeeee"}),
		group("c3", true, 5, container.Attribution{Runtime: container.Containerd, ContainerID: "ffff0000", PodUID: "pod-1"}),
		group("p1", false, -1, container.Attribution{Runtime: container.Kubernetes, PodUID: "pod-1"}),
	}}
	o.Groups[1].Info = &container.Info{Names: []string{"shop"}}
	add := func(pid int32, group int, user string, cpu, rss float64, args ...string) {
		o.Processes = append(o.Processes, model.Process{
			Process: &sample.Process{PID: pid, StartTicks: uint64(pid), RSS: uint64(rss), Facts: &sample.Facts{Comm: "comm", Args: args, User: user, UID: uint32(pid), UIDKnown: true}},
			CPU:     model.Known(cpu), Group: group,
		})
	}
	add(1, -1, "root", 0, 10, "/sbin/init")
	add(2, 0, "root", 3, 20, "/usr/sbin/cron", "-f")
	add(3, 1, "www", 5, 30, "nginx: worker process")
	add(4, 3, "www", 5, 40, "redis-server", "*:6379")
	add(5, 4, "kate", 1, 50, "/opt/app", "--token", "x")
	o.Processes = append(o.Processes, model.Process{Process: &sample.Process{PID: 6, Kernel: true, Facts: &sample.Facts{Comm: "kworker/0:1"}}, Group: -1, Newborn: true})
	return o
}

func build(t testing.TB, o *model.Observation, f Flavour) *Catalogue {
	t.Helper()
	c, err := Build(o, f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func names(rows []*Resource) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.Name
	}
	return out
}

func find(t testing.TB, c *Catalogue, name string) *Resource {
	t.Helper()
	rows, _ := c.Query(Query{NameContains: name, Limit: 1})
	if len(rows) == 0 {
		t.Fatalf("no resource named %q", name)
	}
	return rows[0]
}

func TestHierarchy(t *testing.T) {
	t.Parallel()
	c := build(t, world(), Flavour{})
	for child, parent := range map[string]string{
		"cron": "cron.service", "nginx: worker process": "shop", "shop": "web.service", "redis-server": "ddddeeee", "app": "ffff0000", "ffff0000": "pod pod-1",
	} {
		got := c.Parents(find(t, c, child))
		if len(got) != 1 || got[0].Name != parent {
			t.Errorf("parents of %s: %v, want %s", child, names(got), parent)
		}
	}
	for _, root := range []string{"init", "kworker/0:1", "cron.service"} {
		if got := c.Parents(find(t, c, root)); len(got) != 0 {
			t.Errorf("parents of %s: %v, want none", root, names(got))
		}
	}
	if got := names(c.Children(find(t, c, "web.service"))); !slices.Equal(got, []string{"shop"}) {
		t.Errorf("children of web.service: %v", got)
	}
}

func TestEnvironments(t *testing.T) {
	t.Parallel()
	united, wsl := build(t, world(), Flavour{}), build(t, world(), Flavour{WSL: true})
	for name, want := range map[string][2]Environment{
		"init": {Linux, WSL}, "cron": {Linux, WSL}, "shop": {Docker, Docker}, "nginx: worker process": {Docker, Docker},
		"redis-server": {Podman, WSL}, "ffff0000": {Kubernetes, WSL}, "app": {Kubernetes, WSL},
	} {
		if got := find(t, united, name).Environment; got != want[0] {
			t.Errorf("%s is in %s, want %s", name, got, want[0])
		}
		if got := find(t, wsl, name).Environment; got != want[1] {
			t.Errorf("%s is in %s in the wsltop contract, want %s", name, got, want[1])
		}
	}
}

// A process of a pod that is in none of its containers is the pod's.
func TestAPodsOwnProcess(t *testing.T) {
	t.Parallel()
	o := world()
	o.Processes[0].Group = 5
	init := find(t, build(t, o, Flavour{}), "init")
	if init.Environment != Kubernetes || init.NativeID != "1" || init.Source != "" {
		t.Errorf("%+v", init)
	}
}

// The contract has no application rows on Linux and only processes that both
// samples saw; a process of a Docker container is named by both its ids.
func TestWSLFlavour(t *testing.T) {
	t.Parallel()
	c := build(t, world(), Flavour{WSL: true})
	if rows, n := c.Query(Query{Kind: Application, Limit: 10}); n != 0 {
		t.Errorf("applications: %v", names(rows))
	}
	if rows, n := c.Query(Query{NameContains: "kworker", Limit: 10}); n != 0 {
		t.Errorf("newborn processes: %v", names(rows))
	}
	nginx := find(t, c, "nginx: worker process")
	if nginx.Source != "aaaabbbbcccc" || nginx.NativeID != "aaaabbbbcccc:3" {
		t.Errorf("source %q, id %q", nginx.Source, nginx.NativeID)
	}
	alone := build(t, world(), Flavour{WSL: true, WithoutContainers: true})
	if nginx := find(t, alone, "nginx: worker process"); nginx.Environment != WSL || len(alone.Parents(nginx)) != 0 {
		t.Errorf("without containers: %+v", nginx)
	}
}

func TestIDsAreOpaqueAndOfOneCatalogue(t *testing.T) {
	t.Parallel()
	o := world()
	a, b := build(t, o, Flavour{}), build(t, o, Flavour{})
	seen := map[string]bool{}
	for i := range a.All() {
		r := &a.All()[i]
		id := a.ID(r)
		if len(id) > 24 || seen[id] {
			t.Errorf("id %q of %s", id, r.Name)
		}
		seen[id] = true
		if got, ok := a.Find(id); !ok || got != r {
			t.Errorf("%s is not found by its id", r.Name)
		}
		if _, ok := b.Find(id); ok {
			t.Errorf("%s is found in another catalogue", r.Name)
		}
	}
	for _, id := range []string{"", "1", "3", "aaaabbbbcccc", base64.RawURLEncoding.EncodeToString(make([]byte, idBytes))} {
		if r, ok := a.Find(id); ok {
			t.Errorf("%q finds %s", id, r.Name)
		}
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	c := build(t, world(), Flavour{})
	for _, test := range []struct {
		why   string
		query Query
		want  []string
	}{
		{"name, case-sensitive", Query{NameContains: "App"}, nil},
		{"name, not arguments", Query{NameContains: "6379"}, nil},
		{"pattern over arguments", Query{Match: regexp.MustCompile(`:6\d+$`)}, []string{"redis-server"}},
		{"user by name", Query{User: "www", Kind: Process}, []string{"redis-server", "nginx: worker process"}},
		{"user by number", Query{User: "5"}, []string{"app"}},
		{"container by name", Query{Container: "shop"}, []string{"nginx: worker process", "shop"}},
		{"container by id", Query{Container: "aaaabbbbcccc", Kind: Process}, []string{"nginx: worker process"}},
		{"container by the start of its id", Query{Container: "aaaa", Kind: Process}, []string{"nginx: worker process"}},
		{"container by too little of its id", Query{Container: "aaa"}, nil},
		{"unit around a container", Query{Unit: "web.service", Kind: Process}, []string{"nginx: worker process"}},
		{"unit without its suffix", Query{Unit: "cron", Kind: Process}, []string{"cron"}},
		{"environment", Query{Environment: Kubernetes, Kind: Container}, []string{"ffff0000"}},
		{"kind", Query{Kind: Container, SortBy: ByName, Ascending: true}, []string{"ddddeeee", "ffff0000", "shop"}},
	} {
		test.query.Limit = 100
		if rows, matched := c.Query(test.query); !slices.Equal(names(rows), test.want) && (len(rows) > 0 || test.want != nil) || matched != len(rows) {
			t.Errorf("%s: %v (%d matched), want %v", test.why, names(rows), matched, test.want)
		}
	}
}

func TestLimitCutsAfterSorting(t *testing.T) {
	t.Parallel()
	c := build(t, world(), Flavour{})
	rows, matched := c.Query(Query{Kind: Process, SortBy: ByMemory, Limit: 2})
	if !slices.Equal(names(rows), []string{"app", "redis-server"}) || matched != 6 {
		t.Errorf("%v of %d", names(rows), matched)
	}
	if rows, matched := c.Query(Query{Limit: 0}); len(rows) != 0 || matched != c.Len() {
		t.Errorf("limit 0: %v of %d", names(rows), matched)
	}
}

// Equal CPU is decided by memory, in the same direction; what is still equal by
// name, always ascending.
func TestOrderAndTieBreaks(t *testing.T) {
	t.Parallel()
	row := func(name string, cpu, memory float64) *Resource {
		return &Resource{Name: name, CPU: model.Known(cpu), Memory: model.Known(memory)}
	}
	rows := []*Resource{row("b", 1, 5), row("a", 1, 5), row("c", 1, 9), row("d", math.NaN(), 1), row("e", 2, 0)}
	for _, test := range []struct {
		key       SortKey
		ascending bool
		want      string
	}{
		{ByCPU, false, "ecabd"}, {ByCPU, true, "dabce"}, {ByMemory, false, "cabde"},
		{ByMemory, true, "edabc"}, {ByName, false, "edcba"}, {ByName, true, "abcde"},
	} {
		sorted := slices.SortedFunc(slices.Values(rows), comparator(test.key, test.ascending))
		got := ""
		for _, r := range sorted {
			got += r.Name
		}
		if got != test.want {
			t.Errorf("%s ascending %v: %s, want %s", test.key, test.ascending, got, test.want)
		}
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	t.Parallel()
	twice := world()
	twice.Processes = append(twice.Processes, twice.Processes[5])
	selfParent := world()
	selfParent.Groups[0].Group.Parent = 0
	cycle := world()
	cycle.Groups[0].Group.Parent, cycle.Groups[2].Group.Parent = 2, 0
	sameKey := world()
	sameKey.Groups[0].Group.Key = "u2"
	for why, test := range map[string]struct {
		o    *model.Observation
		want error
	}{"a process twice": {twice, ErrAmbiguous}, "a group twice": {sameKey, ErrAmbiguous}, "its own parent": {selfParent, ErrHierarchy}, "a cycle": {cycle, ErrHierarchy}} {
		if _, err := Build(test.o, Flavour{}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", why, err, test.want)
		}
	}
}

// Sorting is a total order: shuffled rows come out alike.
func TestOrderDoesNotDependOnTheInput(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "n")
		rows := make([]*Resource, n)
		for i := range rows {
			rows[i] = &Resource{
				Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), NativeID: fmt.Sprint(i), index: i,
				CPU: model.Figure{Value: float64(rapid.IntRange(0, 2).Draw(t, "cpu")), Known: rapid.Bool().Draw(t, "known")},
			}
		}
		shuffled := rapid.Permutation(rows).Draw(t, "shuffled")
		key := rapid.SampledFrom([]SortKey{ByCPU, ByMemory, ByName}).Draw(t, "key")
		compare := comparator(key, rapid.Bool().Draw(t, "ascending"))
		slices.SortFunc(rows, compare)
		slices.SortFunc(shuffled, compare)
		if !slices.Equal(rows, shuffled) {
			t.Fatalf("%v and %v", names(rows), names(shuffled))
		}
	})
}

func BenchmarkBuildAndQuery(b *testing.B) {
	o := &model.Observation{CPUs: 16}
	for pid := range int32(10_000) {
		o.Processes = append(o.Processes, model.Process{
			Process: &sample.Process{PID: pid + 1, Facts: &sample.Facts{Comm: "worker", Args: []string{"/usr/bin/worker", "--number", fmt.Sprint(pid)}}},
			CPU:     model.Known(float64(pid % 97)), Group: -1,
		})
	}
	for b.Loop() {
		c := build(b, o, Flavour{})
		if rows, _ := c.Query(Query{Limit: 30}); len(rows) != 30 {
			b.Fatal("short")
		}
	}
}

func TestProgramName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ first, executable, want string }{
		{"/usr/bin/sleep", "/usr/bin/sleep", "sleep"},
		{"sleep", "/usr/bin/sleep", "sleep"},
		{"-bash", "/usr/bin/bash", "-bash"},
		{"/opt/My App/run it", "/opt/My App/run it", "run it"},
		{"/opt/A -b/run", "/opt/A -b/run", "run"},
		{"nginx: worker process", "/usr/sbin/nginx", "nginx: worker process"},
		{"sshd: kate@pts/0", "/usr/sbin/sshd", "sshd: kate@pts/0"},
		{"/usr/lib/chromium/chromium --type=renderer --lang=a/b", "/usr/lib/chromium/chromium", "chromium"},
		{"a weird name", "/usr/bin/sleep", "a weird name"},
		{"/", "", ""}, {"", "", ""},
	} {
		if got := programName(test.first, test.executable); got != test.want {
			t.Errorf("programName(%q, %q) = %q, want %q", test.first, test.executable, got, test.want)
		}
	}
}
