package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"topside/internal/fleet/daemon"
	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
	"topside/internal/fleet/transfer"
)

// content is n bytes that are the same for the same seed.
func content(n int, seed uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

func write(t testing.TB, path string, data []byte, mode fs.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// leftovers are the partial files in dir.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".part") {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// both runs a test for a push and for a pull: the same file from one folder to
// another.
func both(t *testing.T, run func(t *testing.T, move func(ctx context.Context, from, to string, o transfer.Options) (transfer.Result, error))) {
	l := near(t)
	t.Run("push", func(t *testing.T) {
		run(t, func(ctx context.Context, from, to string, o transfer.Options) (transfer.Result, error) {
			return transfer.Push(ctx, l, from, to, o)
		})
	})
	t.Run("pull", func(t *testing.T) {
		run(t, func(ctx context.Context, from, to string, o transfer.Options) (transfer.Result, error) {
			return transfer.Pull(ctx, l, from, to, "", o)
		})
	})
}

type mover = func(ctx context.Context, from, to string, o transfer.Options) (transfer.Result, error)

func TestFilesOfEverySize(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		ctx := within(t, 60*time.Second)
		for _, n := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 4 << 20, 20<<20 + 7} {
			for _, mode := range []fs.FileMode{0o644, 0o755, 0o400} {
				data := content(n, uint64(n))
				from := write(t, filepath.Join(dir, fmt.Sprintf("from-%d-%o", n, mode)), data, mode)
				to := filepath.Join(dir, "new", "er", fmt.Sprintf("to-%d-%o", n, mode))
				var last, total int64
				r, err := move(ctx, from, to, transfer.Options{Progress: func(d, t int64) { last, total = d, t }})
				if err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(to)
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes: %d arrived, %v", n, len(got), err)
				}
				if info, err := os.Stat(to); err != nil || info.Mode() != mode {
					t.Errorf("mode %v, %v", info.Mode(), err)
				}
				sum := blake3.Sum256(data)
				if r.Path != to || r.Bytes != int64(n) || r.BLAKE3 != hex.EncodeToString(sum[:]) || last != int64(n) || total != int64(n) {
					t.Errorf("%d bytes: result %+v, progress %d of %d", n, r, last, total)
				}
			}
		}
		if left := leftovers(t, dir); left != nil {
			t.Errorf("left: %v", left)
		}
	})
}

func TestWhatIsThereStays(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		ctx := within(t, 30*time.Second)
		from := write(t, dir+"/from", []byte("new"), 0o644)
		to := write(t, dir+"/to", []byte("old"), 0o600)
		link := dir + "/link"
		if err := os.Symlink("elsewhere", link); err != nil {
			t.Fatal(err)
		}
		for _, dest := range []string{to, link} {
			if _, err := move(ctx, from, dest, transfer.Options{}); !transfer.IsKind(err, transfer.Exists) || !strings.Contains(err.Error(), "pass overwrite") {
				t.Errorf("%s: %v", dest, err)
			}
			if _, err := move(ctx, from, dest, transfer.Options{Overwrite: true}); err != nil {
				t.Errorf("%s: %v", dest, err)
			}
			if got, err := os.ReadFile(dest); err != nil || string(got) != "new" {
				t.Errorf("%s: %q, %v", dest, got, err)
			}
		}
		if _, err := os.Lstat(dir + "/elsewhere"); err == nil {
			t.Error("written through a link")
		}
	})
}

func TestOnlyRegularFiles(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		ctx := within(t, 30*time.Second)
		if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", dir+"/sock")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		good := write(t, dir+"/good", []byte("x"), 0o600)
		for _, bad := range []string{dir + "/fifo", dir + "/sock", "/dev/null"} {
			if _, err := move(ctx, bad, dir+"/out", transfer.Options{}); !transfer.IsKind(err, transfer.NotFile) {
				t.Errorf("from %s: %v", bad, err)
			}
			if _, err := move(ctx, good, bad, transfer.Options{Overwrite: true}); !transfer.IsKind(err, transfer.NotFile) {
				t.Errorf("to %s: %v", bad, err)
			}
		}
		tests := []struct{ from, to, kind string }{
			{dir + "/none", dir + "/out", transfer.Missing},
			{"", dir + "/out", transfer.Invalid},
			{"a\x00b", dir + "/out", transfer.Invalid},
			{good, dir + "/a\x00b", transfer.Invalid},
			{good, strings.Repeat("/x", 3000), transfer.Invalid},
			{good, dir + "/" + strings.Repeat("n", 4000), transfer.Failed},
			{good, good + "/below-a-file", transfer.Failed},
		}
		for _, tt := range tests {
			if _, err := move(ctx, tt.from, tt.to, transfer.Options{}); !transfer.IsKind(err, tt.kind) {
				t.Errorf("%.40q to %.40q: %v", tt.from, tt.to, err)
			}
		}
		if os.Geteuid() != 0 {
			secret := write(t, dir+"/secret", nil, 0)
			if _, err := move(ctx, secret, dir+"/out", transfer.Options{}); !transfer.IsKind(err, transfer.Denied) {
				t.Errorf("unreadable: %v", err)
			}
		}
		if left := leftovers(t, dir); left != nil {
			t.Errorf("left: %v", left)
		}
	})
}

