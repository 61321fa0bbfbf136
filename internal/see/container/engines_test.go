package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"topside/internal/see/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shortRoot makes an empty root whose path leaves room for a socket's name: a
// socket's path has at most 107 bytes.
func shortRoot(t testing.TB) proc.FS {
	t.Helper()
	root, err := os.MkdirTemp("", "ts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	fs, err := proc.NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// listen opens a socket below the root and gives every connection to serve.
func listen(t testing.TB, fs proc.FS, name string, serve func(net.Conn)) string {
	t.Helper()
	path := filepath.Join(fs.Root(), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return path
}

// reply answers one request with these bytes.
func reply(text string) func(net.Conn) {
	return func(conn net.Conn) {
		readRequest(conn)
		io.WriteString(conn, text)
	}
}

func readRequest(conn net.Conn) {
	buf := make([]byte, 4096)
	for n := 0; n < len(buf); {
		got, err := conn.Read(buf[n:])
		if err != nil {
			return
		}
		if n += got; strings.Contains(string(buf[:n]), "\r\n\r\n") {
			return
		}
	}
}

// hang reads the request and says nothing until the client leaves.
func hang(conn net.Conn) {
	io.Copy(io.Discard, conn)
}

func httpReply(status int, server, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nServer: %s\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), server, len(body), body)
}

const twoContainers = `[
 {"Id":"1c8fa019edd4b9d4b2856f4932c55929c5c118c808ed5faee9a135ca6e84b039","Names":["/web","/other/alias"],"Image":"nginx:1.27","ImageID":"sha256:ab","Command":"x","Created":1700000000,"Ports":[],"Labels":{"com.docker.compose.project":"shop"},"State":"running","Status":"Up 2 hours","HostConfig":{"NetworkMode":"none"}},
 {"Id":"0ea0c47ef0e1a90cd10059a0da0abd4da28d3bc35ce15c7beb46da1c7ab02736","Names":null,"Image":"pause","Created":"2023-11-14T22:13:20Z","Labels":null,"State":"paused","Status":"","Pid":42}
]`

func engines(t testing.TB, fs proc.FS, o EngineOptions) *Engines {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second // slow machines; the faults' tests set their own
	}
	if o.Grace == 0 {
		o.Grace = o.Timeout
	}
	e := NewEngines(fs, o)
	t.Cleanup(func() { e.Close() })
	return e
}

func listingOf(t testing.TB, list []Listing, engine string) Listing {
	t.Helper()
	for _, l := range list {
		if l.Engine == engine {
			return l
		}
	}
	t.Fatalf("no listing of %s in %+v", engine, list)
	return Listing{}
}

func TestListTwoEngines(t *testing.T) {
	t.Parallel()
	fs := shortRoot(t)
	docker := listen(t, fs, "run/docker.sock", reply(httpReply(200, "Docker/20.10.24 (linux)", twoContainers)))
	listen(t, fs, "run/user/1000/podman/podman.sock", reply(httpReply(200, "Libpod/4.3.1 (linux)", "[]")))
	list := engines(t, fs, EngineOptions{}).List(t.Context())
	if len(list) != 2 {
		t.Fatalf("%d listings: %+v", len(list), list)
	}
	l := listingOf(t, list, EngineDocker)
	if l.Status != OK || l.Reason != "" || l.Socket != docker || !l.Current() || l.Taken.IsZero() || l.Warning() != "" || l.Runtime() != Docker {
		t.Errorf("docker: %+v", l)
	}
	if len(l.Containers) != 2 {
		t.Fatalf("%d containers", len(l.Containers))
	}
	web, pause := l.Containers[0], l.Containers[1]
	if len(web.Names) != 1 || web.Names[0] != "web" || web.Image != "nginx:1.27" || web.State != "running" || web.Labels["com.docker.compose.project"] != "shop" || web.Summary != "Up 2 hours" || web.PID != nil {
		t.Errorf("web = %+v", web)
	}
	if !web.Created.Equal(pause.Created) || web.Created.Unix() != 1700000000 {
		t.Errorf("created %s and %s", web.Created, pause.Created)
	}
	if pause.Names != nil || pause.PID == nil || *pause.PID != 42 {
		t.Errorf("pause = %+v", pause)
	}
	if p := listingOf(t, list, EnginePodman); p.Status != OK || len(p.Containers) != 0 || p.Runtime() != Podman {
		t.Errorf("podman: %+v", p)
	}
}

