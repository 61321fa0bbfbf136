package proc

import (
	"bytes"
	"strings"
)

// MaxCmdline bounds what is read of a command line, in bytes; a process can make
// its own hundreds of megabytes long.
const MaxCmdline = 128 << 10

// CmdlineCut reports whether arguments are as long as the bound of what is read,
// so that there were probably more of them.
func CmdlineCut(args []string) bool {
	length := 0
	for _, arg := range args {
		length += len(arg) + 1
	}
	return length >= MaxCmdline
}

// Cmdline reads proc/PID/cmdline: the arguments, of which at most 128 KiB. It
// is empty for kernel threads and zombies. The strings are the process's own
// bytes; it may have overwritten them with anything.
func (f FS) Cmdline(pid int32) ([]string, error) {
	data, _, err := f.readUpTo(ofPID(pid, "cmdline"), MaxCmdline)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		if folder, ok := f.headless(pid); ok {
			if data, _, err = f.readUpTo(folder+"/cmdline", MaxCmdline); err != nil {
				return nil, err
			}
		}
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
