package proc

import (
	"bytes"
	"strings"
)

// maxCmdline bounds what is read of a command line; a process can make its own
// hundreds of megabytes long.
const maxCmdline = 64 << 10

// Cmdline reads proc/PID/cmdline: the arguments, of which at most 64 KiB. It
// is empty for kernel threads and zombies. The strings are the process's own
// bytes; it may have overwritten them with anything.
func (f FS) Cmdline(pid int32) ([]string, error) {
	data, _, err := f.readUpTo(ofPID(pid, "cmdline"), maxCmdline)
	if err != nil {
		return nil, err
	}
	return ParseCmdline(data), nil
}

// ParseCmdline splits the content of proc/PID/cmdline at its NUL bytes.
// Trailing NULs, which processes that change their title leave behind, are
// cut off.
func ParseCmdline(data []byte) []string {
	data = bytes.TrimRight(data, "\x00")
	if len(data) == 0 {
		return nil
	}
	return strings.Split(string(data), "\x00")
}
