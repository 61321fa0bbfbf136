package bed

// This file writes recorded trees: machines that are made up, process by
// process.

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Process is one process of a made-up machine.
type Process struct {
	PID, PPID  int
	Comm       string // as the kernel keeps it, at most 15 bytes
	State      string // "S" when empty
	User       int    // user and system time in ticks of 10 ms
	System     int
	Threads    int // 1 when zero
	Start      int // ticks since boot
	RSS        int // pages of 4 KiB
	UID        int
	Stat       string   // the whole line, instead of all of the above
	Cgroup     string   // the content of proc/PID/cgroup; none when empty
	Args       []string // none for a kernel task
	Executable string
}

// WriteMachine writes a machine's tree with the processes and with what any
// machine has; files that are there already are left alone.
func WriteMachine(root string, processes []Process) error {
	for name, content := range map[string]string{
		"proc/stat":    "cpu  1000 0 500 8000 100 0 10 0 0 0\ncpu0 500 0 250 4000 50 0 5 0 0 0\ncpu1 500 0 250 4000 50 0 5 0 0 0\nctxt 1000\nbtime 1700000000\nprocesses 5000\nprocs_running 1\nprocs_blocked 0\n",
		"proc/uptime":  "1000.00 1600.00\n",
		"proc/loadavg": "0.50 0.40 0.30 1/100 5000\n",
		"proc/meminfo": "MemTotal:        8000000 kB\nMemFree:         2000000 kB\nMemAvailable:    6000000 kB\nBuffers:          100000 kB\nCached:          3000000 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\n",
		"proc/self/mountinfo": "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" +
			"22 21 0:20 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n" +
			"23 21 0:21 / /sys rw,nosuid,nodev,noexec,relatime - sysfs sysfs rw\n" +
			"24 23 0:22 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw\n",
	} {
		if err := writeNew(filepath.Join(root, name), content); err != nil {
			return err
		}
	}
	for _, p := range processes {
		if err := p.write(filepath.Join(root, "proc", strconv.Itoa(p.PID))); err != nil {
			return err
		}
	}
	return nil
}

func (p Process) write(dir string) error {
	stat := p.Stat
	if stat == "" {
		state := p.State
		if state == "" {
			state = "S"
		}
		flags := 0x400000
		if p.PID == 2 || p.PPID == 2 {
			flags = 0x208040 // PF_KTHREAD and what else such a task has
		}
		stat = fmt.Sprintf("%d (%s) %s %d %d %d 0 -1 %d 100 0 0 0 %d %d 0 0 20 0 %d 0 %d %d %d 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
			p.PID, p.Comm, state, p.PPID, p.PID, p.PID, flags, p.User, p.System, max(p.Threads, 1), p.Start, p.RSS*4096*4, p.RSS)
	}
	files := map[string]string{
		"stat":   stat,
		"comm":   p.Comm + "\n",
		"status": fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\n", strings.ReplaceAll(p.Comm, "\n", "\\n"), p.UID, p.UID, p.UID, p.UID),
	}
	if p.Cgroup != "" {
		files["cgroup"] = p.Cgroup
	}
	if len(p.Args) > 0 {
		files["cmdline"] = strings.Join(p.Args, "\x00") + "\x00"
	} else {
		files["cmdline"] = ""
	}
	for name, content := range files {
		if err := writeNew(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	if p.Executable != "" {
		return os.Symlink(p.Executable, filepath.Join(dir, "exe"))
	}
	return nil
}

func writeNew(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
