//go:build linux

package fleet

// This file is a client of the topup contract: it runs the binary as topup, over its
// standard streams, and makes calls.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"topside/test/bed"
)

// A topup is one running front end and its client.
type topup struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[string]chan json.RawMessage
	ended   chan struct{} // closed when it has been waited for
	said    lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// cache is the folder of compiled OCaml drivers, for both sides.
func cache() string { return filepath.Join(bed.Folder(), "cache") }

// named is the binary under another name.
func named(name string) (string, error) {
	dir := filepath.Join(bed.Folder(), "names")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	err := os.Symlink(bed.Binary(), path)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	return path, err
}

// nearSide is the environment of a front end.
func nearSide(home string, variables ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "HOME" && !strings.HasPrefix(name, "TOPUP_") && !strings.HasPrefix(name, "XDG_") {
			env = append(env, v)
		}
	}
	return append(append(env, "HOME="+home, "XDG_CACHE_HOME="+cache()), variables...)
}

// runTopup starts the program; env is its whole environment.
func runTopup(env []string, args ...string) (*topup, error) {
	program, err := named("topup")
	if err != nil {
		return nil, err
	}
	c := &topup{cmd: exec.Command(program, args...), waiting: map[string]chan json.RawMessage{}, ended: make(chan struct{})}
	c.cmd.Env = env
	c.cmd.Stderr = &c.said
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.read(out)
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

func (c *topup) read(r io.Reader) {
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID json.RawMessage `json:"id"`
		}
		if json.Unmarshal(line, &m) == nil && m.ID != nil {
			c.channel(string(m.ID)) <- line
		}
	}
}

func (c *topup) channel(id string) chan json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] == nil {
		c.waiting[id] = make(chan json.RawMessage, 10)
	}
	return c.waiting[id]
}

func (c *topup) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = c.in.Write(append(line, '\n'))
	return err
}

func (c *topup) notify(method string, params any) error {
	return c.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// begin sends a request and returns its id.
func (c *topup) begin(method string, params any) (string, error) {
	c.mu.Lock()
	c.next++
	id := strconv.Itoa(c.next)
	c.mu.Unlock()
	return id, c.send(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params})
}

func (c *topup) beginTool(tool string, arguments any) (string, error) {
	return c.begin("tools/call", map[string]any{"name": tool, "arguments": arguments})
}

// answer waits for the reply to a request.
func (c *topup) answer(id string, patience time.Duration) (json.RawMessage, error) {
	var m struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	var line json.RawMessage
	select {
	case line = <-c.channel(id):
	case <-c.ended:
		select {
		case line = <-c.channel(id):
		default:
			return nil, fmt.Errorf("topup ended (%v) before its reply; stderr: %s", c.cmd.ProcessState, c.said.String())
		}
	case <-time.After(patience):
		return nil, fmt.Errorf("no reply within %v; stderr: %s", patience, c.said.String())
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, errors.New(m.Error.Message)
	}
	return m.Result, nil
}

// finish waits for the result of a tool.
func (c *topup) finish(id string) (text string, isError bool, err error) {
	raw, err := c.answer(id, bed.Patience)
	if err != nil {
		return "", false, err
	}
	var r struct {
		Content []struct{ Text string }
		IsError *bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 || r.IsError == nil {
		return "", false, fmt.Errorf("no result of a tool: %s", raw)
	}
	return r.Content[0].Text, *r.IsError, nil
}

func (c *topup) tool(tool string, arguments any) (text string, isError bool, err error) {
	id, err := c.beginTool(tool, arguments)
	if err != nil {
		return "", false, err
	}
	return c.finish(id)
}

func (c *topup) instructions() (string, error) {
	id, err := c.begin("initialize", map[string]any{})
	if err != nil {
		return "", err
	}
	raw, err := c.answer(id, bed.Patience)
	if err != nil {
		return "", err
	}
	var r struct{ Instructions string }
	return r.Instructions, errors.Join(err, json.Unmarshal(raw, &r))
}

// end closes the input and returns the exit status.
func (c *topup) end(patience time.Duration) (int, error) {
	_ = c.in.Close()
	select {
	case <-c.ended:
		return c.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		<-c.ended
		return -1, fmt.Errorf("topup does not end within %v after the end of its input; stderr: %s", patience, c.said.String())
	}
}

// kill ends the program and waits for that.
func (c *topup) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// must calls a tool that must not fail.
func (c *topup) must(t testing.TB, tool string, arguments map[string]any) string {
	t.Helper()
	text, isError, err := c.tool(tool, arguments)
	if err != nil || isError {
		t.Fatalf("%s %v: %v %s", tool, arguments, err, text)
	}
	return text
}

// fails calls a tool that must fail with words of a pattern.
func (c *topup) fails(t testing.TB, words, tool string, arguments map[string]any) string {
	t.Helper()
	text, isError, err := c.tool(tool, arguments)
	if err != nil || !isError || !strings.Contains(text, words) {
		t.Errorf("%s %v: %v %v %s\nwant a failure with %q", tool, arguments, err, isError, text, words)
	}
	return text
}
