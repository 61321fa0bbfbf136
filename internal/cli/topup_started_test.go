package cli

import (
	"runtime"
	"testing"
)

// TestHandOn checks that a started server has one processor, unless its user has
// chosen a number.
func TestHandOn(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Setenv("GOMAXPROCS", "2")
	handOn()
	if n := runtime.GOMAXPROCS(0); n != 2 {
		t.Errorf("%d processors, the user wants 2", n)
	}
	t.Setenv("GOMAXPROCS", "")
	handOn()
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("%d processors", n)
	}
}
