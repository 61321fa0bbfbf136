package steer

// This file connects actions with what the snapshots know.

import (
	"context"
	"fmt"

	"topside/internal/see/proc"
	"topside/internal/see/resource"
	"topside/internal/steer/action"
	"topside/internal/steer/evidence"
)

// Act sends a signal as the request says; see [action.Actor.Act].
func (a *Advisor) Act(ctx context.Context, r action.Request) (*action.Result, error) {
	return a.actor.Act(ctx, r)
}

// Revoke takes back the confirmation of a result after a person said no.
func (a *Advisor) Revoke(token string) { a.actor.Revoke(token) }

// Decline takes back the confirmation of a result and writes down why; see
// [action.Actor.Decline].
func (a *Advisor) Decline(r action.Request, token, why string) (*action.Result, error) {
	return a.actor.Decline(r, token, why)
}

// TargetOf is the identity of a process of a snapshot, so that a signal hits
// this process or none. It fails for containers and units.
func (a *Advisor) TargetOf(r *resource.Resource) (action.Identity, error) {
	if r.Proc == nil {
		return action.Identity{}, fmt.Errorf("%w: %s is a %s; name one of its processes", action.ErrInvalid, r.Name, r.Kind)
	}
	boot, err := a.o.Observer.FS().BootID()
	if err != nil {
		boot = ""
	}
	return action.Identity{PID: r.Proc.PID, StartTicks: r.Proc.StartTicks, BootID: boot}, nil
}

// mostChildren bounds the children that a dry run lists.
const mostChildren = 50

// surroundings looks around a process as it is now: a snapshot may be older than
// the children.
func (a *Advisor) surroundings(_ context.Context, pid int32) *action.Surroundings {
	fs := a.o.Observer.FS()
	out := &action.Surroundings{}
	for _, child := range descendants(fs, pid) {
		if len(out.Children) == mostChildren {
			out.More++
			continue
		}
		stat, err := fs.Stat(child)
		if err != nil {
			continue // it ended
		}
		out.ChildPIDs = append(out.ChildPIDs, child)
		out.Children = append(out.Children, action.Describe(fs, stat))
	}
	// A reader of its own: that of the passes belongs to their goroutine.
	var err error
	out.Listening, err = evidence.New(fs).ListensOn(pid)
	out.ListeningKnown = err == nil
	return out
}

// descendants lists the processes below one, nearest first.
func descendants(fs proc.FS, pid int32) []int32 {
	below := map[int32][]int32{}
	scanner := fs.NewScanner(proc.ScannerOptions{})
	defer scanner.Close()
	_ = scanner.Scan(func(pid int32, s *proc.Stat, err error) {
		if err == nil && !s.Ended() {
			below[s.PPID] = append(below[s.PPID], pid)
		}
	})
	var out []int32
	seen := map[int32]bool{pid: true}
	for queue := []int32{pid}; len(queue) > 0; queue = queue[1:] {
		for _, child := range below[queue[0]] {
			if !seen[child] {
				seen[child] = true
				out = append(out, child)
				queue = append(queue, child)
			}
		}
	}
	return out
}
