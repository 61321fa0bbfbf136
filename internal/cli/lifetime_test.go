//go:build unix

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// aSecond is what a server has to end in, with room for a busy machine.
const aSecond = 3 * time.Second

// A running program of a test; its stdin stays open until closed.
type running struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	// raw is what out reads from; the reader of the program's stdout.
	raw io.ReadCloser
	// said is its stderr, to be read when it has ended.
	said *strings.Builder
}

func run(t *testing.T, name string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r := &running{Cmd: exec.CommandContext(ctx, name, args...), said: new(strings.Builder)}
	r.Stderr = r.said
	r.Env = append(os.Environ(), "GORACE="+promptExit)
	var err error
	if r.in, err = r.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if r.raw, err = r.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	r.out = bufio.NewReader(r.raw)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// send writes one message.
func (r *running) send(t *testing.T, message string) {
	t.Helper()
	if _, err := fmt.Fprintln(r.in, message); err != nil {
		t.Fatal(err)
	}
}

// ping waits until the server answers.
func (r *running) ping(t *testing.T) {
	t.Helper()
	r.send(t, `{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			t.Fatalf("no answer to ping: %v", err)
		}
		if strings.Contains(line, `"id":"p"`) {
			return
		}
	}
}

// endsWith waits for the end of the program and checks its status and that it
// came within a second.
func (r *running) endsWith(t *testing.T, status int, begin time.Time) {
	t.Helper()
	_, _ = io.Copy(io.Discard, r.out)
	err := r.Wait()
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != status {
		t.Errorf("status %d, want %d", got, status)
	}
	if took := time.Since(begin); took > aSecond {
		t.Errorf("took %v to end", took)
	}
}

const forced = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_system_summary","arguments":{"max_age_ms":0}}}`

// The window is a minute, so that the collection is under way when the end
// comes.
var servers = [][]string{
	{"topside", "mcp", "--interval-ms", "60000"},
	{"wsltop", "mcp", "--interval-ms", "60000"},
	{"xtop", "mcp"},
}

func TestEndOfInputWhileCollecting(t *testing.T) {
	t.Parallel()
	for _, server := range servers {
		t.Run(server[0], func(t *testing.T) {
			t.Parallel()
			r := run(t, server[0], server[1:]...)
			r.send(t, forced)
			r.ping(t)
			begin := time.Now()
			if err := r.in.Close(); err != nil {
				t.Fatal(err)
			}
			r.endsWith(t, 0, begin)
		})
	}
}

func TestSignalWhileCollecting(t *testing.T) {
	t.Parallel()
	for _, server := range servers {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(server[0]+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				r := run(t, server[0], server[1:]...)
				r.send(t, forced)
				r.ping(t)
				begin := time.Now()
				if err := r.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				r.endsWith(t, 0, begin)
			})
		}
	}
}

// TestParentGone keeps stdin open: only the parent's death can tell.
func TestParentGone(t *testing.T) {
	t.Parallel()
	r := run(t, "sh", "-c", `exec 3<&0; topside mcp --interval-ms 60000 <&3 & wait`)
	r.send(t, forced)
	r.ping(t)
	begin := time.Now()
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The server has the only other end of our pipe.
	if _, err := io.Copy(io.Discard, r.out); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > aSecond {
		t.Errorf("the server outlived its parent by %v", took)
	}
	_ = r.Wait() // killed
}

// TestInterruptedDemo ends what a person waits for as shells expect it, and the
// child with it.
func TestInterruptedDemo(t *testing.T) {
	t.Parallel()
	r := run(t, "topside", "demo", "--interval-ms", "60000")
	for line := ""; !strings.Contains(line, "get_system_summary"); {
		var err error
		if line, err = r.out.ReadString('\n'); err != nil {
			t.Fatalf("%v; it said %s", err, r.said.String())
		}
	}
	begin := time.Now()
	if err := r.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	r.endsWith(t, 130, begin)
}

// TestInterrupted turns a signal into the status that shells expect. It sends
// the signal to the test itself, which is watching for it then.
func TestInterrupted(t *testing.T) {
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		err := interruptible(func(ctx context.Context) error {
			if err := syscall.Kill(syscall.Getpid(), signal); err != nil {
				return err
			}
			<-ctx.Done()
			return fmt.Errorf("a wait was cut short: %w", context.Cause(ctx))
		})
		var said strings.Builder
		if got := report(Streams{Err: &said}, "topside", err); got != status || said.Len() > 0 {
			t.Errorf("%v: status %d and %q, want %d and nothing", signal, got, said.String(), status)
		}
	}
}

// TestBrokenPipe leaves a reader that had enough: the program ends quietly.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"snapshot", "--json", "--interval-ms", "100"},
		{"doctor"},
		{"wsltop", "--interval-ms", "100"},
		{"demo", "--interval-ms", "100"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			r := run(t, "topside", args...)
			_ = r.raw.Close()
			_ = r.in.Close()
			err := r.Wait()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if status := exit.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGPIPE {
					t.Errorf("ended with %v", err)
				}
			}
			if strings.Contains(r.said.String(), "pipe") {
				t.Errorf("said %q", r.said.String())
			}
		})
	}
}
