//go:build linux

package fleet

// What a transfer depends on is killed in the middle of it, with the real binary on
// both sides: ssh, sshd's process, the daemon, the front end. Nothing is half-written,
// what stays is what resumes, and the same call ends with the right file. Then full
// disks, destinations that cannot be, and a soak of calls, transfers and kills.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"topside/internal/fleet/fleettest"
	"topside/test/bed"
)

// partials are the partial files in a folder.
func partials(t testing.TB, dir string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(dir, ".topside-*.part"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// hashOf is the hash of a file, "" if it is not there.
func hashOf(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := blake3.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func TestKilledInATransfer(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"push_file", "pull_file"} {
		for _, what := range []string{"ssh", "sshd", "daemon", "front end"} {
			t.Run(tool+"/"+what, func(t *testing.T) {
				t.Parallel()
				killedInATransfer(t, tool, what)
			})
		}
	}
}

func killedInATransfer(t *testing.T, tool, what string) {
	const size = 100 << 20
	w := newUnited(t, farHost{name: "alpha"})
	far := w.hosts["alpha"]
	near, there := filepath.Join(w.home, "files"), filepath.Join(far.Home, "files")
	from, into := near, there
	if tool == "pull_file" {
		from, into = there, near
	}
	sum := noise(t, filepath.Join(from, "from"), size, 0o640)
	if err := os.Mkdir(into, 0o700); err != nil {
		t.Fatal(err)
	}
	a := bed.Arguments{"host": "alpha", "local_path": near + "/from", "remote_path": there + "/to", "wait": 50}
	if tool == "pull_file" {
		a["local_path"], a["remote_path"] = near+"/to", there+"/from"
	}
	s := w.serve()
	s.Get("threshold_get", bed.Arguments{"host": "alpha"}, &struct{}{})
	id := s.AskCall(tool, a)
	fleettest.Eventually(t, waitLong, "the transfer is under way", func() bool {
		for _, p := range partials(t, into) {
			if info, err := os.Stat(p); err == nil && info.Size() > 4<<20 {
				return true
			}
		}
		return false
	})
	victims := map[string]func() []int{
		"ssh": w.nearSSH, "sshd": far.Sessions,
		"daemon":    func() []int { return far.Processes("fleet-daemon") },
		"front end": func() []int { return []int{s.PID()} },
	}
	if kill(victims[what]()) == 0 {
		t.Fatal("there is nothing to kill")
	}
	var m movedFile
	if what == "front end" {
		s.AwaitEnd(waitLong)
		w.quiet()
		fleettest.Eventually(t, waitLong, "the relay is gone", func() bool { return len(far.Processes("fleet-relay")) == 0 })
		if got := hashOf(t, into+"/to"); got != "" {
			t.Errorf("it is there: %s", got)
		}
		if left := partials(t, into); len(left) != 1 {
			t.Errorf("there is nothing to resume, or more than that: %v", left)
		}
		s = w.serve()
		s.Get(tool, a, &m)
	} else {
		r := bed.ResultOf(t, s.AwaitFor(id, time.Minute))
		if err := json.Unmarshal(r.Structured, &m); err != nil || r.Failed() {
			t.Fatalf("%v: %s", err, r.Text())
		}
	}
	if m.State != "done" || m.BLAKE3 != sum || m.Bytes != size || !m.Resumed {
		t.Errorf("it ended with %+v", m)
	}
	if got := hashOf(t, into+"/to"); got != sum {
		t.Errorf("the file has %s, not %s", got, sum)
	}
	if left := append(partials(t, near), partials(t, there)...); left != nil {
		t.Errorf("left: %v", left)
	}
	for _, state := range []string{w.home, far.Home} {
		if left, _ := filepath.Glob(filepath.Join(state, ".topside", "partial", "*")); left != nil {
			t.Errorf("left in the journal: %v", left)
		}
	}
	s.Get("threshold_get", bed.Arguments{"host": "alpha"}, &struct{}{})
	s.Close(waitLong)
	w.quiet()
	fleettest.Eventually(t, waitLong, "the relay is gone", func() bool { return len(far.Processes("fleet-relay")) == 0 })
	if n := len(far.Processes("fleet-daemon")); n > 1 {
		t.Errorf("%d daemons", n)
	}
}

// A front end that is killed in the middle of an evaluation: the work goes on over
// there, once, and the next front end finds the session with it.
func TestAFrontEndDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	s := w.serve()
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "var runs = 0, ended = 0", "engine": "javascript", "session": "s"}, &struct{}{})
	s.AskCall("eval", bed.Arguments{"host": "alpha", "source": "runs++; var end = Date.now() + 2500; while (Date.now() < end) {} ended++", "session": "s"})
	time.Sleep(500 * time.Millisecond)
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.AwaitEnd(waitLong)
	w.quiet()
	fleettest.Eventually(t, waitLong, "the relay is gone", func() bool { return len(w.hosts["alpha"].Processes("fleet-relay")) == 0 })
	s = w.serve()
	var value struct {
		Value      string `json:"value_repr"`
		Generation int
	}
	s.Get("eval", bed.Arguments{"host": "alpha", "source": "runs + ' ' + ended", "session": "s"}, &value)
	if !strings.Contains(value.Value, "1 1") || value.Generation != 1 {
		t.Errorf("another front end finds %+v", value)
	}
}

