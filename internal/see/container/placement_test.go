package container_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"topside/internal/see/cgroup"
	"topside/internal/see/container"
	"topside/internal/see/proc"
)

// What an attribution says leads to the container's own counters, on each
// layout of the hierarchies.
func TestAttributionAddressesTheContainersCounters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		world   string
		runtime container.Runtime
		id      string
		unit    string
		inner   string
	}{
		{"kubernetes-v2", container.CRIO, "21572039dd8398ff8272b031fa5422a40165145ab37f2f8794e1e7f844fe8118", "crio-21572039dd8398ff8272b031fa5422a40165145ab37f2f8794e1e7f844fe8118.scope", ""},
		{"lxc-v1", container.LXC, "p1", "", "cron.service"},
	} {
		t.Run(c.world, func(t *testing.T) {
			t.Parallel()
			fs := world(t, c.world)
			hierarchies, err := cgroup.Discover(fs)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := fs.Cgroups(77)
			if err != nil {
				t.Fatal(err)
			}
			a := container.Attribute(lines)
			if a.Runtime != c.runtime || a.ContainerID != c.id || a.Unit != c.unit || a.InnerUnit != c.inner {
				t.Errorf("%+v", a)
			}
			u := hierarchies.Usage(hierarchies.PlaceAt(lines, a.Path))
			if set := u.MemoryWorkingSet(); set == nil || *set != 40000000 {
				t.Errorf("working set %v, missing %v", set, u.Missing)
			}
			if u.MemoryLimit == nil || *u.MemoryLimit != 104857600 {
				t.Errorf("memory limit %v", u.MemoryLimit)
			}
			if c.world == "lxc-v1" && (u.CPUMicros == nil || *u.CPUMicros != 7000) {
				t.Errorf("CPU time %v", u.CPUMicros)
			}
		})
	}
}

func world(t *testing.T, name string) proc.FS {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(root, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := proc.NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}
