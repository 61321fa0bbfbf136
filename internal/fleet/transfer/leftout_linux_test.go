package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"topside/internal/fleet/transfer"
)

// A file of a folder that cannot be read when its turn comes costs that file only.
func TestAFolderComesWithoutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s, l := far(t)
	ctx := within(t, time.Minute)
	for _, way := range []string{"push", "pull"} {
		t.Run(way, func(t *testing.T) {
			from, to := filepath.Join(s.Home, way+"-from"), filepath.Join(s.Home, way+"-to")
			if err := os.Mkdir(from, 0o700); err != nil {
				t.Fatal(err)
			}
			const files = 12 // more than travel at a time
			for i := range files {
				write(t, fmt.Sprintf("%s/%02d", from, i), content(1<<20, uint64(i)), 0o600)
			}
			gone := fmt.Sprintf("%02d", files-1)
			var once sync.Once
			o := transfer.Options{Progress: func(int64, int64) {
				once.Do(func() { os.Remove(filepath.Join(from, gone)) })
			}}
			var r transfer.Result
			var err error
			if way == "push" {
				r, err = transfer.Push(ctx, l, from, to, o)
			} else {
				r, err = transfer.Pull(ctx, l, from, to, "", o)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Failed != 1 || len(r.Skipped) != 1 || r.Skipped[0].Path != gone || !strings.Contains(r.Skipped[0].Why, "no such file") {
				t.Errorf("left out: %d of %+v", r.Failed, r.Skipped)
			}
			if r.Files != files-1 || r.Bytes != (files-1)<<20 {
				t.Errorf("%d files, %d bytes", r.Files, r.Bytes)
			}
			for i := range files - 1 {
				name := fmt.Sprintf("%02d", i)
				if a, err := os.ReadFile(filepath.Join(to, name)); err != nil || len(a) != 1<<20 {
					t.Errorf("%s: %d bytes, %v", name, len(a), err)
				}
			}
		})
	}
}

// Files of the kernel have no size to go by: a folder of them is told of, not copied.
func TestAFolderOfTheKernelIsLeftOut(t *testing.T) {
	t.Parallel()
	s, l := far(t)
	r, err := transfer.Push(within(t, time.Minute), l, "/proc/sys/kernel/random", s.Home+"/random", transfer.Options{})
	if err != nil || r.Files != 0 || r.Failed == 0 || r.Failed != len(r.Skipped) {
		t.Errorf("%+v, %v", r, err)
	}
}
