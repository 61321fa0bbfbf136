package proc

import (
	"errors"
	"slices"
	"testing"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	s, err := f.Status(26231)
	if err != nil {
		t.Fatal(err)
	}
	if s.Uids == nil || *s.Uids != [4]uint32{1000, 1000, 1000, 0} || s.Gids == nil || *s.Gids != [4]uint32{1001, 1001, 1001, 0} {
		t.Errorf("uids %v, gids %v", shown(s.Uids), shown(s.Gids))
	}
	if !same(s.VmSwap, ptr(uint64(660<<10))) || !same(s.VmHWM, ptr(uint64(8028<<10))) || !same(s.VoluntarySwitches, ptr(uint64(4742839))) ||
		!same(s.NonvoluntarySwitches, ptr(uint64(1727500))) || s.NoNewPrivs != nil || !same(s.CapEff, ptr(uint64(0x3fffffffff))) {
		t.Errorf("%v %v %v %v", shown(s.VmSwap), shown(s.VmHWM), shown(s.VoluntarySwitches), shown(s.NonvoluntarySwitches))
	}
	if uid, err := f.Owner(26231); uid != 1000 || err != nil {
		t.Errorf("owner %d %v", uid, err)
	}
	if _, err := f.Owner(584); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	s, err := ParseStatus([]byte("Name:\ta\\nUid:\nUid:\t1\t2\t3\t4294967295\nUid:\t9\t9\t9\t9\nVmSwap:\t  18446744073709551615 kB\n" +
		"NSpid:\t70 7\t1\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nNoNewPrivs:\t1\nTracerPid:\t0\nvoluntary_ctxt_switches:\t-1\nThreads:\t3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if *s.Uids != [4]uint32{1, 2, 3, 4294967295} || s.Gids != nil || s.VmSwap != nil || s.VoluntarySwitches != nil || s.VmHWM != nil ||
		!slices.Equal(s.NSpid, []int32{70, 7, 1}) || *s.CapEff != 1<<41-1 || *s.Seccomp != 2 || !*s.NoNewPrivs || *s.TracerPid != 0 || *s.Threads != 3 {
		t.Errorf("%+v", s)
	}
	if _, err := ParseStatus([]byte("nothing\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}
