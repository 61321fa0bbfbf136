package fleettest

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
)

// Network is a network namespace at the other end of a cable that can be cut.
type Network struct {
	Name string // of the namespace
	Addr string // of its end

	near, far string // interfaces
	nearAddr  string
}

var networks atomic.Int32

// NewNetwork makes a namespace, with a pair of interfaces into it. It needs root.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the tests as root to have cut networks tested")
	}
	n := networks.Add(1)
	id := fmt.Sprintf("%d-%d", os.Getpid()%100000, n)
	// A /30 of 198.18.0.0/15, which is for tests, by process and number.
	block := (os.Getpid()*8 + int(n)) % (1 << 14) * 4
	addr := func(i int) string {
		a := block + i
		return fmt.Sprintf("198.%d.%d.%d", 18+a>>16, a>>8&255, a&255)
	}
	w := &Network{Name: "fleet-" + id, Addr: addr(2), near: "fl" + id, far: "fr" + id, nearAddr: addr(1)}
	run(t, "netns", "add", w.Name)
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", w.near).Run()
		_ = exec.Command("ip", "netns", "del", w.Name).Run()
	})
	run(t, "link", "add", w.near, "type", "veth", "peer", "name", w.far, "netns", w.Name)
	run(t, "addr", "add", w.nearAddr+"/30", "dev", w.near)
	run(t, "link", "set", w.near, "up")
	run(t, "-n", w.Name, "addr", "add", w.Addr+"/30", "dev", w.far)
	run(t, "-n", w.Name, "link", "set", w.far, "up")
	run(t, "-n", w.Name, "link", "set", "lo", "up")
	return w
}

// Cut drops every packet, both ways, without a word to either side: each end's address
// is made that of a machine which does not exist. Taking an interface down would be
// noticed.
func (w *Network) Cut(t testing.TB) {
	t.Helper()
	w.neighbours(t, "replace", "lladdr", "02:00:00:00:00:99", "nud", "permanent")
}

// Mend lets packets through again.
func (w *Network) Mend(t testing.TB) {
	t.Helper()
	w.neighbours(t, "del")
}

func (w *Network) neighbours(t testing.TB, verb string, rest ...string) {
	t.Helper()
	run(t, append([]string{"neigh", verb, w.Addr, "dev", w.near}, rest...)...)
	run(t, append([]string{"-n", w.Name, "neigh", verb, w.nearAddr, "dev", w.far}, rest...)...)
}

func run(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}
