package proc

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func mount(point, kind string, minor uint32, root string) Mount {
	return Mount{Point: point, Type: kind, Minor: minor, Root: root, Major: 8}
}

func TestRealFilesystems(t *testing.T) {
	t.Parallel()
	var points []string
	for _, m := range RealFilesystems([]Mount{
		mount("/", "ext4", 1, "/"),
		mount("/proc", "proc", 2, "/"),
		mount("/proc/sys/fs/binfmt_misc", "autofs", 3, "/"),
		mount("/etc/hosts", "ext4", 1, "/etc/hosts"), // bind mounts show a device again
		mount("/a", "xfs", 4, "/sub"),
		mount("/long/way/down", "xfs", 4, "/"), // its root tells more
		mount("/snap/core/1", "squashfs", 5, "/"),
		mount("/var/lib/docker/overlay2/x/merged", "overlay", 6, "/"),
		mount("/home", "btrfs", 7, "/@home"),
		mount("/h", "btrfs", 7, "/@h"),
		mount("/mnt", "ext4", 8, "/"), // covered by the next
		mount("/mnt", "nfs4", 9, "/"),
		mount("/run", "tmpfs", 10, "/"),
	}) {
		points = append(points, m.Point+" "+m.Type)
	}
	expected := "[/ ext4 /long/way/down xfs /h btrfs /mnt nfs4 /run tmpfs]"
	if fmt.Sprint(points) != expected {
		t.Errorf("%v\nexpected %s", points, expected)
	}
	if m := RealFilesystems([]Mount{mount("/", "overlay", 1, "/")}); len(m) != 1 {
		t.Error("a container's own root is a filesystem")
	}
}

var liveRoot = FS{root: "/", live: true}

func TestUsage(t *testing.T) {
	t.Parallel()
	p := newFilesystems(liveRoot, func(path string) (capacity, error) {
		switch path {
		case "/denied":
			return capacity{}, syscall.EACCES
		case "/over":
			return capacity{block: 512, blocks: 10, free: 2, available: 1<<64 - 3}, nil
		case "/wrong":
			return capacity{block: 4096, blocks: 10, free: 11}, nil
		}
		return capacity{block: 4096, blocks: 100, free: 50, available: 45, files: 7, filesFree: 3}, nil
	})
	usages := p.Usage(context.Background(), []Mount{
		mount("/", "ext4", 1, "/"), mount("/denied", "fuse.sshfs", 2, "/"), mount("/over", "ext4", 3, "/"), mount("/wrong", "ext4", 4, "/"),
	})
	u := usages[0]
	if u.Reason != "" || *u.Total != 409600 || *u.Free != 204800 || *u.Available != 45*4096 || *u.Inodes != 7 || *u.InodesFree != 3 {
		t.Errorf("%+v", u)
	}
	if u := usages[1]; u.Reason != NoPermission || u.Total != nil {
		t.Errorf("%+v", u)
	}
	if u := usages[2]; u.Reason != "" || *u.Available != 0 || u.Inodes != nil {
		t.Errorf("%+v", u)
	}
	if u := usages[3]; u.Reason != Malformed || u.Total != nil {
		t.Errorf("%+v", u)
	}
	recorded := tree(t, "prometheus-procfs").NewFilesystems().Usage(context.Background(), []Mount{mount("/", "ext4", 1, "/")})
	if len(recorded) != 1 || recorded[0].Reason != NotRecorded || recorded[0].Total != nil {
		t.Errorf("%+v", recorded)
	}
}

// A dead network mount delays one pass by the deadline, and none after it; it
// is asked again once it has answered.
func TestHungMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		back := make(chan struct{})
		p := newFilesystems(liveRoot, func(path string) (capacity, error) {
			if path == "/dead" {
				asked.Add(1)
				<-back
			}
			return capacity{block: 1, blocks: 2, free: 1, available: 1}, nil
		})
		mounts := []Mount{mount("/dead", "nfs4", 1, "/"), mount("/", "ext4", 2, "/")}
		for pass := range 3 {
			begun := time.Now()
			usages := p.Usage(t.Context(), mounts)
			took := time.Since(begun)
			if usages[0].Reason != TimedOut || usages[0].Total != nil || usages[1].Reason != "" || *usages[1].Total != 2 {
				t.Errorf("pass %d: %+v", pass, usages)
			}
			if pass == 0 && took != statfsPatience || pass > 0 && took != 0 {
				t.Errorf("pass %d took %v", pass, took)
			}
		}
		if asked.Load() != 1 {
			t.Errorf("the dead mount was asked %d times", asked.Load())
		}
		close(back)
		synctest.Wait()
		if usages := p.Usage(t.Context(), mounts); usages[0].Reason != "" || asked.Load() != 2 {
			t.Errorf("%+v, asked %d times", usages[0], asked.Load())
		}
	})
}

// However many mounts hang, only so many goroutines wait for them, and once
// they all do, a pass is over at once.
func TestManyHungMounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, most atomic.Int32
		back := make(chan struct{})
		p := newFilesystems(liveRoot, func(path string) (capacity, error) {
			if path == "/" {
				return capacity{block: 1, blocks: 1}, nil
			}
			most.Store(max(most.Load(), inside.Add(1)))
			<-back
			inside.Add(-1)
			return capacity{block: 1, blocks: 1}, nil
		})
		var mounts []Mount
		for i := range 30 {
			mounts = append(mounts, mount(fmt.Sprintf("/m%d", i), "nfs4", uint32(i), "/"))
		}
		mounts = append(mounts, mount("/", "ext4", 99, "/")) // is not kept waiting
		for pass := range 3 {
			begun := time.Now()
			for _, u := range p.Usage(t.Context(), mounts) {
				if u.Reason != TimedOut && u.Mount.Point != "/" || u.Mount.Point == "/" && u.Reason != "" {
					t.Errorf("%+v", u)
				}
			}
			if took := time.Since(begun); pass == 0 && took != statfsPatience || pass > 0 && took != 0 {
				t.Errorf("pass %d took %v", pass, took)
			}
		}
		if most.Load() != statfsAtOnce {
			t.Errorf("%d calls at once", most.Load())
		}
		close(back)
		synctest.Wait()
		for _, u := range p.Usage(t.Context(), mounts) {
			if u.Reason != "" {
				t.Errorf("after all came back: %+v", u)
			}
		}
	})
}

func TestUsageEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		p := newFilesystems(liveRoot, func(string) (capacity, error) { <-back; return capacity{}, nil })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if u := p.Usage(ctx, []Mount{mount("/", "ext4", 1, "/")}); u[0].Reason != TimedOut || time.Since(begun) != 20*time.Millisecond {
			t.Errorf("%+v after %v", u, time.Since(begun))
		}
		close(back)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
