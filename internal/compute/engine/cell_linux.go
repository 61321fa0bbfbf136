package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A cell is a control group for the processes of one child: nothing that they start can leave it, and it bounds
// their number. It is made below the server's own group, in the v1 hierarchy of the pids controller or in the v2 one,
// by whoever may do that: root, or the user to whom the group is delegated.
type cell struct {
	dir   string
	moved chan struct{} // closed when the first process is in, or could not be moved
	ok    atomic.Bool
}

// cellParent is the server's own group, where cells are made; "" where none can be.
var cellParent = sync.OnceValue(func() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for _, dir := range ownGroups(string(groups), string(mounts)) {
		sweepCells(dir)
		probe := filepath.Join(dir, fmt.Sprintf("topside-%d-0", os.Getpid()))
		if os.Mkdir(probe, 0o755) != nil {
			continue
		}
		_, err := os.Stat(filepath.Join(probe, "cgroup.procs"))
		os.Remove(probe)
		if err == nil {
			return dir
		}
	}
	return ""
})

// ownGroups are the folders of the groups that lines of proc/self/cgroup name: of the pids controller, and of v2.
func ownGroups(groups, mountinfo string) []string {
	paths := map[string]string{}
	for line := range strings.Lines(groups) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		for _, c := range strings.Split(controllers, ",") {
			paths[c] = path
		}
	}
	var dirs [2]string
	for line := range strings.Lines(mountinfo) {
		place, kind, found := strings.Cut(line, " - ")
		f, g := strings.Fields(place), strings.Fields(kind)
		if !found || len(f) < 5 || len(g) < 3 {
			continue
		}
		at, controller := -1, ""
		switch options := strings.Split(g[len(g)-1], ","); {
		case g[0] == "cgroup2":
			at = 1
		case g[0] == "cgroup":
			for _, o := range options {
				if o == "pids" {
					at, controller = 0, o
				}
			}
		}
		if at < 0 || dirs[at] != "" {
			continue
		}
		path, known := paths[controller]
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(f[3], "/")); known && ok && !strings.HasPrefix(path, "/..") {
			dirs[at] = filepath.Join(f[4], below)
		}
	}
	var found []string
	for _, d := range dirs {
		if d != "" {
			found = append(found, d)
		}
	}
	return found
}

// sweepCells removes the empty cells of servers that were killed.
func sweepCells(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, "topside-*-*"))
	for _, d := range left {
		pid, err := strconv.Atoi(strings.Split(filepath.Base(d), "-")[1])
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			os.Remove(d) // a cell with processes stays
		}
	}
}

var cellCount atomic.Uint64

// cellVariable with the value "off" says that no control groups are to be made.
const cellVariable = "TOPSIDE_CGROUPS"

// newCell makes a cell for at most so many processes, or none.
func newCell(processes int64) *cell {
	if os.Getenv(cellVariable) == "off" {
		return nil
	}
	parent := cellParent()
	if parent == "" {
		return nil
	}
	c := &cell{dir: filepath.Join(parent, fmt.Sprintf("topside-%d-%d", os.Getpid(), cellCount.Add(1))), moved: make(chan struct{})}
	if os.Mkdir(c.dir, 0o755) != nil {
		return nil
	}
	if processes > 0 {
		// The controller counts threads. The server stops what has too many processes; this holds until it does,
		// and where v2 has no pids controller here, there is no such bound.
		c.write("pids.max", strconv.FormatInt(2*processes+64, 10))
	}
	return c
}

func (c *cell) write(name, text string) error {
	f, err := os.OpenFile(filepath.Join(c.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// admit moves a process into the cell. The kernel may need some milliseconds for it, in which the process starts.
func (c *cell) admit(pid int) {
	go func() {
		c.ok.Store(c.write("cgroup.procs", strconv.Itoa(pid)) == nil)
		close(c.moved)
	}()
}

// readmit moves a process that may have been forked before its parent was moved.
func (c *cell) readmit(pid int) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil && !strings.Contains(string(groups), filepath.Base(c.dir)+"\n") {
		c.write("cgroup.procs", strconv.Itoa(pid))
	}
}

// holds tells whether the processes are in the cell.
func (c *cell) holds() bool {
	if c == nil {
		return false
	}
	<-c.moved
	return c.ok.Load()
}

func (c *cell) members() []int {
	text, err := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for _, f := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 { // 0 is a process of another namespace
			pids = append(pids, pid)
		}
	}
	return pids
}

// close removes an empty cell.
func (c *cell) close() {
	for i := range 20 {
		if err := os.Remove(c.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(time.Duration(i) * time.Millisecond / 2)
	}
}
