package steer

// This file connects actions with what the snapshots know.

import (
	"context"
	"fmt"

	"topside/internal/see"
	"topside/internal/see/model"
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
func (a *Advisor) Decline(r action.Request, token, why string) error {
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

// surroundings looks around a process by the latest snapshot.
func (a *Advisor) surroundings(ctx context.Context, pid int32) *action.Surroundings {
	snapshot, err := a.o.Observer.Select(ctx, see.Selector{})
	if err != nil {
		return nil
	}
	out := &action.Surroundings{}
	for _, p := range descendants(snapshot.Observation().Processes, pid) {
		if len(out.Children) == mostChildren {
			out.More++
			continue
		}
		out.ChildPIDs = append(out.ChildPIDs, p.PID)
		out.Children = append(out.Children, action.Process{
			Name: p.Facts.Comm, Executable: p.Facts.Executable, User: p.Facts.User, Args: p.Facts.Args,
			Unit: p.Facts.Placement.Unit, Container: p.Facts.Placement.ContainerID, PPID: p.PPID, State: p.State,
		})
	}
	// A reader of its own: that of the passes belongs to their goroutine.
	out.Listening, err = evidence.New(a.o.Observer.FS()).ListensOn(pid)
	out.ListeningKnown = err == nil
	return out
}

// descendants lists the processes below one, nearest first.
func descendants(processes []model.Process, pid int32) []*model.Process {
	below := map[int32][]*model.Process{}
	for i := range processes {
		p := &processes[i]
		below[p.PPID] = append(below[p.PPID], p)
	}
	var out []*model.Process
	seen := map[int32]bool{pid: true}
	for queue := []int32{pid}; len(queue) > 0; queue = queue[1:] {
		for _, child := range below[queue[0]] {
			if !seen[child.PID] {
				seen[child.PID] = true
				out = append(out, child)
				queue = append(queue, child.PID)
			}
		}
	}
	return out
}
