// Package action sends signals to processes, with care: the target is held by
// a pidfd whose identity is checked, what must never be hit is refused, a
// policy is asked, every step is written to an audit log, and what happened is
// reported as it was.
//
// It stands above policy and audit, and reads processes through proc.FS. The
// system calls are behind [System], so that races can be tested.
package action

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"topside/internal/see/container"
	"topside/internal/see/proc"
	"topside/internal/steer/audit"
	"topside/internal/steer/policy"
)

// A Signal is one that may be sent, without its SIG.
type Signal string

// The signals.
const (
	Term Signal = "TERM"
	Kill Signal = "KILL"
	Int  Signal = "INT"
	Hup  Signal = "HUP"
	Stop Signal = "STOP"
	Cont Signal = "CONT"
	Usr1 Signal = "USR1"
	Usr2 Signal = "USR2"
)

// Signals are all of them, the default first.
var Signals = []Signal{Term, Kill, Int, Hup, Stop, Cont, Usr1, Usr2}

// ErrInvalid is wrapped by the errors of requests that mean nothing.
var ErrInvalid = errors.New("invalid action")

// ParseSignal reads a signal's name, with or without SIG and in any case; ""
// is TERM.
func ParseSignal(text string) (Signal, error) {
	if text == "" {
		return Term, nil
	}
	name := Signal(strings.TrimPrefix(strings.ToUpper(text), "SIG"))
	for _, s := range Signals {
		if s == name {
			return s, nil
		}
	}
	return "", fmt.Errorf("%w: %q is not a signal that can be sent; they are %v", ErrInvalid, text, Signals)
}

// An Identity is a process for all time. StartTicks 0 means that the caller
// has not seen the process before: whatever has the PID is meant.
type Identity struct {
	PID        int32
	StartTicks uint64
	BootID     string // "" is not compared
}

// A Request asks for one signal to one process.
type Request struct {
	Tool   string // for policy and audit
	Host   string // "" is this machine
	Client string // who asks, for the audit log
	Target Identity
	Signal Signal
	// Wait is how long to wait for the process to end, at most [LongestWait].
	Wait time.Duration
	// Escalate sends KILL when the process is still there after Wait.
	Escalate bool
	// DryRun tells what would happen and does nothing.
	DryRun bool
	// Confirmation is the token of an earlier result, after a person agreed.
	Confirmation string
}

// The bounds of waiting: clients stop listening after a minute.
const (
	LongestWait = 30 * time.Second
	// escalationWait is how long the end is waited for after KILL.
	escalationWait = 2 * time.Second
)

// An Outcome is what became of a request.
type Outcome string

// The outcomes.
const (
	Signalled     Outcome = "signalled" // and not waited for
	Exited        Outcome = "exited"
	StillAlive    Outcome = "still alive"
	Denied        Outcome = "denied"
	NoSuchProcess Outcome = "no such process"
	NeedsPerson   Outcome = "needs confirmation"
	WouldSignal   Outcome = "would signal" // a dry run
	Failed        Outcome = "failed"       // the kernel refused for another reason
)

// A Result says what happened.
type Result struct {
	Outcome Outcome
	// Reason says why, for all but Signalled and Exited.
	Reason  string
	Target  Identity
	Process Process
	Signal  Signal
	// Sent is true when the kernel took a signal.
	Sent bool
	// Escalated is true when KILL was sent after Signal.
	Escalated bool
	// ExitedAfter is the time from the signal to the end, for Exited.
	ExitedAfter time.Duration
	// Confirmation is to be redeemed with the same request, for NeedsPerson.
	Confirmation string
	Decision     policy.Decision
	Surroundings *Surroundings // of a dry run
}

// A Process is the target as people know it.
type Process struct {
	Name, Executable, User, UID string
	Args                        []string
	Unit, Container             string
	PPID                        int32
	State                       byte
}

