//go:build linux

// Package engines tests what is seen of containers against a real dockerd and a
// real Podman, both started by the tests in a folder of their own. They need
// root, and say so rather than being skipped.
package engines

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"topside/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// A home is the folder that an engine lives in, and what it started.
type home struct {
	dir     string
	t       testing.TB
	cgroups map[string]bool // the groups of engines that were there before
	output  bytes.Buffer
	mu      sync.Mutex
}

// newHome makes a folder for an engine. At the end of the test whatever runs
// from it is killed, unmounted and removed, whether the test went well or not.
func newHome(t testing.TB) *home {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("these tests start Docker and Podman and need root: run make test as root, or go test with packages other than ./test/engines")
	}
	// A short path: sockets lie in it.
	dir, err := os.MkdirTemp("/var/tmp", "tse")
	if err != nil {
		t.Fatal(err)
	}
	h := &home{dir: dir, t: t, cgroups: map[string]bool{}}
	for _, group := range engineCgroups() {
		h.cgroups[group] = true
	}
	t.Cleanup(h.clear)
	return h
}

func (h *home) path(name ...string) string { return filepath.Join(append([]string{h.dir}, name...)...) }

// Write keeps what the engine says.
func (h *home) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.output.Write(p)
}

func (h *home) said() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.output.String()
	return s[max(0, len(s)-4000):]
}

// engineCgroups are the groups that engines put their containers into.
func engineCgroups() []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/docker", "/sys/fs/cgroup/docker", "/sys/fs/cgroup/*/libpod_parent", "/sys/fs/cgroup/libpod_parent", "/sys/fs/cgroup/*/conmon", "/sys/fs/cgroup/conmon"} {
		groups, _ := filepath.Glob(pattern)
		found = append(found, groups...)
	}
	return found
}

// clear ends, unmounts and removes everything of the engine's.
func (h *home) clear() {
	if h.t.Failed() {
		h.t.Logf("the engine said at the end:\n%s", h.said())
	}
	deadline := time.Now().Add(10 * time.Second)
	for len(h.ours()) > 0 && time.Now().Before(deadline) {
		for _, pid := range h.ours() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if left := h.ours(); len(left) > 0 {
		h.t.Errorf("processes of the engine cannot be killed: %v", left)
	}
	for range 5 {
		mounts := h.mounts()
		if len(mounts) == 0 {
			break
		}
		for _, mount := range mounts {
			_ = syscall.Unmount(mount, syscall.MNT_DETACH)
		}
	}
	if left := h.mounts(); len(left) > 0 {
		h.t.Errorf("still mounted: %v", left)
	}
	for _, group := range engineCgroups() {
		if !h.cgroups[group] {
			h.removeTree(group)
		}
	}
	if err := os.RemoveAll(h.dir); err != nil {
		h.t.Errorf("%v", err)
	}
}

// ours lists the living processes that were started from this folder: by their
// command line, which names it, or by a cgroup that was not there before.
func (h *home) ours() []int {
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !bed.Alive(pid) {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if bytes.Contains(args, []byte(h.dir+"/")) {
			found = append(found, pid)
		}
	}
	for _, group := range engineCgroups() {
		if h.cgroups[group] {
			continue
		}
		_ = filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				found = append(found, procsOf(path)...)
			}
			return nil
		})
	}
	return found
}

func procsOf(cgroup string) []int {
	data, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var found []int
	for _, word := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 && bed.Alive(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// mounts are those below the folder, the innermost first.
func (h *home) mounts() []string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		h.t.Error(err)
		return nil
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], h.dir+"/") {
			found = append(found, fields[4])
		}
	}
	slices.Sort(found)
	slices.Reverse(found)
	return found
}

