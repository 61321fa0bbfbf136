package cli

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestEaseMonitor checks that the thread that was started right after the first one
// has the slack, where the kernel allows it, and the first one keeps its own.
func TestEaseMonitor(t *testing.T) {
	monitor, err := monitorThread()
	if err != nil {
		t.Fatal(err)
	}
	slack := func(thread int) string {
		text, err := os.ReadFile(slackOf(thread))
		if err != nil {
			return err.Error() // others' are hidden from those who may not change them
		}
		return strings.TrimSpace(string(text))
	}
	first, want := slack(os.Getpid()), strconv.Itoa(monitorSlack)
	switch err := easeMonitor(); {
	case errors.Is(err, fs.ErrPermission):
		want = slack(monitor)
	case err != nil:
		t.Fatal(err)
	}
	if got := slack(monitor); got != want {
		t.Errorf("the monitor's slack is %s, want %s", got, want)
	}
	if got := slack(os.Getpid()); got != first {
		t.Errorf("the first thread's slack was %s and is %s", first, got)
	}
}
