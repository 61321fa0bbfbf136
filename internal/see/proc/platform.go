package proc

// This file holds what the platform itself allows and was built with: what a
// reader needs to know why something else is absent.

import (
	"bytes"
	"slices"
	"strings"
)

// WholeMachine reports whether the process table is that of the initial PID
// namespace, by the kernel's own task kthreadd, which is process 2 there and
// nowhere else. It is false inside a container that sees only its own
// processes.
func (f FS) WholeMachine() bool {
	data, err := f.Read(ofPID(2, "stat"))
	if err != nil {
		return false
	}
	var s Stat
	return ParseStat(bytes.TrimSpace(data), &s) == nil && s.PPID == 0 && s.KernelThread()
}

// BootOptions returns the words of proc/cmdline, the options that the kernel
// was started with.
func (f FS) BootOptions() ([]string, error) {
	data, err := f.Read("proc/cmdline")
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}

// HasBTF reports whether the kernel describes its own types
// (CONFIG_DEBUG_INFO_BTF), which BPF programs that fit every kernel need.
func (f FS) HasBTF() bool { return f.Exists("sys/kernel/btf/vmlinux") }

// CgroupControllers returns the controllers that are there: those at the top of
// a unified hierarchy, and else those that proc/cgroups says are enabled.
func (f FS) CgroupControllers() ([]string, error) {
	if data, err := f.Read("sys/fs/cgroup/cgroup.controllers"); err == nil {
		return strings.Fields(string(data)), nil
	}
	data, err := f.Read("proc/cgroups")
	if err != nil {
		return nil, err
	}
	var enabled []string
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		fields := strings.Fields(string(line))
		if len(fields) == 4 && fields[3] == "1" {
			enabled = append(enabled, fields[0])
		}
	}
	slices.Sort(enabled)
	return enabled, nil
}
