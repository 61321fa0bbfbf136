package evidence

import (
	"os"
	"path/filepath"
	"testing"

	"topside/internal/see/proc"
)

// Of a process whose first thread ended before the others, what the first one has
// no more is read of another: descriptors, memory, environment.
func TestEvidenceOfHeadlessProcess(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	stat := func(state string) string {
		return "10 (x) " + state + " 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 2 0 500 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	}
	for name, content := range map[string]string{
		"stat": stat("Z"), "maps": "", "environ": "", "fd/": "", "task/10/stat": stat("Z"),
		"task/11/stat": stat("S"), "task/11/maps": mapsText, "task/11/environ": "LD_PRELOAD=/tmp/x.so\x00", "task/11/fd/": "",
	} {
		path := filepath.Join(root, "proc/10", name)
		folder, isFolder := filepath.Dir(path), name[len(name)-1] == '/'
		if isFolder {
			folder = path
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if isFolder {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("socket:[7]", filepath.Join(root, "proc/10/task/11/fd/0")); err != nil {
		t.Fatal(err)
	}
	fs, err := proc.NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	r := New(fs)
	if d, err := r.Descriptors(10); len(d) != 1 || d[0].Target != "socket:[7]" || err != nil {
		t.Errorf("descriptors %+v, %v", d, err)
	}
	if m, err := r.Mappings(10); len(m) != 4 || err != nil {
		t.Errorf("mappings %+v, %v", m, err)
	}
	if e, err := r.Environment(10, "LD_PRELOAD"); e["LD_PRELOAD"] != "/tmp/x.so" || err != nil {
		t.Errorf("environment %v, %v", e, err)
	}
	if open, _, err := r.DescriptorUse(10); open != 1 || err != nil {
		t.Errorf("%d descriptors, %v", open, err)
	}
}