// Surroundings are what else a signal to a process concerns.
type Surroundings struct {
	Children  []Process
	ChildPIDs []int32
	// Listening are the addresses that the process listens on. ListeningKnown
	// is false when they could not be read.
	Listening      []string
	ListeningKnown bool
	// More is how many children are left out.
	More int
}

// A Protected process is refused, with the reason.
type Protected struct {
	Target Identity
	Why    string // "keeps the session scratch"
}

// Options tell an actor about its world.
type Options struct {
	FS     proc.FS
	Policy func() (*policy.Policy, error)
	// Audit may be nil where there is no place to write; then actions are
	// denied.
	Audit *audit.Log
	// Protected lists processes that must not be hit beside those that this
	// package refuses by itself; nil is none. It is asked for every request.
	Protected func() []Protected
	// Surroundings looks around a process, for dry runs; nil is not known.
	Surroundings func(context.Context, int32) *Surroundings
	// System makes the system calls; nil is the running kernel.
	System System
	// Self is our own process; 0 is the running one.
	Self int32
}

// A System makes the system calls of an action.
type System interface {
	// Open takes hold of the process that has the PID now.
	Open(pid int32) (Handle, error)
	Self() int32
}

// A Handle holds one process, whoever gets its PID later.
type Handle interface {
	Signal(Signal) error
	// Probe says what Signal would, and sends nothing.
	Probe() error
	// Wait returns nil when the process has ended, and the context's error
	// when ctx ends first.
	Wait(context.Context) error
	Close() error
}

// The errors of a [System].
var (
	ErrGone        = errors.New("no such process")
	ErrThread      = errors.New("that is a thread, not a process")
	ErrNotAllowed  = errors.New("the kernel does not permit it")
	ErrUnsupported = errors.New("process actions need Linux 5.3 or newer")
)

// An Actor acts on the processes of one machine. It is safe for concurrent
// use.
type Actor struct {
	o             Options
	confirmations policy.Confirmations
}

// New returns an actor.
func New(o Options) *Actor {
	if o.System == nil {
		o.System = kernel()
	}
	if o.Self == 0 {
		o.Self = o.System.Self()
	}
	if o.Policy == nil {
		o.Policy = func() (*policy.Policy, error) { return policy.Default(), nil }
	}
	return &Actor{o: o}
}

// Revoke takes a confirmation back after a person said no.
func (a *Actor) Revoke(token string) { a.confirmations.Revoke(token) }

// Decline takes a confirmation back after a person said no, or where none could
// be asked, and writes that down. The result tells what was declined; it is there
// with an error of the audit log, too.
func (a *Actor) Decline(r Request, token, why string) (*Result, error) {
	binding, known := a.confirmations.Revoke(token)
	if err := r.complete(); err != nil {
		return nil, err
	}
	result := &Result{Outcome: Denied, Target: r.Target, Signal: r.Signal, Decision: policy.Decision{Verdict: policy.Confirm}}
	if known && binding.PID == r.Target.PID {
		result.Target.StartTicks, result.Target.BootID = binding.StartTicks, binding.BootID
	}
	if stat, err := a.o.FS.Stat(r.Target.PID); err == nil && (result.Target.StartTicks == 0 || result.Target.StartTicks == stat.StartTicks) {
		result.Process = Describe(a.o.FS, stat)
		if rules, err := a.o.Policy(); rules != nil && err == nil {
			a.judge(rules, &r, result)
		}
		if result.Decision.Verdict != policy.Confirm { // the policy changed meanwhile
			result.Decision = policy.Decision{Verdict: policy.Confirm}
		}
	}
	result.Reason = why
	return result, a.write(&r, result, "declined")
}

// Act does what the request asks for. What the target or the rules say is a
// [Result]; the error is of a request that means nothing, and wraps
// [ErrInvalid].
func (a *Actor) Act(ctx context.Context, r Request) (*Result, error) {
	if err := r.complete(); err != nil {
		return nil, err
	}
	result := &Result{Target: r.Target, Signal: r.Signal}
	handle := a.examine(ctx, &r, result)
	if handle != nil {
		defer handle.Close()
	}
	if err := a.write(&r, result, "decided"); err != nil && result.Outcome == "" {
		result.Outcome, result.Reason = Denied, err.Error()+"; no action is taken that is not written down"
	}
	if result.Outcome != "" {
		return result, nil
	}
	a.signal(ctx, handle, &r, result)
	if err := a.write(&r, result, "done"); err != nil {
		result.Reason = strings.TrimPrefix(result.Reason+"; "+err.Error(), "; ")
	}
	return result, nil
}

