package proc

import "bytes"

// Pressure reads proc/pressure/RESOURCE: "cpu", "memory", "io" or "irq". A
// kernel without pressure stall information, or booted with psi=0, gives an
// error whose reason is Unsupported.
func (f FS) Pressure(resource string) (*Pressure, error) {
	data, err := f.Read(FilePressure(resource))
	if err != nil {
		return nil, err
	}
	return ParsePressure(data)
}

// ParsePressure parses one pressure file, of the machine or of a cgroup
// (Documentation/accounting/psi.rst). A line that the kernel does not write is
// nil: full of cpu before 5.13, some of irq. The error of content without
// either wraps [ErrMalformed].
func ParsePressure(data []byte) (*Pressure, error) {
	p := new(Pressure)
	for rest := data; len(rest) > 0; {
		var text []byte
		text, rest = nextLine(rest)
		kind, values := nextWord(text)
		var into **PressureLine
		switch string(kind) {
		case "some":
			into = &p.Some
		case "full":
			into = &p.Full
		default:
			continue
		}
		line, ok := parsePressureLine(values)
		if !ok {
			return nil, malformed("pressure", text)
		}
		setOnce(into, line)
	}
	if p.Some == nil && p.Full == nil {
		return nil, malformed("pressure", data)
	}
	return p, nil
}

func parsePressureLine(values []byte) (PressureLine, bool) {
	var line PressureLine
	seen := 0
	for {
		var word []byte
		word, values = nextWord(values)
		if len(word) == 0 {
			return line, seen == 1<<4-1
		}
		key, value, _ := bytes.Cut(word, []byte{'='})
		ok := true
		switch string(key) {
		case "avg10":
			line.Avg10, ok = parseDecimal(value)
			seen |= 1
		case "avg60":
			line.Avg60, ok = parseDecimal(value)
			seen |= 2
		case "avg300":
			line.Avg300, ok = parseDecimal(value)
			seen |= 4
		case "total":
			line.TotalMicros, ok = parseUint(value)
			seen |= 8
		}
		if !ok {
			return line, false
		}
	}
}
