package threshold

import (
	"os"
	"path/filepath"
	"testing"
)

// tree is a recorded root with a table of open files and three sensors, one of
// which reports nonsense.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/sys/fs/file-nr":                   "250\t0\t10000\n",
		"sys/class/thermal/thermal_zone0/temp":  "40000\n",
		"sys/class/thermal/thermal_zone1/temp":  "61500\n",
		"sys/class/thermal/thermal_zone1/type":  "x86_pkg_temp\n",
		"sys/class/thermal/thermal_zone2/temp":  "-274000\n",
		"sys/class/thermal/cooling_device0/any": "0\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
