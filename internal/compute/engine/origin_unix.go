//go:build unix

package engine

import (
	"syscall"
	"time"
)

// Reset empties the child: the process that was forked before anything was evaluated goes on as the engine, with the
// same pipes and captures, and the old engine and its keeper end. What the session's code has started goes on, as does
// the child, in a new process. It works for a child whose engine died without a keeper too. Where there is no such
// process the result is false and the child is left as it is; where it does not wake the child is dead: a new one is
// needed.
//
// A child that has evaluated nothing is as empty as it can be. The caller makes no call at the same time.
func (c *Child) Reset() bool {
	c.awaitOrigin()
	c.mu.Lock()
	if _, gone := c.exited[c.pid]; c.pristine && !gone && !c.dead && !c.closed {
		c.mu.Unlock()
		return true
	}
	old, keeper, origin := c.pid, c.keeper, c.origin
	if c.closed || origin == 0 || syscall.Kill(origin, 0) != nil || isZombie(origin) {
		c.mu.Unlock()
		return false
	}
	if _, gone := c.exited[old]; gone {
		delete(c.exited, old)
		old = 0
	}
	c.pid, c.keeper, c.origin, c.due, c.seq, c.dead = origin, 0, 0, true, 0, false
	c.groups = append(c.groups, origin)
	c.mu.Unlock()
	if old > 0 {
		// Its end takes longer than the other's beginning, so it only has to stand still for now.
		syscall.Kill(old, syscall.SIGSTOP)
	}
	theGuardian.add(group(origin))
	theReaper.start(origin, c.onExit)
	// An origin that dies now is collected when its parent ends.
	late := time.AfterFunc(recoverWithin, func() {
		if old > 0 {
			syscall.Kill(old, syscall.SIGKILL)
		}
	})
	awake := c.awaken(c.rewind, origin)
	late.Stop()
	for _, pid := range []int{old, keeper} {
		if pid > 0 {
			syscall.Kill(pid, syscall.SIGKILL)
			c.ending = append(c.ending, pid)
		}
	}
	if keeper > 0 {
		theReaper.start(keeper, nil)
		theReaper.release(keeper)
	}
	return awake
}

// endWithin bounds the wait for killed processes.
const endWithin = 500 * time.Millisecond

// awaitEnd waits until the processes that a reset has ended are gone: only one process may read the requests.
func (c *Child) awaitEnd() {
	if len(c.ending) == 0 {
		return
	}
	for end := time.Now().Add(endWithin); anyAlive(c.ending...) && time.Now().Before(end); {
		theReaper.sweep()
		time.Sleep(20 * time.Microsecond)
	}
	c.ending = nil
	c.forgetEmptyGroups()
}

// originWithin bounds the wait for a process that was asked for and is just being forked.
const originWithin = 50 * time.Millisecond

// awaitOrigin reads what the engine has said since the last call: which processes would take over.
func (c *Child) awaitOrigin() {
	for end := time.Now().Add(originWithin); ; {
		c.settle()
		c.mu.Lock()
		wait := c.due && !c.closed && !c.dead && time.Now().Before(end)
		if _, gone := c.exited[c.pid]; gone {
			wait = false
		}
		c.mu.Unlock()
		if !wait {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}