// complete fills in defaults and refuses what cannot be meant.
func (r *Request) complete() error {
	if r.Signal == "" {
		r.Signal = Term
	}
	if _, err := ParseSignal(string(r.Signal)); err != nil {
		return err
	}
	if r.Target.PID <= 0 {
		return fmt.Errorf("%w: %d is not a process id; they are 1 and above", ErrInvalid, r.Target.PID)
	}
	if r.Wait < 0 || r.Wait > LongestWait {
		return fmt.Errorf("%w: wait_ms must be from 0 to %d", ErrInvalid, LongestWait.Milliseconds())
	}
	if r.Escalate && r.Signal != Term && r.Signal != Int && r.Signal != Hup {
		return fmt.Errorf("%w: escalate goes from TERM, INT or HUP to KILL, not from %s", ErrInvalid, r.Signal)
	}
	if r.Escalate && r.Wait == 0 {
		r.Wait = 3 * time.Second
	}
	if r.Host == "" {
		r.Host = "local"
	}
	return nil
}

// examine takes hold of the target and decides. It returns nil, with the
// outcome in result, when the matter ends here.
func (a *Actor) examine(ctx context.Context, r *Request, result *Result) Handle {
	if r.Target.BootID != "" {
		if boot, err := a.o.FS.BootID(); err == nil && boot != r.Target.BootID {
			return end(result, NoSuchProcess, "the machine was restarted since the process was seen")
		}
	}
	handle, err := a.o.System.Open(r.Target.PID)
	if err != nil {
		return a.unopened(err, r, result)
	}
	stat, err := a.o.FS.Stat(r.Target.PID)
	if err != nil {
		handle.Close()
		return end(result, NoSuchProcess, "it ended meanwhile")
	}
	// The handle was taken before this reading. If what is read now is the
	// process that was asked for, it was there all the time, and the handle is
	// of it.
	if r.Target.StartTicks != 0 && stat.StartTicks != r.Target.StartTicks {
		handle.Close()
		return end(result, NoSuchProcess, fmt.Sprintf("the process ended, and its id belongs to another one by now (%s); nothing was sent", stat.Comm))
	}
	result.Target.StartTicks = stat.StartTicks
	if result.Target.BootID == "" {
		result.Target.BootID, _ = a.o.FS.BootID()
	}
	result.Process = Describe(a.o.FS, stat)
	if why := a.refuses(r.Target.PID, stat); why != "" {
		handle.Close()
		return end(result, Denied, why)
	}
	if !a.permits(r, result) {
		handle.Close()
		return nil
	}
	if r.DryRun {
		err := handle.Probe()
		handle.Close()
		if err != nil {
			return a.unsent(err, result)
		}
		if a.o.Surroundings != nil {
			result.Surroundings = a.o.Surroundings(ctx, r.Target.PID)
		}
		return end(result, WouldSignal, "nothing was sent: a dry run")
	}
	return handle
}

func end(result *Result, outcome Outcome, reason string) Handle {
	result.Outcome, result.Reason = outcome, reason
	return nil
}

func (a *Actor) unopened(err error, r *Request, result *Result) Handle {
	switch {
	case errors.Is(err, ErrGone):
		return end(result, NoSuchProcess, fmt.Sprintf("no process has the id %d", r.Target.PID))
	case errors.Is(err, ErrThread):
		return end(result, Denied, fmt.Sprintf("%d is a thread; signals go to its process", r.Target.PID))
	case errors.Is(err, ErrNotAllowed):
		return end(result, Denied, err.Error())
	}
	return end(result, Failed, err.Error())
}

