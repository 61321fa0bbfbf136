//go:build unix

package ocaml

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/compute/engine"
)

// TestMain can be a server with one session that is killed: see TestServerDeath.
func TestMain(m *testing.M) {
	if cache := os.Getenv("TOPSIDE_TEST_SERVER"); cache != "" {
		server(cache)
		return
	}
	goleak.VerifyTestMain(m)
}

func TestShims(t *testing.T) {
	for version, want := range map[string][]string{
		"4.08.1":        {"init_path false", "Env.lookup_value lid env"},
		"4.09.0":        {"init_path ()", "Env.lookup_value lid env"},
		"4.11.1":        {"Hashtbl.mem Toploop.directive_table", "Env.summary env"},
		"4.13.1":        {"Toploop.get_directive", "Env.fold_values", "init_path ()", "Env.find_value_by_name", "!Toploop.print_out_type ppf t"},
		"4.14.2":        {"linked = []"},
		"5.0.0":         {`linked = ["+unix"]`},
		"5.2.0":         {"!Toploop.print_out_type ppf t", `"%t" p`},
		"5.3.0~alpha1":  {"Format_doc.compat", "Format_doc.Doc.format"},
		"5.4.0+options": {"Format_doc.compat"},
	} {
		r, err := parseRelease(version)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(shim(r), w) {
				t.Errorf("%s: no %q in\n%s", version, w, shim(r))
			}
		}
	}
	for _, bad := range []string{"", "4", "x.y", "4.x"} {
		if r, err := parseRelease(bad); err == nil {
			t.Errorf("%q is %v", bad, r)
		}
	}
}

func one(t *testing.T, c *engine.Child) {
	t.Helper()
	var call engine.Call
	r, err := c.Eval(context.Background(), 1, "ignore Topup.read_back; 1+1;;", "", false, 5*time.Second, &call)
	if err != nil || r.Value == nil || *r.Value != "2" {
		t.Fatalf("%+v %v", r, err)
	}
}

