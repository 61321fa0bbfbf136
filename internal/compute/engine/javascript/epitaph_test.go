package javascript

import "testing"

// TestEpitaph: what the runtime writes at its end is told from what code prints.
func TestEpitaph(t *testing.T) {
	t.Parallel()
	const trace = "\ngoroutine 1 gp=0x1 m=2 mp=0x2 [running]:\nruntime.throw({0x1, 0x2})\n"
	for _, c := range []struct{ printed, written, want string }{
		{"", "runtime: out of memory: cannot allocate 8002732032-byte block (905510912 in use)\nfatal error: out of memory\n" + trace, "the engine's process ended: out of memory"},
		{"mine\n", "fatal error: runtime: cannot allocate memory\n" + trace, "the engine's process ended: out of memory"},
		{"", "runtime: goroutine stack exceeds 1000000000-byte limit\nruntime: sp=0x1 stack=[0x1, 0x2]\nfatal error: stack overflow\n\nruntime stack:\n", "the engine's process ended: stack overflow"},
		{"", "fatal error: too many address space collisions for -race mode\n" + trace, "the engine's process ended: out of memory"},
		{"é\n", "panic: assignment to nil\n" + trace, "the engine's process ended: assignment to nil"},
		{"fatal error: mine\npanic: mine\n", "", ""},
		{"", "", ""},
	} {
		message, begins := (&Language{}).Epitaph(c.printed + c.written)
		if message != c.want || message != "" && begins != len(c.printed) {
			t.Errorf("%q: %q at %d", c.printed+c.written, message, begins)
		}
	}
}
