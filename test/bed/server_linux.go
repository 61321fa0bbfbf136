package bed

// This file is a client: it starts the binary and speaks with it line by line.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a test waits for what should come at once.
const Patience = 30 * time.Second

// A Reply is one line of the server's, decoded.
type Reply struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
	Line   string          `json:"-"`
}

// An RPCError is the error member of a reply.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *RPCError) String() string {
	if e == nil {
		return "no error"
	}
	return fmt.Sprintf("%d %s", e.Code, e.Message)
}

// A Server is the binary, running, seen from its client.
type Server struct {
	t     testing.TB
	Cmd   *exec.Cmd
	Stdin io.WriteCloser

	writing sync.Mutex
	mu      sync.Mutex
	changed chan struct{} // closed and renewed at each line
	lines   []string
	replies map[string]Reply
	order   []string
	batches [][]Reply
	foul    []string
	closed  bool
	stderr  bytes.Buffer
	next    int
	ended   chan struct{} // closed when the process has been waited for
}

// An Option changes how a server is started.
type Option func(*starting)

type starting struct {
	command []string
	env     []string
	deaf    bool // its stdout is not read
	mute    bool // its stderr is a pipe that nobody reads
}

// Command starts another program than the binary, with the arguments after it.
func Command(name ...string) Option { return func(s *starting) { s.command = name } }

// Env adds variables, "NAME=value".
func Env(v ...string) Option { return func(s *starting) { s.env = append(s.env, v...) } }

// DeafClient leaves the server's output unread.
func DeafClient() Option { return func(s *starting) { s.deaf = true } }

// UnreadStderr gives the server a standard error that is full.
func UnreadStderr() Option { return func(s *starting) { s.mute = true } }

// Start starts the binary. At the end of the test it is closed, must have
// ended, and must have written nothing but JSON-RPC to its output.
func Start(t testing.TB, args []string, options ...Option) *Server {
	t.Helper()
	o := starting{command: []string{binary}}
	for _, option := range options {
		option(&o)
	}
	line := append(append([]string{}, o.command...), args...)
	s := &Server{
		t: t, Cmd: exec.Command(line[0], line[1:]...),
		changed: make(chan struct{}), replies: map[string]Reply{}, ended: make(chan struct{}),
	}
	s.Cmd.Env = append(os.Environ(), o.env...)
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if s.Stdin, err = s.Cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if o.mute {
		fillStderr(t, s.Cmd)
	} else {
		s.Cmd.Stderr = lockedWriter{&s.mu, &s.stderr}
	}
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if f, ok := s.Cmd.Stderr.(*os.File); ok {
		f.Close()
	}
	read := make(chan struct{})
	if o.deaf {
		close(read)
	} else {
		go func() {
			defer close(read)
			s.read(out)
		}()
	}
	go func() {
		<-read
		_ = s.Cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.Kill()
		for _, foul := range s.foul {
			t.Errorf("the server wrote to its output what is not JSON-RPC: %.300q", foul)
		}
		if t.Failed() && s.Stderr() != "" {
			t.Logf("standard error of %v:\n%s", line, s.Stderr())
		}
	})
	return s
}

// fillStderr gives the command a pipe whose buffer is full and whose reading
// end nobody reads.
func fillStderr(t testing.TB, c *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetNonblock(int(fd), true)
		for {
			if _, err := syscall.Write(int(fd), make([]byte, 4096)); err != nil {
				break
			}
		}
		for {
			if _, err := syscall.Write(int(fd), []byte{'.'}); err != nil {
				break
			}
		}
		_ = syscall.SetNonblock(int(fd), false)
	})
	c.Stderr = w
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Stderr is what the server wrote to its standard error so far.
func (s *Server) Stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// PID is the process id of what was started.
func (s *Server) PID() int { return s.Cmd.Process.Pid }

func (s *Server) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			s.took(strings.TrimSuffix(line, "\n"), strings.HasSuffix(line, "\n"))
		}
		if err != nil {
			s.mu.Lock()
			s.closed = true
			s.wake()
			s.mu.Unlock()
			return
		}
	}
}

