package transfer

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

const maxPath = 4096

// Expand makes a path absolute: a leading "~" or "~/" is the user's home. Another
// user's ("~name") is not looked up, and refused rather than taken for a name. A NUL
// or a path over 4096 bytes is refused.
func Expand(p string) (string, error) {
	switch {
	case p == "":
		return "", fail(Invalid, "the path is empty")
	case strings.ContainsRune(p, 0):
		return "", fail(Invalid, "the path holds a NUL byte")
	case len(p) > maxPath:
		return "", fail(Invalid, "the path has %d bytes, at most %d", len(p), maxPath)
	}
	if strings.HasPrefix(p, "~") && len(p) > 1 && !os.IsPathSeparator(p[1]) {
		first, _, _ := strings.Cut(p, "/")
		return "", fail(Invalid, "%s: another user's home is not looked up: give the absolute path, or ./%s for a file of that name", shorten(p), shorten(first))
	}
	if p == "~" || strings.HasPrefix(p, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fail(Invalid, "%s: the home folder is not known", p)
		}
		p = filepath.Join(home, p[1:])
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", fail(Invalid, "%s: %v", p, err)
	}
	return abs, nil
}

// cleanRelative checks a path inside a folder, in slashes: no way out, no absolute
// path, nothing that a file system would read differently.
func cleanRelative(p string) (string, error) {
	if p == "" || len(p) > maxPath || strings.ContainsRune(p, 0) || path.IsAbs(p) {
		return "", fail(Outside, "not a path inside the folder: %q", shorten(p))
	}
	clean := path.Clean(p)
	local := filepath.FromSlash(clean)
	if clean == "." || !filepath.IsLocal(local) {
		return "", fail(Outside, "path leaves the folder: %q", shorten(p))
	}
	return local, nil
}

func shorten(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
