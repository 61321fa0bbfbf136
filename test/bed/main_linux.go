package bed

// This file runs a test package: the binary is built before the tests, and
// nothing may be left running after them.

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mark is the variable that every process of a run inherits.
const mark = "TOPSIDE_TEST_RUN"

var (
	binary string
	folder string
)

// Main builds the binary, runs the tests and looks for what they left behind.
// A test binary that was started to play a part (see [Play]) plays it instead.
func Main(m *testing.M) {
	if part := os.Getenv(partVariable); part != "" {
		os.Exit(play(part))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if err := os.Setenv(mark, rand.Text()); err != nil {
		return complain(err)
	}
	for _, variable := range []string{"DOCKER_HOST", "CONTAINER_HOST"} {
		if err := os.Unsetenv(variable); err != nil {
			return complain(err)
		}
	}
	var err error
	if folder, err = os.MkdirTemp("", "topside-bed-"); err != nil {
		return complain(err)
	}
	defer os.RemoveAll(folder)
	// Other users run the binary too, in the tests of permissions.
	if err := os.Chmod(folder, 0o755); err != nil {
		return complain(err)
	}
	if err := build(); err != nil {
		return complain(err)
	}
	status := m.Run()
	for _, closing := range closings {
		closing()
	}
	if left := leftovers(5 * time.Second); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "bed: the tests left these processes running:\n%s\n", strings.Join(left, "\n"))
		status = max(status, 1)
	}
	return status
}

var closings []func()

// AtEnd runs f after the last test of the package.
func AtEnd(f func()) { closings = append(closings, f) }

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "bed:", err)
	return 1
}

func build() error {
	root, err := projectRoot()
	if err != nil {
		return err
	}
	if err := touch(root); err != nil {
		return err
	}
	binary = filepath.Join(folder, "topside")
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X topside/internal/cli.version=0.0.0-test", "-o", binary, "./cmd/topside")
	c.Dir = root
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("the binary does not build: %w\n%s", err, out)
	}
	return nil
}

// touch looks at every source of the program, so that the go command does not
// take the result of an earlier run for that of a program that has changed.
func touch(root string) error {
	for _, dir := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			_, err = os.Stat(path)
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := os.Stat(filepath.Join(root, "go.sum"))
	return err
}

// Binary is the path of the program under test.
func Binary() string { return binary }

// Folder is a folder of this run that other users can read.
func Folder() string { return folder }

// Project returns the path of a file of the project.
func Project(t testing.TB, name ...string) string {
	t.Helper()
	root, err := projectRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, name...)...)
}

func projectRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the tests")
		}
		dir = parent
	}
}

// leftovers lists the marked processes that are still there after a while. A
// zombie whose parent is gone is not one: it only waits to be collected.
func leftovers(patience time.Duration) []string {
	deadline := time.Now().Add(patience)
	for {
		left := marked()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func marked() []string {
	want := []byte(mark + "=" + os.Getenv(mark))
	var left []string
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environment, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil || !slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(v []byte) bool { return bytes.Equal(v, want) }) {
			continue
		}
		if !Alive(pid) || pid == os.Getppid() {
			continue
		}
		args, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		left = append(left, fmt.Sprintf("%d %q", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
	}
	return left
}

// Alive reports whether a process is there and not a zombie.
func Alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	at := bytes.LastIndexByte(stat, ')')
	return at > 0 && at+2 < len(stat) && !bytes.ContainsRune([]byte("ZX"), rune(stat[at+2]))
}
