package tui

// This file drives the view in a real terminal: tmux is the terminal, and keys,
// sizes and hang-ups come from outside. The program is the real binary, or this
// test's own with the recorded machine for a source.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"topside/internal/see"
	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
	"topside/internal/tui/layout"
)

// playScene makes the test's own program a view of the recorded machine.
const playScene = "TOPSIDE_TEST_SCENE"

func TestMain(m *testing.M) {
	if how := os.Getenv(playScene); how != "" {
		os.Exit(showScene(how))
	}
	flag.Parse()
	status := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(status)
}

// A staged is the recorded machine after a minute, in which time stands still.
type staged struct {
	recorded
	panics bool
	still  bool // wait for ever
}

func (s *staged) Sample(ctx context.Context) (*Scene, error) {
	if s.panics {
		panic("the observer is broken")
	}
	if s.still {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.recorded.Sample(ctx)
}

// showScene runs the view of the recorded machine: "LAYOUT/THEME" or "panic".
func showScene(how string) int {
	name, theme, _ := strings.Cut(how, "/")
	source := &staged{recorded: recorded{t: new(testing.T)}, panics: how == "panic"}
	fixedConfig := &fixed{settings: Settings{Theme: theme, Layout: name, Interval: time.Second, Thresholds: threshold.Defaults()}}
	o := Options{
		Source: source, Configuration: fixedConfig, Alerts: &fixedAlerts{alerts: worldAlerts()}, Actor: &fixedActor{},
		In: os.Stdin, Out: os.Stdout,
	}
	if !source.panics {
		o.warm = func(take func(*Scene, []Alert)) {
			for range 240 {
				scene, _ := source.Sample(context.Background())
				take(scene, worldAlerts())
			}
			source.still = true
		}
	}
	if err := Run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// built is the real binary.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func binary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "topside-tui-test"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", filepath.Join(built.dir, "topside"), "topside/cmd/topside").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "topside")
}

// A terminal is one tmux server of our own with one window.
type terminal struct {
	t      *testing.T
	socket string
	home   string
}

// open starts a command in a terminal of that size. HOME is a folder of the
// test's own, so that nobody's configuration counts.
func open(t *testing.T, width, height int, command string, environ ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("tmux is missing: test/install installs what the tests need")
	}
	term := &terminal{t: t, socket: filepath.Join(t.TempDir(), "tmux"), home: t.TempDir()}
	// tmux sets TERM itself, and TMUX would make it a matter of tmux's own
	// terminal how many colours there are.
	env := append([]string{"exec env -u TMUX", "HOME=" + term.home, "XDG_CONFIG_HOME=" + term.home, "XDG_STATE_HOME=" + term.home,
		"TERM=xterm-256color", "COLORTERM=truecolor", "LC_ALL=C.UTF-8"}, environ...)
	t.Cleanup(func() { exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), strings.Join(append(env, command), " "))
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	c := exec.Command("tmux", append([]string{"-u", "-S", term.socket}, args...)...)
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color", "TMUX=")
	out, err := c.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (term *terminal) screen() string      { return term.tmux("capture-pane", "-p") }
func (term *terminal) keys(keys ...string) { term.tmux(append([]string{"send-keys"}, keys...)...) }
func (term *terminal) typed(text string)   { term.tmux("send-keys", "-l", text) }
func (term *terminal) says(format string) string {
	return strings.TrimSpace(term.tmux("display-message", "-p", format))
}

func (term *terminal) resize(width, height int) {
	term.tmux("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height))
}

// shows waits until the screen holds every text.
func (term *terminal) shows(texts ...string) string {
	term.t.Helper()
	return term.becomes(strings.Join(texts, " and "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// stands waits until the screen is as ok wants it and stands still: a frame can be
// half drawn when it is looked at.
func (term *terminal) stands(what string, ok func(string) bool) string {
	term.t.Helper()
	before := ""
	return term.becomes(what, func(screen string) bool {
		still := screen == before
		before = screen
		time.Sleep(200 * time.Millisecond)
		return still && ok(screen)
	})
}

func (term *terminal) becomes(what string, ok func(string) bool) string {
	term.t.Helper()
	var screen string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(40 * time.Millisecond) {
		if screen = term.screen(); ok(screen) {
			return screen
		}
	}
	term.t.Fatalf("the terminal never shows %s; it shows\n%s", what, screen)
	return ""
}

// restored checks that the terminal is as it was before the view: no second
// screen, a cursor, no mouse, lines that are edited and echoed.
func (term *terminal) restored() {
	term.t.Helper()
	if got := term.says("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"); got != "0 1 0" {
		term.t.Errorf("alternate screen, cursor, mouse: %s, want 0 1 0", got)
	}
	term.shows("ready:")
	term.typed("echo sane=$(stty -a | tr ' ;' '\\n\\n' | grep -c -x -e icanon -e echo -e isig)")
	term.keys("Enter")
	term.shows("sane=3")
}

// inShell runs a command in a shell that tells how it ended.
func inShell(command string) string {
	return "sh -c '" + command + "; echo ended with $?; exec env PS1=ready: sh'"
}

var clock = regexp.MustCompile(`\d\d:\d\d:\d\d`)

// The real binary on a recorded machine, in every layout, against golden
// screens; only the clock is masked.
func TestBinaryOnARecordedMachine(t *testing.T) {
	t.Parallel()
	term := open(t, 120, 40, binary(t)+" top --interval-ms 60000 --root "+recordedTree(t))
	for _, name := range layout.Names() {
		screen := term.stands("the layout "+name, func(s string) bool {
			first, rest, _ := strings.Cut(s, "\n")
			return strings.HasSuffix(strings.TrimRight(first, " "), "· "+name) && strings.Contains(rest, "pthread_load")
		})
		lines := strings.Split(trimmed(clock.ReplaceAllString(screen, "##:##:##")), "\n")
		golden(t, "binary-"+strings.ToLower(strings.ReplaceAll(name, " ", "-")), strings.Join(lines[:39], "\n")+"\n") // the last line has messages
		term.keys("l")
	}
	term.quit()
}

// quit ends the view and waits for it.
func (term *terminal) quit() {
	term.t.Helper()
	pid, err := strconv.Atoi(term.says("#{pane_pid}"))
	if err != nil {
		term.t.Fatal(err)
	}
	term.keys("C-c")
	term.gone(pid)
}

func (term *terminal) gone(pid int) {
	term.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if syscall.Kill(pid, 0) != nil {
			return
		}
	}
	term.t.Error("the view does not end")
}

func trimmed(screen string) string {
	lines := strings.Split(screen, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func recordedTree(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../testdata/trees/prometheus-procfs")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// On this machine: find a process of ours by the filter, look at it, end it,
// and read in the audit log that it was so.
func TestSignalOnThisMachine(t *testing.T) {
	t.Parallel()
	victim := exec.Command("sleep", "86399.25")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- victim.Wait() }()
	defer victim.Process.Kill()
	pid := strconv.Itoa(victim.Process.Pid)

	term := open(t, 130, 44, binary(t)+" top --layout process-focus")
	term.shows("Processes", "COMMAND")
	term.keys("/")
	term.typed("sleep 86399.25")
	term.keys("Enter")
	term.shows("sleep 86399.25", "1 of 1", pid)
	term.keys("Enter")
	term.shows("Details: sleep", "program", pid)
	term.keys("k")
	term.shows("Signal "+pid, "SIGKILL", "Send SIGTERM to sleep")
	term.keys("y")
	select {
	case err := <-ended:
		var status *exec.ExitError
		if !errors.As(err, &status) || status.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("it ended with %v, want SIGTERM", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("it was not ended; the terminal shows\n%s", term.screen())
	}
	term.shows("ended ", "after SIGTERM")
	log, err := os.ReadFile(filepath.Join(term.home, "topside", "audit.log"))
	if err != nil || !strings.Contains(string(log), `"pid":`+pid) || !strings.Contains(string(log), `"client":"topside top"`) {
		t.Errorf("the audit log: %v: %s", err, log)
	}
	term.quit()
}

// A change of the configuration, as MCP clients make it, reaches a running
// view at its next tick, and a choice in the view reaches the configuration.
func TestConfigurationOfARunningView(t *testing.T) {
	t.Parallel()
	term := open(t, 120, 40, binary(t)+" top")
	term.shows("Processes", "every 1s", "Dashboard")
	store, err := config.Open(filepath.Join(term.home, "topside", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Update(func(c *config.Config) error {
		c.SetLayout("Memory Focus")
		c.SetTheme("miami")
		_, err := c.SetInterval(2000)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	changed := time.Now()
	term.shows("every 2s", "Memory Focus")
	if took := time.Since(changed); took > 4*time.Second {
		t.Errorf("the change took %v to be seen", took)
	}
	if !strings.Contains(term.tmux("capture-pane", "-p", "-e"), "48;2;22;15;38") {
		t.Error("the background is not that of miami")
	}
	term.keys("t")
	term.shows("theme oslo")
	if got := store.Get().Theme; got != "oslo" {
		t.Errorf("the configuration has %s, want oslo", got)
	}
	term.quit()
}

// One cell, then a real size, then a storm of sizes.
func TestSizesOfARealTerminal(t *testing.T) {
	t.Parallel()
	term := open(t, 1, 1, inShell(binary(t)+" top --interval-ms 100"))
	term.becomes("the view at 1×1", func(string) bool { return term.says("#{alternate_on}") == "1" })
	term.resize(120, 40)
	term.shows("topside", "Processes", "? help")
	storm := rand.New(rand.NewPCG(1, 2))
	for range 120 {
		term.resize(1+storm.IntN(220), 1+storm.IntN(70))
	}
	term.resize(100, 30)
	// A frame of the size before may still be there, or one that is half drawn.
	term.becomes("a whole frame after the storm", func(screen string) bool {
		lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
		return len(lines) == 30 && strings.HasPrefix(lines[0], " topside") && strings.HasPrefix(lines[29], " ? help") && strings.Contains(screen, "Processes")
	})
	term.keys("q")
	term.shows("ended with 0")
	term.restored()
}

// Whatever signal ends the view, the terminal is as it was.
func TestEndings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		status string
	}{
		"hangup": {syscall.SIGHUP, "ended with 1"}, "term": {syscall.SIGTERM, "ended with 143"}, "interrupt": {syscall.SIGINT, "ended with 130"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := open(t, 100, 30, inShell(binary(t)+" top"))
			term.shows("Processes")
			if err := syscall.Kill(term.child(), c.signal); err != nil {
				t.Fatal(err)
			}
			term.shows(c.status)
			term.restored()
		})
	}
}

// child is the process that the terminal's shell runs.
func (term *terminal) child() int {
	term.t.Helper()
	shell := term.says("#{pane_pid}")
	data, err := os.ReadFile("/proc/" + shell + "/task/" + shell + "/children")
	if err != nil {
		term.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		term.t.Fatal(err)
	}
	return pid
}

// Ctrl+Z gives the shell its terminal, and fg the view its screen.
func TestSuspend(t *testing.T) {
	t.Parallel()
	term := open(t, 100, 30, "PS1=ready: HISTFILE= bash --norc -i")
	term.shows("ready:")
	term.keys(binary(t)+" top", "Enter")
	term.shows("Processes", "? help")
	term.keys("C-z")
	term.shows("Stopped", "ready:")
	term.restored()
	term.keys("fg", "Enter")
	term.shows("Processes", "? help")
	term.keys("q")
	// The prompt is back when the view has ended, and not only left the screen.
	term.becomes("the shell", func(s string) bool {
		return !strings.Contains(s, "Processes") && strings.HasSuffix(strings.TrimSpace(s), "ready:")
	})
}

// A terminal that is closed takes the view with it.
func TestClosedTerminal(t *testing.T) {
	t.Parallel()
	term := open(t, 100, 30, binary(t)+" top")
	term.shows("Processes")
	pid, err := strconv.Atoi(term.says("#{pane_pid}"))
	if err != nil {
		t.Fatal(err)
	}
	term.tmux("kill-server")
	term.gone(pid)
}

// A fault of the program restores the terminal too.
func TestPanic(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	term := open(t, 100, 30, inShell(playScene+"=panic "+self))
	term.shows("ended with 1")
	term.restored()
}

// No colour where none is wanted, sixteen where those are all.
func TestColoursOfARealTerminal(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	coloured := regexp.MustCompile(`\x1b\[([0-9]+;)*(3[0-8]|4[0-8]|9[0-7])[;m]`)
	many := regexp.MustCompile(`\x1b\[([0-9]+;)*(38|48);`)
	show := func(environ ...string) string {
		term := open(t, 120, 40, playScene+"=Dashboard/miami "+self, environ...)
		term.shows("shop-1", "checkpointer")
		return term.tmux("capture-pane", "-p", "-e")
	}
	if s := show("NO_COLOR=1"); coloured.MatchString(s) {
		t.Error("NO_COLOR has colours")
	}
	if s := show("TERM=xterm", "COLORTERM="); many.MatchString(s) || !coloured.MatchString(s) {
		t.Errorf("a terminal of sixteen colours has others (%q), or none", many.FindString(s))
	}
	if s := show(); !strings.Contains(s, "48;2;22;15;38") {
		t.Error("a terminal of many colours does not have the theme's background")
	}
}

// The mouse as a terminal reports it.
func TestMouseOfARealTerminal(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	term := open(t, 120, 40, playScene+"='Process Focus/x' "+self)
	screen := term.stands("the columns where they stay", func(s string) bool {
		return strings.Contains(s, "shop-1") && strings.Contains(s, "checkpointer") && strings.Contains(s, "▼CPU%")
	})
	for y, line := range strings.Split(screen, "\n") {
		if at := strings.Index(line, "RSS"); at >= 0 {
			x := len([]rune(line[:at]))
			term.typed(fmt.Sprintf("\x1b[<0;%d;%dM\x1b[<0;%d;%dm", x+1, y+1, x+1, y+1))
			break
		}
	}
	term.shows("▼RSS")
	term.typed("\x1b[<65;20;20M") // the wheel, down
	term.shows("4 of 23")
}

// An input that ends, as with a pipe, ends the view.
func TestWatchedInput(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	in := &watched{File: r, cancel: cancel}
	if _, err := w.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if n, err := in.Read(make([]byte, 8)); n != 1 || err != nil || ctx.Err() != nil {
		t.Errorf("read %d, %v, %v", n, err, ctx.Err())
	}
	w.Close()
	in.Read(make([]byte, 8))
	if !errors.Is(context.Cause(ctx), ErrClosed) {
		t.Errorf("the end of the input: %v", context.Cause(ctx))
	}
}

// A live source observes this machine, also after its interval changed.
func TestLive(t *testing.T) {
	t.Parallel()
	live, err := NewLive(t.Context(), see.Options{Interval: 200 * time.Millisecond, WithoutEngines: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, interval := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond} {
		if interval != 0 {
			if err := live.Retune(interval); err != nil {
				t.Fatal(err)
			}
		}
		scene, err := live.Sample(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		me, ok := scene.Catalogue.ByPID(int32(os.Getpid()))
		if !ok || live.Details(t.Context(), scene, me).Descriptors == nil {
			t.Error("the test itself is not in the scene")
		}
	}
	if err := live.Close(); err != nil {
		t.Error(err)
	}
}