func TestFolders(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		ctx := within(t, 60*time.Second)
		from := dir + "/from"
		for _, d := range []string{from, from + "/empty", from + "/a/b", from + "/locked"} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 40 {
			write(t, fmt.Sprintf("%s/a/b/file %d\n.txt", from, i), content(i*1000, uint64(i)), 0o640)
		}
		write(t, from+"/locked/run", []byte("#!/bin/sh\n"), 0o755)
		for name, target := range map[string]string{"in": "a/b", "a/up": "../empty", "out": "../../etc", "abs": "/etc/passwd", "a/deep": "../../x"} {
			if err := os.Symlink(target, filepath.Join(from, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mkfifo(from+"/fifo", 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(from+"/locked", 0o555); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(from+"/locked", 0o755)
		to := dir + "/new/to"
		defer os.Chmod(to+"/locked", 0o755)
		r, err := move(ctx, from, to, transfer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Files != 41 || r.Folders != 4 || r.Links != 2 || r.Path != to {
			t.Errorf("result %+v", r)
		}
		var skipped []string
		for _, s := range r.Skipped {
			skipped = append(skipped, s.Path)
		}
		slices.Sort(skipped)
		if !slices.Equal(skipped, []string{"a/deep", "abs", "fifo", "out"}) {
			t.Errorf("skipped %+v", r.Skipped)
		}
		for i := range 40 {
			name := fmt.Sprintf("%s/a/b/file %d\n.txt", to, i)
			if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, content(i*1000, uint64(i))) {
				t.Fatalf("%s: %d bytes, %v", name, len(got), err)
			}
		}
		if target, err := os.Readlink(to + "/a/up"); err != nil || target != "../empty" {
			t.Errorf("link: %q, %v", target, err)
		}
		if info, err := os.Stat(to + "/locked"); err != nil || info.Mode().Perm() != 0o555 {
			t.Errorf("folder: %v, %v", info.Mode(), err)
		}
		if left := leftovers(t, dir); left != nil {
			t.Errorf("left: %v", left)
		}
		// Again: refused, then merged.
		if _, err := move(ctx, from, to, transfer.Options{}); !transfer.IsKind(err, transfer.Exists) {
			t.Errorf("again: %v", err)
		}
		mine := write(t, to+"/a/mine", []byte("mine"), 0o600)
		// What is there and the same does not travel; another content of the same size does,
		// and so do permissions.
		changed := write(t, fmt.Sprintf("%s/a/b/file %d\n.txt", to, 7), content(7000, 99), 0o600)
		alike := fmt.Sprintf("%s/a/b/file %d\n.txt", to, 8)
		if err := os.Chmod(alike, 0o400); err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(alike)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := move(ctx, from, to, transfer.Options{Overwrite: true}); err != nil || r.Sent != 7000 || r.Files != 41 {
			t.Errorf("overwrite: %+v, %v", r, err)
		}
		if got, err := os.ReadFile(changed); err != nil || !bytes.Equal(got, content(7000, 7)) {
			t.Errorf("the file that differed: %d bytes, %v", len(got), err)
		}
		if after, err := os.Stat(alike); err != nil || !os.SameFile(before, after) || after.Mode().Perm() != 0o640 {
			t.Errorf("the file that was the same: %v, %v", after.Mode(), err)
		}
		if got, err := os.ReadFile(mine); err != nil || string(got) != "mine" {
			t.Errorf("what else was there: %q, %v", got, err)
		}
		// A link in the destination must not lead the files elsewhere.
		if err := os.RemoveAll(to + "/a"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dir, to+"/a"); err != nil {
			t.Fatal(err)
		}
		if _, err := move(ctx, from, to, transfer.Options{Overwrite: true}); err == nil {
			t.Error("a link in the destination was followed")
		}
		if _, err := os.Lstat(dir + "/b"); err == nil {
			t.Error("written outside")
		}
	})
}

// cutter is a progress callback that breaks the connection at a part of the way.
func cutter(l *link.Link, at int64, times int32, cut func()) func(done, total int64) {
	var cuts atomic.Int32
	return func(done, _ int64) {
		if done >= at*int64(cuts.Load()+1) && cuts.Load() < times && l.State().Phase == link.Connected {
			cuts.Add(1)
			cut()
		}
	}
}

// ssh, sshd, the relay or the daemon is killed in the middle of a transfer: it goes
// on by itself, and the file is right.
func TestATransferGoesOnAfterABreak(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"ssh", "sshd", "relay", "daemon"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			s, l := far(t)
			ctx := within(t, 100*time.Second)
			data := content(24<<20, 1)
			dir := t.TempDir()
			from := write(t, dir+"/from", data, 0o640)
			cut := func() {
				var pids []int
				switch victim {
				case "ssh":
					pids = []int{l.State().PID}
				case "sshd":
					pids = s.Sessions()
				case "relay":
					pids = s.Processes("fleet-relay")
				case "daemon":
					pids = s.Processes("fleet-daemon")
				}
				for _, pid := range pids {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			if err := l.Connect(ctx); err != nil {
				t.Fatal(err)
			}
			r, err := transfer.Push(ctx, l, from, "~/deep/file", transfer.Options{Progress: cutter(l, 7<<20, 2, cut)})
			if err != nil {
				t.Fatalf("push: %v", err)
			}
			if !r.Resumed || r.Path != s.Home+"/deep/file" {
				t.Errorf("push: %+v", r)
			}
			if got, err := os.ReadFile(s.Home + "/deep/file"); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("push: %d bytes, %v", len(got), err)
			}
			r, err = transfer.Pull(ctx, l, "~/deep/file", dir+"/back", "", transfer.Options{Progress: cutter(l, 7<<20, 2, cut)})
			if err != nil {
				t.Fatalf("pull: %v", err)
			}
			if !r.Resumed {
				t.Errorf("pull: %+v", r)
			}
			if got, err := os.ReadFile(dir + "/back"); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("pull: %d bytes, %v", len(got), err)
			}
			if info, err := os.Stat(dir + "/back"); err != nil || info.Mode() != 0o640 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if left := append(leftovers(t, dir), leftovers(t, s.Home+"/deep")...); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A partial file of another content is not resumed.
func TestAnotherFilesRemainsAreNotUsed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		to := dir + "/to"
		first, second := content(8<<20, 1), content(8<<20, 2)
		from := write(t, dir+"/from", first, 0o600)
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(time.Hour))
		defer cancel()
		// The first attempt stops for good, and what it wrote stays.
		plant(t, ctx, move, from, to, first)
		write(t, from, second, 0o600)
		r, err := move(within(t, 30*time.Second), from, to, transfer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, second) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if r.Resumed {
			t.Error("it says that it was resumed")
		}
	})
}

