package proc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// platformTree records a few files for the platform's facts.
func platformTree(t *testing.T, files map[string]string) FS {
	t.Helper()
	root := t.TempDir()
	files["proc/version"] = "Linux"
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestPlatformOfHost(t *testing.T) {
	t.Parallel()
	fs := platformTree(t, map[string]string{
		"proc/2/stat":                      "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 0 0 0 0 0 0 0\n",
		"proc/cmdline":                     "root=UUID=x psi=0\n",
		"sys/kernel/btf/vmlinux":           "\x9f\xeb",
		"sys/fs/cgroup/cgroup.controllers": "cpu io memory pids\n",
	})
	if !fs.WholeMachine() || !fs.HasBTF() {
		t.Errorf("WholeMachine %v, HasBTF %v; want both", fs.WholeMachine(), fs.HasBTF())
	}
	if got, err := fs.BootOptions(); err != nil || !slices.Equal(got, []string{"root=UUID=x", "psi=0"}) {
		t.Errorf("BootOptions = %q, %v", got, err)
	}
	if got, err := fs.CgroupControllers(); err != nil || !slices.Equal(got, []string{"cpu", "io", "memory", "pids"}) {
		t.Errorf("CgroupControllers = %q, %v", got, err)
	}
}

func TestPlatformOfContainer(t *testing.T) {
	t.Parallel()
	fs := platformTree(t, map[string]string{
		"proc/2/stat":  "2 (sh) S 1 2 2 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 0 0 0 0 0 0 0\n",
		"proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t3\t1\t1\nhugetlb\t0\t1\t0\ncpu\t2\t1\t1\n",
	})
	if fs.WholeMachine() || fs.HasBTF() {
		t.Errorf("WholeMachine %v, HasBTF %v; want neither", fs.WholeMachine(), fs.HasBTF())
	}
	if got, err := fs.CgroupControllers(); err != nil || !slices.Equal(got, []string{"cpu", "memory"}) {
		t.Errorf("CgroupControllers = %q, %v", got, err)
	}
}
