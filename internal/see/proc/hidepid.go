package proc

import (
	"fmt"
	"path"
	"strings"
)

// HidePID tells how the mount of proc treats other users' processes: "off",
// "noaccess" (seen, but not read), "invisible" or "ptraceable" (proc(5),
// hidepid). A root reader sees everything whatever the mode is.
func (f FS) HidePID() (mode string, err error) {
	mounts, err := f.Mounts()
	if err != nil {
		return "", err
	}
	point := "/proc"
	if f.foreign() {
		point = path.Join(f.root, "proc")
	}
	return hidePID(mounts, point, f.foreign())
}

// hidePID reads the mode from the last proc mounted on a point: the one that
// covers the others. Through a foreign root the host's own /proc will do.
func hidePID(mounts []Mount, point string, foreign bool) (string, error) {
	var found *Mount
	for i := range mounts {
		m := &mounts[i]
		if m.Type == "proc" && (m.Point == point || foreign && m.Point == "/proc" && found == nil) {
			found = m
		}
	}
	if found == nil {
		return "", fmt.Errorf("no proc is mounted on %s: %w", point, ErrMalformed)
	}
	for option := range strings.SplitSeq(found.SuperOptions, ",") {
		value, ok := strings.CutPrefix(option, "hidepid=")
		if !ok {
			continue
		}
		switch value {
		case "0", "off":
			return "off", nil
		case "1", "noaccess":
			return "noaccess", nil
		case "2", "invisible":
			return "invisible", nil
		case "4", "ptraceable":
			return "ptraceable", nil
		}
		return "", fmt.Errorf("%s: %w: hidepid=%q", point, ErrMalformed, value)
	}
	return "off", nil
}
