package tool

// This file sends signals for the steer toolset, and puts what came of it into
// words.

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"topside/internal/see"
	"topside/internal/see/display"
	"topside/internal/steer/action"
)

// A killed is the answer of process_kill.
type killed struct {
	// Killed says whether a signal was sent.
	Killed       bool         `json:"killed"`
	Outcome      string       `json:"outcome"`
	Reason       string       `json:"reason,omitempty"`
	PID          int32        `json:"pid"`
	Signal       string       `json:"signal"`
	Escalated    bool         `json:"escalated,omitempty"`
	ExitedMS     *int64       `json:"exited_after_ms,omitempty"`
	Process      *killTarget  `json:"process,omitempty"`
	PolicyLine   int          `json:"policy_line,omitempty"`
	Confirmation bool         `json:"needs_confirmation,omitempty"` // of a dry run
	Children     []killTarget `json:"children,omitempty"`
	MoreChildren int          `json:"more_children,omitempty"`
	Listening    *[]string    `json:"listening,omitempty"` // absent when unknown
}

// A killTarget is a process as an answer shows it.
type killTarget struct {
	PID       int32  `json:"pid"`
	Name      string `json:"name"`
	User      string `json:"user,omitempty"`
	Exe       string `json:"exe,omitempty"`
	Args      string `json:"args,omitempty"`
	Unit      string `json:"unit,omitempty"`
	Container string `json:"container,omitempty"`
}

func killTargetOf(pid int32, p *action.Process) killTarget {
	args, _ := display.CommandLine(p.Args, false, alertText)
	return killTarget{
		PID: pid, Name: told(p.Name), User: told(p.User), Exe: told(p.Executable), Args: args,
		Unit: told(p.Unit), Container: told(p.Container),
	}
}

func (s *steerer) kill(ctx context.Context, c Call) (Result, error) {
	r, err := s.killRequest(ctx, c)
	if err != nil {
		return Result{}, err
	}
	if why := elsewhere(s.observer); why != "" {
		answer := killed{Outcome: string(action.Denied), Reason: why, PID: r.Target.PID, Signal: string(r.Signal)}
		return Result{Structured: answer, Text: answer.text()}, nil
	}
	if c.Answer != nil {
		if !c.Answer.Agreed {
			return s.declined(r, c.Answer), nil
		}
		r.Confirmation = c.Answer.State
	}
	done, err := s.advisor.Act(ctx, r)
	if err != nil {
		return Result{}, err
	}
	if done.Outcome == action.NeedsPerson {
		return Result{Question: &Question{Message: questionOf(&r, done), State: done.Confirmation}}, nil
	}
	answer := killedOf(&r, done)
	return Result{Structured: answer, Text: answer.text()}, nil
}

// killRequest is what a call asks for.
func (s *steerer) killRequest(ctx context.Context, c Call) (action.Request, error) {
	r := action.Request{Tool: killTool, Client: c.Client, Escalate: c.Flag("escalate"), DryRun: c.Flag("dry_run"), Signal: action.Term}
	if name := c.Text("signal"); name != "" {
		r.Signal = action.Signal(name)
	}
	if wait, ok := c.Integer("wait_ms"); ok {
		if !wait.within(Bound(0), Bound(action.LongestWait.Milliseconds())) {
			return r, c.Fault("wait_ms", "must be from 0 to %d", action.LongestWait.Milliseconds())
		}
		r.Wait = time.Duration(wait.Int()) * time.Millisecond
	}
	pid, given := c.Integer("pid")
	switch {
	case c.Has("resource_id"):
		snapshot, err := s.observer.Select(ctx, see.Selector{SnapshotID: c.Text("snapshot_id")})
		if err != nil {
			return r, err
		}
		resource, err := snapshot.Resource(c.Text("resource_id"))
		if err != nil {
			return r, err
		}
		r.Target, err = s.advisor.TargetOf(resource)
		return r, err
	case !given:
		return r, c.Fault("", "name the process: by pid, or by resource_id with its snapshot_id")
	case pid.Negative || pid.Magnitude == 0 || pid.Magnitude > math.MaxInt32:
		return r, c.Fault("pid", "must be a process id, from 1 to %d", math.MaxInt32)
	}
	r.Target.PID = int32(pid.Magnitude)
	return r, nil
}

