package proc

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

type scanned struct {
	pid  int32
	comm string
	ppid int32
	err  error
}

func scanAll(tb testing.TB, sc *Scanner) []scanned {
	tb.Helper()
	var rows []scanned
	err := sc.Scan(func(pid int32, s *Stat, err error) {
		if s.PID != pid {
			tb.Errorf("pid %d was visited with the row of %d", pid, s.PID)
		}
		rows = append(rows, scanned{pid, string(s.Comm), s.PPID, err})
	})
	if err != nil {
		tb.Fatal(err)
	}
	slices.SortFunc(rows, func(a, b scanned) int { return int(a.pid - b.pid) })
	return rows
}

// The directory names the process, not its file: the trees hold stat files of
// other pids. Processes without a stat file are not there.
func TestScanOfTrees(t *testing.T) {
	t.Parallel()
	for name, expected := range map[string]string{
		"prometheus-procfs":        `[{584 (a b ) ( c d)  28378 <nil>} {26231 vim 5392 <nil>} {26232 ata_sff 2 <nil>} {27079 pthread_load 1 <nil>}]`,
		"prometheus-node_exporter": `[{1 systemd 0 <nil>} {10 khungtaskd 2 <nil>} {11 rcu_preempt 2 <nil>}]`,
	} {
		sc := tree(t, name).NewScanner(ScannerOptions{KeepDescriptors: 10})
		if got := fmt.Sprint(scanAll(t, sc)); got != expected {
			t.Errorf("%s: %s\nexpected %s", name, got, expected)
		}
		if err := sc.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestScanPassesFaultsOn(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{
		"proc/3/stat": "3 (cut) S 1 2", "proc/4/stat": "4 (four) S 1 ", "proc/0/stat": "0 (zero) S", "proc/5x/stat": "5 (x) S", "proc/meminfo": "",
	})
	sc := f.NewScanner(ScannerOptions{})
	rows := scanAll(t, sc)
	if len(rows) != 2 || rows[0].pid != 3 || rows[0].ppid != 1 || !errors.Is(rows[0].err, ErrMalformed) {
		t.Errorf("%v", rows)
	}
}
