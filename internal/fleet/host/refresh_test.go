package host_test

import (
	"path/filepath"
	"testing"

	"topside/internal/fleet/host"
)

// What another program writes is seen by one that had read the file before.
func TestRefresh(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hosts.json")
	here, err := host.Open(path, host.Topside)
	if err != nil {
		t.Fatal(err)
	}
	other, err := host.Open(path, host.Topside)
	if err != nil {
		t.Fatal(err)
	}
	for i, change := range []func() error{
		func() error { return other.Update("a", true, func(*host.Entry) {}) },
		func() error { return other.Update("b", true, func(*host.Entry) {}) },
		func() error { return other.Remove("a") },
		func() error { return here.Update("c", true, func(*host.Entry) {}) },
		func() error { return other.Remove("c") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := here.Refresh(); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 2, 1, 2, 1}[i]; here.Len() != want {
			t.Errorf("after change %d there are %d hosts", i, here.Len())
		}
	}
}