func (s *Server) took(line string, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	s.lines = append(s.lines, line)
	if !whole {
		s.foul = append(s.foul, line)
		return
	}
	if strings.HasPrefix(line, "[") {
		var batch []Reply
		if err := json.Unmarshal([]byte(line), &batch); err != nil {
			s.foul = append(s.foul, line)
			return
		}
		s.batches = append(s.batches, batch)
		for _, reply := range batch {
			s.replies[string(reply.ID)] = reply
		}
		return
	}
	reply, err := decode(line)
	if err != nil {
		s.foul = append(s.foul, line)
		return
	}
	if reply.Method == "" {
		s.replies[string(reply.ID)] = reply
		s.order = append(s.order, string(reply.ID))
	}
}

func decode(line string) (Reply, error) {
	var reply Reply
	if err := json.Unmarshal([]byte(line), &reply); err != nil {
		return reply, err
	}
	var shape struct {
		JSONRPC string           `json:"jsonrpc"`
		ID      *json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal([]byte(line), &shape); err != nil || shape.JSONRPC != "2.0" {
		return reply, fmt.Errorf("not JSON-RPC 2.0: %v", err)
	}
	reply.Line = line
	if reply.ID == nil {
		reply.ID = json.RawMessage("null")
	}
	return reply, nil
}

// wake needs s.mu.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Write sends bytes as they are.
func (s *Server) Write(p []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.Stdin.Write(p)
	return err
}

// Send sends one line.
func (s *Server) Send(line string) {
	s.t.Helper()
	if err := s.Write([]byte(line + "\n")); err != nil {
		s.t.Fatalf("the server takes no more input: %v", err)
	}
}

// Ask sends a request and returns its id.
func (s *Server) Ask(method string, params any) string {
	s.t.Helper()
	s.mu.Lock()
	s.next++
	id := fmt.Sprint(s.next)
	s.mu.Unlock()
	s.AskAs(id, method, params)
	return id
}

// AskAs sends a request under an id, given as JSON.
func (s *Server) AskAs(id, method string, params any) {
	s.t.Helper()
	message := map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method}
	if params != nil {
		message["params"] = params
	}
	s.Send(JSON(s.t, message))
}

// Note sends a notification.
func (s *Server) Note(method string, params any) {
	s.t.Helper()
	message := map[string]any{"jsonrpc": "2.0", "method": method}
	if params != nil {
		message["params"] = params
	}
	s.Send(JSON(s.t, message))
}

// JSON encodes v.
func JSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// until waits until found gives something, or fails the test.
func (s *Server) until(d time.Duration, what string, found func() bool) error {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		ok, closed, changed := found(), s.closed, s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		if closed {
			return fmt.Errorf("the server closed its output before %s", what)
		}
		select {
		case <-changed:
		case <-deadline.C:
			return fmt.Errorf("%s did not come within %v", what, d)
		}
	}
}

// Await waits for the reply to an id and takes it.
func (s *Server) Await(id string) Reply {
	s.t.Helper()
	return s.AwaitFor(id, Patience)
}

// AwaitFor is [Server.Await] with another patience.
func (s *Server) AwaitFor(id string, d time.Duration) Reply {
	s.t.Helper()
	reply, err := s.TryAwait(id, d)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply
}

// TryAwait is [Server.AwaitFor] that returns an error, for other goroutines
// than the test's own.
func (s *Server) TryAwait(id string, d time.Duration) (Reply, error) {
	var reply Reply
	err := s.until(d, "the reply to "+id, func() bool {
		r, ok := s.replies[id]
		if ok {
			reply = r
			delete(s.replies, id)
		}
		return ok
	})
	return reply, err
}

// AwaitBatch waits for an array of replies.
func (s *Server) AwaitBatch() []Reply {
	s.t.Helper()
	var batch []Reply
	err := s.until(Patience, "a batch of replies", func() bool {
		if len(s.batches) == 0 {
			return false
		}
		batch, s.batches = s.batches[0], s.batches[1:]
		return true
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return batch
}

// Answered reports whether a reply to id is there, without waiting.
func (s *Server) Answered(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.replies[id]
	return ok
}

// Order is the ids of the replies in the order in which they came.
func (s *Server) Order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.order...)
}

// Lines is every line of output so far.
func (s *Server) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.lines...)
}

