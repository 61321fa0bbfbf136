package proc

import (
	"errors"
	"testing"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	if l, err := tree(t, "prometheus-procfs").Load(); err != nil || *l != (Load{0.02, 0.04, 0.05, 1, 497}) {
		t.Errorf("%+v %v", l, err)
	}
	for _, wrong := range []string{"", "1 2", "1 2 3", "1 2 3 4", "a 2 3 1/2 5", "1 2 3 /2 5"} {
		if l, err := ParseLoad([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v %v", wrong, l, err)
		}
	}
}
