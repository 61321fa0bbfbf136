package proc

import (
	"errors"
	"fmt"
	"testing"
)

func TestKernelStatRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "stat")
	expected := map[string]struct {
		total   string
		cpus    int
		last    int // id of the last CPU
		forks   *uint64
		running *uint64
		boot    *int64
	}{
		"p070": {"{69718203 0 1882385 218038998 1804702 36288 25309 0 0 0 10}", 1, 0, nil, nil, nil},
		"p071": {"{849282590 7356 398488121 14888068462 187327979 0 136302036 0 0 0 10}", 3, 2, nil, nil, nil},
		"p073": {"{23644 6695 4764 134931750 22115 0 473 5892 0 0 10}", 4, 3, ptr(uint64(41562)), ptr(uint64(1)), ptr(int64(1505515383))},
		"p075": {"{466693 107 530793 10838055 41320 71 590 0 334857 0 9}", 8, 7, ptr(uint64(29070)), ptr(uint64(1)), ptr(int64(1403209334))},
		"p076": {"{2333 15 2649 608596 1517 292 286 474 0 0 10}", 4, 3, ptr(uint64(1945)), ptr(uint64(2)), ptr(int64(1486679189))},
		"p077": {"{84918 720 50767 114662595 332017 5575 9015 1 2 3 10}", 4, 3, ptr(uint64(237770)), ptr(uint64(2)), ptr(int64(1414357353))},
		"p078": {"{728198716 39636 158011089 37269636514 62997159 0 4781646 0 688783983 927 10}", 1, 0, nil, nil, nil},
		"p080": {"{997 0 1235 861802 327 267 138 0 0 0 10}", 6, 31, nil, nil, nil},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		k, err := ParseKernelStat(rows[id])
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if fmt.Sprint(k.Total) != e.total || len(k.CPUs) != e.cpus || k.CPUs[len(k.CPUs)-1].ID != e.last ||
			!same(k.Forks, e.forks) || !same(k.Running, e.running) || !same(k.BootTime, e.boot) {
			t.Errorf("%s: %+v, forks %v, running %v, boot %v", id, k, shown(k.Forks), shown(k.Running), shown(k.BootTime))
		}
	}
}

func TestParseKernelStat(t *testing.T) {
	t.Parallel()
	k, err := ParseKernelStat([]byte("cpu 1 2 3 4\ncpu0 1 2 3 4\ncpux 1 2 3 4\ncpu1 1 2\nctxt 99999999999999999999\nprocs_blocked 7\ncpu2 1 2 3 4 5"))
	if err != nil {
		t.Fatal(err)
	}
	// The last line is cut: its 5 may be the start of a longer number.
	if k.Total != (CPUTimes{User: 1, Nice: 2, System: 3, Idle: 4, Columns: 4}) || len(k.CPUs) != 2 || k.CPUs[1].Times.Columns != 4 ||
		k.ContextSwitches != nil || !same(k.Blocked, ptr(uint64(7))) {
		t.Errorf("%+v", k)
	}
	for _, wrong := range []string{"", "cpu0 1 2 3 4\n", "cpu 1 2 3\n", "cpu a b c d\n"} {
		if k, err := ParseKernelStat([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v %v", wrong, k, err)
		}
	}
}
