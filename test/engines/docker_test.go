//go:build linux

package engines

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/test/bed"
)

// startDocker starts a dockerd that shares nothing with one of the machine's.
func startDocker(t *testing.T, h *home) (api, *exec.Cmd) {
	t.Helper()
	program, err := exec.LookPath("dockerd")
	if err != nil {
		t.Fatalf("docker.io is needed, see test/install: %v", err)
	}
	if err := os.WriteFile(h.path("daemon.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "--config-file", h.path("daemon.json"), "--data-root", h.path("data"), "--exec-root", h.path("exec"),
		"--pidfile", h.path("dockerd.pid"), "-H", "unix://"+h.path("docker.sock"),
		"--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=overlay2")
	c.Stdout, c.Stderr = h, h
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	a := apiAt(t, h.path("docker.sock"))
	deadline := time.Now().Add(30 * time.Second)
	for a.try("GET", "/_ping", nil, nil) != nil {
		select {
		case err := <-ended:
			t.Fatalf("Docker cannot start here (%v); its last words:\n%s", err, h.said())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("Docker did not start within 30 s; it said:\n%s", h.said())
		}
	}
	return a, c
}

func TestDocker(t *testing.T) {
	h := newHome(t)
	a, daemon := startDocker(t, h)
	a.importImage(h.rootFilesystem(), "bb", "local")
	settings := func(host map[string]any, labels map[string]string, command ...string) map[string]any {
		host["NetworkMode"] = "none"
		return map[string]any{"Image": "bb:local", "Cmd": command, "HostConfig": host, "Labels": labels}
	}
	e := expectation{
		environment: "docker", env: "DOCKER_HOST=unix://" + h.path("docker.sock"), image: "bb:local",
		web: a.run("web", settings(map[string]any{"Memory": 64 << 20}, map[string]string{"app": "shop", "db.password": "hunter2"},
			"/bin/busybox", "sleep", "600")),
		burn:   a.run("burn", settings(map[string]any{"NanoCpus": int64(burnLimit * 1e9)}, nil, "/bin/busybox", "sh", "-c", "while :; do :; done")),
		family: a.run("family", settings(map[string]any{"PidsLimit": 50}, nil, "/bin/busybox", "sh", "-c", "sleep 600 & sleep 600 & wait")),
	}
	time.Sleep(300 * time.Millisecond)
	s := e.seen(t)
	t.Run("wsltop", func(t *testing.T) { wsltopSees(t, e) })
	t.Run("from inside", func(t *testing.T) { seenFromInside(t, a, e) })
	t.Run("paused", func(t *testing.T) {
		a.do("POST", "/containers/web/pause", nil, nil)
		defer a.do("POST", "/containers/web/unpause", nil, nil)
		var found list
		s.Get("list_resources", bed.Arguments{"max_age_ms": 0, "container": "web", "resource_kind": "container"}, &found)
		var one struct{ Data resource }
		s.Get("inspect_resource", bed.Arguments{"snapshot_id": found.Snapshot.ID, "resource_id": found.Data[0].ID}, &one)
		if !strings.Contains(string(one.Data.Details), `"paused"`) {
			t.Errorf("the state of a paused container: %s", one.Data.Details)
		}
	})
	t.Run("come and gone", func(t *testing.T) {
		a.run("brief", settings(map[string]any{}, nil, "/bin/busybox", "sleep", "600"))
		if n := containersNamed(t, s, "brief"); n != 1 {
			t.Errorf("a new container is seen %d times", n)
		}
		a.do("DELETE", "/containers/brief?force=true", nil, nil)
		if n := containersNamed(t, s, "brief"); n != 0 {
			t.Errorf("a removed container is seen %d times", n)
		}
	})
	if err := daemon.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for a.try("GET", "/_ping", nil, nil) == nil && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	t.Run("killed", func(t *testing.T) { e.unreachable(t, s, true) })
	t.Run("bad sockets", func(t *testing.T) { e.badSockets(t, h) })
	t.Run("disabled", func(t *testing.T) {
		e.unreachable(t, bed.Start(t, []string{"mcp", "--interval-ms", "500", "--no-engines"}, bed.Env(e.env)), false)
	})
	t.Run("no socket", func(t *testing.T) {
		e.unreachable(t, bed.Start(t, []string{"mcp", "--interval-ms", "500"}), false)
	})
}

func containersNamed(t *testing.T, s *bed.Server, name string) int {
	t.Helper()
	var found list
	s.Get("list_resources", bed.Arguments{"max_age_ms": 0, "container": name, "resource_kind": "container"}, &found)
	return len(found.Data)
}

// wsltopSees checks the contract's rows of containers (section 3.3).
func wsltopSees(t *testing.T, e expectation) {
	s := bed.Start(t, []string{"wsltop", "mcp", "--interval-ms", "500", "--wsl-only"}, bed.Env(e.env))
	s.Handshake("2025-11-25")
	var sum struct {
		Snapshot snapshot
		Data     struct {
			Environments map[string]*struct {
				CPU    *float64 `json:"cpu_percent"`
				Memory *float64 `json:"memory_bytes"`
			}
			Unresolved *bool `json:"cpu_overlap_unresolved"`
		}
	}
	s.Get("get_system_summary", bed.Arguments{"max_age_ms": 0}, &sum)
	if d := sum.Data.Environments["docker"]; d == nil || d.CPU == nil || d.Memory == nil || *d.Memory <= 0 {
		t.Errorf("the docker environment: %+v", d)
	}
	if sum.Data.Unresolved == nil || *sum.Data.Unresolved {
		t.Errorf("cpu_overlap_unresolved: %v; warnings %q", sum.Data.Unresolved, sum.Snapshot.Warnings)
	}
	var all list
	s.Get("list_resources", bed.Arguments{"snapshot_id": sum.Snapshot.ID, "resource_kind": "container", "environment": "docker"}, &all)
	if len(all.Data) != 3 {
		t.Fatalf("%d containers", len(all.Data))
	}
	for _, r := range all.Data {
		if r.Usage.PID != nil || len(r.Usage.ID) != 64 || len(r.Parents) != 0 {
			t.Errorf("a container: %+v", r)
		}
		var children list
		s.Get("list_children", bed.Arguments{"snapshot_id": sum.Snapshot.ID, "resource_id": r.ID}, &children)
		if len(children.Data) == 0 {
			t.Errorf("%s has no children", r.Usage.Name)
		}
		for _, child := range children.Data {
			if child.Usage.Kind != "process" || child.Usage.Environment != "docker" || child.Usage.Source != r.Usage.ID ||
				!strings.HasPrefix(child.Usage.ID, r.Usage.ID+":") || !slices.Equal(child.Parents, []string{r.ID}) {
				t.Errorf("a child: %+v", child)
			}
		}
	}
}

// seenFromInside runs the binary in a container that has the host's proc and
// sys mounted, as people deploy such a program.
func seenFromInside(t *testing.T, a api, e expectation) {
	c := a.run("inside", map[string]any{
		"Image": "bb:local", "Cmd": []string{"/topside", "snapshot", "--json", "--interval-ms", "500", "--root", "/host"}, "Tty": true,
		"HostConfig": map[string]any{"NetworkMode": "none", "Binds": []string{"/proc:/host/proc:ro", "/sys:/host/sys:ro", bed.Binary() + ":/topside:ro"}},
	})
	a.do("POST", "/containers/inside/wait", nil, nil)
	var printed []byte
	a.do("GET", "/containers/inside/logs?stdout=true&stderr=true", nil, &printed)
	defer a.do("DELETE", "/containers/inside?force=true", nil, nil)
	var seen struct {
		Resources []struct {
			ID, Name, Kind string
			Process        *struct{ PID int }
		}
	}
	if err := json.Unmarshal(printed, &seen); err != nil {
		t.Fatalf("%v: %.500s", err, printed)
	}
	var names []string
	self := false
	for _, r := range seen.Resources {
		if r.Kind == "container" {
			names = append(names, r.ID)
		}
		self = self || r.Process != nil && r.Process.PID == os.Getpid()
	}
	for _, want := range []container{e.web, e.burn, e.family, c} {
		if !slices.Contains(names, want.id) {
			t.Errorf("from inside, %s is not among the containers %v", want.name, names)
		}
	}
	if !self {
		t.Error("from inside, the host's processes are not seen")
	}
}