// Podman serves Docker's path too, as a link (podman-docker) or by itself: it
// is one engine, and the one that it says it is.
func TestPodmanBehindDockersName(t *testing.T) {
	t.Parallel()
	fs := shortRoot(t)
	listen(t, fs, "run/podman/podman.sock", reply(httpReply(200, "Libpod/4.3.1 (linux)", twoContainers)))
	if err := os.Symlink("/run/podman/podman.sock", filepath.Join(fs.Root(), "run/docker.sock")); err != nil {
		t.Fatal(err)
	}
	list := engines(t, fs, EngineOptions{}).List(t.Context())
	if l := listingOf(t, list, EnginePodman); l.Status != OK || len(l.Containers) != 2 {
		t.Errorf("podman: %+v", l)
	}
	if l := listingOf(t, list, EngineDocker); l.Status != Absent || len(list) != 2 {
		t.Errorf("%d listings, docker: %+v", len(list), l)
	}

	fs = shortRoot(t)
	listen(t, fs, "run/docker.sock", reply(httpReply(200, "Libpod/4.3.1 (linux)", "[]")))
	list = engines(t, fs, EngineOptions{}).List(t.Context())
	if l := listingOf(t, list, EnginePodman); l.Status != OK || len(list) != 2 {
		t.Errorf("%+v", list)
	}
}

