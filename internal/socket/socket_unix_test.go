//go:build unix

package socket

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProbe(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "socket-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	served, err := Listen(at("served"))
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	stale, err := Listen(at("stale"))
	if err != nil {
		t.Fatal(err)
	}
	stale.Close()
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("served", at("link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]State{
		"none": Absent, "served": Served, "stale": Stale, "file": NotSocket, "link": Link,
	} {
		got, info, err := Probe(at(name))
		if got != want || err != nil || (info == nil) != (want == Absent) {
			t.Errorf("%s: %v %v %v", name, got, info, err)
		}
	}
	if _, _, err := Probe(at("file") + "/x"); err == nil {
		t.Error("below a file: no error")
	}
	for _, name := range []string{"served", "stale"} {
		if info, err := os.Lstat(at(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if c, err := net.Dial("unix", at("served")); err == nil {
		c.Close()
	} else {
		t.Error(err)
	}
}
