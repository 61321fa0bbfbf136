package proc

import (
	"bytes"
	"math"
	"slices"
	"strconv"
)

// Mounts reads mountinfo of the reader itself on the live machine, else of
// process 1 (and of self where a recorded tree has no process 1).
func (f FS) Mounts() ([]Mount, error) {
	names := []string{"proc/1/mountinfo", "proc/self/mountinfo"}
	if f.live && !f.foreign() {
		slices.Reverse(names)
	}
	data, err := f.readFirst(names...)
	if err != nil {
		return nil, err
	}
	return ParseMounts(data)
}

// readFirst reads the first of several files that can be read, and returns the
// first one's error when none can.
func (f FS) readFirst(names ...string) ([]byte, error) {
	var first error
	for _, name := range names {
		data, err := f.Read(name)
		if err == nil {
			return data, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// ParseMounts parses the content of proc/PID/mountinfo (proc_pid_mountinfo(5)).
// The octal escapes of roots, mount points, types and sources are decoded; the
// options are left as they are, since filesystems write raw blanks and
// backslashes there. A line that is not of this form is left out; when all
// are, the error wraps [ErrMalformed].
func ParseMounts(data []byte) ([]Mount, error) {
	var mounts []Mount
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		if m, ok := parseMount(line); ok {
			mounts = append(mounts, m)
		}
	}
	if len(mounts) == 0 && len(bytes.TrimSpace(data)) > 0 {
		return nil, malformed("mountinfo", data)
	}
	return mounts, nil
}

func parseMount(line []byte) (Mount, bool) {
	var words [6][]byte
	rest := line
	for i := range words {
		words[i], rest = nextWord(rest)
	}
	// The optional fields are tags; a lone hyphen ends them.
	for {
		var word []byte
		word, rest = nextWord(rest)
		if len(word) == 0 {
			return Mount{}, false
		}
		if string(word) == "-" {
			break
		}
	}
	id, ok := parsePID(words[0])
	parent, ok2 := parsePID(words[1])
	major, minor, ok3 := parseDevice(words[2])
	if !ok || !ok2 || !ok3 || len(rest) == 0 {
		return Mount{}, false
	}
	// From here on single blanks part the fields: a source may be empty.
	kind, rest, _ := bytes.Cut(rest[1:], []byte{' '})
	source, super, _ := bytes.Cut(rest, []byte{' '})
	return Mount{
		ID: int(id), Parent: int(parent), Major: major, Minor: minor,
		Root: unescape(words[3]), Point: unescape(words[4]), Options: string(words[5]),
		Type: unescape(kind), Source: unescape(source), SuperOptions: string(super),
	}, len(kind) > 0
}

func parseDevice(word []byte) (major, minor uint32, ok bool) {
	a, b, _ := bytes.Cut(word, colon)
	x, ok := parseUint(a)
	y, ok2 := parseUint(b)
	return uint32(x), uint32(y), ok && ok2 && x <= math.MaxUint32 && y <= math.MaxUint32
}

// unescape decodes the three octal digits that the kernel writes for blanks,
// tabs, newlines and backslashes. Anything else stays as it is.
func unescape(word []byte) string {
	if bytes.IndexByte(word, '\\') < 0 {
		return string(word)
	}
	out := make([]byte, 0, len(word))
	for i := 0; i < len(word); i++ {
		if word[i] == '\\' && i+4 <= len(word) {
			if v, err := strconv.ParseUint(string(word[i+1:i+4]), 8, 8); err == nil {
				out = append(out, byte(v))
				i += 3
				continue
			}
		}
		out = append(out, word[i])
	}
	return string(out)
}