// Do sends a request and waits for its reply.
func (s *Server) Do(method string, params any) Reply {
	s.t.Helper()
	return s.Await(s.Ask(method, params))
}

// Handshake makes the handshake and returns the reply to it.
func (s *Server) Handshake(version string) Reply {
	s.t.Helper()
	reply := s.Do("initialize", map[string]any{
		"protocolVersion": version, "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "bed", "version": "1"},
	})
	if reply.Error != nil {
		s.t.Fatalf("initialize with %s: %v", version, reply.Error)
	}
	s.Note("notifications/initialized", nil)
	return reply
}

// Arguments of a tool.
type Arguments = map[string]any

// Call calls a tool and waits for its reply.
func (s *Server) Call(tool string, a Arguments) Reply {
	s.t.Helper()
	return s.Await(s.AskCall(tool, a))
}

// AskCall sends a call and returns its id.
func (s *Server) AskCall(tool string, a Arguments) string {
	s.t.Helper()
	if a == nil {
		a = Arguments{}
	}
	return s.Ask("tools/call", map[string]any{"name": tool, "arguments": a})
}

// A ToolResult is the result of a call.
type ToolResult struct {
	Structured json.RawMessage `json:"structuredContent"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	IsError *bool `json:"isError"`
}

// Failed reports whether the tool itself failed.
func (r ToolResult) Failed() bool { return r.IsError != nil && *r.IsError }

// Text is the result's text.
func (r ToolResult) Text() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// ResultOf decodes a reply to a call that must not be a JSON-RPC error.
func ResultOf(t testing.TB, reply Reply) ToolResult {
	t.Helper()
	if reply.Error != nil {
		t.Fatalf("the call was answered with an error: %v", reply.Error)
	}
	var r ToolResult
	if err := json.Unmarshal(reply.Result, &r); err != nil {
		t.Fatalf("the result of a call is not one: %v: %.300s", err, reply.Result)
	}
	return r
}

// Get calls a tool that must succeed and decodes its structured content into v.
func (s *Server) Get(tool string, a Arguments, v any) ToolResult {
	s.t.Helper()
	r := ResultOf(s.t, s.Call(tool, a))
	if r.Failed() {
		s.t.Fatalf("%s %v failed: %s", tool, a, r.Text())
	}
	// Decoding into a used value would keep what the new one leaves out.
	reflect.ValueOf(v).Elem().SetZero()
	if err := json.Unmarshal(r.Structured, v); err != nil {
		s.t.Fatalf("%s %v: %v in %.300s", tool, a, err, r.Structured)
	}
	return r
}

// Close ends the input and returns the exit status, and how long the server
// took to end. A server that does not end within the patience fails the test.
func (s *Server) Close(patience time.Duration) (status int, took time.Duration) {
	s.t.Helper()
	begun := time.Now()
	_ = s.Stdin.Close()
	return s.AwaitEnd(patience), time.Since(begun)
}

// AwaitEnd waits for the process to end and returns its exit status; -1 when a
// signal ended it.
func (s *Server) AwaitEnd(patience time.Duration) int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Errorf("the server (pid %d) did not end within %v", s.PID(), patience)
		s.Kill()
	}
	return s.Cmd.ProcessState.ExitCode()
}

// Kill ends the process: it is asked to, and after a while it and its group are
// killed, whatever they are doing.
func (s *Server) Kill() {
	select {
	case <-s.ended:
		return
	default:
	}
	_ = s.Stdin.Close()
	_ = s.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
		return
	case <-time.After(2 * time.Second):
	}
	if err := syscall.Kill(-s.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.t.Errorf("the server cannot be killed: %v", err)
	}
	<-s.ended
}

// Ended is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// A Run is a command that ran to its end.
type Run struct {
	Status         int
	Stdout, Stderr string
	Took           time.Duration
}

// RunBinary runs the binary with an empty input.
func RunBinary(t testing.TB, args ...string) Run {
	t.Helper()
	return RunCommand(t, exec.Command(binary, args...))
}

// RunCommand runs a command to its end, for at most a minute.
func RunCommand(t testing.TB, c *exec.Cmd) Run {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	begun := time.Now()
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	err := c.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", c.Args, err)
	}
	return Run{c.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(begun)}
}