// declined is the answer when no person agreed. The confirmation is used up.
func (s *steerer) declined(r action.Request, a *Answer) Result {
	why := "the policy wants a person's word, and " + a.Why + "; nothing was sent"
	answer := killed{Outcome: string(action.Denied), Reason: why, PID: r.Target.PID, Signal: string(r.Signal)}
	done, err := s.advisor.Decline(r, a.State, why)
	if done != nil {
		answer = killedOf(&r, done)
	}
	if err != nil {
		answer.Reason += "; " + line(err.Error())
	}
	return Result{Structured: answer, Text: answer.text()}
}

// questionOf asks the person.
func questionOf(r *action.Request, done *action.Result) string {
	t := killTargetOf(done.Target.PID, &done.Process)
	text := fmt.Sprintf("Send %s to process %s?", done.Signal, t.words())
	if r.Escalate {
		text = fmt.Sprintf("Send %s, and KILL if it does not end, to process %s?", done.Signal, t.words())
	}
	if done.Decision.Reason != "" {
		text += " The policy asks for your word: " + told(done.Decision.Reason)
	}
	return text
}

func (t killTarget) words() string {
	text := fmt.Sprintf("%d (%s", t.PID, t.Name)
	for _, part := range [][2]string{{"user", t.User}, {"unit", t.Unit}, {"container", t.Container}, {"command", t.Args}} {
		if part[1] != "" {
			text += ", " + part[0] + " " + part[1]
		}
	}
	return text + ")"
}

func killedOf(r *action.Request, done *action.Result) killed {
	answer := killed{
		Killed: done.Sent, Outcome: string(done.Outcome), Reason: told(done.Reason), PID: done.Target.PID, Signal: string(done.Signal),
		Escalated: done.Escalated, PolicyLine: done.Decision.Line, Confirmation: r.DryRun && done.Decision.Verdict == "confirm",
	}
	if done.Process.Name != "" {
		target := killTargetOf(done.Target.PID, &done.Process)
		answer.Process = &target
	}
	if done.Outcome == action.Exited {
		answer.ExitedMS = new(done.ExitedAfter.Milliseconds())
	}
	if around := done.Surroundings; around != nil {
		for i := range around.Children {
			answer.Children = append(answer.Children, killTargetOf(around.ChildPIDs[i], &around.Children[i]))
		}
		answer.MoreChildren = around.More
		if around.ListeningKnown {
			listening := append([]string{}, around.Listening...)
			answer.Listening = &listening
		}
	}
	return answer
}

// text is the answer in words.
func (k *killed) text() string {
	var b strings.Builder
	who := fmt.Sprint("process ", k.PID)
	if k.Process != nil {
		who = "process " + k.Process.words()
	}
	fmt.Fprintf(&b, "%s: %s %s", k.Outcome, k.Signal, who)
	if k.ExitedMS != nil {
		fmt.Fprintf(&b, "; it ended after %d ms", *k.ExitedMS)
	}
	if k.Escalated {
		b.WriteString("; KILL was sent too")
	}
	if k.Reason != "" {
		fmt.Fprintf(&b, "\nreason: %s", k.Reason)
	}
	if k.PolicyLine > 0 {
		fmt.Fprintf(&b, "\npolicy: line %d", k.PolicyLine)
	}
	if k.Confirmation {
		b.WriteString("\na person would be asked first")
	}
	for _, child := range k.Children {
		fmt.Fprintf(&b, "\nbelow it: %s", child.words())
	}
	if k.MoreChildren > 0 {
		fmt.Fprintf(&b, "\nand %d more below it", k.MoreChildren)
	}
	if k.Listening != nil && len(*k.Listening) > 0 {
		fmt.Fprintf(&b, "\nlistens on %s", strings.Join(*k.Listening, ", "))
	}
	return b.String()
}
