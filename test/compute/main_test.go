//go:build linux

// Package compute tests the topup contract from outside: the real binary, a real
// OCaml, clients that speak lines. Each file follows a part of the contract:
// eval_test.go the evaluations, tools_test.go the other tools of a session,
// wire_test.go the lines, session_test.go named sessions and hosts,
// socket_test.go the command line and sockets, fault_test.go what goes wrong.
package compute

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// How the program under test is built.
var (
	buildFlags []string
	buildCgo   = "0"
)

// binary is the program under test, cache the folder of compiled drivers.
var binary, cache string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "topside-compute-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, cache = filepath.Join(dir, "topside"), filepath.Join(dir, "cache")
	build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", binary, "../../cmd/topside")...)
	build.Env = append(os.Environ(), "CGO_ENABLED="+buildCgo)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		return 1
	}
	return m.Run()
}

// patience bounds every wait for a reply; the machine may be busy.
const patience = 60 * time.Second

// A server is one running program and its client.
type server struct {
	t    testing.TB
	cmd  *exec.Cmd
	home string
	in   io.WriteCloser
	conn io.Closer // of a client on a socket

	writing sync.Mutex
	mu      sync.Mutex
	next    int
	waiting map[string]chan json.RawMessage
	order   []string // ids of replies as they came
	strays  []string // lines that are no reply
	ended   chan struct{}
	stderr  *strings.Builder
}

// A setting is one more variable, or with the name "args" the arguments, "name" the first of them, "disk" the size of
// the home folder.
type setting struct{ name, value string }

func environment(home string, settings ...setting) []string {
	env := []string{}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TOPUP_") && !strings.HasPrefix(v, "HOME=") && !strings.HasPrefix(v, "XDG_") {
			env = append(env, v)
		}
	}
	env = append(env, "HOME="+home, "XDG_CACHE_HOME="+cache, "GORACE=atexit_sleep_ms=0 halt_on_error=1 exitcode=66")
	for _, s := range settings {
		if s.name != "args" && s.name != "name" && s.name != "disk" {
			env = append(env, s.name+"="+s.value)
		}
	}
	return env
}

// onSmallDisk is a command line that runs another one in a mount namespace of its own, where folder is a disk of so
// many kilobytes.
func onSmallDisk(folder string, kilobytes int) (*syscall.SysProcAttr, []string) {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	script := `mount --make-rprivate / && mount -t tmpfs -o size="$1"k tmpfs "$0" && shift && exec "$@"`
	return attr, []string{"/bin/sh", "-c", script, folder, strconv.Itoa(kilobytes)}
}

// start runs the program as topup with a home of its own.
func start(t testing.TB, settings ...setting) *server {
	t.Helper()
	home := t.TempDir()
	args := []string{"topup"}
	for _, s := range settings {
		switch s.name {
		case "args":
			args = append(args, strings.Split(s.value, " ")...)
		case "name":
			args[0] = s.value
		case "HOME":
			home = s.value
		}
	}
	s := newServer(t, home)
	s.cmd = exec.Command(binary, args...)
	for _, setting := range settings {
		if setting.name == "disk" { // the home folder is one of that many kilobytes
			kilobytes, _ := strconv.Atoi(setting.value)
			attr, command := onSmallDisk(home, kilobytes)
			command = append(append(command, binary), args...)
			s.cmd = exec.Command(command[0], command[1:]...)
			s.cmd.SysProcAttr = attr
		}
	}
	s.cmd.Env = environment(home, settings...)
	s.cmd.Stderr = s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go s.read(out)
	t.Cleanup(func() {
		s.in.Close()
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			s.cmd.Process.Kill()
			<-s.ended
		}
		s.cmd.Wait()
	})
	return s
}

func newServer(t testing.TB, home string) *server {
	return &server{t: t, home: home, waiting: map[string]chan json.RawMessage{}, ended: make(chan struct{}), stderr: new(strings.Builder)}
}

func (s *server) read(r io.Reader) {
	defer close(s.ended)
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			s.take(line)
		}
		if err != nil {
			return
		}
	}
}

func (s *server) take(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if json.Unmarshal(line, &m) != nil || m.Method != "" || m.ID == nil {
		s.strays = append(s.strays, strings.TrimSpace(string(line)))
		return
	}
	id := string(m.ID)
	s.order = append(s.order, id)
	s.channel(id) <- append(json.RawMessage(nil), line...)
}

// channel needs the lock.
func (s *server) channel(id string) chan json.RawMessage {
	if s.waiting[id] == nil {
		s.waiting[id] = make(chan json.RawMessage, 100)
	}
	return s.waiting[id]
}

func (s *server) send(line string) {
	s.t.Helper()
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatalf("write: %v; stderr: %s", err, s.stderr)
	}
}

