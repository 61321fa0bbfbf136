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

// easeMonitor gives the monitor's sleeps their slack. A kernel that refuses leaves
// everything as it was.
func easeMonitor() {
	if monitor := monitorThread(); monitor > 0 {
		_ = os.WriteFile(slackOf(monitor), strconv.AppendInt(nil, monitorSlack, 10), 0)
	}
}

// slackOf is the kernel's file of a thread's slack. It is not among those of
// /proc/self/task.
func slackOf(thread int) string { return fmt.Sprintf("/proc/%d/timerslack_ns", thread) }

// monitorThread is the runtime's monitor: the thread that is started first, before
// any code of the program runs. It is 0 where that cannot be told.
func monitorThread() int {
	dir, err := os.Open("/proc/self/task")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(2) // in the order of their start
	if err != nil || len(names) < 2 || names[0] != strconv.Itoa(os.Getpid()) {
		return 0
	}
	monitor, _ := strconv.Atoi(names[1])
	return monitor
}