func start(t *testing.T, l *Language) *engine.Child {
	t.Helper()
	c, err := engine.Start(context.Background(), l, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestCache: servers that start at once build once, and a damaged driver is built again.
func TestCache(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "deep", "cache")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c, err := engine.Start(context.Background(), &Language{Cache: cache}, engine.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	wg.Wait()
	l := &Language{Cache: cache}
	cmd, err := l.Command(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "build-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	whole, _ := os.ReadFile(cmd.Path)
	for name, damage := range map[string]func(){
		"cut short": func() { os.Truncate(cmd.Path, 1000) },
		"removed":   func() { os.Remove(cmd.Path) },
		"library":   func() { os.RemoveAll(filepath.Join(filepath.Dir(cmd.Path), "lib")) },
		"no mark":   func() { os.Remove(filepath.Join(filepath.Dir(cmd.Path), "complete")) },
		"same length, other bytes": func() {
			b := []byte(strings.Repeat("#!/bin/false\n", len(whole)/13+1))[:len(whole)]
			os.WriteFile(cmd.Path, b, 0o700)
		},
		"directory": func() { os.RemoveAll(filepath.Dir(cmd.Path)); os.WriteFile(filepath.Dir(cmd.Path), nil, 0o600) },
	} {
		damage()
		c, err := engine.Start(context.Background(), &Language{Cache: cache}, engine.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		one(t, c)
		c.Close()
	}
}

func TestUnavailable(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "ocamlc")
	script := func(text string) { os.WriteFile(fake, []byte("#!/bin/sh\n"+text), 0o700) }
	for _, c := range []struct{ script, want string }{
		{"exit 1", "-config failed"},
		{"echo 'version: 4.07.1'; echo 'standard_library: /nowhere'", "older than 4.08"},
		{"echo 'version: 5.1.0'; echo 'standard_library: /nowhere'", "apt-get install ocaml-compiler-libs"},
		{"echo nothing", "not an OCaml version"},
	} {
		script(c.script)
		_, err := (&Language{Compiler: fake, Cache: t.TempDir()}).Probe(context.Background())
		var u *engine.Unavailable
		if !errors.As(err, &u) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.script, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := (&Language{}).Probe(context.Background()); err == nil || !strings.Contains(err.Error(), "apt-get install ocaml-nox") {
		t.Error(err)
	}
}

// TestWhatTheChildSees: no descriptor and no secret of the server, an empty stdin, its own process group, limits.
func TestWhatTheChildSees(t *testing.T) {
	t.Setenv("MY_API_TOKEN", "hunter2")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), syscall.F_SETFD, 0)
	c := start(t, &Language{Cache: t.TempDir()})
	value := func(source string) string {
		var call engine.Call
		r, err := c.Eval(context.Background(), 1, source, "", false, 5*time.Second, &call)
		if err != nil || r.Failure != nil || r.Value == nil {
			t.Fatalf("%s: %+v %v", source, r.Failure, err)
		}
		return *r.Value
	}
	if got := value(`Sys.getenv_opt "MY_API_TOKEN";;`); got != "None" {
		t.Error(got)
	}
	if got := value(`let rec count fd = if fd > 200 then 0 else (match Unix.fstat (Obj.magic fd : Unix.file_descr) with _ -> 1 | exception _ -> 0) + count (fd + 1) in count 7;;`); got != "0" {
		t.Errorf("%s descriptors beyond the protocol's", got)
	}
	if got := value("try Some (input_char stdin) with End_of_file -> None;;"); got != "None" {
		t.Error(got)
	}
	if g, err := syscall.Getpgid(c.Pid()); err != nil || g != c.Pid() {
		t.Errorf("process group %d of %d, %v", g, c.Pid(), err)
	}
}

// server starts a session, makes it busy and waits to be killed.
func server(cache string) {
	c, err := engine.Start(context.Background(), &Language{Cache: cache}, engine.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	idle, err := engine.Start(context.Background(), &Language{Cache: cache}, engine.Options{})
	if err != nil {
		os.Exit(1)
	}
	time.Sleep(50 * time.Millisecond) // keepers are forked
	fmt.Println(c.Pid(), idle.Pid())
	var call engine.Call
	c.Eval(context.Background(), 1, `ignore (Sys.command "sleep 100 &");; while true do () done;;`, "", false, 0, &call)
}

// TestServerDeath: when the server is killed, its sessions, busy or idle, their keepers and their children end.
func TestServerDeath(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TOPSIDE_TEST_SERVER="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(line, err)
	}
	time.Sleep(100 * time.Millisecond)
	cmd.Process.Kill()
	cmd.Wait()
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(line)
		}
		for i := 0; ; i++ {
			// Nobody may reap it in a container without an init: a zombie is dead enough.
			if syscall.Kill(-pid, 0) != nil || zombies(pid) {
				break
			}
			if i == 100 {
				t.Fatalf("processes of group %d are alive a second after their server", pid)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func zombies(group int) bool {
	out, err := exec.Command("ps", "-e", "-o", "pgid=,stat=").Output()
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == strconv.Itoa(group) && !strings.HasPrefix(f[1], "Z") {
			return false
		}
	}
	return true
}

// A mute language is one whose program never becomes ready.
type mute struct{ *Language }

func (mute) Command(context.Context) (engine.Command, error) {
	return engine.Command{Path: "/bin/sleep", Args: []string{"60"}}, nil
}

// TestCancelledStart: who gives up a start hears of that, not of a process that was slow.
func TestCancelledStart(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := engine.Start(ctx, mute{&Language{}}, engine.Options{})
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "not ready") {
		t.Errorf("a cancelled start: %v", err)
	}
	_, err = engine.Start(context.Background(), mute{&Language{}}, engine.Options{Ready: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "not ready after 50ms") {
		t.Errorf("a slow start: %v", err)
	}
}
