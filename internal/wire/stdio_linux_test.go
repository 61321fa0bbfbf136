package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary serves as the server process: with WIRE_TEST_ROLE it becomes
// one instead of running tests.

const roleVariable = "WIRE_TEST_ROLE"

func init() {
	switch os.Getenv(roleVariable) {
	case "server":
		serverProcess()
	case "parent":
		parentProcess()
	}
}

// serverProcess serves on standard input and output, prints where it must not,
// and exits with 0, 3 (a fault), or 4 (the parent is gone).
func serverProcess() {
	ctx, stop := Signals(context.Background())
	defer stop()
	ctx, cancel := WithParent(ctx)
	defer cancel()
	s, err := Stdio()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stdio:", err)
		os.Exit(2)
	}
	fmt.Println("a print through os.Stdout")
	_, _ = unix.Write(1, []byte("a print to descriptor 1\n"))
	if n, err := os.Stdin.Read(make([]byte, 10)); n != 0 || !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "os.Stdin still reads the client:", n, err)
		os.Exit(2)
	}
	if n, err := unix.Read(0, make([]byte, 10)); n != 0 || err != nil {
		fmt.Fprintln(os.Stderr, "descriptor 0 still reads the client:", n, err)
		os.Exit(2)
	}
	err = Serve(ctx, testServer(make(chan struct{})), s, Options{Logger: slog.New(slog.DiscardHandler)})
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(3)
	case errors.Is(context.Cause(ctx), ErrParentGone):
		fmt.Fprintln(os.Stderr, "parent gone")
		os.Exit(4)
	}
	os.Exit(0)
}

// parentProcess starts a server with its own standard streams, waits for a line
// on descriptor 3, and exits without ending it.
func parentProcess() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=server")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		os.Exit(2)
	}
	_, _ = bufio.NewReader(os.NewFile(3, "go")).ReadString('\n')
	os.Exit(0)
}

type process struct {
	*client
	cmd    *exec.Cmd
	stderr *strings.Builder
}

// spawn starts this binary in a role. in and out are the child's ends; ours are
// given beside them.
func spawn(t *testing.T, role string, in, out *os.File, ourIn io.WriteCloser, ourOut io.ReadCloser, extra ...*os.File) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0") // no pause at the exit of a race binary
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = in, out, extra
	stderr := new(strings.Builder)
	cmd.Stderr = stderr
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if out != in {
		_ = out.Close()
	}
	p := &process{client: &client{t: t, in: ourIn, lines: make(chan string, 1000), result: make(chan error, 1)}, cmd: cmd, stderr: stderr}
	go func() { p.result <- cmd.Wait() }()
	go func() {
		defer close(p.lines)
		lines := bufio.NewReader(ourOut)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				p.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = ourIn.Close()
		_ = ourOut.Close()
		for range p.lines {
		}
	})
	return p
}

func pipes(t *testing.T) (inR, inW, outR, outW *os.File) {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return inR, inW, outR, outW
}

func socketPair(t *testing.T) (child *os.File, ours net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "ours")
	defer f.Close()
	ours, err = net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[1]), "child"), ours
}

// TestStdio serves over pipes, as most clients start a server, and over a socket
// pair, as Node does: only protocol lines arrive, prints go to standard error, and
// the end of input, SIGTERM and SIGINT end the process with status 0 while calls
// run that ignore everything.
func TestStdio(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*testing.T) *process{
		"pipes": func(t *testing.T) *process {
			inR, inW, outR, outW := pipes(t)
			return spawn(t, "server", inR, outW, inW, outR)
		},
		"socket pair": func(t *testing.T) *process {
			child, ours := socketPair(t)
			return spawn(t, "server", child, child, ours, ours)
		},
	}
	endings := map[string]func(*process){
		"end of input": func(p *process) {
			if c, ok := p.in.(*net.UnixConn); ok {
				_ = c.CloseWrite()
				return
			}
			_ = p.in.Close()
		},
		"SIGTERM": func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":  func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGINT) },
		"SIGHUP":  func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGHUP) },
	}
	for kind, start := range kinds {
		for ending, end := range endings {
			t.Run(kind+", "+ending, func(t *testing.T) {
				t.Parallel()
				p := start(t)
				p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
				p.want(`"id":1,"result"`)
				p.send(toolCall("2", "stubborn", "{}"), ping7)
				p.want(`"id":7`)
				end(p)
				took, err := p.end()
				if err != nil || took > time.Second+slack {
					t.Errorf("ended after %v with %v; stderr: %s", took, err, p.stderr)
				}
				// At the end of input the call that goes on is answered all the same.
				rest := p.rest()
				if ending == "end of input" {
					if len(rest) != 1 || !strings.Contains(rest[0], `"id":2,"error":{"code":-32000`) {
						t.Errorf("the call that was not done is answered by %q", rest)
					}
				} else if len(rest) > 0 {
					t.Errorf("more on the protocol's stream: %q", rest)
				}
				for _, print := range []string{"a print through os.Stdout", "a print to descriptor 1"} {
					if !strings.Contains(p.stderr.String(), print) {
						t.Errorf("standard error lacks %q", print)
					}
				}
			})
		}
	}
}

