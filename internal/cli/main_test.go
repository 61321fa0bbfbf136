package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes this test binary the program that the scripts run, under its
// own name and under those of the contracts.
func TestMain(m *testing.M) {
	program := func() { os.Exit(Main(os.Args, Standard())) }
	testscript.Main(leakChecked{m}, map[string]func(){"topside": program, "wsltop": program, "xtop": program, "topup": program, "topup-opt": program})
}

// leakChecked runs the tests and then looks for goroutines that outlived them.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	code := m.M.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// TestScripts runs the command line as users do. Each script begins with a
// sentence that says why it exists.
func TestScripts(t *testing.T) {
	t.Parallel()
	trees, err := filepath.Abs(filepath.Join("..", "..", "testdata", "trees"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TREES", trees)
			env.Setenv("NO_COLOR", "1")
			// The race detector's second of waiting at every exit adds up.
			env.Setenv("GORACE", promptExit)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":     exits,
			"json":      checkJSON,
			"await":     await,
			"mode":      checkMode,
			"listen":    listenStale,
			"terminate": terminate,
		},
	})
}

// promptExit keeps the race detector from waiting at the end of a program.
const promptExit = "atexit_sleep_ms=0"

// exits runs a program and checks its exit status: exits 2 topside mcp --nonsense.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGUMENTS…")
	}
	status := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s did not run: %v", args[1], err)
		}
		status = exit.ExitCode()
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("%s ended with status %d, not %s", args[1], status, args[0])
	}
}

// checkJSON checks that a file is one JSON value, and where a path of keys and
// a value follow, that the value there is that one: json stdout a.b.0 '"x"'. The
// value "*" stands for any that is not null.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 && len(args) != 3 {
		ts.Fatalf("usage: json FILE [PATH VALUE]")
	}
	found, err := valueAt(ts.ReadFile(args[0]), args[1:])
	if err != nil && !neg {
		ts.Fatalf("%s: %v", args[0], err)
	}
	if len(args) == 1 {
		return
	}
	same := err == nil && (found == args[2] || args[2] == "*" && found != "null")
	if same == neg {
		ts.Fatalf("%s: %s is %s (%v)", args[0], args[1], found, err)
	}
}

func valueAt(text string, path []string) (string, error) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil || len(path) == 0 {
		return "", err
	}
	for key := range strings.SplitSeq(path[0], ".") {
		switch v := value.(type) {
		case map[string]any:
			inner, ok := v[key]
			if !ok {
				return "", fmt.Errorf("no key %q", key)
			}
			value = inner
		case []any:
			if key == "length" {
				value = len(v)
				continue
			}
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return "", fmt.Errorf("no element %q of %d", key, len(v))
			}
			value = v[i]
		default:
			return "", fmt.Errorf("%q is below %v", key, value)
		}
	}
	encoded, err := json.Marshal(value)
	return string(encoded), err
}

// await waits until a server listens on a socket, for at most ten seconds.
func await(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: await SOCKET")
	}
	path := ts.MkAbs(args[0])
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("nothing listens on %s: %v", args[0], err)
		}
	}
}

// checkMode checks the permissions of a file: mode FILE 0600.
func checkMode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: mode FILE OCTAL")
	}
	info, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has mode %s, not %s", args[0], got, args[1])
	}
}

// listenStale leaves the file of a socket that nobody listens on any more.
func listenStale(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: listen SOCKET")
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: ts.MkAbs(args[0]), Net: "unix"})
	ts.Check(err)
	listener.SetUnlinkOnClose(false)
	ts.Check(listener.Close())
	if info, err := os.Lstat(ts.MkAbs(args[0])); err != nil || info.Mode()&fs.ModeSocket == 0 {
		ts.Fatalf("%s is no socket: %v", args[0], err)
	}
}

// terminate sends SIGTERM to what the script runs in the background.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, command := range ts.BackgroundCmds() {
		ts.Check(command.Process.Signal(syscall.SIGTERM))
	}
}
