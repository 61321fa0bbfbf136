package proc

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// sleeper starts a process that does nothing, and returns what ends it.
func sleeper(tb testing.TB) (pid int32, end func()) {
	tb.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		tb.Fatal(err)
	}
	defer null.Close()
	started, err := os.StartProcess(lookPath(tb, "sleep"), []string{"sleep", "600"}, &os.ProcAttr{Files: []*os.File{null, null, null}})
	if err != nil {
		tb.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			started.Kill()
			started.Wait()
			ended = true
		}
	}
	tb.Cleanup(end)
	return int32(started.Pid), end
}

func find(rows []scanned, pid int) *scanned {
	for i := range rows {
		if int(rows[i].pid) == pid {
			return &rows[i]
		}
	}
	return nil
}

func TestScanLive(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{0, 3, 10000} {
		sc := live(t).NewScanner(ScannerOptions{KeepDescriptors: keep})
		pid, end := sleeper(t)
		for range 3 {
			rows := scanAll(t, sc)
			own, child := find(rows, os.Getpid()), find(rows, int(pid))
			if own == nil || own.ppid != int32(os.Getppid()) || own.err != nil {
				t.Errorf("keep %d: own row %v of %d", keep, own, len(rows))
			}
			if child == nil || child.ppid != int32(os.Getpid()) || child.comm != "sleep" {
				t.Errorf("keep %d: child's row %v", keep, child)
			}
			if keep != 0 && len(sc.kept) > keep || keep == 0 && len(sc.kept) > 0 {
				t.Errorf("keep %d: %d descriptors are kept", keep, len(sc.kept))
			}
		}
		end()
		if row := find(scanAll(t, sc), int(pid)); row != nil {
			t.Errorf("keep %d: a dead process was visited: %v", keep, row)
		}
		sc.Close()
		// A closed scanner opens anew.
		if find(scanAll(t, sc), os.Getpid()) == nil {
			t.Errorf("keep %d: nothing after Close", keep)
		}
		sc.Close()
		if sc.dir != -1 || len(sc.kept) != 0 {
			t.Errorf("keep %d: descriptors are left: %d, %v", keep, sc.dir, sc.kept)
		}
	}
}

// A kept descriptor belongs to a process, not to a number. When the number was
// given to another process, the descriptor fails and the path is opened anew.
func TestScanSurvivesReuseOfPID(t *testing.T) {
	t.Parallel()
	f := live(t)
	sc := f.NewScanner(ScannerOptions{KeepDescriptors: 10000})
	defer sc.Close()
	first, endFirst := sleeper(t)
	second, _ := sleeper(t)
	scanAll(t, sc)
	// Make the descriptor of the dead first stand where the second's is.
	var dead int32 = -1
	for i := range sc.kept {
		if sc.kept[i].pid == first {
			dead = sc.kept[i].fd
		}
	}
	if dead < 0 {
		t.Fatal("the process's descriptor is not kept")
	}
	endFirst()
	for i := range sc.kept {
		if sc.kept[i].pid == second {
			closeRaw(int(sc.kept[i].fd))
			sc.kept[i].fd = dead
		}
	}
	for i := range sc.kept {
		if sc.kept[i].pid == first {
			sc.kept = append(sc.kept[:i], sc.kept[i+1:]...)
			break
		}
	}
	rows := scanAll(t, sc)
	if row := find(rows, int(second)); row == nil || row.err != nil || row.comm != "sleep" {
		t.Errorf("%v", row)
	}
	if row := find(rows, int(first)); row != nil {
		t.Errorf("the dead process was visited: %v", row)
	}
}

func TestScanAllocatesNothingPerProcess(t *testing.T) {
	f := live(t)
	for _, keep := range []int{0, 10000} {
		sc := f.NewScanner(ScannerOptions{KeepDescriptors: keep})
		seen := 0
		visit := func(_ int32, s *Stat, err error) { seen++ }
		scan := func() {
			if err := sc.Scan(visit); err != nil {
				t.Fatal(err)
			}
		}
		scan()
		scan()
		seen = 0
		n := testing.AllocsPerRun(20, scan)
		if perScan := float64(seen) / 21; n > 0.05*perScan {
			t.Errorf("keep %d: %v allocations for %v processes", keep, n, perScan)
		}
		sc.Close()
	}
}

// Where descriptors run out the scanner gives kept ones up, rather than not
// reading processes. The limit is the whole program's, so that a child runs
// the test's second half.
func TestScanWithFewDescriptors(t *testing.T) {
	const inChild = "SCAN_WITH_FEW_DESCRIPTORS"
	if os.Getenv(inChild) == "" {
		for range 20 {
			sleeper(t)
		}
		t.Setenv(inChild, "1")
		run(t, os.Args[0], "-test.run=^TestScanWithFewDescriptors$")
		return
	}
	f := live(t)
	used := openDescriptors(t)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(used + 10), Max: uint64(used + 10)}); err != nil {
		t.Fatal(err)
	}
	sc := f.NewScanner(ScannerOptions{KeepDescriptors: 10000})
	defer sc.Close()
	for range 3 {
		rows := scanAll(t, sc)
		for _, row := range rows {
			if row.err != nil {
				t.Errorf("%v", row)
			}
		}
		if len(rows) < 20 || find(rows, os.Getpid()) == nil {
			t.Errorf("only %d processes", len(rows))
		}
	}
	if len(sc.kept) > 10 {
		t.Errorf("%d descriptors are kept", len(sc.kept))
	}
}

func openDescriptors(tb testing.TB) int {
	n, err := live(tb).DescriptorCount(int32(os.Getpid()))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestDirentPID(t *testing.T) {
	t.Parallel()
	entry := func(name string) []byte {
		b := make([]byte, 19, 64)
		b = append(b, name...)
		b = append(b, 0)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		b[16], b[17] = byte(len(b)), 0
		return b
	}
	for name, pid := range map[string]int32{
		"1": 1, "2147483647": 0, "4194304": 4194304, "99999999999": 0, "meminfo": 0, "1x": 0, "": 0,
	} {
		b := entry(name)
		if got, length := direntPID(b); length != len(b) || got != pid && name != "2147483647" {
			t.Errorf("%q: %d, %d", name, got, length)
		}
	}
	if _, length := direntPID([]byte{1, 2}); length != 0 {
		t.Error("a short record")
	}
}
