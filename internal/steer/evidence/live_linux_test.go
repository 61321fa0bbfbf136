package evidence

// What the running kernel answers about this very process, and the rules on
// harmless programs in the shape of an attack.

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"topside/internal/see"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/steer/alert"
)

func live(t testing.TB) *Reader {
	t.Helper()
	fs, err := proc.NewFS("/")
	if err != nil {
		t.Fatal(err)
	}
	return New(fs)
}

func TestOurselves(t *testing.T) {
	t.Parallel()
	r, self := live(t), int32(os.Getpid())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	on, err := r.ListensOn(self)
	if err != nil || !slices.Contains(on, "tcp "+listener.Addr().String()) {
		t.Errorf("listening on %s, found %v, %v", listener.Addr(), on, err)
	}
	all, err := r.Listening()
	if err != nil || !slices.ContainsFunc(all, func(s alert.Socket) bool { return s.Local.String() == listener.Addr().String() && s.Inode != 0 }) {
		t.Errorf("%s is not among %d: %v", listener.Addr(), len(all), err)
	}
	c, err := r.Credentials(self)
	if err != nil || int(c.RealUID) != os.Getuid() || int(c.EffectiveUID) != os.Geteuid() || !c.CapabilitiesKnown {
		t.Errorf("%+v, %v", c, err)
	}
	mappings, err := r.Mappings(self)
	if err != nil || len(mappings) == 0 {
		t.Errorf("%v, %v", mappings, err)
	}
	open, _, err := r.DescriptorUse(self)
	if err != nil || open < 3 {
		t.Errorf("%d descriptors, %v", open, err)
	}
	if _, err := r.Unlisted(func(int32) bool { return true }); err != nil && err != ErrHidden {
		t.Error(err)
	}
}

// The kernel's dump and its files agree on a connection.
func TestDumpAgreesWithFiles(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	find := func(list []alert.Socket) (alert.Socket, bool) {
		i := slices.IndexFunc(list, func(s alert.Socket) bool { return s.Established && s.Local.String() == conn.LocalAddr().String() })
		if i < 0 {
			return alert.Socket{}, false
		}
		return list[i], true
	}
	filed, ok := find(live(t).fromFiles("proc/self/net/"))
	if !ok {
		t.Fatal("the files do not show the connection")
	}
	dumped, err := dump(false)
	if err != nil {
		t.Logf("no dump here, the files are read instead: %v", err)
		return
	}
	if got, ok := find(dumped); !ok || got != filed {
		t.Errorf("the dump has %+v, the files have %+v", got, filed)
	}
}

// No process of this machine is hidden, whole rounds long: threads and
// processes that come and go are not mistaken for any.
func TestNothingIsHiddenHere(t *testing.T) {
	t.Parallel()
	r := live(t)
	last := r.lastPID()
	if last <= 0 {
		t.Fatal("the newest process id is not known")
	}
	listed := func(pid int32) bool { _, err := r.fs.Stat(pid); return err != nil }
	for range min(int(last)/probed+1, 40) {
		found, err := r.Unlisted(listed)
		if err == ErrHidden {
			t.Log("proc hides processes here by itself")
			return
		}
		if err != nil || len(found) > 0 {
			t.Fatalf("%v, %v", found, err)
		}
	}
}

