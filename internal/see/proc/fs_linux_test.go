package proc

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func live(tb testing.TB) FS {
	tb.Helper()
	f, err := NewFS("/")
	if err != nil {
		tb.Fatal(err)
	}
	if !f.Live() {
		tb.Fatal("the machine's own /proc is not live")
	}
	return f
}

// A FIFO in a tree (a recorded runtime folder may hold one) must not block.
func TestReadOfFIFO(t *testing.T) {
	t.Parallel()
	f := written(t, nil)
	if err := unix.Mkfifo(f.Path("proc/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := f.Read("proc/fifo"); len(data) > 0 {
		t.Errorf("%q, %v", data, err)
	}
}

// The kernel refuses to read a sysctl into megabytes, which a buffer that once
// held a long file may be.
func TestReadAfterALongFile(t *testing.T) {
	t.Parallel()
	long := written(t, map[string]string{"proc/long": strings.Repeat("x", maxFile)})
	for range 10 {
		if _, err := long.Read("proc/long"); err != nil {
			t.Fatal(err)
		}
		if release, err := live(t).KernelRelease(); err != nil || release == "" {
			t.Fatal(release, err)
		}
	}
}

func TestOpenWithoutOpenat2(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{"proc/a": "inside"})
	if err := os.Symlink("/etc/passwd", f.Path("proc/out")); err != nil {
		t.Fatal(err)
	}
	fd, err := f.openConfined("proc/a", unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var b [10]byte
	if n, err := unix.Read(fd, b[:]); string(b[:n]) != "inside" {
		t.Errorf("%q %v", b[:n], err)
	}
	if fd, err := f.openConfined("proc/out", unix.O_RDONLY); err == nil {
		unix.Close(fd)
		t.Error("an absolute link was followed")
	}
	if _, err := f.openConfined("proc/none", unix.O_RDONLY); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}
