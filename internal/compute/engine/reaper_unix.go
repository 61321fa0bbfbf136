//go:build unix

package engine

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/shirou/gopsutil/v4/process"
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

// start begins to watch the group. The caller holds no child yet whose death could be missed: sweep runs after.
func (r *reaper) start(group int, exited func(int, syscall.WaitStatus)) {
	r.mu.Lock()
	r.groups[group] = &watch{exited: exited}
	if r.signal == nil {
		r.signal, r.done = make(chan os.Signal, 1), make(chan struct{})
		signal.Notify(r.signal, syscall.SIGCHLD)
		go r.run(r.signal, r.done)
	}
	r.mu.Unlock()
	r.sweep()
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

// orphans reaps dead keepers that nobody knows: forked by an engine that was killed before it could tell. They have
// the given name, no watched group, and this process for a parent.
func (r *reaper) orphans(name string) {
	pids, err := process.Pids()
	if err != nil {
		return
	}
	for _, pid := range pids {
		p := process.Process{Pid: pid}
		if parent, err := p.Ppid(); err != nil || int(parent) != os.Getpid() {
			continue
		}
		if n, err := p.Name(); err != nil || n != name {
			continue
		}
		r.mu.Lock()
		group, err := syscall.Getpgid(int(pid))
		if _, watched := r.groups[group]; err == nil && !watched {
			syscall.Wait4(int(pid), nil, syscall.WNOHANG, nil)
		}
		r.mu.Unlock()
	}
}