// wait returns the reply with that id.
func (s *server) wait(id string) json.RawMessage {
	s.t.Helper()
	s.mu.Lock()
	c := s.channel(id)
	s.mu.Unlock()
	select {
	case line := <-c:
		return line
	case <-s.ended:
		select {
		case line := <-c:
			return line
		default:
		}
		s.t.Fatalf("the server ended before its reply to %s; stderr: %s", id, s.stderr)
	case <-time.After(patience):
		s.t.Fatalf("no reply to %s", id)
	}
	return nil
}

// begin sends a call and returns its id.
func (s *server) begin(tool string, arguments map[string]any) string {
	s.t.Helper()
	s.mu.Lock()
	s.next++
	id := strconv.Itoa(s.next)
	s.mu.Unlock()
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": arguments}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.send(string(line))
	return id
}

// args makes arguments of pairs.
func args(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// A reply is the text of a result and whether it is an error.
type reply struct {
	text    string
	isError bool
}

func (s *server) finish(id string) reply {
	s.t.Helper()
	var m struct {
		Result *struct {
			Content []struct{ Type, Text string }
			IsError *bool
		}
	}
	line := s.wait(id)
	if err := json.Unmarshal(line, &m); err != nil || m.Result == nil || len(m.Result.Content) != 1 || m.Result.IsError == nil {
		s.t.Fatalf("not a result of a tool: %s", line)
	}
	return reply{m.Result.Content[0].Text, *m.Result.IsError}
}

func (s *server) call(tool string, pairs ...any) reply {
	s.t.Helper()
	return s.finish(s.begin(tool, args(pairs...)))
}

type overflow struct {
	Path  string
	Total int64 `json:"total_bytes"`
}

type location struct {
	File     string
	Line     int
	ColStart int `json:"col_start"`
	ColEnd   int `json:"col_end"`
}

type failure struct {
	Phase, Message string
	Location       *location
	Related        []string
}

// A result is what eval gives.
type result struct {
	Value          *string `json:"value_repr"`
	Type           *string
	Stdout, Stderr string
	ValueOverflow  *overflow `json:"value_repr_overflow"`
	StdoutOverflow *overflow `json:"stdout_overflow"`
	StderrOverflow *overflow `json:"stderr_overflow"`
	Warnings       []string
	Error          *failure
	Recovery       *struct {
		Generation int
		By         string
	}
	LateStdout string `json:"late_stdout"`
	Notes      []string
}

func (r result) value() string { return orNull(r.Value) }
func (r result) typed() string { return orNull(r.Type) }
func (r result) message() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Phase + ": " + r.Error.Message
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func parse[T any](t testing.TB, r reply) T {
	t.Helper()
	var v T
	if r.isError {
		t.Fatalf("isError: %s", r.text)
	}
	if err := json.Unmarshal([]byte(r.text), &v); err != nil {
		t.Fatalf("%v: %s", err, r.text)
	}
	return v
}

// eval evaluates, with more arguments behind the source.
func (s *server) eval(source string, pairs ...any) result {
	s.t.Helper()
	return parse[result](s.t, s.call("eval", append([]any{"source", source}, pairs...)...))
}

func (s *server) value(source string, pairs ...any) string {
	s.t.Helper()
	r := s.eval(source, pairs...)
	if r.Error != nil {
		return r.message()
	}
	return r.value()
}

// fails expects a failure of usage with exactly that text.
func (s *server) fails(want, tool string, pairs ...any) {
	s.t.Helper()
	if r := s.call(tool, pairs...); !r.isError || r.text != want {
		s.t.Errorf("%s %v\n got %v %q\nwant %q", tool, pairs, r.isError, r.text, want)
	}
}

// write puts a file into the home folder and returns its path.
func (s *server) write(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *server) read1(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.home, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// end closes the input and returns the exit status; nothing may be left.
func (s *server) end() int {
	s.t.Helper()
	children := descendants(s.cmd.Process.Pid)
	s.in.Close()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("the server does not end")
	}
	s.cmd.Wait()
	gone(s.t, children)
	return s.cmd.ProcessState.ExitCode()
}

// gone waits for processes to be gone.
func gone(t testing.TB, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for deadline := time.Now().Add(5 * time.Second); running(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("process %d is left: %q", pid, line)
				break
			}
		}
	}
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+2:])
	return rest[0] != 'Z' && rest[0] != 'X'
}

// descendants are the processes below one.
func descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], child)
	}
	var all []int
	todo := []int{pid}
	for len(todo) > 0 {
		next := children[todo[0]]
		todo = append(todo[1:], next...)
		all = append(all, next...)
	}
	return all
}

func (s *server) signal(sig syscall.Signal) { s.cmd.Process.Signal(sig) }
