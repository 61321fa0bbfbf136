//go:build linux

package united

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"topside/test/bed"
)

// soakVariable says how long the soak lasts; by default it is a minute.
const soakVariable = "TOPSIDE_SOAK"

// TestSoak works in several sessions at once, evaluates, cancels, times out, resets
// and leaves programs in the background, while processes of the sessions are killed
// at random and the server ends again and again: by the end of its input, by a
// signal, by kill -9. What was acknowledged is never lost, and nothing is left:
// processes, descriptors, control groups, files.
func TestSoak(t *testing.T) {
	duration := time.Minute
	if testing.Short() {
		duration = 6 * time.Second
	}
	if given, err := time.ParseDuration(os.Getenv(soakVariable)); err == nil {
		duration = given
	}
	soak := &soaking{t: t, state: t.TempDir(), temporary: t.TempDir()}
	for i := range 5 {
		w := &soaker{soak: soak, name: fmt.Sprintf("soak%d", i), engine: "ocaml", may: []string{unbound}}
		if i >= 3 {
			w.engine = "javascript"
		}
		soak.workers = append(soak.workers, w)
	}
	end := time.Now().Add(duration)
	round := max(duration/6, 2*time.Second)
	for i := 0; time.Now().Before(end) && !t.Failed(); i++ {
		soak.round(i, round)
	}
	t.Logf("%d evaluations, %d kills, %d recoveries, %d cancels, %d timeouts, %d resets, %d programs in the background",
		soak.evaluations.Load(), soak.kills.Load(), soak.recoveries.Load(), soak.cancels.Load(), soak.timeouts.Load(), soak.resets.Load(), soak.programs.Load())
	if soak.kills.Load() == 0 || soak.recoveries.Load() == 0 {
		t.Error("nothing was put to the test")
	}
}

type soaking struct {
	t                *testing.T
	state, temporary string
	workers          []*soaker

	evaluations, kills, recoveries, cancels, timeouts, resets, programs atomic.Int64
}

// unbound is the value of a name that a session does not have.
const unbound = "unbound"

// A soaker is the client of one session. It knows what the session's name m may be.
type soaker struct {
	soak         *soaking
	name, engine string
	may          []string
	step, calls  int
}

// round is the life of one server.
func (s *soaking) round(number int, d time.Duration) {
	c := beginWith(s.t, s.state, []bed.Option{bed.Env("TMPDIR=" + s.temporary)})
	pid := c.PID()
	for _, w := range s.workers {
		w.check(c)
	}
	before := descriptors(pid)
	var stop atomic.Bool
	var load sync.WaitGroup
	for _, w := range s.workers {
		load.Go(func() {
			for !stop.Load() && w.work(c) {
			}
		})
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond)
		s.kill(pid)
	}
	var children []int
	if number%3 == 2 {
		// In the middle of the work.
		children = below(pid)
		_ = c.Cmd.Process.Kill()
		stop.Store(true)
		load.Wait()
		<-c.Ended()
	} else {
		stop.Store(true)
		load.Wait()
		for _, w := range s.workers {
			w.check(c)
		}
		// Children that resets and kills have replaced may still be on their way out.
		after := descriptors(pid)
		for end := time.Now().Add(bed.Patience); after > before+12 && time.Now().Before(end); after = descriptors(pid) {
			time.Sleep(50 * time.Millisecond)
		}
		if after > before+12 {
			s.t.Errorf("%d descriptors are open, %d were at the beginning: %v", after, before, kinds(pid))
		}
		children = below(pid)
		if number%3 == 0 {
			if status, _ := c.Close(bed.Patience); status != 0 {
				s.t.Errorf("status %d at the end of the input", status)
			}
		} else {
			_ = c.Cmd.Process.Signal(syscall.SIGTERM)
			c.AwaitEnd(bed.Patience)
		}
	}
	s.nothingLeft(pid, children)
}

// kill ends one process of the sessions, whichever it is.
func (s *soaking) kill(server int) {
	children := below(server)
	if len(children) == 0 {
		return
	}
	pid := children[rand.IntN(len(children))]
	if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(comm)) == "sh" {
		return // the guard that ends the children when the server dies
	}
	if syscall.Kill(pid, syscall.SIGKILL) == nil {
		s.kills.Add(1)
	}
}

func (s *soaking) nothingLeft(server int, children []int) {
	s.t.Helper()
	for _, pid := range children {
		for begun := time.Now(); bed.Alive(pid); time.Sleep(5 * time.Millisecond) {
			if time.Since(begun) > 10*time.Second {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				s.t.Errorf("process %d is left: %q", pid, line)
				break
			}
		}
	}
	cell := fmt.Sprintf("topside-%d-", server)
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left := found("/sys/fs/cgroup", func(path string, _ fs.DirEntry) bool { return strings.HasPrefix(filepath.Base(path), cell) })
		if len(left) == 0 {
			break
		}
		if time.Since(begun) > 10*time.Second {
			s.t.Errorf("control groups are left: %v", left)
			break
		}
	}
	if left := found(s.temporary, func(string, fs.DirEntry) bool { return true }); len(left) > 1 {
		s.t.Errorf("temporary files are left: %v", left[1:])
	}
	if left := found(s.state, func(path string, e fs.DirEntry) bool {
		return !e.IsDir() && (strings.HasSuffix(path, ".tmp") || strings.HasPrefix(e.Name(), "."))
	}); len(left) > 0 {
		s.t.Errorf("files are left: %v", left)
	}
}