// smallDisk is a file system with room for 8 MiB.
func smallDisk(t *testing.T, at string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a small file system needs root: run the tests as root to have a full disk tested")
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	return at
}

func TestFullDisksAndBadDestinations(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"})
	s := w.serve()
	home := w.hosts["alpha"].Home
	local, there := w.home+"/big", home+"/big"
	noise(t, local, 20<<20, 0o600)
	noise(t, there, 20<<20, 0o600)
	push := func(to string, overwrite bool) bed.Arguments {
		return bed.Arguments{"host": "alpha", "local_path": local, "remote_path": to, "overwrite": overwrite}
	}
	pull := func(to string, overwrite bool) bed.Arguments {
		return bed.Arguments{"host": "alpha", "remote_path": there, "local_path": to, "overwrite": overwrite}
	}
	for _, side := range []struct {
		tool, home string
		to         func(string, bool) bed.Arguments
	}{{"push_file", home, push}, {"pull_file", w.home, pull}} {
		dir := side.home + "/odd"
		precious := noise(t, dir+"/precious", 100, 0o600)
		for name, target := range map[string]string{"link": "precious", "dangling": "nowhere"} {
			if err := os.Symlink(target, dir+"/"+name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(dir+"/folder/big", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
			t.Fatal(err)
		}
		small := smallDisk(t, side.home+"/small")
		fails(t, s, side.tool, side.to(small+"/to", false), "full", "no space left")
		if left, err := os.ReadDir(small); err != nil || len(left) != 0 {
			t.Errorf("left on the full disk: %v, %v", left, err)
		}
		for to, code := range map[string]string{
			dir + "/precious":          "exists",
			dir + "/link":              "exists",
			dir + "/dangling":          "exists",
			dir + "/fifo":              "not_file",
			dir + "/folder":            "not_file", // it holds a folder of that name
			dir + "/precious/below":    "failed",
			dir + "/../odd/precious":   "exists",
			"/proc/none/to":            "missing",
			"/dev/null":                "not_file",
			strings.Repeat("/y", 2100): "invalid",
		} {
			fails(t, s, side.tool, side.to(to, false), code)
		}
		// A link is replaced; what it names stays.
		var m movedFile
		s.Get(side.tool, side.to(dir+"/link", true), &m)
		if info, err := os.Lstat(dir + "/link"); err != nil || !info.Mode().IsRegular() || m.Path != dir+"/link" {
			t.Errorf("the link became %v, %v, %+v", info, err, m)
		}
		if hashOf(t, dir+"/precious") != precious {
			t.Error("written through a link")
		}
		// "~user" is a name like any other, here as there.
		s.Get(side.tool, side.to(dir+"/~root", false), &m)
		if m.Path != dir+"/~root" {
			t.Errorf("~user: %+v", m)
		}
		if left := partials(t, dir); left != nil {
			t.Errorf("left: %v", left)
		}
	}
}

// soakFor is how long the soak lasts; TOPSIDE_SOAK, a duration, changes it.
func soakFor(t *testing.T) time.Duration {
	text := os.Getenv("TOPSIDE_SOAK")
	if text == "" {
		return 40 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSoak makes calls, evaluations and transfers, while ssh, sshd, the relay and the
// daemon are killed at random: each call is answered, each file that is said to be
// there is whole, and in the end nothing is left and all works.
func TestSoak(t *testing.T) {
	t.Parallel()
	w := newUnited(t, farHost{name: "alpha"}, farHost{name: "beta"})
	s := w.serve()
	alpha := w.hosts["alpha"]
	until := time.Now().Add(soakFor(t))
	const size = 12 << 20
	sum := noise(t, w.home+"/out/from", size, 0o600)
	if noise(t, alpha.Home+"/from", size, 0o600) == "" {
		t.Fatal("no file")
	}
	back := hashOf(t, alpha.Home+"/from")
	var calls, failed, moved, gaveUp, killed atomic.Int32
	ask := func(tool string, a bed.Arguments, v any) bool {
		reply, err := s.TryAwait(s.AskCall(tool, a), 90*time.Second)
		if err != nil {
			t.Errorf("%s: no answer: %v", tool, err)
			return false
		}
		var r bed.ToolResult
		if reply.Error != nil || json.Unmarshal(reply.Result, &r) != nil {
			t.Errorf("%s: %v", tool, reply.Error)
			return false
		}
		return !r.Failed() && (v == nil || json.Unmarshal(r.Structured, v) == nil)
	}
	var group sync.WaitGroup
	group.Go(func() {
		r := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
		for time.Now().Before(until) {
			time.Sleep(time.Duration(300+r.IntN(900)) * time.Millisecond)
			killed.Add(int32(kill([]func() []int{
				w.nearSSH, alpha.Sessions,
				func() []int { return alpha.Processes("fleet-relay") },
				func() []int { return alpha.Processes("fleet-daemon") },
			}[r.IntN(4)]())))
		}
	})
	for _, tool := range []string{"push_file", "pull_file"} {
		group.Go(func() {
			for i := 0; time.Now().Before(until); i++ {
				to, want := fmt.Sprintf("%s/in/%d", alpha.Home, i), sum
				a := bed.Arguments{"host": "alpha", "local_path": w.home + "/out/from", "remote_path": to}
				if tool == "pull_file" {
					to, want = fmt.Sprintf("%s/in/%d", w.home, i), back
					a = bed.Arguments{"host": "alpha", "local_path": to, "remote_path": alpha.Home + "/from"}
				}
				var m movedFile
				if !ask(tool, a, &m) {
					gaveUp.Add(1)
					if got := hashOf(t, to); got != "" && got != want {
						t.Errorf("%s: half a file", to)
					}
					continue
				}
				moved.Add(1)
				if got := hashOf(t, to); m.State != "done" || m.BLAKE3 != want || got != want {
					t.Errorf("%s: %+v, and the file has %s", to, m, got)
				}
				if err := os.Remove(to); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, c := range []struct {
		tool string
		a    bed.Arguments
	}{
		{"threshold_get", bed.Arguments{"host": "alpha"}},
		{"eval", bed.Arguments{"host": "alpha", "source": "1 + 1", "engine": "javascript", "session": "soak"}},
		{"threshold_get", bed.Arguments{"hosts": "*"}},
	} {
		group.Go(func() {
			for time.Now().Before(until) {
				if !ask(c.tool, c.a, nil) {
					failed.Add(1)
				}
				calls.Add(1)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	group.Wait()
	t.Logf("%d calls, %d of them failed; %d files moved, %d gave up; %d processes killed", calls.Load(), failed.Load(), moved.Load(), gaveUp.Load(), killed.Load())
	if moved.Load() == 0 || calls.Load() == failed.Load() || killed.Load() == 0 {
		t.Error("nothing got through, or nothing was killed")
	}
	var value struct {
		Value string `json:"value_repr"`
	}
	fleettest.Eventually(t, time.Minute, "a call works again", func() bool {
		return ask("eval", bed.Arguments{"host": "alpha", "source": "6 * 7", "engine": "javascript", "session": "soak"}, &value) && value.Value == "42"
	})
	s.Close(waitLong)
	w.quiet()
	for _, h := range w.hosts {
		fleettest.Eventually(t, waitLong, "the relays are gone", func() bool { return len(h.Processes("fleet-relay")) == 0 })
		if n := len(h.Processes("fleet-daemon")); n > 1 {
			t.Errorf("%d daemons", n)
		}
	}
}
