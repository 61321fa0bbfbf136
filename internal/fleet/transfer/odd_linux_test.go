package transfer_test

// What files and names can be that one does not think of: names that are not text,
// files that change while they are read, files of the kernel, stages that are busy
// longer than partial files are kept, a network that is cut.

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
	"topside/internal/fleet/transfer"
)

func TestNamesAreBytes(t *testing.T) {
	t.Parallel()
	names := []string{"plain", "two\nlines", "tab\tand \"quotes\"", "\xff\xfe", "latin-\xe9", "latin-\xe8", `back\slash`, "{\"bytes\":\"eA==\"}", "…", strings.Repeat("n", 255)}
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		ctx := within(t, 60*time.Second)
		from, to := dir+"/from", dir+"/to"
		for _, n := range names {
			if err := os.MkdirAll(filepath.Join(from, "d-"+n[:min(len(n), 250)]), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(from, n), []byte(n), 0o600)
			write(t, filepath.Join(from, "d-"+n[:min(len(n), 250)], n), []byte("in "+n), 0o600)
		}
		if err := os.Symlink("latin-\xe9", from+"/link"); err != nil {
			t.Fatal(err)
		}
		r, err := move(ctx, from, to, transfer.Options{})
		if err != nil || r.Files != 2*len(names) || r.Folders != len(names) || r.Links != 1 || len(r.Skipped) != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, n := range names {
			for p, want := range map[string]string{n: n, filepath.Join("d-"+n[:min(len(n), 250)], n): "in " + n} {
				if got, err := os.ReadFile(filepath.Join(to, p)); err != nil || string(got) != want {
					t.Errorf("%q: %q, %v", p, got, err)
				}
			}
		}
		if target, err := os.Readlink(to + "/link"); err != nil || target != "latin-\xe9" {
			t.Errorf("link to %q, %v", target, err)
		}
	})
}

// A file that grows while it is read is taken as it was; one that shrinks fails, and
// leaves nothing.
func TestFilesThatChangeWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		data := content(40<<20, 8)
		change := func(name string, how func(*os.File) error) func(done, total int64) {
			var once sync.Once
			return func(int64, int64) {
				once.Do(func() {
					f, err := os.OpenFile(name, os.O_WRONLY, 0)
					if err == nil {
						err = how(f)
						f.Close()
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		grows := write(t, dir+"/grows", data, 0o600)
		r, err := move(within(t, 30*time.Second), grows, dir+"/grown", transfer.Options{Progress: change(grows, func(f *os.File) error {
			_, err := f.WriteAt([]byte("more"), int64(len(data)))
			return err
		})})
		if got, readErr := os.ReadFile(dir + "/grown"); err != nil || readErr != nil || !bytes.Equal(got, data) || r.Bytes != int64(len(data)) {
			t.Errorf("one that grows: %d bytes, %+v, %v, %v", len(got), r, err, readErr)
		}
		shrinks := write(t, dir+"/shrinks", data, 0o600)
		_, err = move(within(t, 30*time.Second), shrinks, dir+"/shrunk", transfer.Options{Progress: change(shrinks, func(f *os.File) error { return f.Truncate(30 << 20) })})
		if !transfer.IsKind(err, transfer.Changed) || !strings.Contains(err.Error(), "shorter") {
			t.Errorf("one that shrinks: %v", err)
		}
		fleettest.Eventually(t, 5*time.Second, "the partial file is gone", func() bool { return leftovers(t, dir) == nil })
		if _, err := os.Lstat(dir + "/shrunk"); err == nil {
			t.Error("half a file")
		}
	})
}

// A file that says that it is empty, and is not, would arrive empty without a word.
func TestFilesOfTheKernel(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, move mover) {
		dir := t.TempDir()
		if _, err := move(within(t, 10*time.Second), "/proc/version", dir+"/out", transfer.Options{}); !transfer.IsKind(err, transfer.NotFile) || !strings.Contains(err.Error(), "kernel") {
			t.Errorf("got %v", err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
	})
}

// A stage shows only what happens right below it: a folder whose transfer takes longer
// than partial files are kept is not removed under it.
func TestSweepLeavesBusyStages(t *testing.T) {
	t.Parallel()
	state, dir := t.TempDir(), t.TempDir()
	old := time.Now().Add(-time.Hour)
	if err := os.Mkdir(state+"/partial", 0o700); err != nil {
		t.Fatal(err)
	}
	stages := map[string]bool{dir + "/.topside-busy.part": true, dir + "/.topside-left.part": false}
	for stage, busy := range stages {
		if err := os.MkdirAll(stage+"/a/b", 0o700); err != nil {
			t.Fatal(err)
		}
		entry := write(t, state+"/partial/"+filepath.Base(stage), []byte(stage), 0o600)
		aged := []string{write(t, stage+"/a/b/f", nil, 0o600), stage + "/a/b", stage + "/a", stage, entry}
		if busy {
			aged = aged[1:]
		}
		for _, p := range aged {
			if err := os.Chtimes(p, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	transfer.Sweep(state, time.Minute)
	for stage, want := range stages {
		if _, err := os.Lstat(stage); (err == nil) != want {
			t.Errorf("%s is there: %v", stage, err == nil)
		}
	}
}

// A network that is cut for longer than anybody waits, in the middle of a transfer:
// the transfer goes on when it is back.
func TestATransferGoesOnAfterACutNetwork(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := fleettest.NewNetwork(t)
	s := fleettest.Start(t, fleettest.Options{Listen: n.Addr, Netns: n.Name, Programs: map[string]string{"topside": self}})
	s.Client.Options = []string{"-o", "ConnectTimeout=2"}
	d := ssh.Dialer{Client: s.Client, Host: "far"}
	l := link.New(link.Options{Host: "far", Surface: "test", Dial: d.Dial, Ping: 500 * time.Millisecond, Patience: 2 * time.Second, ConnectWait: 10 * time.Second})
	t.Cleanup(l.Close)
	dir := t.TempDir()
	data := content(48<<20, 11)
	from := write(t, dir+"/from", data, 0o600)
	// It stays cut until the link has noticed.
	cut := func() func(done, total int64) {
		var once sync.Once
		return func(done, _ int64) {
			if done > 8<<20 {
				once.Do(func() {
					n.Cut(t)
					var group sync.WaitGroup
					group.Go(func() {
						fleettest.Eventually(t, 20*time.Second, "the cut is noticed", func() bool { return l.State().Phase != link.Connected })
						n.Mend(t)
					})
					t.Cleanup(group.Wait)
				})
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	if r, err := transfer.Push(ctx, l, from, "~/file", transfer.Options{Progress: cut(), Attempts: 20}); err != nil || !r.Resumed {
		t.Fatalf("push: %+v, %v", r, err)
	}
	if got, err := os.ReadFile(s.Home + "/file"); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("push: %d bytes, %v", len(got), err)
	}
	if r, err := transfer.Pull(ctx, l, "~/file", dir+"/back", "", transfer.Options{Progress: cut(), Attempts: 20}); err != nil || !r.Resumed {
		t.Fatalf("pull: %+v, %v", r, err)
	}
	if got, err := os.ReadFile(dir + "/back"); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("pull: %d bytes, %v", len(got), err)
	}
	if left := append(leftovers(t, dir), leftovers(t, s.Home)...); left != nil {
		t.Errorf("left: %v", left)
	}
}
