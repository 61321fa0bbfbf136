package proc

import (
	"errors"
	"testing"
	"time"
)

func TestUptime(t *testing.T) {
	t.Parallel()
	for content, expected := range map[string]time.Duration{
		"350735.47 234388.90\n": 350735*time.Second + 470*time.Millisecond,
		"0.01 0.00\n":           10 * time.Millisecond,
		"7\n":                   7 * time.Second,
	} {
		if got, err := ParseUptime([]byte(content)); err != nil || got != expected {
			t.Errorf("%q: %v %v", content, got, err)
		}
	}
	for _, wrong := range []string{"", ".", "-1.00", "1.x", "99999999999999999999.0", "9223372037.0", "1.1234567890"} {
		if got, err := ParseUptime([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v %v", wrong, got, err)
		}
	}
}
