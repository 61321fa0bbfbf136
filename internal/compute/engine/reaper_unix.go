//go:build unix

package engine

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper waits for the processes of all sessions with one goroutine, not one thread per child. It waits by
// process group, so that a promoted keeper and orphans of a session are collected too, and it never touches
// children of other packages: their groups are not watched.
type reaper struct {
	mu     sync.Mutex
	groups map[int]*watch
	signal chan os.Signal
	done   chan struct{}
}

// watch is one process group. exited is called without the lock held, once per process.
type watch struct {
	exited   func(pid int, status syscall.WaitStatus)
	released bool
	ended    bool // its leader is gone
}

// lostStatus stands for an end whose status is not known.
const lostStatus = syscall.WaitStatus(0x7f)

var theReaper = &reaper{groups: map[int]*watch{}}

// launch starts a process that leads its group, and watches the group from its beginning.
func (r *reaper) launch(fork func() (int, error), exited func(int, syscall.WaitStatus)) (int, error) {
	r.mu.Lock()
	pid, err := fork()
	if err == nil {
		r.watch(pid, exited)
	}
	r.mu.Unlock()
	if err == nil {
		r.sweep()
	}
	return pid, err
}

// start begins to watch the group. The caller holds no child yet whose death could be missed: sweep runs after.
func (r *reaper) start(group int, exited func(int, syscall.WaitStatus)) {
	r.mu.Lock()
	r.watch(group, exited)
	r.mu.Unlock()
	r.sweep()
}

func (r *reaper) watch(group int, exited func(int, syscall.WaitStatus)) {
	r.groups[group] = &watch{exited: exited}
	if r.signal == nil {
		r.signal, r.done = make(chan os.Signal, 1), make(chan struct{})
		signal.Notify(r.signal, syscall.SIGCHLD)
		go r.run(r.signal, r.done)
	}
}

// release says that nobody is interested in the group any more; it is watched until its last process is reaped.
func (r *reaper) release(group int) {
	r.mu.Lock()
	if w := r.groups[group]; w != nil {
		w.released = true
		w.exited = nil
	}
	r.mu.Unlock()
	r.sweep()
}

func (r *reaper) run(c chan os.Signal, done chan struct{}) {
	for {
		select {
		case <-c:
			r.sweep()
		case <-done:
			return
		}
	}
}

// sweep reaps what is dead in every watched group. A released group without children is forgotten, and with the
// last group the goroutine ends.
func (r *reaper) sweep() {
	type event struct {
		exited func(int, syscall.WaitStatus)
		pid    int
		status syscall.WaitStatus
	}
	var events []event
	r.mu.Lock()
	for group, w := range r.groups {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-group, &status, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if pid > 0 {
				w.ended = w.ended || pid == group
				if w.exited != nil {
					events = append(events, event{w.exited, pid, status})
				}
				continue
			}
			if err != nil && w.released {
				delete(r.groups, group)
			} else if err != nil && !w.ended && w.exited != nil && syscall.Kill(group, 0) != nil {
				w.ended = true
				events = append(events, event{w.exited, group, lostStatus})
			}
			break
		}
	}
	r.reapOrphans()
	if len(r.groups) == 0 && r.signal != nil {
		signal.Stop(r.signal)
		close(r.done)
		r.signal, r.done = nil, nil
	}
	r.mu.Unlock()
	for _, e := range events {
		e.exited(e.pid, e.status)
	}
}

// reapOrphans collects what sessions have left to this process: dead children that are in a terminal session of
// another process, as all that descend from a child of this package are, and in no group that is watched. Other
// packages wait for theirs. The caller holds the lock.
func (r *reaper) reapOrphans() {
	own, err := unix.Getsid(0)
	if err != nil {
		return
	}
	for pid := nextZombie(); pid > 0; pid = nextZombie() {
		sid, err := unix.Getsid(pid)
		group, groupErr := syscall.Getpgid(pid)
		if _, watched := r.groups[group]; err != nil || groupErr != nil || sid == own || watched {
			return
		}
		if got, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); got != pid {
			return
		}
	}
}
