//go:build linux

// Package fleet tests what drives other machines from outside: the real binary on
// both sides of a real sshd, started by the tests with keys and a configuration of
// its own on the loopback.
package fleet

import (
	"testing"
	"time"

	"topside/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// waitLong bounds what happens at once on a machine that is not busy.
const waitLong = 20 * time.Second