// TestStdioUnread: the client never reads the output, whose pipe is full.
func TestStdioUnread(t *testing.T) {
	t.Parallel()
	inR, inW, outR, outW := pipes(t)
	// A pipe that nobody reads: spawn gets another end to read from.
	otherR, otherW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer outR.Close()
	p := spawn(t, "server", inR, outW, inW, otherR)
	_ = otherW.Close()
	for i := range 3000 {
		p.send(toolCall(fmt.Sprint(i), "echo", `{"a":"`+strings.Repeat("z", 500)+`"}`))
	}
	_ = p.in.Close()
	if took, err := p.end(); err != nil || took > time.Second+slack {
		t.Errorf("ended after %v with %v", took, err)
	}
}

// TestInheritedModeUntouched: the descriptors that a server got keep their mode,
// which other processes share.
func TestInheritedModeUntouched(t *testing.T) {
	t.Parallel()
	inR, inW, outR, outW := pipes(t)
	keep, err := unix.FcntlInt(inR.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(keep)
	if err := unix.SetNonblock(keep, false); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, "server", inR, outW, inW, outR)
	p.send(ping7)
	p.want(`"id":7`)
	flags, err := unix.FcntlInt(uintptr(keep), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
}

// TestParentGone: the process between us and the server exits, while the server's
// input stays open.
func TestParentGone(t *testing.T) {
	t.Parallel()
	inR, inW, outR, outW := pipes(t)
	goR, goW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := spawn(t, "parent", inR, outW, inW, outR, goR)
	_ = goR.Close()
	p.send(ping7)
	p.want(`"id":7`)
	_, _ = io.WriteString(goW, "\n")
	_ = goW.Close()
	begun := time.Now()
	if rest := p.rest(); len(rest) > 0 { // ends when the server has closed its output
		t.Errorf("more lines: %q", rest)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("the server lived on for %v", took)
	}
	if _, err := p.end(); err != nil {
		t.Errorf("parent: %v", err)
	}
	if !strings.Contains(p.stderr.String(), "parent gone") {
		t.Errorf("stderr: %s", p.stderr)
	}
}

func TestPidfd(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watch := func(ctx context.Context) chan bool {
		fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan bool, 1)
		go func() { ended <- waitForPidfd(ctx, fd) }()
		return ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled, ended := watch(ctx), watch(t.Context())
	cancel()
	if <-cancelled {
		t.Error("the end of the context counts as a death")
	}
	_ = cmd.Process.Kill()
	select {
	case dead := <-ended:
		if !dead {
			t.Error("death was not seen")
		}
	case <-time.After(patience):
		t.Error("death was not seen in time")
	}
	_ = cmd.Wait()
}

// TestPolledInput: a read that waits on a terminal-like descriptor ends at Close.
func TestPolledInput(t *testing.T) {
	t.Parallel()
	child, ours := socketPair(t)
	defer ours.Close()
	in, err := openInput(int(child.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	_ = child.Close()
	if _, err := ours.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := in.Read(buf); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := in.Read(buf)
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := in.Read(buf); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
}

// TestPipesAreReopened: a pipe is read and written through descriptions of our
// own, on which waiting ends at Close.
func TestPipesAreReopened(t *testing.T) {
	t.Parallel()
	inR, inW, outR, outW := pipes(t)
	for _, f := range []*os.File{inR, inW, outR, outW} {
		defer f.Close()
	}
	in, err := openInput(int(inR.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	out, err := openOutput(int(outW.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := in.(*os.File); !ok {
		t.Errorf("input is a %T", in)
	}
	if _, ok := out.(*os.File); !ok {
		t.Errorf("output is a %T", out)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := in.Read(make([]byte, 1))
		ended <- err
	}()
	go func() {
		_, err := out.Write(make([]byte, 1<<20)) // more than a pipe holds
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	_ = in.Close()
	_ = out.Close()
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrClosed) {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a read or write outlives Close")
		}
	}
}

// TestClosedStandardError: prints to a standard error that nobody holds any more
// do not kill the server (SIGPIPE).
func TestClosedStandardError(t *testing.T) {
	t.Parallel()
	inR, inW, outR, outW := pipes(t)
	errR, errW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = errR.Close()
	defer outR.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=server", "GORACE=atexit_sleep_ms=0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{inR, outW, errW} {
		_ = f.Close()
	}
	_, _ = io.WriteString(inW, ping7+"\n")
	line, err := bufio.NewReader(outR).ReadString('\n')
	if err != nil || !strings.Contains(line, `"id":7`) {
		t.Errorf("%q %v", line, err)
	}
	_ = inW.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
