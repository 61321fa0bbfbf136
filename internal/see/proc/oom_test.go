package proc

import (
	"errors"
	"testing"
)

func TestOOMScore(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{"proc/7/oom_score": "667\n", "proc/8/oom_score": "x\n"})
	if n, err := f.OOMScore(7); n != 667 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if _, err := f.OOMScore(8); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}