// plant leaves the beginning of data in the partial file of to.
func plant(t *testing.T, _ context.Context, _ mover, _, to string, data []byte) {
	t.Helper()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", filepath.Base(to), len(data)))
	write(t, filepath.Join(filepath.Dir(to), ".topside-"+hex.EncodeToString(sum[:8])+".part"), data[:3<<20], 0o600)
}

func TestGivingUpLeavesNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		from := write(t, dir+"/from", content(64<<20, 3), 0o600)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		_, err := move(ctx, from, dir+"/to", transfer.Options{Progress: func(done, _ int64) {
			if done > 4<<20 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		fleettest.Eventually(t, 3*time.Second, "the partial file is gone", func() bool { return leftovers(t, dir) == nil })
		if _, err := os.Lstat(dir + "/to"); err == nil {
			t.Error("half a file")
		}
	})
}

// A file system without room: the transfer says so, and nothing is left on it.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a small file system needs root: run the tests as root to have a full disk tested")
	}
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		small := dir + "/small"
		if err := os.Mkdir(small, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=8m"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Unmount(small, 0); err != nil {
				t.Error(err)
			}
		}()
		from := write(t, dir+"/from", content(20<<20, 4), 0o600)
		_, err := move(within(t, 30*time.Second), from, small+"/to", transfer.Options{})
		if !transfer.IsKind(err, transfer.Full) {
			t.Errorf("got %v", err)
		}
		entries, err := os.ReadDir(small)
		if err != nil || len(entries) != 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
	})
}

