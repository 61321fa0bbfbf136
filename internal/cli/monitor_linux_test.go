package cli

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestEaseMonitor checks that the thread that was started right after the first one
// has the slack, and the first one keeps its own.
func TestEaseMonitor(t *testing.T) {
	monitor := monitorThread()
	if monitor == 0 {
		t.Fatal("the monitor was not found")
	}
	slack := func(thread int) string {
		text, err := os.ReadFile(slackOf(thread))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	before := slack(os.Getpid())
	easeMonitor()
	if got := slack(monitor); got != strconv.Itoa(monitorSlack) {
		t.Errorf("the monitor's slack is %s", got)
	}
	if got := slack(os.Getpid()); got != before {
		t.Errorf("the first thread's slack was %s and is %s", before, got)
	}
}
