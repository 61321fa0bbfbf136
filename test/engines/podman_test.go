//go:build linux

package engines

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"topside/test/bed"
)

// A podman is a Podman that shares nothing with one of the machine's.
type podman struct {
	h       *home
	globals []string
}

func newPodman(t *testing.T, h *home) podman {
	t.Helper()
	if _, err := exec.LookPath("podman"); err != nil {
		t.Fatalf("podman is needed, see test/install: %v", err)
	}
	if err := os.MkdirAll(h.path("tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	return podman{h, []string{"--root", h.path("data"), "--runroot", h.path("run"), "--tmpdir", h.path("libpod"),
		"--cgroup-manager=cgroupfs", "--events-backend=file", "--storage-driver=overlay", "--runtime=runc"}}
}

func (p podman) command(args ...string) *exec.Cmd {
	c := exec.Command("podman", append(append([]string{}, p.globals...), args...)...)
	c.Env = append(os.Environ(), "TMPDIR="+p.h.path("tmp"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

func (p podman) run(t *testing.T, args ...string) string {
	t.Helper()
	r := bed.RunCommand(t, p.command(args...))
	if r.Status != 0 {
		t.Fatalf("podman %v cannot be run here: status %d\n%s", args, r.Status, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// start runs a container. The limits are explicit since not every root may
// raise its own.
func (p podman) start(t *testing.T, name string, args ...string) {
	t.Helper()
	p.run(t, append([]string{"run", "-d", "--name", name, "--network=none", "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"}, args...)...)
}

func TestPodman(t *testing.T) {
	h := newHome(t)
	p := newPodman(t, h)
	p.run(t, "import", h.rootFilesystem(), "bb:local")
	t.Cleanup(func() { _ = p.command("rm", "-fa", "-t", "0").Run() })
	service := p.command("system", "service", "--time=0", "unix://"+h.path("podman", "podman.sock"))
	if err := os.Mkdir(h.path("podman"), 0o700); err != nil {
		t.Fatal(err)
	}
	service.Stdout, service.Stderr = h, h
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = service.Wait()
		close(ended)
	}()
	a := apiAt(t, h.path("podman", "podman.sock"))
	deadline := time.Now().Add(30 * time.Second)
	for a.try("GET", "/_ping", nil, nil) != nil {
		if time.Now().After(deadline) {
			t.Fatalf("Podman's service did not start within 30 s; it said:\n%s", h.said())
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.start(t, "web", "-m", "64m", "--label", "app=shop", "--label", "db.password=hunter2", "bb:local", "/bin/busybox", "sleep", "600")
	p.start(t, "burn", "--cpus", strconv.FormatFloat(burnLimit, 'f', -1, 64), "bb:local", "/bin/busybox", "sh", "-c", "while :; do :; done")
	p.start(t, "family", "--pids-limit", "50", "bb:local", "/bin/busybox", "sh", "-c", "sleep 600 & sleep 600 & wait")
	e := expectation{
		environment: "podman", env: "CONTAINER_HOST=unix://" + h.path("podman", "podman.sock"), image: "bb:local",
		web: a.inspect("web"), burn: a.inspect("burn"), family: a.inspect("family"),
	}
	time.Sleep(300 * time.Millisecond)
	s := e.seen(t)
	// podman-docker gives Docker's name to Podman's socket: its containers are
	// Podman's nevertheless.
	t.Run("under the name of Docker", func(t *testing.T) {
		link := h.path("docker.sock")
		if err := os.Symlink(h.path("podman", "podman.sock"), link); err != nil {
			t.Fatal(err)
		}
		s := bed.Start(t, []string{"mcp", "--interval-ms", "500"}, bed.Env("DOCKER_HOST=unix://"+link))
		var found list
		s.Get("list_resources", bed.Arguments{"environment": "podman", "resource_kind": "container"}, &found)
		if len(found.Data) != 3 || containersNamed(t, s, "web") != 1 {
			t.Errorf("%d containers of Podman", len(found.Data))
		}
	})
	// The monitors beside the containers are not inside them.
	var monitors list
	s.Get("list_resources", bed.Arguments{"name_contains": "conmon", "limit": 100}, &monitors)
	for _, m := range monitors.Data {
		if m.Usage.Environment != "linux" {
			t.Errorf("a monitor: %+v", m)
		}
	}
	if len(monitors.Data) < 3 {
		t.Errorf("%d monitors", len(monitors.Data))
	}
	if err := service.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	t.Run("killed", func(t *testing.T) { e.unreachable(t, s, true) })
	t.Run("bad sockets", func(t *testing.T) { e.badSockets(t, h) })
}
