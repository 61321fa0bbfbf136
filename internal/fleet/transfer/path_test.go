package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for sent, want := range map[string]string{
		"~": home, "~/a": filepath.Join(home, "a"), "a": filepath.Join(here, "a"), "./~root": filepath.Join(here, "~root"),
		filepath.Join(here, "~x", "y"): filepath.Join(here, "~x", "y"),
	} {
		if got, err := Expand(sent); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", sent, got, err, want)
		}
	}
	for sent, want := range map[string]string{
		"": "empty", "a\x00b": "NUL", strings.Repeat("a", maxPath+1): "at most", "~root": "./~root", "~root/x": "another user's home",
	} {
		if got, err := Expand(sent); !IsKind(err, Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %q, %v; want %q", sent, got, err, want)
		}
	}
}
