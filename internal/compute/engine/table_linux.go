package engine

import (
	"bytes"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file reads the table of processes.

// processes is the table of all processes.
func processes() map[int]relation {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	table := map[int]relation{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		end := bytes.LastIndexByte(stat, ')')
		if err != nil || end < 0 {
			continue
		}
		fields := bytes.Fields(stat[end+1:])
		if len(fields) < 3 {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		group, _ := strconv.Atoi(string(fields[2]))
		table[pid] = relation{parent, group, fields[0][0] == 'Z' || fields[0][0] == 'X'}
	}
	return table
}

// hasVariable tells whether the process was started with NAME=VALUE in its environment, and whether it shows none: a
// process that is becoming another program does so for a moment.
func hasVariable(pid int, variable string) (has, bare bool) {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false, false
	}
	v := []byte(variable + "\x00")
	return bytes.HasPrefix(environ, v) || bytes.Contains(environ, append([]byte{0}, v...)), len(environ) == 0
}

// nextZombie is a dead child that nobody has collected yet, 0 for none.
func nextZombie() int {
	var info unix.Siginfo
	if unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil {
		return 0
	}
	// The pid stands behind three numbers, aligned as a pointer is.
	at := (3*4 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at)))
}