func TestAbsentAndDisabled(t *testing.T) {
	t.Parallel()
	fs := shortRoot(t)
	list := engines(t, fs, EngineOptions{DisablePodman: true}).List(t.Context())
	if l := listingOf(t, list, EngineDocker); l.Status != Absent || l.Reason == "" || l.Warning() != "" {
		t.Errorf("docker: %+v", l)
	}
	if l := listingOf(t, list, EnginePodman); l.Status != Disabled || l.Reason == "" {
		t.Errorf("podman: %+v", l)
	}
	// A file that is no socket is none.
	if err := os.MkdirAll(filepath.Join(fs.Root(), "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fs.Root(), "run/docker.sock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if l := listingOf(t, engines(t, fs, EngineOptions{}).List(t.Context()), EngineDocker); l.Status != Absent {
		t.Errorf("docker: %+v", l)
	}
}

// A link in an observed root must not lead to our own machine's engine.
func TestLinksStayBelowTheRoot(t *testing.T) {
	t.Parallel()
	outside := shortRoot(t)
	target := listen(t, outside, "docker.sock", reply(httpReply(200, "Docker/1", twoContainers)))
	fs := shortRoot(t)
	if err := os.MkdirAll(filepath.Join(fs.Root(), "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{target, "../../" + filepath.Base(outside.Root()) + "/docker.sock", "docker.sock"} {
		path := filepath.Join(fs.Root(), "run/docker.sock")
		os.Remove(path)
		if err := os.Symlink(link, path); err != nil {
			t.Fatal(err)
		}
		if l := listingOf(t, engines(t, fs, EngineOptions{}).List(t.Context()), EngineDocker); l.Status != Absent {
			t.Errorf("a link to %s: %+v", link, l)
		}
	}
	os.Remove(filepath.Join(fs.Root(), "run/docker.sock"))
	os.Remove(filepath.Join(fs.Root(), "run"))
	if err := os.Symlink(outside.Root(), filepath.Join(fs.Root(), "run")); err != nil {
		t.Fatal(err)
	}
	if l := listingOf(t, engines(t, fs, EngineOptions{}).List(t.Context()), EngineDocker); l.Status != Absent {
		t.Errorf("a folder that is a link: %+v", l)
	}
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve  func(net.Conn)
		reason string // contained in the listing's
	}{
		"not http":         {reply("SSH-2.0-OpenSSH_9.2\r\n"), "malformed HTTP"},
		"html":             {reply(httpReply(200, "nginx", "<html><body>hello</body></html>")), "no list of containers"},
		"500":              {reply(httpReply(500, "Docker/20", `{"message":"layer does not\nexist"}`)), "500: layer does not exist"},
		"404":              {reply(httpReply(404, "x", "nothing here")), "404"},
		"redirect":         {reply("HTTP/1.1 302 Found\r\nLocation: http://example.org/\r\nContent-Length: 0\r\n\r\n"), "a redirection to http://example.org/, which is not followed"},
		"null":             {reply(httpReply(200, "Docker/20", "null")), "no list of containers but null"},
		"object":           {reply(httpReply(200, "Docker/20", `{"message":"x"}`)), "another form"},
		"numbers":          {reply(httpReply(200, "Docker/20", `[1,2]`)), "no list of containers"},
		"no id":            {reply(httpReply(200, "Docker/20", `[{"Names":["/x"]}]`)), "without a proper Id"},
		"an id of escapes": {reply(httpReply(200, "Docker/20", `[{"Id":"\u001b[31m"}]`)), "without a proper Id"},
		"half":             {reply(httpReply(200, "Docker/20", twoContainers[:len(twoContainers)/2])), "no list of containers"},
		"cut":              {reply("HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + twoContainers), "unexpected EOF"},
		"two lists":        {reply(httpReply(200, "Docker/20", "[][]")), "more JSON"},
		"empty":            {reply(httpReply(200, "Docker/20", "")), "no list of containers"},
		"closes at once":   {func(net.Conn) {}, ""},
		"endless headers":  {endless("HTTP/1.1 200 OK\r\n", "X-Pad: "+strings.Repeat("x", 1000)+"\r\n"), ""},
		"too large":        {endless("HTTP/1.1 200 OK\r\n\r\n[", `{"Id":"1c8fa019edd4","Image":"`+strings.Repeat("x", 1000)+`"},`), "beyond the bound"},
		"one huge string":  {endless("HTTP/1.1 200 OK\r\n\r\n[{\"Id\":\"", strings.Repeat("x", 1000)), "beyond the bound"},
		"deep":             {reply(httpReply(200, "x", strings.Repeat("[", 50000))), "no list of containers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := shortRoot(t)
			listen(t, fs, "run/docker.sock", c.serve)
			l := listingOf(t, engines(t, fs, EngineOptions{MaxBody: 1 << 20}).List(t.Context()), EngineDocker)
			if l.Status != Unreachable || l.Reason == "" || !strings.Contains(l.Reason, c.reason) || len(l.Reason) > 400 {
				t.Errorf("%s, reason %q, want one with %q", l.Status, l.Reason, c.reason)
			}
			if strings.ContainsAny(l.Reason, "\n\x1b") || len(l.Containers) != 0 || l.Warning() == "" {
				t.Errorf("%+v, warning %q", l, l.Warning())
			}
		})
	}
}

// A server that drips does not answer in time, whatever breaks when it is left.
func TestDrippingAnswer(t *testing.T) {
	t.Parallel()
	fs := shortRoot(t)
	listen(t, fs, "run/docker.sock", func(conn net.Conn) {
		readRequest(conn)
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n[")
		for err == nil {
			time.Sleep(5 * time.Millisecond)
			_, err = io.WriteString(conn, " ")
		}
	})
	l := listingOf(t, engines(t, fs, EngineOptions{Timeout: 60 * time.Millisecond}).List(t.Context()), EngineDocker)
	if l.Status != Unreachable || l.Reason != "no whole answer within 60ms" && l.Reason != "no answer yet" {
		t.Errorf("%+v", l)
	}
}

// What an engine says is bounded, however long.
func TestEngineTextsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 1<<20)
	body := fmt.Sprintf(`[{"Id":"1c8fa019edd4","Names":["/%s"],"Image":%q,"ImageID":%q,"State":%q,"Status":%q,"Labels":{%q:%q}}]`, long, long, long, long, long, long, long)
	list, _, err := decodeList(strings.NewReader(body), 3)
	if err != nil || len(list) != 1 {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(list)
	if err != nil || len(encoded) > 8000 || !strings.HasSuffix(list[0].Names[0], "…") {
		t.Errorf("%d bytes, %v", len(encoded), err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	fs := shortRoot(t)
	e := engines(t, fs, EngineOptions{})
	file := filepath.Join(fs.Root(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	socket := listen(t, fs, "x.sock", func(net.Conn) {})
	for value, want := range map[string]struct {
		status Status
		says   string
	}{
		"":                                   {"", ""},
		"unix://" + socket:                   {"", ""},
		"unix://" + fs.Root() + "/none.sock": {Absent, "DOCKER_HOST is unix://" + fs.Root() + "/none.sock, where nothing is"},
		"unix://" + file:                     {Unreachable, file + ", which is no socket"},
		"tcp://u:hunter2@10.0.0.1:2375":      {Unreachable, "DOCKER_HOST is tcp://u:[redacted]@10.0.0.1:2375: engines are asked over unix://"},
		"nonsense\x1b[31m":                   {Unreachable, "DOCKER_HOST is nonsense, which is no address"},
		"unix://relative":                    {Unreachable, "no absolute path"},
	} {
		status, reason := e.judge("DOCKER_HOST", value)
		if status != want.status || !strings.Contains(reason, want.says) {
			t.Errorf("%q: %s, %q, want %s, %q", value, status, reason, want.status, want.says)
		}
	}
	for _, kind := range []string{EngineDocker, EnginePodman} {
		live, err := proc.NewFS("/")
		if err != nil {
			t.Fatal(err)
		}
		if reason := NewEngines(live, EngineOptions{}).absence(kind); live.Live() && !strings.Contains(reason, "no socket at /run/") {
			t.Error(reason)
		}
	}
}

// endless answers with head and then with tail for as long as the client reads.
func endless(head, tail string) func(net.Conn) {
	return func(conn net.Conn) {
		readRequest(conn)
		_, err := io.WriteString(conn, head)
		for err == nil {
			_, err = io.WriteString(conn, tail)
		}
	}
}

func TestDeadSocket(t *testing.T) {
	t.Parallel()
	fs := shortRoot(t)
	path := filepath.Join(fs.Root(), "run/docker.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	e := engines(t, fs, EngineOptions{})
	l := listingOf(t, e.List(t.Context()), EngineDocker)
	if l.Status != Unreachable || !strings.Contains(l.Reason, "refused") {
		t.Fatalf("a socket without a listener: %+v", l)
	}
	// It is asked again at once: a refusal costs nothing.
	os.Remove(path)
	listen(t, fs, "run/docker.sock", reply(httpReply(200, "Docker/20", twoContainers)))
	if l := listingOf(t, e.List(t.Context()), EngineDocker); l.Status != OK {
		t.Fatalf("the engine is back: %+v", l)
	}
}

func TestMoreContainersThanTheBound(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf(`{"Id":"c%d","Names":["/n%d"]}`, i, i))
	}
	fs := shortRoot(t)
	listen(t, fs, "run/docker.sock", reply(httpReply(200, "Docker/20", "["+strings.Join(many, ",")+"]")))
	l := listingOf(t, engines(t, fs, EngineOptions{MaxContainers: 20}).List(t.Context()), EngineDocker)
	if l.Status != OK || len(l.Containers) != 20 || l.Omitted != 30 || l.Warning() == "" {
		t.Errorf("%d containers, %d omitted, warning %q", len(l.Containers), l.Omitted, l.Warning())
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	opError := func(err error) error {
		return &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", err)}
	}
	for _, c := range []struct {
		err    error
		status Status
		costly bool
	}{
		{opError(syscall.EACCES), Denied, false},
		{opError(syscall.EPERM), Denied, false},
		{opError(syscall.ECONNREFUSED), Unreachable, false},
		{opError(syscall.ENOENT), Absent, false},
		{opError(syscall.EAGAIN), Unreachable, true}, // a full backlog
		{context.DeadlineExceeded, Unreachable, true},
		{os.ErrDeadlineExceeded, Unreachable, true},
		{io.ErrUnexpectedEOF, Unreachable, true},
		{errors.New("x"), Unreachable, true},
	} {
		status, reason, costly := explain(c.err, "/run/docker.sock", time.Second)
		if status != c.status || costly != c.costly || reason == "" {
			t.Errorf("explain(%v) = %s, %q, %t", c.err, status, reason, costly)
		}
	}
}

// A folder that we may not look into is denied, and root may look anywhere: so
// the mapping is tested above, and here what this user sees.
func TestDeniedSocket(t *testing.T) {
	t.Parallel()
	fs := shortRoot(t)
	path := listen(t, fs, "run/docker.sock", reply(httpReply(200, "Docker/20", "[]")))
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	want := Denied
	if os.Geteuid() == 0 {
		want = OK
	}
	if l := listingOf(t, engines(t, fs, EngineOptions{}).List(t.Context()), EngineDocker); l.Status != want {
		t.Errorf("%s, want %s: %+v", l.Status, want, l)
	}
}

// fakeEngines are Engines whose one socket is served by serve, on a pipe, so
// that time can be a bubble's.
func fakeEngines(fs proc.FS, serve func(net.Conn)) *Engines {
	return NewEngines(fs, EngineOptions{dial: func(context.Context, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { serve(server); server.Close() }()
		return client, nil
	}})
}

// withSocket makes a root with a socket file that is never connected to.
func withSocket(t *testing.T) proc.FS {
	fs := shortRoot(t)
	listen(t, fs, "run/docker.sock", func(net.Conn) {})
	return fs
}

// A hung engine costs its bound once; then it is asked in the background, at
// growing intervals, while its last good list stays, with its age.
func TestHungEngine(t *testing.T) {
	t.Parallel()
	fs := withSocket(t)
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var hung atomic.Bool
		e := fakeEngines(fs, func(conn net.Conn) {
			asked.Add(1)
			if hung.Load() {
				hang(conn)
			} else {
				reply(httpReply(200, "Docker/20", twoContainers))(conn)
			}
		})
		defer e.Close()
		took := func() (Listing, time.Duration) {
			begun := time.Now()
			l := listingOf(t, e.List(t.Context()), EngineDocker)
			return l, time.Since(begun)
		}
		l, wait := took()
		if l.Status != OK || wait != 0 {
			t.Fatalf("healthy: %+v after %s", l, wait)
		}
		first := l.Taken

		hung.Store(true)
		l, wait = took()
		if l.Status != OK || !l.Stale || l.Current() || len(l.Containers) != 2 || wait != 150*time.Millisecond {
			t.Fatalf("hung, with an earlier answer: %s, stale %t after %s", l.Status, l.Stale, wait)
		}
		time.Sleep(time.Second)
		before := asked.Load()
		for range 100 {
			if l, wait = took(); wait != 0 || l.Status != Unreachable || len(l.Containers) != 2 || !l.Taken.Equal(first) || !strings.Contains(l.Reason, "500ms") {
				t.Fatalf("after the failure: %+v after %s", l, wait)
			}
		}
		if n := asked.Load() - before; n != 0 {
			t.Fatalf("it was asked %d times during the pause", n)
		}
		// An hour of a snapshot each second: never a wait, and few questions.
		for range 3600 {
			time.Sleep(time.Second)
			if _, wait = took(); wait != 0 {
				t.Fatalf("waited %s for an engine that is known to hang", wait)
			}
		}
		if n := asked.Load() - before; n < 60 || n > 150 {
			t.Fatalf("asked %d times in an hour", n)
		}
		hung.Store(false)
		for range 40 {
			time.Sleep(time.Second)
			l, _ = took()
		}
		if l.Status != OK || !l.Taken.After(first) {
			t.Fatalf("it recovered: %+v", l)
		}
	})
}

// Without an earlier answer the bound is waited for, once, and not longer: also
// for an answer that drips byte by byte.
func TestSlowEngineAtStart(t *testing.T) {
	t.Parallel()
	drip := func(conn net.Conn) {
		readRequest(conn)
		for _, b := range []byte(httpReply(200, "Docker/20", twoContainers)) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for name, serve := range map[string]func(net.Conn){"hung": hang, "dripping": drip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := withSocket(t)
			synctest.Test(t, func(t *testing.T) {
				e := fakeEngines(fs, serve)
				defer time.Sleep(time.Second) // the server notices
				defer e.Close()
				begun := time.Now()
				l := listingOf(t, e.List(t.Context()), EngineDocker)
				if wait := time.Since(begun); wait != 500*time.Millisecond || l.Status != Unreachable || !strings.Contains(l.Reason, "within 500ms") {
					t.Errorf("%+v after %s", l, wait)
				}
				if l = listingOf(t, e.List(t.Context()), EngineDocker); time.Since(begun) != 500*time.Millisecond || l.Status != Unreachable {
					t.Errorf("the second time: %+v after %s", l, time.Since(begun))
				}
			})
		})
	}
}

// A caller that leaves is not held by a hung engine, and Close ends what is
// still asked.
func TestCancelAndClose(t *testing.T) {
	t.Parallel()
	fs := withSocket(t)
	synctest.Test(t, func(t *testing.T) {
		e := fakeEngines(fs, hang)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begun := time.Now()
		l := listingOf(t, e.List(ctx), EngineDocker)
		if wait := time.Since(begun); wait != 10*time.Millisecond || l.Status != Unreachable || l.Reason == "" {
			t.Errorf("%+v after %s", l, wait)
		}
		e.Close()
		if wait := time.Since(begun); wait != 10*time.Millisecond {
			t.Errorf("Close took until %s", wait)
		}
		if l := listingOf(t, e.List(t.Context()), EngineDocker); l.Status == OK {
			t.Errorf("after Close: %+v", l)
		}
	})
}

func TestConcurrentLists(t *testing.T) {
	t.Parallel()
	fs := shortRoot(t)
	listen(t, fs, "run/docker.sock", reply(httpReply(200, "Docker/20", twoContainers)))
	e := engines(t, fs, EngineOptions{})
	done := make(chan Listing)
	for range 50 {
		go func() { done <- listingOf(t, e.List(t.Context()), EngineDocker) }()
	}
	for range 50 {
		if l := <-done; l.Status != OK || len(l.Containers) != 2 {
			t.Errorf("%+v", l)
		}
	}
}

func FuzzDecodeList(f *testing.F) {
	f.Add([]byte(twoContainers))
	f.Add([]byte("null"))
	f.Add([]byte(`[{"Id":"a","Created":1e30,"Labels":{"a":"b"}}]`))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, omitted, err := decodeList(strings.NewReader(string(body)), 3)
		if err != nil {
			return
		}
		if len(list) > 3 || omitted > 0 && len(list) < 3 || !json.Valid(body) {
			t.Errorf("%d containers, %d omitted of %q", len(list), omitted, body)
		}
		for _, info := range list {
			if !validID(info.ID) {
				t.Errorf("id %q", info.ID)
			}
		}
	})
}