// Describe reads what people and policies call a process.
func Describe(fs proc.FS, stat *proc.Stat) Process {
	pid := stat.PID
	p := Process{Name: string(stat.Comm), PPID: stat.PPID, State: stat.State}
	if uid, err := fs.Owner(pid); err == nil {
		p.UID = fmt.Sprint(uid)
		p.User = p.UID
		if name, ok := fs.Users()[uid]; ok {
			p.User = name
		}
	}
	p.Executable, _, _ = fs.Executable(pid)
	p.Args, _ = fs.Cmdline(pid)
	if lines, err := fs.Cgroups(pid); err == nil {
		place := container.Attribute(lines)
		p.Unit, p.Container = place.Unit, place.ContainerID
	}
	return p
}

// refuses tells why a process must not be hit whatever a policy says.
func (a *Actor) refuses(pid int32, stat *proc.Stat) string {
	switch {
	case pid == 1:
		return "process 1 keeps the machine (or the container) running"
	case stat.KernelThread():
		return "it is a thread of the kernel"
	case pid == a.o.Self:
		return "that is topside itself"
	case stat.Ended():
		return fmt.Sprintf("it has ended already; its parent %d has not taken note of it yet", stat.PPID)
	}
	if a.above(pid) {
		return "topside runs below it: it is topside's client, or a process that the client runs in"
	}
	if a.o.Protected != nil {
		for _, p := range a.o.Protected() {
			if p.Target.PID == pid && (p.Target.StartTicks == 0 || p.Target.StartTicks == stat.StartTicks) {
				return "it " + p.Why
			}
		}
	}
	return ""
}

// above reports whether a process is an ancestor of ours.
func (a *Actor) above(pid int32) bool {
	const deepest = 128
	at := a.o.Self
	for range deepest {
		stat, err := a.o.FS.Stat(at)
		if err != nil || stat.PPID == 0 || stat.PPID == at {
			return false
		}
		if at = stat.PPID; at == pid {
			return true
		}
	}
	return false
}

// permits asks the policy, and for a person's word where it wants one.
func (a *Actor) permits(r *Request, result *Result) bool {
	rules, err := a.o.Policy()
	if rules == nil || err != nil {
		end(result, Denied, err.Error())
		result.Decision = policy.Decision{Verdict: policy.Deny, Reason: err.Error()}
		return false
	}
	if denied := a.judge(rules, r, result); denied != "" {
		end(result, Denied, "the policy denies "+string(denied)+because(result.Decision))
		return false
	}
	if result.Decision.Verdict != policy.Confirm || r.DryRun {
		return true
	}
	return a.confirmed(r, result)
}

// judge asks the rules about every signal of the request, and returns one that they
// deny.
func (a *Actor) judge(rules *policy.Policy, r *Request, result *Result) (denied Signal) {
	signals := []Signal{r.Signal}
	if r.Escalate {
		signals = append(signals, Kill)
	}
	result.Decision = policy.Decision{Verdict: policy.Allow}
	for _, signal := range signals {
		d := rules.Decide(a.asPolicy(r, result, signal))
		if d.Verdict == policy.Deny || d.Verdict == policy.Confirm && result.Decision.Verdict == policy.Allow || result.Decision.Line == 0 && d.Verdict == result.Decision.Verdict {
			result.Decision = d
		}
		if d.Verdict == policy.Deny {
			return signal
		}
	}
	return ""
}

func (a *Actor) asPolicy(r *Request, result *Result, signal Signal) policy.Request {
	p := &result.Process
	return policy.Request{
		Tool: r.Tool, Host: r.Host, Signal: string(signal), User: p.User, UID: p.UID,
		Unit: p.Unit, Container: p.Container, Name: p.Name, Executable: p.Executable,
	}
}

func because(d policy.Decision) string {
	where := " by default"
	if d.Line > 0 {
		where = fmt.Sprintf(" (line %d)", d.Line)
	}
	if d.Reason != "" {
		where += ": " + d.Reason
	}
	return where
}