// found lists what is below a folder and wanted.
func found(root string, wanted func(string, fs.DirEntry) bool) []string {
	var paths []string
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && wanted(path, e) {
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

func descriptors(pid int) int {
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(open)
}

// kinds counts the open descriptors of a process by what they are.
func kinds(pid int) map[string]int {
	count := map[string]int{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil {
			kind, _, _ := strings.Cut(to, ":[")
			count[kind]++
		}
	}
	return count
}

// below lists the processes that descend from one.
func below(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		end := strings.LastIndexByte(string(stat), ')')
		if err != nil || end < 0 {
			continue
		}
		fields := strings.Fields(string(stat[end+1:]))
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], child)
	}
	all := slices.Clone(children[pid])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// call makes a call; false when the server ended before the reply.
func (w *soaker) call(c *talk, tool string, a arguments) (o object, failed, answered bool) {
	a["session"] = w.name
	w.calls++
	id := fmt.Sprintf("%s-%d", w.name, w.calls)
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": a}})
	if err != nil {
		w.soak.t.Error(err)
		return nil, false, false
	}
	if c.Write(append(line, '\n')) != nil {
		return nil, false, false
	}
	reply, err := c.TryAwait(strconv.Quote(id), 2*bed.Patience)
	if err != nil {
		if strings.Contains(err.Error(), "within") {
			w.soak.t.Errorf("%s: %v", w.name, err)
		}
		return nil, false, false
	}
	var result struct {
		Structured object `json:"structuredContent"`
		IsError    bool   `json:"isError"`
	}
	if err := json.Unmarshal(reply.Result, &result); err != nil || reply.Error != nil {
		w.soak.t.Errorf("%s: %s: %v %v", w.name, tool, err, reply.Error)
		return nil, true, true
	}
	if result.Structured["recovered"] == true {
		w.soak.recoveries.Add(1)
	}
	return result.Structured, result.IsError, true
}

// eval evaluates, and waits for the end of it.
func (w *soaker) eval(c *talk, source string, more arguments) (o object, failed, answered bool) {
	w.soak.evaluations.Add(1)
	a := arguments{"source": source, "engine": w.engine, "wait": 50}
	for k, v := range more {
		a[k] = v
	}
	return w.call(c, "eval", a)
}

// check looks at the name: it has a value that it may have.
func (w *soaker) check(c *talk) bool {
	for range 10 {
		o, failed, answered := w.eval(c, "m", nil)
		if !answered {
			return false
		}
		value := o.text("value_repr")
		switch message := o.object("error").text("message"); {
		case strings.Contains(message, "Unbound value m"), strings.Contains(message, "m is not defined"):
			value = unbound
		case failed || message != "":
			continue // the process was killed just then
		}
		if !slices.Contains(w.may, value) {
			w.soak.t.Errorf("%s: m is %s and should be %v: %v", w.name, value, w.may, o)
		}
		w.may = []string{value}
		return true
	}
	w.soak.t.Errorf("%s: m could not be looked at", w.name)
	return false
}

// work does one thing; false when the server has ended.
func (w *soaker) work(c *talk) bool {
	endless := "while true do try while true do () done with _ -> () done"
	if w.engine == "javascript" {
		endless = "while (true) { try { while (true) {} } catch (e) {} }"
	}
	switch dice := rand.IntN(100); {
	case dice < 70:
		w.step++
		value := fmt.Sprint(w.step)
		w.may = append(w.may, value)
		o, failed, answered := w.eval(c, "let m = "+value, nil)
		switch {
		case !answered:
			return false
		case !failed && o["error"] == nil:
			w.may = []string{value}
		default:
			w.may = w.may[:len(w.may)-1]
		}
	case dice < 85:
		return w.check(c)
	case dice < 89:
		w.soak.timeouts.Add(1)
		o, failed, answered := w.eval(c, endless, arguments{"timeout": 0.1})
		if answered && !failed && o["error"] == nil {
			w.soak.t.Errorf("%s: an endless loop ended: %v", w.name, o)
		}
		return answered
	case dice < 93:
		w.soak.cancels.Add(1)
		if _, _, answered := w.eval(c, endless, arguments{"wait": 0.05}); !answered {
			return false
		}
		if _, _, answered := w.call(c, "cancel", arguments{}); !answered {
			return false
		}
		o, failed, answered := w.call(c, "poll", arguments{"wait": 50})
		if answered && !failed && o.text("state") == "running" {
			w.soak.t.Errorf("%s: a cancelled loop runs: %v", w.name, o)
		}
		return answered
	case dice < 96:
		w.soak.resets.Add(1)
		w.may = append(w.may, unbound)
		o, failed, answered := w.call(c, "reset", arguments{})
		switch {
		case !answered:
			return false
		case !failed:
			w.may = []string{unbound}
		default:
			w.soak.t.Logf("%s: a reset failed: %v", w.name, o)
		}
	case w.engine == "ocaml":
		w.soak.programs.Add(1)
		_, _, answered := w.eval(c, `ignore (Sys.command "setsid sleep 1000 &")`, nil)
		return answered
	}
	return true
}
