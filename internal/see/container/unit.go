package container

import "strings"

// This file reads unit names out of cgroup paths the way systemd does
// (src/basic/cgroup-util.c: cg_path_get_unit, cg_path_get_user_unit,
// cg_path_get_owner_uid; src/basic/unit-name.c: unit_name_is_valid), so that
// what we call a unit is what systemctl calls one.

// unitNameMax is systemd's UNIT_NAME_MAX: a name must be shorter.
const unitNameMax = 256

// ValidUnit reports whether name is a valid systemd unit name: a plain name or
// a template's instance, with a known type suffix. A template without an
// instance (user@.service) is none.
func ValidUnit(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 1 || len(name) >= unitNameMax || !unitType(name[dot+1:]) {
		return false
	}
	at := -1
	for i := 0; i < dot; i++ {
		if name[i] == '@' && at < 0 {
			at = i
		}
		if !unitByte(name[i]) {
			return false
		}
	}
	return at < 0 || (at > 0 && dot > at+1)
}

func unitType(suffix string) bool {
	switch suffix {
	case "service", "scope", "slice", "mount", "socket", "target", "device", "automount", "swap", "timer", "path":
		return true
	}
	return false
}

func unitByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case ':', '-', '_', '.', '\\', '@':
		return true
	}
	return false
}

// unescapeElement undoes the '_' that systemd puts before a name that would
// collide with a file of the kernel's (cg_unescape).
func unescapeElement(element string) string {
	if strings.HasPrefix(element, "_") {
		return element[1:]
	}
	return element
}

func validSlice(element string) bool {
	name := unescapeElement(element)
	return strings.HasSuffix(name, ".slice") && !strings.Contains(name, "@") && ValidUnit(name)
}

// nextElement returns the element of path that starts at or after offset i,
// and the offset just behind it. The element is empty at the end of the path.
func nextElement(path string, i int) (element string, end int) {
	for i < len(path) && path[i] == '/' {
		i++
	}
	end = i
	for end < len(path) && path[end] != '/' {
		end++
	}
	return path[i:end], end
}

// skipSlices returns the offset behind the leading slices of path[i:].
func skipSlices(path string, i int) int {
	for {
		element, end := nextElement(path, i)
		if !validSlice(element) {
			return i
		}
		i = end
	}
}

// unitAt finds the unit of path[i:]: leading slices are skipped and the first
// element must be a unit. end is the offset behind it.
func unitAt(path string, i int) (unit string, end int) {
	element, end := nextElement(path, skipSlices(path, i))
	unit = unescapeElement(element)
	if !ValidUnit(unit) || strings.HasSuffix(unit, ".slice") {
		return "", 0
	}
	return unit, end
}

// A unitPlace is what a cgroup path says about units.
type unitPlace struct {
	unit   string // the innermost manager's unit
	system string // for a user's unit, the system unit around it
	path   string // the path up to and including the unit
}

// unitOf finds the unit of a cgroup path, and below user@UID.service or
// session-N.scope the user's.
func unitOf(path string) unitPlace {
	unit, end := unitAt(path, 0)
	if unit == "" {
		return unitPlace{}
	}
	if userManager(unit) || loginSession(unit) {
		if inner, innerEnd := unitAt(path, end); inner != "" {
			return unitPlace{unit: inner, system: unit, path: path[:innerEnd]}
		}
	}
	return unitPlace{unit: unit, path: path[:end]}
}

// unitBelowRoot is unitOf for a systemd whose root is not the root of the
// hierarchy (WSL's /wsl-user/distro-N/systemd): the path is read from its
// first slice on. What lies below a slice or a unit is not such a root, even if
// the unit's name is broken.
func unitBelowRoot(path string) unitPlace {
	for i := 0; ; {
		element, end := nextElement(path, i)
		switch {
		case element == "":
			return unitPlace{}
		case validSlice(element) && i > 0:
			place := unitOf(path[i:])
			if place.unit != "" {
				place.path = path[:i] + place.path
			}
			return place
		case unitType(element[strings.LastIndexByte(element, '.')+1:]):
			return unitPlace{}
		}
		i = end
	}
}

func userManager(unit string) bool {
	rest, ok := strings.CutPrefix(unit, "user@")
	if !ok {
		return false
	}
	rest, ok = strings.CutSuffix(rest, ".service")
	if !ok {
		return false
	}
	_, ok = parseUID(rest)
	return ok
}

func loginSession(unit string) bool {
	rest, ok := strings.CutPrefix(unit, "session-")
	if !ok {
		return false
	}
	rest, ok = strings.CutSuffix(rest, ".scope")
	if !ok || rest == "" {
		return false
	}
	for i := 0; i < len(rest); i++ {
		if c := rest[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			return false
		}
	}
	return true
}

// ownerUID finds the user in the leading slices of path (user-UID.slice).
func ownerUID(path string) (uid uint32, ok bool) {
	for i := 0; ; {
		element, end := nextElement(path, i)
		if !validSlice(element) {
			return uid, ok
		}
		if rest, found := strings.CutPrefix(element, "user-"); found {
			if n, valid := parseUID(strings.TrimSuffix(rest, ".slice")); valid {
				uid, ok = n, true
			}
		}
		i = end
	}
}

// parseUID reads a uid as systemd does: decimal, no sign, and neither of the
// two values that mean "no user" (2^16-1 and 2^32-1).
func parseUID(text string) (uint32, bool) {
	if text == "" || len(text) > 10 {
		return 0, false
	}
	var n uint64
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(text[i]-'0')
	}
	if n >= 1<<32-1 || n == 1<<16-1 {
		return 0, false
	}
	return uint32(n), true
}

// unescapeUnit decodes the \xHH escapes of a unit name's parts
// (unit_name_unescape without the '-' for '/' that only paths need).
func unescapeUnit(name string) string {
	if !strings.Contains(name, `\x`) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' && i+3 < len(name) && name[i+1] == 'x' {
			high, low := hexDigit(name[i+2]), hexDigit(name[i+3])
			if high >= 0 && low >= 0 {
				b.WriteByte(byte(high<<4 | low))
				i += 3
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
