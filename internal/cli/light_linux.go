package cli

// This file keeps a server's resident size small. Starting reads most of the
// program once: half of what a server would hold resident are pages of its own
// code and constants that nothing needs again. They are clean pages of a file, so
// letting go of them costs some tens of microseconds; what is needed is mapped
// again, from the page cache, when it runs.

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"topside/internal/see/proc"
)

// pauses are between the times at which a young server lets go of pages: when it has
// answered its first calls, when its client has asked for the tools, and after what
// came next. Then it does so from time to time.
var pauses = []time.Duration{300 * time.Millisecond, 1700 * time.Millisecond, 8 * time.Second, 50 * time.Second}

// lightEvery is how often pages are let go of that were needed once.
const lightEvery = 5 * time.Minute

// stayLight lets go of the program's pages until ctx is done.
func stayLight(ctx context.Context) {
	go func() {
		timer := time.NewTimer(pauses[0])
		defer timer.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			letGo()
			if n < len(pauses) {
				timer.Reset(pauses[n])
			} else {
				timer.Reset(lightEvery)
			}
		}
	}()
}

// letGo unmaps the program's pages. A kernel that refuses leaves everything as it
// was.
func letGo() {
	for _, m := range programMappings() {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.begin, m.end-m.begin, unix.MADV_DONTNEED)
	}
}

type mapping struct{ begin, end uintptr }

// programMappings are the mappings of this program's file that nothing has written
// to: those that can be read from it again.
func programMappings() []mapping {
	fs, err := proc.NewFS("/")
	if err != nil {
		return nil
	}
	maps, err := fs.Read("proc/self/maps")
	if err != nil {
		return nil
	}
	type part struct {
		mapping
		file string
	}
	var (
		parts   []part
		program string
		here    = reflect.ValueOf(programMappings).Pointer()
	)
	for line := range strings.Lines(string(maps)) {
		// begin-end perms offset device inode path (proc_pid_maps(5))
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 != nil || err2 != nil || begin >= end {
			continue
		}
		m, file := mapping{uintptr(begin), uintptr(end)}, fields[3]+" "+fields[4]
		if m.begin <= here && here < m.end {
			program = file
		}
		if strings.HasPrefix(fields[1], "r-") {
			parts = append(parts, part{m, file})
		}
	}
	var out []mapping
	for _, p := range parts {
		if p.file == program {
			out = append(out, p.mapping)
		}
	}
	return out
}
