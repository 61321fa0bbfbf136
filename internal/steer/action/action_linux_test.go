package action

// The kill path against real processes of our own.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/see/proc"
	"topside/internal/steer/audit"
	"topside/internal/steer/policy"
)

func TestMain(m *testing.M) {
	if os.Getenv(reuseHelper) != "" {
		os.Exit(reuseInNamespace())
	}
	goleak.VerifyTestMain(m)
}

func live(t testing.TB) proc.FS {
	t.Helper()
	fs, err := proc.NewFS("/")
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// start runs a shell command that says when it is ready, and ends it with the
// test.
func start(t *testing.T, script string) (pid int32, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("%s did not get ready: %v", script, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // the signal is the point
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return int32(cmd.Process.Pid), done
}

const (
	obedient = "echo; exec sleep 600"
	stubborn = "trap '' TERM INT HUP; echo; exec sleep 600" // what is ignored stays so
)

type world struct {
	*Actor
	log string
}

func newWorld(t *testing.T, rules string, change func(*Options)) *world {
	t.Helper()
	parsed, err := policy.Parse(rules)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{log: filepath.Join(t.TempDir(), "audit.log")}
	o := Options{FS: live(t), Policy: func() (*policy.Policy, error) { return parsed, nil }, Audit: audit.New(w.log)}
	if change != nil {
		change(&o)
	}
	w.Actor = New(o)
	return w
}

func (w *world) act(t *testing.T, r Request) *Result {
	t.Helper()
	r.Tool = "process_kill"
	result, err := w.Act(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// audited returns stage and outcome of every entry.
func (w *world) audited(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(w.log)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Stage+":"+e.Signal+":"+e.Outcome)
	}
	return out
}

func alive(pid int32) bool { return syscall.Kill(int(pid), 0) == nil }

func TestTermEndsAProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	pid, _ := start(t, obedient)
	result := w.act(t, Request{Target: Identity{PID: pid}, Wait: 10 * time.Second})
	if result.Outcome != Exited || !result.Sent || result.ExitedAfter <= 0 || result.Process.Name == "" || result.Target.StartTicks == 0 {
		t.Errorf("%+v", result)
	}
	if got := fmt.Sprint(w.audited(t)); got != "[decided:TERM: done:TERM:exited]" {
		t.Errorf("audited %s", got)
	}
	if again := w.act(t, Request{Target: result.Target}); again.Outcome != NoSuchProcess && again.Outcome != Denied {
		t.Errorf("once more: %+v", again)
	}
}

func TestWithoutWaiting(t *testing.T) {
	t.Parallel()
	pid, ended := start(t, obedient)
	if result := newWorld(t, "", nil).act(t, Request{Target: Identity{PID: pid}}); result.Outcome != Signalled {
		t.Errorf("%+v", result)
	}
	<-ended
}

func TestStubbornProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	pid, _ := start(t, stubborn)
	result := w.act(t, Request{Target: Identity{PID: pid}, Wait: 100 * time.Millisecond})
	if result.Outcome != StillAlive || !result.Sent || result.Escalated || !alive(pid) {
		t.Errorf("TERM: %+v", result)
	}
	result = w.act(t, Request{Target: result.Target, Wait: 100 * time.Millisecond, Escalate: true})
	if result.Outcome != Exited || !result.Escalated || result.ExitedAfter < 100*time.Millisecond {
		t.Errorf("with escalation: %+v", result)
	}
}

// Escalation to what the policy denies is denied before anything is sent.
func TestEscalationNeedsBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "deny signal=KILL because=no", nil)
	pid, _ := start(t, obedient)
	result := w.act(t, Request{Target: Identity{PID: pid}, Escalate: true})
	if result.Outcome != Denied || result.Sent || !alive(pid) || !strings.Contains(result.Reason, "line 1") {
		t.Errorf("%+v", result)
	}
}

