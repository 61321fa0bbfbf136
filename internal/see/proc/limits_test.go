package proc

import (
	"errors"
	"testing"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	limits, err := tree(t, "prometheus-procfs").Limits(26231)
	if err != nil {
		t.Fatal(err)
	}
	for name, expected := range map[string]Limit{
		"Max open files":        {Soft: 2048, Hard: 4096, Unit: "files"},
		"Max cpu time":          {SoftUnlimited: true, HardUnlimited: true, Unit: "seconds"},
		"Max stack size":        {Soft: 8388608, HardUnlimited: true, Unit: "bytes"},
		"Max realtime priority": {},
	} {
		if got, ok := limits[name]; !ok || got != expected {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := ParseLimits([]byte("Limit   Soft Limit\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}
