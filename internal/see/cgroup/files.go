package cgroup

import (
	"errors"
	"io/fs"
	"syscall"

	"topside/internal/see/proc"
)

// This file holds the reading of single files: which file tells what on v1 and
// on v2, and why one tells nothing.

// A file is one of those that a Reader reads each time.
type file int

const (
	fileCPUStat file = iota
	fileCPUUsage
	fileCPUSplit
	fileMemory
	fileMemoryStat
	fileMemoryEvents
	fileSwap
	filePIDs
	fileIO
	filePressureCPU
	filePressureMemory
	filePressureIO
	files
)

// fileNames says in which directory a file is and what it is called on v1 and
// v2; "" where that version has none.
var fileNames = [files]struct {
	dir    kind
	v1, v2 string
}{
	fileCPUStat:        {cpu, "cpu.stat", "cpu.stat"},
	fileCPUUsage:       {cpuacct, "cpuacct.usage", "cpu.stat"},
	fileCPUSplit:       {cpuacct, "cpuacct.stat", ""},
	fileMemory:         {memory, "memory.usage_in_bytes", "memory.current"},
	fileMemoryStat:     {memory, "memory.stat", "memory.stat"},
	fileMemoryEvents:   {memory, "memory.oom_control", "memory.events"},
	fileSwap:           {memory, "", "memory.swap.current"},
	filePIDs:           {pids, "pids.current", "pids.current"},
	fileIO:             {blkio, "blkio.throttle.io_service_bytes_recursive", "io.stat"},
	filePressureCPU:    {unified, "", "cpu.pressure"},
	filePressureMemory: {unified, "", "memory.pressure"},
	filePressureIO:     {unified, "", "io.pressure"},
}

// errNoFile: this version of control groups has no such file.
var errNoFile = errors.New("no such file in this version of cgroup")

// path names a file of a group; empty when its directory is not known or its
// version has no such file.
func (m *Membership) path(f file) string {
	dir := &m.dirs[fileNames[f].dir]
	name := fileNames[f].v1
	if dir.v2 {
		name = fileNames[f].v2
	}
	if !dir.ok() || name == "" {
		return ""
	}
	return dir.name + "/" + name
}

// reasonOf reduces the failure of a group's file to a reason. A file that is
// missing from a directory that is there belongs to a controller that is off;
// reads of a removed group fail with ENODEV.
func (h *Hierarchies) reasonOf(err error, dir *directory) proc.Reason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errNoFile):
		return proc.Unsupported
	case errors.Is(err, syscall.ENODEV):
		return proc.Vanished
	case errors.Is(err, fs.ErrNotExist) && h.fs.Live():
		if !h.fs.Exists(dir.name) {
			return proc.Vanished
		}
		return NotEnabled
	}
	return h.fs.ReasonOf(err)
}

func folderNames(fs proc.FS, name string) []string {
	entries, err := fs.ReadDir(name)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
