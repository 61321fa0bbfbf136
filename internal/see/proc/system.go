package proc

// This file holds the facts of a machine that are one short file each.

import (
	"bytes"
	"math"
	"strconv"
)

// BootID reads the random id of this boot. With a pid and its start ticks it
// identifies a process for all time. In a container of some runtimes it is the
// container's own.
func (f FS) BootID() (string, error) { return f.readText("proc/sys/kernel/random/boot_id") }

// Hostname reads the kernel's host name.
func (f FS) Hostname() (string, error) { return f.readText("proc/sys/kernel/hostname") }

// KernelRelease reads what uname -r prints.
func (f FS) KernelRelease() (string, error) { return f.readText("proc/sys/kernel/osrelease") }

// PIDMax reads the number that process ids stay below.
func (f FS) PIDMax() (int, error) { return f.readInt("proc/sys/kernel/pid_max") }

// readText reads a file that holds one line, which may not be empty.
func (f FS) readText(name string) (string, error) {
	data, err := f.Read(name)
	if err != nil {
		return "", err
	}
	text := bytes.TrimSpace(data)
	if len(text) == 0 {
		return "", malformed(name, data)
	}
	return string(text), nil
}

// OnlineCPUs returns how many logical CPUs are online: by sysfs, else by the
// lines of proc/stat.
func (f FS) OnlineCPUs() (int, error) {
	data, err := f.Read("sys/devices/system/cpu/online")
	if err == nil {
		if n, err := ParseCPUList(data); err == nil && n > 0 {
			return n, nil
		}
	}
	stat, err := f.KernelStat()
	if err != nil {
		return 0, err
	}
	if len(stat.CPUs) == 0 {
		return 0, malformed("proc/stat, no line of one CPU", nil)
	}
	return len(stat.CPUs), nil
}

// ParseCPUList counts the CPUs of a list such as "0-3,8,10-11" (cpuset(7),
// list format). An empty list is 0.
func ParseCPUList(data []byte) (int, error) {
	list := bytes.TrimSpace(data)
	if len(list) == 0 {
		return 0, nil
	}
	count := 0
	for part := range bytes.SplitSeq(list, []byte{','}) {
		low, high, ranged := bytes.Cut(part, []byte{'-'})
		if !ranged {
			high = low
		}
		a, ok := parseUint(low)
		b, ok2 := parseUint(high)
		if !ok || !ok2 || b < a || b > math.MaxUint16 {
			return 0, malformed("list of CPUs", data)
		}
		if count += int(b-a) + 1; count > math.MaxUint16 {
			return 0, malformed("list of CPUs", data)
		}
	}
	return count, nil
}

// Users reads etc/passwd below the root: the name of every user id, the first
// one where several share an id. It is empty when the file is missing, and
// knows nothing of users from a directory service.
func (f FS) Users() map[uint32]string {
	data, err := f.Read("etc/passwd")
	if err != nil {
		return map[uint32]string{}
	}
	return ParseUsers(data)
}

// ParseUsers parses the content of etc/passwd (passwd(5)).
func ParseUsers(data []byte) map[uint32]string {
	users := make(map[uint32]string)
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		fields := bytes.SplitN(line, colon, 4)
		if len(fields) < 3 || len(fields[0]) == 0 {
			continue
		}
		uid, err := strconv.ParseUint(string(fields[2]), 10, 32)
		if err != nil {
			continue
		}
		if _, taken := users[uint32(uid)]; !taken {
			users[uint32(uid)] = string(fields[0])
		}
	}
	return users
}
