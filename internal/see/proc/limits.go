package proc

import (
	"bytes"
)

// Limit is one line of proc/PID/limits (getrlimit(2)). The number of an
// unlimited side is 0 and means nothing.
type Limit struct {
	Soft, Hard                   uint64
	SoftUnlimited, HardUnlimited bool
	Unit                         string // "bytes", "files", "" for those without
}

// Limits reads proc/PID/limits. Its keys are the kernel's: "Max open files".
func (f FS) Limits(pid int32) (map[string]Limit, error) {
	data, err := f.Read(ofPID(pid, "limits"))
	if err != nil {
		return nil, err
	}
	return ParseLimits(data)
}

// ParseLimits parses the content of proc/PID/limits, whose first column is 25
// wide and holds blanks. Lines of another form are left out; when none is
// left, the error wraps [ErrMalformed].
func ParseLimits(data []byte) (map[string]Limit, error) {
	const width = 25
	limits := make(map[string]Limit)
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		if len(line) <= width {
			continue
		}
		soft, after := nextWord(line[width:])
		hard, after := nextWord(after)
		unit, _ := nextWord(after)
		limit := Limit{Unit: string(unit)}
		if !setLimit(soft, &limit.Soft, &limit.SoftUnlimited) || !setLimit(hard, &limit.Hard, &limit.HardUnlimited) {
			continue
		}
		limits[string(bytes.TrimRight(line[:width], " "))] = limit
	}
	if len(limits) == 0 {
		return nil, malformed("PID/limits", data)
	}
	return limits, nil
}

func setLimit(word []byte, value *uint64, unlimited *bool) bool {
	if string(word) == "unlimited" {
		*unlimited = true
		return true
	}
	v, ok := parseUint(word)
	*value = v
	return ok
}
