package link_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"topside/internal/fleet/fleettest"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

// noForwarding are the ways in which an sshd refuses to forward a socket.
var noForwarding = []string{"AllowStreamLocalForwarding no", "DisableForwarding yes"}

// A host whose sshd forwards nothing is used all the same: the relay needs none.
func TestAnSshdThatForwardsNothing(t *testing.T) {
	t.Parallel()
	for _, line := range append(noForwarding, "AllowTcpForwarding no") {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			s := farHost(t, fleettest.Options{Sshd: refusing(line)})
			l := linkTo(t, s, nil)
			if got, err := l.Call(within(t, 30*time.Second), "echo", json.RawMessage(`[1]`)); err != nil || string(got) != "[1]" {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// The original topup needs it; where it is refused, the error says what is.
func TestAnOriginalTopupWithoutForwarding(t *testing.T) {
	t.Parallel()
	for _, line := range noForwarding {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			s := fleettest.Start(t, fleettest.Options{
				Sshd:     refusing(line),
				Programs: map[string]string{"topup": "#!/bin/sh\nexec " + self(t) + " topup \"$@\"\n"},
			})
			l := linkTo(t, s, nil)
			_, err := l.Call(within(t, 40*time.Second), "echo", nil)
			if err == nil || !strings.Contains(err.Error(), "AllowStreamLocalForwarding") {
				t.Errorf("got %v", err)
			}
			l.Close()
			fleettest.Eventually(t, 5*time.Second, "topup is gone", func() bool { return len(s.Processes("topup")) == 0 })
		})
	}
}

// refusing are lines of sshd's configuration. The first of a keyword counts there, and
// fleettest has one that allows, so these stand in a block of their own, which wins.
func refusing(line string) []string { return []string{"Match all", line} }

// A host behind another one is reached through it, as ssh's configuration says.
func TestAJumpHost(t *testing.T) {
	t.Parallel()
	far := farHost(t, fleettest.Options{})
	jump := fleettest.Start(t, fleettest.Options{Hosts: []string{"jump"}})
	one, err := os.ReadFile(far.Config)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(jump.Config)
	if err != nil {
		t.Fatal(err)
	}
	config := far.Dir + "/jumping"
	if err := os.WriteFile(config, fmt.Appendf(nil, "%s  ProxyJump jump\n%s", one, two), 0o600); err != nil {
		t.Fatal(err)
	}
	d := ssh.Dialer{Client: ssh.Client{Config: config}, Host: "far"}
	l := link.New(link.Options{Host: "far", Surface: "test", Dial: d.Dial})
	defer l.Close()
	ctx := within(t, 60*time.Second)
	if got, err := l.Call(ctx, "echo", json.RawMessage(`[1]`)); err != nil || string(got) != "[1]" {
		t.Fatalf("%s, %v", got, err)
	}
	// The jump host ends: calls under way are told of, and the next one says why it
	// cannot connect.
	done := inFlight(t, l, 30000)
	through := jump.Sessions()
	jump.Stop()
	kill(t, through...)
	var b *link.BrokenError
	if err := <-done; !errors.As(err, &b) || b.Work != link.GoesOn {
		t.Errorf("the call under way: %v", err)
	}
	var e *ssh.Error
	if err := l.Connect(ctx); !errors.As(err, &e) || e.Cause != ssh.Refused {
		t.Errorf("without the jump host: %v", err)
	}
}

// An address to which no route leads, in a network namespace that has none.
func TestNoRoute(t *testing.T) {
	t.Parallel()
	s := fleettest.Start(t, fleettest.Options{})
	text, err := os.ReadFile(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	config := s.Dir + "/away"
	if err := os.WriteFile(config, []byte(strings.Replace(string(text), "HostName 127.0.0.1", "HostName 192.0.2.1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	unshare := "unshare -n"
	if os.Geteuid() != 0 {
		unshare = "unshare -rn"
	}
	program := s.Dir + "/ssh-away"
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec "+unshare+" ssh \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := ssh.Dialer{Client: ssh.Client{Program: program, Config: config}, Host: "far"}
	l := link.New(link.Options{Host: "far", Surface: "test", Dial: d.Dial})
	defer l.Close()
	_, err = l.Call(within(t, 30*time.Second), "echo", nil)
	var e *ssh.Error
	if !errors.As(err, &e) || e.Cause != ssh.NoRoute || !strings.Contains(err.Error(), "no network path to far") {
		t.Errorf("got %v", err)
	}
}
