//go:build linux

// Package fleet tests what drives other machines from outside: the real binary on
// both sides of a real sshd, started by the tests with keys and a configuration of
// its own on the loopback.
package fleet

import (
	"os"
	"testing"
	"time"

	"topside/test/bed"
)

func TestMain(m *testing.M) {
	if status, ok := impostor(); ok {
		os.Exit(status)
	}
	bed.Main(m)
}

// waitLong bounds what happens at once on a machine that is not busy.
const waitLong = 20 * time.Second