func TestStopAndContinue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	pid, _ := start(t, obedient)
	state := func(want byte) {
		t.Helper()
		for range 200 {
			if stat, err := live(t).Stat(pid); err != nil {
				t.Fatal(err)
			} else if (stat.State == 'T') == (want == 'T') {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Errorf("it never got into the state %c", want)
	}
	w.act(t, Request{Target: Identity{PID: pid}, Signal: Stop})
	state('T')
	w.act(t, Request{Target: Identity{PID: pid}, Signal: Cont})
	state('S')
}

// The id belongs to another process by now: nothing is sent.
func TestAnotherProcessIsNeverHit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	pid, _ := start(t, obedient)
	stat, err := live(t).Stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]Identity{
		"another start": {PID: pid, StartTicks: stat.StartTicks - 1},
		"another boot":  {PID: pid, StartTicks: stat.StartTicks, BootID: "00000000-0000-0000-0000-000000000000"},
	} {
		result := w.act(t, Request{Target: target, Signal: Kill, Wait: 50 * time.Millisecond})
		if result.Outcome != NoSuchProcess || result.Sent || !alive(pid) {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	keeper, _ := start(t, obedient)
	w := newWorld(t, "", func(o *Options) {
		o.Protected = func() []Protected { return []Protected{{Identity{PID: keeper}, "keeps the session scratch"}} }
	})
	targets := map[string]int32{"process 1": 1, "topside itself": int32(os.Getpid()), "below it": int32(os.Getppid()), "keeps the session": keeper}
	if stat, err := live(t).Stat(2); err == nil && stat.KernelThread() {
		targets["thread of the kernel"] = 2
	}
	if os.Getppid() <= 1 {
		delete(targets, "below it") // the test was adopted by init
	}
	for says, pid := range targets {
		for _, r := range []Request{{Signal: Cont}, {Signal: Kill}, {Signal: Kill, DryRun: true}} {
			r.Target = Identity{PID: pid}
			if result := w.act(t, r); result.Outcome != Denied || result.Sent || !strings.Contains(result.Reason, says) {
				t.Errorf("%d: %+v", pid, result)
			}
		}
	}
	if result := w.act(t, Request{Target: Identity{PID: 1<<22 + 7}}); result.Outcome != NoSuchProcess {
		t.Errorf("an id that nobody has: %+v", result)
	}
}

// The id of a thread that does not lead its process is none of a process.
func TestThreadsAreRefused(t *testing.T) {
	t.Parallel()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var tid int32
		if _, err := fmt.Sscan(task.Name(), &tid); err != nil || int(tid) == os.Getpid() {
			continue
		}
		result := newWorld(t, "", nil).act(t, Request{Target: Identity{PID: tid}, Signal: Cont})
		if result.Outcome == Signalled || result.Sent {
			t.Errorf("thread %d: %+v", tid, result)
		}
		return
	}
}

func TestZombie(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sh", "-c", "exit 0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := int32(cmd.Process.Pid)
	for range 400 {
		if stat, err := live(t).Stat(pid); err == nil && stat.State == 'Z' {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if result := newWorld(t, "", nil).act(t, Request{Target: Identity{PID: pid}}); result.Outcome != Denied || !strings.Contains(result.Reason, "ended already") {
		t.Errorf("%+v", result)
	}
	_ = cmd.Wait()
}

func TestDryRunDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "confirm signal=*", func(o *Options) {
		o.Surroundings = func(context.Context, int32) *Surroundings { return &Surroundings{More: 3} }
	})
	pid, _ := start(t, obedient)
	result := w.act(t, Request{Target: Identity{PID: pid}, Signal: Kill, DryRun: true})
	if result.Outcome != WouldSignal || result.Sent || result.Surroundings.More != 3 || result.Decision.Verdict != policy.Confirm || !alive(pid) {
		t.Errorf("%+v", result)
	}
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "confirm signal=TERM because=\"ask first\"", nil)
	pid, _ := start(t, obedient)
	ask := func() *Result { return w.act(t, Request{Target: Identity{PID: pid}}) }

	asked := ask()
	if asked.Outcome != NeedsPerson || asked.Confirmation == "" || asked.Sent || !strings.Contains(asked.Reason, "ask first") {
		t.Fatalf("%+v", asked)
	}
	// For another signal it is worth nothing, and is used up.
	other := w.act(t, Request{Target: asked.Target, Signal: Kill, Confirmation: asked.Confirmation})
	if other.Outcome == Signalled && alive(pid) {
		t.Logf("KILL needs no confirmation here: %+v", other)
	}
	pid, _ = start(t, obedient)
	asked = ask()
	other = w.act(t, Request{Target: asked.Target, Escalate: true, Confirmation: asked.Confirmation})
	if other.Outcome != Denied || !alive(pid) {
		t.Errorf("for an escalation: %+v", other)
	}
	if used := w.act(t, Request{Target: asked.Target, Confirmation: asked.Confirmation}); used.Outcome != Denied || !alive(pid) {
		t.Errorf("used up: %+v", used)
	}
	asked = ask()
	w.Revoke(asked.Confirmation)
	if no := w.act(t, Request{Target: asked.Target, Confirmation: asked.Confirmation}); no.Outcome != Denied {
		t.Errorf("revoked: %+v", no)
	}
	asked = ask()
	if yes := w.act(t, Request{Target: asked.Target, Confirmation: asked.Confirmation, Wait: 10 * time.Second}); yes.Outcome != Exited {
		t.Errorf("confirmed: %+v", yes)
	}
}