// removeTree removes a cgroup with those below it.
func (h *home) removeTree(group string) {
	var groups []string
	_ = filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	slices.Reverse(groups)
	for _, g := range groups {
		var err error
		for range 100 {
			if err = os.Remove(g); err == nil || errors.Is(err, fs.ErrNotExist) {
				err = nil
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			h.t.Errorf("a cgroup stays: %v", err)
		}
	}
}

// rootFilesystem writes an image's content as a tar file: busybox and nothing
// else.
func (h *home) rootFilesystem() string {
	h.t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		h.t.Fatalf("busybox-static is needed, see test/install: %v", err)
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		h.t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put := func(header *tar.Header, content []byte) {
		header.Size = int64(len(content))
		if err := w.WriteHeader(header); err != nil {
			h.t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			h.t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "proc", "sys", "dev", "tmp", "etc", "host"} {
		put(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	put(&tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, program)
	put(&tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:0:root:/:/bin/sh\n"))
	for _, name := range []string{"sh", "sleep"} {
		put(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
	}
	if err := w.Close(); err != nil {
		h.t.Fatal(err)
	}
	path := h.path("rootfs.tar")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// A resource is a row of list_resources.
type resource struct {
	ID      string   `json:"resource_id"`
	Parents []string `json:"parent_ids"`
	Cores   *float64 `json:"cores_used"`
	Usage   struct {
		Environment string
		Kind        string
		ID          string
		Source      string
		PID         *int
		Name        string
		CPU         *float64 `json:"cpu_percent"`
		Memory      *float64 `json:"memory_bytes"`
		Processes   int
	}
	Details json.RawMessage
}

type snapshot struct {
	ID         string   `json:"snapshot_id"`
	CapturedAt int64    `json:"captured_at_unix_ms"`
	WindowMS   int64    `json:"sample_window_ms"`
	Warnings   []string `json:"warnings"`
}

func (s snapshot) end() time.Time { return time.UnixMilli(s.CapturedAt) }
func (s snapshot) begin() time.Time {
	return s.end().Add(-time.Duration(s.WindowMS) * time.Millisecond)
}

type list struct {
	Snapshot snapshot
	Data     []resource
	Next     int `json:"next_offset"`
}

// everything lists all of a new snapshot, page by page: how much is on one depends
// on the machine that runs the tests.
func everything(s *bed.Server) list {
	var all list
	s.Get("list_resources", bed.Arguments{"max_age_ms": 0, "limit": 1000}, &all)
	for next := all.Next; next > 0; {
		var page list
		s.Get("list_resources", bed.Arguments{"snapshot_id": all.Snapshot.ID, "limit": 1000, "offset": next}, &page)
		all.Data, next = append(all.Data, page.Data...), page.Next
	}
	return all
}

// groupDetails are those of a container.
type groupDetails struct {
	FullID  string `json:"full_id"`
	Image   string
	State   string
	Labels  map[string]string
	Runtime string
	CPU     struct {
		Limit     *float64 `json:"limit_cores"`
		Throttled *float64 `json:"throttled_periods_percent"`
		Source    string
	}
	Memory struct {
		Current      *float64 `json:"current_bytes"`
		InactiveFile *float64 `json:"inactive_file_bytes"`
		Limit        *float64 `json:"limit_bytes"`
	} `json:"group_memory"`
	Tasks *int
}

// A container is what the engine says, for comparison.
type container struct {
	name, id string
	pid      int
}

// cgroup is a container's group in the hierarchy of a v1 controller, or the
// unified one.
func (c container) cgroup(t testing.TB, controller string) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return filepath.Join("/sys/fs/cgroup", controller, parts[2])
		}
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join("/sys/fs/cgroup", path)
		}
	}
	t.Fatalf("no cgroup of %s in %q", controller, data)
	return ""
}

// cpuMeter measures a container by its cgroup's own counter.
func (c container) cpuMeter(t testing.TB) *bed.Meter {
	t.Helper()
	group := c.cgroup(t, "cpuacct")
	return bed.MeterOfFile(t, func() (time.Duration, bool) {
		if data, err := os.ReadFile(filepath.Join(group, "cpuacct.usage")); err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
			return time.Duration(n), err == nil
		}
		data, err := os.ReadFile(filepath.Join(group, "cpu.stat"))
		rest, ok := strings.CutPrefix(string(data), "usage_usec ")
		if err != nil || !ok {
			return 0, false
		}
		first, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseInt(first, 10, 64)
		return time.Duration(n) * time.Microsecond, err == nil
	})
}

// burnLimit is in cores: so little that even a busy machine has it to spare, and
// the container is throttled.
const burnLimit = 0.2

// An expectation is what the tests of both engines check.
type expectation struct {
	environment string // and the variable that names the socket
	env         string
	image       string
	web         container // limited to 64 MiB, sleeping, with labels
	burn        container // limited to burnLimit, burning
	family      container // three processes
}

// seen checks what the united surface shows of the three containers.
func (e expectation) seen(t *testing.T) *bed.Server {
	t.Helper()
	s := bed.Start(t, []string{"mcp", "--interval-ms", "1000"}, bed.Env(e.env))
	s.Handshake("2025-11-25")
	meter := e.burn.cpuMeter(t)
	time.Sleep(1100 * time.Millisecond)
	everything(s)
	time.Sleep(1100 * time.Millisecond)
	all := everything(s)
	time.Sleep(50 * time.Millisecond)
	id := all.Snapshot.ID
	for _, warning := range all.Snapshot.Warnings {
		t.Errorf("a warning although all is well: %s", warning)
	}
	rows := map[string]resource{}
	for _, r := range all.Data {
		if r.Usage.Kind == "container" {
			rows[r.Usage.Name] = r
		}
	}
	for _, c := range []container{e.web, e.burn, e.family} {
		r, ok := rows[c.name]
		if !ok {
			t.Fatalf("no container %s among %v", c.name, slices.Collect(maps.Keys(rows)))
		}
		if r.Usage.Environment != e.environment || len(r.Parents) != 0 || !strings.HasPrefix(c.id, r.Usage.ID) {
			t.Errorf("%s: %+v", c.name, r)
		}
		e.processesOnce(t, s, all, r, c)
		// By its name and by a part of its id.
		for _, name := range []string{c.name, c.id, c.id[:12]} {
			var inside list
			s.Get("list_resources", bed.Arguments{"snapshot_id": id, "container": name, "limit": 1000}, &inside)
			if len(inside.Data) != r.Usage.Processes+1 {
				t.Errorf("container=%.12s lists %d rows, want the container and its %d processes", name, len(inside.Data), r.Usage.Processes)
			}
		}
	}
	details := func(c container) groupDetails {
		t.Helper()
		var one struct{ Data resource }
		s.Get("inspect_resource", bed.Arguments{"snapshot_id": id, "resource_id": rows[c.name].ID}, &one)
		var d groupDetails
		if err := json.Unmarshal(one.Data.Details, &d); err != nil {
			t.Fatal(err)
		}
		if d.FullID != c.id || d.State != "running" || !strings.Contains(d.Image, e.image) || d.Runtime != e.environment {
			t.Errorf("%s: %s", c.name, one.Data.Details)
		}
		return d
	}
	web := details(e.web)
	if web.Labels["app"] != "shop" || strings.Contains(web.Labels["db.password"], "hunter2") {
		t.Errorf("labels %v", web.Labels)
	}
	if web.Memory.Limit == nil || *web.Memory.Limit != 64<<20 || web.Memory.Current == nil {
		t.Errorf("memory of web: %+v", web.Memory)
	} else {
		inactive := 0.0
		if web.Memory.InactiveFile != nil {
			inactive = *web.Memory.InactiveFile
		}
		if got := rows["web"].Usage.Memory; got == nil || *got != max(*web.Memory.Current-inactive, 0) {
			t.Errorf("memory %v, want current %v minus inactive file %v", got, *web.Memory.Current, inactive)
		}
	}
	burn := details(e.burn)
	if burn.CPU.Limit == nil || *burn.CPU.Limit != burnLimit || burn.CPU.Source != "cgroup" {
		t.Errorf("CPU of burn: %+v", burn.CPU)
	}
	if burn.CPU.Throttled == nil || *burn.CPU.Throttled <= 0 {
		t.Errorf("burn is not throttled: %+v", burn.CPU)
	}
	want := meter.Cores(all.Snapshot.begin(), all.Snapshot.end())
	if got := rows["burn"].Cores; got == nil || *got < want-0.05 || *got > want+0.05 {
		t.Errorf("burn used %v cores, its cgroup says %.3f", got, want)
	}
	family := details(e.family)
	if family.Tasks == nil || *family.Tasks != 3 {
		t.Errorf("tasks of family: %v", family.Tasks)
	}
	var sum struct {
		Data struct {
			Environments map[string]struct {
				Status     string
				CPU        *float64 `json:"cpu_percent"`
				Containers int
			}
		}
	}
	s.Get("get_system_summary", bed.Arguments{"snapshot_id": id}, &sum)
	if own := sum.Data.Environments[e.environment]; own.Status != "ok" || own.CPU == nil || own.Containers != 3 {
		t.Errorf("the environment: %+v", own)
	}
	return s
}

// processesOnce checks that the container's processes, by its cgroup, are its
// children and nobody else's.
func (e expectation) processesOnce(t *testing.T, s *bed.Server, all list, r resource, c container) {
	t.Helper()
	want := procsOf(c.cgroup(t, "pids"))
	slices.Sort(want)
	var children list
	s.Get("list_children", bed.Arguments{"snapshot_id": all.Snapshot.ID, "resource_id": r.ID, "limit": 1000}, &children)
	var got []int
	for _, child := range children.Data {
		got = append(got, *child.Usage.PID)
		if child.Usage.Environment != e.environment || !slices.Equal(child.Parents, []string{r.ID}) || !strings.HasPrefix(c.id, child.Usage.Source) {
			t.Errorf("a child of %s: %+v", c.name, child)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || r.Usage.Processes != len(want) {
		t.Errorf("children of %s: %v (%d told), its cgroup has %v", c.name, got, r.Usage.Processes, want)
	}
	for _, pid := range want {
		n := 0
		for _, row := range all.Data {
			if row.Usage.PID != nil && *row.Usage.PID == pid {
				n++
			}
		}
		if n != 1 {
			t.Errorf("process %d of %s has %d rows", pid, c.name, n)
		}
	}
}

// unreachable checks that the containers are still seen, by their cgroups, when
// the engine no longer answers.
func (e expectation) unreachable(t *testing.T, s *bed.Server, warned bool) {
	t.Helper()
	begun := time.Now()
	var all list
	s.Get("list_resources", bed.Arguments{"max_age_ms": 0, "resource_kind": "container", "limit": 1000}, &all)
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("an engine that does not answer held the snapshot up for %v", took)
	}
	seen := map[string]bool{}
	for _, r := range all.Data {
		for _, c := range []container{e.web, e.burn, e.family} {
			if strings.HasPrefix(c.id, r.Usage.ID) && r.Usage.Environment == e.environment && r.Usage.Processes > 0 {
				seen[c.name] = true
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("without the engine only %v are seen of %+v", slices.Collect(maps.Keys(seen)), all.Data)
	}
	if warned != slices.ContainsFunc(all.Snapshot.Warnings, func(w string) bool { return strings.Contains(w, "unreachable") }) {
		t.Errorf("warnings: %q", all.Snapshot.Warnings)
	}
	var sum struct {
		Data struct {
			Environments map[string]struct{ Status, Reason string }
		}
	}
	s.Get("get_system_summary", bed.Arguments{"snapshot_id": all.Snapshot.ID}, &sum)
	if own := sum.Data.Environments[e.environment]; warned && (own.Status != "unreachable" || own.Reason == "") {
		t.Errorf("the environment: %+v", own)
	}
}

// badSockets puts sockets that hang or answer nonsense in the engine's place.
func (e expectation) badSockets(t *testing.T, h *home) {
	t.Helper()
	variable, _, _ := strings.Cut(e.env, "=")
	for name, answer := range map[string]func(io.ReadWriteCloser){
		"hung":    func(c io.ReadWriteCloser) { _, _ = io.Copy(io.Discard, c) },
		"garbage": func(c io.ReadWriteCloser) { _, _ = c.Write([]byte("\x00\xff this is not HTTP\n")); c.Close() },
		"closed":  func(c io.ReadWriteCloser) { c.Close() },
		"nonsense": func(c io.ReadWriteCloser) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n[{\"Id\":5,\"Names\":\"x\"},{\"Id\":[")
			c.Close()
		},
		"endless": func(c io.ReadWriteCloser) {
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n[")
			for err == nil {
				_, err = c.Write(bytes.Repeat([]byte(`{"Id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","Names":["/a"]},`), 1000))
			}
		},
		"failing": func(c io.ReadWriteCloser) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
			c.Close()
		},
	} {
		path := h.path(name + ".sock")
		listen(t, path, answer)
		s := bed.Start(t, []string{"mcp", "--interval-ms", "500"}, bed.Env(variable+"=unix://"+path))
		e.unreachable(t, s, true)
		e.unreachable(t, s, true) // and again, when it is known to be bad
		if peak := peakMiB(t, s.PID()); peak > 150 {
			t.Errorf("%s: the server used %d MiB", name, peak)
		}
		begun := time.Now()
		if status, _ := s.Close(5 * time.Second); status != 0 || time.Since(begun) > 1500*time.Millisecond {
			t.Errorf("%s: the server ended with %d after %v", name, status, time.Since(begun))
		}
	}
}

func peakMiB(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb >> 10
}
