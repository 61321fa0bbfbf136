//go:build unix

package privatefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file becomes the owner's alone, whatever it was, and nothing is left beside it.
func TestReplace(t *testing.T) {
	t.Parallel()
	t.Run("short name", func(t *testing.T) { replace(t, "state.json") })
	t.Run("longest name", func(t *testing.T) { replace(t, strings.Repeat("x", LongestName)) })
}

func replace(t *testing.T, name string) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("the old content"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"new", ""} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("it holds %q, %v", got, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("it is %v, %v", info, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside it there are %v, %v", left, err)
	}
	if err := Replace(filepath.Join(path, "below", "a"), nil); err == nil {
		t.Error("a file below a file was written")
	}
}
