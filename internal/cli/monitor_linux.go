package cli

// This file lets the runtime's monitor sleep. The runtime of Go has a thread that
// looks after the others; while anything runs it wakes every 20 µs, and only after a
// millisecond of that less and less often. A call is answered sooner: the monitor took
// a quarter of a server's processor time, and turns with the engine whose reply was
// waited for. What it is there for bears a millisecond of delay: it interrupts what has
// run for ten, and polls the network when nobody has for ten.

import (
	"fmt"
	"os"
	"strconv"
)

// monitorSlack is how much later than asked the kernel may wake the monitor, in
// nanoseconds.
const monitorSlack = 1_000_000

// easeMonitor gives the monitor's sleeps their slack. The kernel lets those do so who
// have CAP_SYS_NICE, root among them; otherwise everything stays as it was.
func easeMonitor() error {
	monitor, err := monitorThread()
	if err != nil {
		return err
	}
	return os.WriteFile(slackOf(monitor), strconv.AppendInt(nil, monitorSlack, 10), 0)
}

// slackOf is the kernel's file of a thread's slack. It is not among those of
// /proc/self/task.
func slackOf(thread int) string { return fmt.Sprintf("/proc/%d/timerslack_ns", thread) }

// monitorThread is the runtime's monitor: the thread that is started first, before
// any code of the program runs.
func monitorThread() (int, error) {
	dir, err := os.Open("/proc/self/task")
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(2) // in the order of their start
	if err != nil {
		return 0, err
	}
	if len(names) < 2 || names[0] != strconv.Itoa(os.Getpid()) {
		return 0, fmt.Errorf("the first threads are %q", names)
	}
	return strconv.Atoi(names[1])
}
