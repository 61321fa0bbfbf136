package proc

import (
	"bytes"
	"strconv"
	"strings"
)

// Cgroups reads proc/PID/cgroup: the process's place in every hierarchy.
func (f FS) Cgroups(pid int32) ([]CgroupLine, error) {
	data, err := f.Read(ofPID(pid, "cgroup"))
	if err != nil {
		return nil, err
	}
	return ParseCgroups(data)
}

// ParseCgroups parses the content of proc/PID/cgroup (cgroups(7)):
// "hierarchy:controllers:path". Only the first two colons part fields, since
// paths hold colons. Of several lines of one hierarchy the first counts. The
// mark " (deleted)" of a removed cgroup becomes the field Deleted.
//
// A line that is not of this form is left out; when none is, the error wraps
// [ErrMalformed]. Empty content is no lines: a process without cgroups.
func ParseCgroups(data []byte) ([]CgroupLine, error) {
	var lines []CgroupLine
	for rest := data; len(rest) > 0; {
		var text []byte
		text, rest = nextLine(rest)
		line, ok := parseCgroupLine(text)
		if ok && !hasHierarchy(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 && len(bytes.TrimSpace(data)) > 0 {
		return nil, malformed("PID/cgroup", data)
	}
	return lines, nil
}

func parseCgroupLine(text []byte) (CgroupLine, bool) {
	text = bytes.TrimSuffix(text, []byte{'\r'})
	id, rest, ok := bytes.Cut(text, colon)
	if !ok {
		return CgroupLine{}, false
	}
	controllers, path, ok := bytes.Cut(rest, colon)
	if !ok || len(path) == 0 || path[0] != '/' {
		return CgroupLine{}, false
	}
	hierarchy, err := strconv.ParseUint(string(id), 10, 31)
	if err != nil {
		return CgroupLine{}, false
	}
	line := CgroupLine{Hierarchy: int(hierarchy), Controllers: string(controllers)}
	line.Path, line.Deleted = strings.CutSuffix(string(path), deletedSuffix)
	return line, true
}

func hasHierarchy(lines []CgroupLine, line CgroupLine) bool {
	for _, l := range lines {
		if l.Hierarchy == line.Hierarchy && l.Controllers == line.Controllers {
			return true
		}
	}
	return false
}
