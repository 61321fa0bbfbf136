//go:build unix

package engine

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// guardian is a small shell that outlives the server by a moment: when the server dies, however it dies, the
// pipe to it closes and it kills the process groups and cells that are left, and whatever else has the server's mark.
// A busy child cannot watch for that itself, and the parent-death signal follows a thread, not a process.
type guardian struct {
	mu    sync.Mutex
	wards map[string]bool // "-GROUP" or the folder of a cell
	pid   int
	pipe  *os.File
}

var theGuardian = &guardian{wards: map[string]bool{}}

// Guardian is the process that ends the sessions' processes when this one dies; 0
// without any.
func Guardian() int {
	theGuardian.mu.Lock()
	defer theGuardian.mu.Unlock()
	return theGuardian.pid
}

// group names a process group among the wards.
func group(id int) string { return fmt.Sprint(-id) }

const guardianScript = `trap '' INT TERM HUP QUIT TTOU TTIN TSTP
mark=$1
set --
while read -r op w; do
  case $op in
  +) set -- "$@" "$w" ;;
  -) n=$#
     while [ "$n" -gt 0 ]; do
       x=$1; shift; n=$((n-1))
       [ "$x" = "$w" ] || set -- "$@" "$x"
     done ;;
  esac
done
exec 2>/dev/null
kin() {
  k=$(grep -lzs "^$mark" /proc/[0-9]*/environ | sed 's/[^0-9]//g')
  cat /proc/[0-9]*/stat | awk -v k="$k" '
    BEGIN { n = split(k, a); for (i = 1; i <= n; i++) kin[a[i]] = 1 }
    { pid = $1; sub(/.*\) /, ""); parent[pid] = $2 }
    END {
      do { more = 0; for (p in parent) if (!(p in kin) && parent[p] in kin) { kin[p] = 1; more = 1 } } while (more)
      for (p in kin) print p
    }' || echo $k
}
left=$(kin)
for w; do
  case $w in -*) kill -9 "$w" ;; esac
done
for w; do
  case $w in /*)
    echo 0 >"$w/pids.max"
    echo 1 >"$w/cgroup.kill"
    n=0
    until rmdir "$w" || [ $n -gt 200 ]; do
      p=$(cat "$w/cgroup.procs") && [ -n "$p" ] && kill -9 $p
      n=$((n+1))
    done ;;
  esac
done
n=0
while [ -n "$left" ] && [ $n -lt 20 ]; do
  kill -9 $left
  left=$(kin)
  n=$((n+1))
done
exit 0
`

// add puts a ward under guard. Without a shell there is no guard; the children still end at the end of their
// requests, when they are idle.
func (g *guardian) add(ward string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wards[ward] = true
	if g.pipe == nil {
		g.launch()
		return
	}
	if _, err := fmt.Fprintf(g.pipe, "+ %s\n", ward); err != nil {
		g.drop()
		g.launch()
	}
}

func (g *guardian) remove(ward string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.wards[ward] {
		return
	}
	delete(g.wards, ward)
	if len(g.wards) == 0 {
		g.drop()
		return
	}
	if g.pipe != nil {
		if _, err := fmt.Fprintf(g.pipe, "- %s\n", ward); err != nil {
			g.drop()
			g.launch()
		}
	}
}

// launch starts the shell with every ward known. The caller holds the lock.
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
	pid, err := theReaper.launch(func() (int, error) {
		return syscall.ForkExec("/bin/sh", []string{"sh", "-c", guardianScript, "sh", markName + "=" + serverMark + "[.]"}, &syscall.ProcAttr{
			Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
			Files: []uintptr{r.Fd(), null.Fd(), null.Fd()},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	}, nil)
	if err != nil {
		w.Close()
		return
	}
	g.pid, g.pipe = pid, w
	for ward := range g.wards {
		if _, err := fmt.Fprintf(w, "+ %s\n", ward); err != nil {
			g.drop()
			return
		}
	}
}

// drop ends the shell: it is killed first, so that the end of its input kills nothing.
func (g *guardian) drop() {
	if g.pipe == nil {
		return
	}
	syscall.Kill(g.pid, syscall.SIGKILL)
	g.pipe.Close()
	theReaper.release(g.pid)
	g.pipe, g.pid = nil, 0
}