// confirmed redeems the confirmation of the request, or gives one out.
func (a *Actor) confirmed(r *Request, result *Result) bool {
	binding := policy.Binding{
		Tool: r.Tool, Host: r.Host, PID: r.Target.PID, StartTicks: result.Target.StartTicks,
		BootID: result.Target.BootID, Signal: string(r.Signal), Escalate: r.Escalate,
	}
	if r.Confirmation != "" {
		if err := a.confirmations.Redeem(r.Confirmation, binding); err != nil {
			end(result, Denied, err.Error())
			return false
		}
		return true
	}
	token, err := a.confirmations.Issue(binding)
	if err != nil {
		end(result, Denied, err.Error())
		return false
	}
	result.Confirmation = token
	end(result, NeedsPerson, "the policy wants a person's word"+because(result.Decision))
	return false
}

// signal sends the signal and waits for the end.
func (a *Actor) signal(ctx context.Context, handle Handle, r *Request, result *Result) {
	sent := time.Now()
	if !a.send(handle, r.Signal, result) {
		return
	}
	result.Outcome = Signalled
	if r.Wait == 0 {
		return
	}
	if await(ctx, handle, r.Wait) {
		result.Outcome, result.ExitedAfter = Exited, time.Since(sent)
		return
	}
	result.Outcome, result.Reason = StillAlive, fmt.Sprintf("it did not end within %d ms of %s", r.Wait.Milliseconds(), r.Signal)
	if !r.Escalate || ctx.Err() != nil {
		return
	}
	if !a.send(handle, Kill, result) {
		return
	}
	result.Escalated = true
	if await(ctx, handle, escalationWait) {
		result.Outcome, result.Reason, result.ExitedAfter = Exited, "", time.Since(sent)
		return
	}
	result.Outcome, result.Reason = StillAlive, "KILL was sent too, and it is still there: it hangs in the kernel (state D), or its parent has not collected it"
}

// send reports whether the kernel took the signal; if not, the outcome says
// why.
func (a *Actor) send(handle Handle, s Signal, result *Result) bool {
	err := handle.Signal(s)
	switch {
	case err == nil:
		result.Sent = true
		return true
	case errors.Is(err, ErrGone) && result.Sent:
		result.Outcome, result.Reason = Exited, ""
	default:
		a.unsent(err, result)
	}
	return false
}

// unsent says why the kernel took no signal.
func (a *Actor) unsent(err error, result *Result) Handle {
	switch {
	case errors.Is(err, ErrGone):
		return end(result, NoSuchProcess, "it ended before the signal was sent")
	case errors.Is(err, ErrNotAllowed):
		return end(result, Denied, fmt.Sprintf("the kernel does not permit topside to signal a process of the user %s", result.Process.User))
	}
	return end(result, Failed, err.Error())
}

func await(ctx context.Context, handle Handle, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return handle.Wait(ctx) == nil
}

// write makes an entry in the audit log.
func (a *Actor) write(r *Request, result *Result, stage string) error {
	if a.o.Audit == nil {
		return audit.ErrAudit
	}
	p := &result.Process
	e := audit.Entry{
		Stage: stage, Tool: r.Tool, Host: r.Host, Client: r.Client, PID: r.Target.PID,
		StartTicks: result.Target.StartTicks, BootID: result.Target.BootID,
		Name: p.Name, Executable: p.Executable, User: p.User, Unit: p.Unit, Container: p.Container,
		Signal: string(r.Signal), Verdict: string(result.Decision.Verdict), PolicyLine: result.Decision.Line,
		Confirmed: r.Confirmation != "" && result.Outcome != Denied, DryRun: r.DryRun,
		Outcome: string(result.Outcome), Reason: result.Reason,
	}
	if result.Escalated {
		e.Signal += ",KILL"
	}
	if result.Outcome == Exited {
		ms := result.ExitedAfter.Milliseconds()
		e.ExitedMS = &ms
	}
	return a.o.Audit.Write(e)
}