// harmless starts a copy of sleep and ends it with the test. The copy takes
// its place and name from path, and its first argument from title.
func harmless(t *testing.T, path, title string, change func(*exec.Cmd)) int32 {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if path == "" {
		path = sleep
	} else {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		copyFile(t, sleep, path)
	}
	cmd := exec.Command(path, "600")
	cmd.Args[0] = title
	if change != nil {
		change(cmd)
	}
	// A child that another goroutine forks meanwhile may hold the copy open
	// for writing until it execs.
	err = cmd.Start()
	for range 100 {
		if err == nil || !strings.Contains(err.Error(), "text file busy") {
			break
		}
		time.Sleep(10 * time.Millisecond)
		again := exec.Command(path, "600")
		again.Args, again.Env, again.Stdin, again.Stdout, again.ExtraFiles = cmd.Args, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.ExtraFiles
		cmd = again
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return int32(cmd.Process.Pid)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// look takes real snapshots and lets the rules judge them, as if the processes
// had not been started below a test run, which explains much.
func look(t *testing.T, pids ...int32) []alert.Finding {
	t.Helper()
	observer, err := see.New(see.Options{WithoutEngines: true, Interval: see.MinInterval})
	if err != nil {
		t.Fatal(err)
	}
	defer observer.Close()
	engine, reader := alert.NewEngine(observer.FS().ClockTicks()), live(t)
	var found []alert.Finding
	fresh := time.Duration(0)
	for range 2 {
		snapshot, err := observer.Select(context.Background(), see.Selector{MaxAge: &fresh})
		if err != nil {
			t.Fatal(err)
		}
		found = engine.Evaluate(orphaned(snapshot.Observation(), pids), reader)
	}
	return slices.DeleteFunc(found, func(f alert.Finding) bool { return !slices.Contains(pids, f.PID) })
}

// orphaned cuts processes off from the test that started them.
func orphaned(o *model.Observation, pids []int32) *model.Observation {
	cut := *o
	cut.Processes = slices.Clone(o.Processes)
	for i := range cut.Processes {
		if p := cut.Processes[i].Process; slices.Contains(pids, p.PID) && !slices.Contains(pids, p.PPID) {
			row := *p
			row.PPID = 1
			cut.Processes[i].Process = &row
		}
	}
	return &cut
}

func TestHarmlessProgramsInTheShapeOfAttacks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	inTemporary := strings.HasPrefix(folder, "/tmp/") || strings.HasPrefix(folder, "/var/tmp/")
	hidden := harmless(t, filepath.Join(folder, ".x", "kdev"), "kdev", nil)
	wiped := harmless(t, filepath.Join(folder, "wiped"), "wiped", nil)
	if err := os.Remove(filepath.Join(folder, "wiped")); err != nil {
		t.Fatal(err)
	}
	kernel := harmless(t, filepath.Join(folder, "w"), "[kworker/0:1]", nil)
	inMemory := harmless(t, "", "m", func(c *exec.Cmd) { runFromMemory(t, c) })
	ordinary := harmless(t, "", "sleep", nil)
	piped, downloader := pipeFromDownload(t, folder)

	found := look(t, hidden, wiped, kernel, inMemory, ordinary, piped, downloader)
	rules := map[int32][]string{}
	for _, f := range found {
		rules[f.PID] = append(rules[f.PID], fmt.Sprintf("%s %s", f.Rule, f.Severity))
	}
	for _, c := range []struct {
		name string
		pid  int32
		want string
		if_  bool
	}{
		{"hidden in a temporary folder", hidden, "suspicious_exe_path Critical", inTemporary},
		{"removed while it runs", wiped, "suspicious_exe_path Critical", inTemporary},
		{"titled as a kernel thread", kernel, "process_masquerading Critical", true},
		{"from a memfd", inMemory, "suspicious_exe_path Critical", true},
		{"a shell behind a download", piped, "suspicious_pipe_or_download Critical", true},
	} {
		if c.if_ && !slices.Contains(rules[c.pid], c.want) {
			t.Errorf("%s: found %q, want %s", c.name, rules[c.pid], c.want)
		}
	}
	for _, f := range found {
		if f.PID == ordinary && f.Severity != alert.Info {
			t.Errorf("sleep is suspicious: %+v", f)
		}
	}
}

// runFromMemory makes a command run a copy of its program in a memfd.
func runFromMemory(t *testing.T, c *exec.Cmd) {
	t.Helper()
	fd, err := unix.MemfdCreate("a", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { file.Close() })
	data, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(data); err != nil {
		t.Fatal(err)
	}
	c.ExtraFiles = append(c.ExtraFiles, file)
	c.Path = "/proc/self/fd/3"
}

// pipeFromDownload starts a shell that reads its commands from a pipe, and a
// copy of sleep that is called curl and holds the pipe's other end.
func pipeFromDownload(t *testing.T, folder string) (shell, downloader int32) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	downloader = harmless(t, filepath.Join(folder, "curl"), "curl", func(c *exec.Cmd) { c.Stdout = write })
	cmd := exec.Command("/bin/sh")
	cmd.Stdin = read
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return int32(cmd.Process.Pid), downloader
}

// BenchmarkReads is what one pass reads of a warm machine beside the snapshot:
// sixteen inspections, a part of the process ids, the listening sockets.
func BenchmarkReads(b *testing.B) {
	r, self := live(b), int32(os.Getpid())
	for b.Loop() {
		r.Renew()
		for range 16 {
			_, _ = r.Credentials(self)
			_, _ = r.Environment(self, "LD_PRELOAD", "LD_AUDIT")
			_, _ = r.Mappings(self)
		}
		_, _ = r.Unlisted(func(int32) bool { return false })
		_, _ = r.Listening()
	}
}
