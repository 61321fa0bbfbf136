// Package ssh runs the system's OpenSSH client with the user's own configuration,
// jump hosts, agent and known hosts, and makes sense of how it ends.
//
// Every ssh process is owned: it has a process group of its own, what it says on
// standard error is captured and bounded, it never prompts, and closing its
// [Process] ends it. The package knows two ways to reach a host, see [Dialer].
// Files:
//
//	ssh.go      the command line and the process
//	cause.go    what a failed ssh meant, and what to do about it
//	dial.go     the relay: frames on the stdio of one ssh
//	tunnel.go   the original topup's way: a forwarded socket
//	shell.go    command lines for the far side's shell
package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"topside/internal/fleet/host"
)

const (
	maxStderr = 16 << 10
	// endGrace is how long ssh may take to end by itself when its input has ended.
	endGrace = time.Second
	// killGrace is how long it may take after SIGTERM.
	killGrace = 500 * time.Millisecond
)

// Client says which ssh to run. The zero value is the user's own.
type Client struct {
	Program string   // "ssh" if empty
	Config  string   // file given with -F; the user's own configuration if empty
	Options []string // more options, ahead of ours: the first value of an option wins
}

// never prompts, notices a dead connection in 45 s, and stays out of the way of
// what the user's configuration does for interactive use. ControlMaster=no uses a
// master that runs, and never becomes one: that would outlive its call.
var options = []string{
	"-T",
	"-o", "BatchMode=yes",
	"-o", "ConnectTimeout=10",
	"-o", "ServerAliveInterval=15",
	"-o", "ServerAliveCountMax=3",
	"-o", "LogLevel=ERROR",
	"-o", "RemoteCommand=none",
	"-o", "ControlMaster=no",
	"-o", "ForwardX11=no",
}

// Args returns the arguments that run command on name, without the program. extra
// are options of this call.
func (c Client) Args(name string, extra []string, command string) ([]string, error) {
	if err := host.CheckName(name); err != nil {
		return nil, err
	}
	var args []string
	if c.Config != "" {
		args = append(args, "-F", c.Config)
	}
	args = append(args, c.Options...)
	args = append(args, options...)
	args = append(args, extra...)
	return append(args, "--", name, command), nil
}

// Process is a running ssh.
type Process struct {
	Host string
	In   *os.File // its standard input; nil after CloseIn
	Out  *os.File // its standard output; nil if it was not wanted

	cmd    *exec.Cmd
	stderr *tail
	done   chan struct{}
	err    error // of Wait; read after done
	inOnce sync.Once
	endOne sync.Once
}

// Start runs command on name. wantOut opens a pipe for standard output, which is
// otherwise dropped.
func (c Client) Start(name string, extra []string, command string, wantOut bool) (*Process, error) {
	args, err := c.Args(name, extra, command)
	if err != nil {
		return nil, err
	}
	program := c.Program
	if program == "" {
		program = "ssh"
	}
	cmd := exec.Command(program, args...)
	own(cmd)
	p := &Process{Host: name, cmd: cmd, stderr: &tail{}, done: make(chan struct{})}
	var theirs []*os.File
	closeTheirs := func() {
		for _, f := range theirs {
			f.Close()
		}
	}
	defer closeTheirs()
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs, p.In, cmd.Stdin = append(theirs, inR), inW, inR
	if wantOut {
		outR, outW, err := os.Pipe()
		if err != nil {
			inW.Close()
			return nil, err
		}
		widen(inW)
		widen(outR)
		theirs, p.Out, cmd.Stdout = append(theirs, outW), outR, outW
	}
	cmd.Stderr = p.stderr
	// What ssh leaves behind may hold its standard error open.
	cmd.WaitDelay = killGrace
	if err := cmd.Start(); err != nil {
		p.In.Close()
		if p.Out != nil {
			p.Out.Close()
		}
		if errors.Is(err, exec.ErrNotFound) {
			return nil, &Error{Host: name, Cause: NoClient, Text: err.Error()}
		}
		return nil, fmt.Errorf("start ssh: %w", err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Done is closed when ssh has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid is the process id of ssh.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// CloseIn ends the input of the far side's command.
func (p *Process) CloseIn() { p.inOnce.Do(func() { p.In.Close() }) }

// Close ends ssh and all of its group: first by the end of its input, then by
// signals. It returns when the process is gone, and at most about two seconds
// later.
func (p *Process) Close() {
	p.endOne.Do(func() {
		p.CloseIn()
		if p.Out != nil {
			p.Out.Close()
		}
		if !p.wait(endGrace) {
			p.terminate()
			if !p.wait(killGrace) {
				p.kill()
				p.wait(killGrace)
			}
		}
		p.kill() // a ProxyCommand, a jump host's ssh
	})
}

// Kill ends ssh without grace.
func (p *Process) Kill() {
	p.kill()
	p.Close()
}

func (p *Process) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return false
	}
}

// Failure waits, at most d, for ssh to end, and says why it did as an *Error. It
// returns nil when ssh is still there.
func (p *Process) Failure(d time.Duration) *Error {
	if !p.wait(d) {
		return nil
	}
	return explain(p.Host, p.err, p.stderr.String())
}

// Stderr is what ssh and the far side's command said so far, bounded.
func (p *Process) Stderr() string { return p.stderr.String() }

// tail keeps the first and the last of what is written to it: the first lines name
// the cause, the last ones how it ended.
type tail struct {
	mu      sync.Mutex
	first   []byte
	last    []byte
	dropped int
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	room := maxStderr/2 - len(t.first)
	take := min(room, len(b))
	t.first = append(t.first, b[:take]...)
	t.last = append(t.last, b[take:]...)
	if over := len(t.last) - maxStderr/2; over > 0 {
		t.dropped += over
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped > 0 {
		return fmt.Sprintf("%s\n… %d bytes …\n%s", t.first, t.dropped, t.last)
	}
	return string(t.first) + string(t.last)
}

// maxOutput bounds what Run takes from the far side.
const maxOutput = 1 << 20

// Run runs command on name, with input on its standard input (which may be nil),
// and returns what it printed, at most 1 MiB of it. A failure is an *Error.
func (c Client) Run(ctx context.Context, name, command string, input io.Reader) (string, error) {
	p, err := c.Start(name, []string{"-o", "ClearAllForwardings=yes"}, command, true)
	if err != nil {
		return "", err
	}
	defer p.Close()
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	fed := make(chan error, 1)
	go func() {
		var err error
		if input != nil {
			_, err = io.Copy(p.In, input)
		}
		p.CloseIn()
		fed <- err
	}()
	var out bytes.Buffer
	_, readErr := io.Copy(&out, io.LimitReader(p.Out, maxOutput+1))
	if out.Len() > maxOutput {
		p.Kill()
		return "", fmt.Errorf("host %s: its answer exceeds %d bytes", name, maxOutput)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Kill()
	}
	<-fed // a write to a process that has ended has failed
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("host %s: %w", name, err)
	}
	if p.err != nil {
		return out.String(), explain(name, p.err, p.stderr.String())
	}
	if readErr != nil {
		return "", fmt.Errorf("host %s: %w", name, readErr)
	}
	return out.String(), nil
}