// What a person declined is told and written down as what was allowed is: which
// process, by which line.
func TestDeclined(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "# rules\nconfirm signal=TERM", nil)
	pid, _ := start(t, obedient)
	r := Request{Tool: "process_kill", Target: Identity{PID: pid}}
	asked := w.act(t, r)
	result, err := w.Decline(r, asked.Confirmation, "the person declined")
	if err != nil || result.Outcome != Denied || result.Reason != "the person declined" || result.Process.Name == "" || result.Decision.Line != 2 || result.Target.StartTicks == 0 {
		t.Errorf("%+v, %v", result, err)
	}
	data, err := os.ReadFile(w.log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var last audit.Entry
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Stage != "declined" || last.StartTicks == 0 || last.Name == "" || last.PolicyLine != 2 {
		t.Errorf("%+v, %v", last, err)
	}
	if again := w.act(t, Request{Target: asked.Target, Confirmation: asked.Confirmation}); again.Outcome != Denied || !alive(pid) {
		t.Errorf("declined and used: %+v", again)
	}
}

func TestNothingWithoutAnAuditLog(t *testing.T) {
	t.Parallel()
	pid, _ := start(t, obedient)
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, log := range []*audit.Log{nil, audit.New(filepath.Join(blocked, "audit.log"))} {
		w := newWorld(t, "", func(o *Options) { o.Audit = log })
		if result := w.act(t, Request{Target: Identity{PID: pid}, Signal: Kill}); result.Outcome != Denied || result.Sent || !alive(pid) {
			t.Errorf("%+v", result)
		}
	}
}

func TestBrokenPolicyDenies(t *testing.T) {
	t.Parallel()
	pid, _ := start(t, obedient)
	w := newWorld(t, "", func(o *Options) {
		o.Policy = func() (*policy.Policy, error) { return policy.Default(), errors.New("line 3 is wrong") }
	})
	if result := w.act(t, Request{Target: Identity{PID: pid}}); result.Outcome != Denied || !strings.Contains(result.Reason, "line 3") || !alive(pid) {
		t.Errorf("%+v", result)
	}
}

func TestRequestsThatMeanNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	for _, r := range []Request{
		{Target: Identity{PID: 0}}, {Target: Identity{PID: -1}}, {Target: Identity{PID: 5}, Signal: "SEGV"},
		{Target: Identity{PID: 5}, Wait: -1}, {Target: Identity{PID: 5}, Wait: time.Hour}, {Target: Identity{PID: 5}, Signal: Kill, Escalate: true},
	} {
		if _, err := w.Act(context.Background(), r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for text, want := range map[string]Signal{"": Term, "kill": Kill, "SIGHUP": Hup, "sigusr1": Usr1} {
		if got, err := ParseSignal(text); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if _, err := ParseSignal("9"); !errors.Is(err, ErrInvalid) {
		t.Errorf("a number: %v", err)
	}
}

// refusing is a kernel that does not let us signal, or whose process ends just
// before the signal.
type refusing struct{ err error }

func (r refusing) Open(int32) (Handle, error) { return r, nil }
func (r refusing) Self() int32                { return int32(os.Getpid()) }
func (r refusing) Signal(Signal) error        { return r.err }
func (r refusing) Probe() error               { return r.err }
func (r refusing) Wait(context.Context) error { return nil }
func (r refusing) Close() error               { return nil }

func TestTheKernelsAnswers(t *testing.T) {
	t.Parallel()
	pid, _ := start(t, obedient)
	for err, want := range map[error]Outcome{ErrNotAllowed: Denied, ErrGone: NoSuchProcess, errors.New("odd"): Failed} {
		w := newWorld(t, "", func(o *Options) { o.System = refusing{err} })
		for _, dry := range []bool{false, true} {
			if result := w.act(t, Request{Target: Identity{PID: pid}, DryRun: dry}); result.Outcome != want || result.Sent || result.Reason == "" {
				t.Errorf("%v, dry run %v: %+v", err, dry, result)
			}
		}
	}
}

// A caller that goes away ends the waiting; the process is left with TERM and
// is not killed behind the caller's back.
func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	pid, _ := start(t, stubborn)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	result, err := w.Act(ctx, Request{Tool: "process_kill", Target: Identity{PID: pid}, Wait: 20 * time.Second, Escalate: true})
	if err != nil || result.Outcome != StillAlive || result.Escalated || time.Since(began) > 10*time.Second || !alive(pid) {
		t.Errorf("%+v, %v after %v", result, err, time.Since(began))
	}
}