func TestCallsGoOnBesideATransfer(t *testing.T) {
	t.Parallel()
	s, l := far(t)
	ctx := within(t, 60*time.Second)
	from := write(t, s.Dir+"/from", content(24<<20, 5), 0o600)
	if err := l.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	stop := make(chan struct{})
	var worst time.Duration
	calls := 0
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			began := time.Now()
			if _, err := l.Call(ctx, "echo", nil); err != nil {
				t.Error(err)
				return
			}
			calls++
			worst = max(worst, time.Since(began))
		}
	})
	for i := range 3 {
		if _, err := transfer.Push(ctx, l, from, fmt.Sprintf("~/f%d", i), transfer.Options{}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	group.Wait()
	t.Logf("%d calls, the slowest took %v", calls, worst)
	if calls < 10 || worst > 3*time.Second {
		t.Errorf("%d calls, the slowest took %v", calls, worst)
	}
}

func TestSweepTakesOnlyWhatIsOld(t *testing.T) {
	t.Parallel()
	state, dir := t.TempDir(), t.TempDir()
	if err := os.Mkdir(state+"/partial", 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	part := write(t, dir+"/.topside-old.part", nil, 0o600)
	fresh := write(t, dir+"/.topside-new.part", nil, 0o600)
	other := write(t, dir+"/precious", nil, 0o600)
	for name, target := range map[string]string{"1": part, "2": fresh, "3": other, "4": "relative.part", "5": dir + "/.topside-gone.part"} {
		entry := write(t, state+"/partial/"+name, []byte(target), 0o600)
		if err := os.Chtimes(entry, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{part, other} {
		if err := os.Chtimes(p, old, old); err != nil {
			t.Fatal(err)
		}
	}
	transfer.Sweep(state, time.Minute)
	for path, want := range map[string]bool{part: false, fresh: true, other: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s is there: %v", path, err == nil)
		}
	}
	entries, err := os.ReadDir(state + "/partial")
	if err != nil || len(entries) != 1 {
		t.Errorf("journal: %v, %v", entries, err)
	}
}

// A front end that is killed in the middle of a push leaves a partial file, which the
// daemon removes when nobody has resumed it.
func TestAKilledFrontEndsPartialFileIsRemoved(t *testing.T) {
	t.Parallel()
	socket := fleettest.RunDaemon(t, daemon.Config{Keep: time.Second})
	dir := t.TempDir()
	from := write(t, dir+"/from", content(64<<20, 6), 0o600)
	var conn *ssh.Conn
	l := link.New(link.Options{Host: "near", Surface: "test", Dial: func(ctx context.Context) (*ssh.Conn, error) {
		if conn != nil {
			return nil, errors.New("gone")
		}
		var err error
		conn, err = fleettest.DialSocket(socket)(ctx)
		return conn, err
	}})
	defer l.Close()
	_, err := transfer.Push(within(t, 30*time.Second), l, from, dir+"/to", transfer.Options{Attempts: 1, Progress: func(done, _ int64) {
		if done > 8<<20 {
			conn.Close()
		}
	}})
	var b *transfer.BrokenError
	if !errors.As(err, &b) || b.Total != 64<<20 || !strings.Contains(err.Error(), "goes on from there") {
		t.Fatalf("got %v", err)
	}
	if len(leftovers(t, dir)) != 1 {
		t.Errorf("nothing to resume: %v", leftovers(t, dir))
	}
	fleettest.Eventually(t, 10*time.Second, "the partial file is removed", func() bool { return leftovers(t, dir) == nil })
}

// Random faults for a few seconds: every file that was said to be there is whole,
// every call ends, and nothing is left.
func TestSoak(t *testing.T) {
	t.Parallel()
	s, l := far(t)
	ctx := within(t, 120*time.Second)
	if err := l.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(6 * time.Second)
	var group sync.WaitGroup
	group.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		for time.Now().Before(until) {
			time.Sleep(time.Duration(200+r.IntN(500)) * time.Millisecond)
			victims := s.Processes([]string{"fleet-relay", "fleet-daemon"}[r.IntN(2)])
			if r.IntN(2) == 0 {
				victims = []int{l.State().PID}
			}
			for _, pid := range victims {
				if pid > 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	})
	data := content(6<<20, 7)
	from := write(t, s.Dir+"/from", data, 0o600)
	var moved, failed, calls atomic.Int32
	for w := range 3 {
		group.Go(func() {
			for i := 0; time.Now().Before(until); i++ {
				name := fmt.Sprintf("%s/w%d-%d", s.Home, w, i)
				if _, err := transfer.Push(ctx, l, from, name, transfer.Options{}); err != nil {
					failed.Add(1)
					continue
				}
				moved.Add(1)
				if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
		})
	}
	group.Go(func() {
		for time.Now().Before(until) {
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			began := time.Now()
			_, _ = l.Call(short, "echo", nil)
			cancel()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("a call took %v", took)
			}
			calls.Add(1)
		}
	})
	group.Wait()
	t.Logf("%d files moved, %d gave up, %d calls", moved.Load(), failed.Load(), calls.Load())
	if moved.Load() == 0 {
		t.Error("nothing was moved")
	}
	if err := l.Connect(ctx); err != nil {
		t.Error(err)
	}
	l.Close()
	fleettest.Eventually(t, 5*time.Second, "the relays are gone", func() bool { return len(s.Processes("fleet-relay")) == 0 })
}
