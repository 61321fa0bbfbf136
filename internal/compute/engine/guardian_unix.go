//go:build unix

package engine

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// guardian is a small shell that outlives the server by a moment: when the server dies, however it dies, the
// pipe to it closes and it kills the process groups that are left. A busy child cannot watch for that itself,
// and the parent-death signal follows a thread, not a process.
type guardian struct {
	mu     sync.Mutex
	groups map[int]bool
	pid    int
	pipe   *os.File
}

var theGuardian = &guardian{groups: map[int]bool{}}

const guardianScript = `trap '' INT TERM HUP QUIT TTOU TTIN TSTP
set --
while read -r op g; do
  case $op in
  +) set -- "$@" "-$g" ;;
  -) n=$#
     while [ "$n" -gt 0 ]; do
       x=$1; shift; n=$((n-1))
       [ "$x" = "-$g" ] || set -- "$@" "$x"
     done ;;
  esac
done
[ $# -gt 0 ] && kill -9 "$@"
exit 0
`

// add puts the group under guard. Without a shell there is no guard; the children still end at the end of their
// requests, when they are idle.
func (g *guardian) add(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = true
	if g.pipe == nil {
		g.launch()
		return
	}
	if _, err := fmt.Fprintf(g.pipe, "+ %d\n", group); err != nil {
		g.drop()
		g.launch()
	}
}

func (g *guardian) remove(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.groups[group] {
		return
	}
	delete(g.groups, group)
	if len(g.groups) == 0 {
		g.drop()
		return
	}
	if g.pipe != nil {
		if _, err := fmt.Fprintf(g.pipe, "- %d\n", group); err != nil {
			g.drop()
			g.launch()
		}
	}
}

// launch starts the shell with every group known. The caller holds the lock.
func (g *guardian) launch() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		r.Close()
		w.Close()
		return
	}
	defer null.Close()
	defer r.Close()
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", guardianScript}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		Files: []uintptr{r.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		w.Close()
		return
	}
	g.pid, g.pipe = pid, w
	theReaper.start(pid, nil)
	for group := range g.groups {
		if _, err := fmt.Fprintf(w, "+ %d\n", group); err != nil {
			g.drop()
			return
		}
	}
}

// drop ends the shell: the groups it still knows are removed first, so that the end of its input kills nothing.
func (g *guardian) drop() {
	if g.pipe == nil {
		return
	}
	syscall.Kill(g.pid, syscall.SIGKILL)
	g.pipe.Close()
	theReaper.release(g.pid)
	g.pipe, g.pid = nil, 0
}
