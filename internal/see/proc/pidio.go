package proc

import "bytes"

// IO reads proc/PID/io (proc_pid_io(5)). It needs the right to trace the
// process, so that NoPermission is common.
func (f FS) IO(pid int32) (IO, error) {
	data, err := f.Read(ofPID(pid, "io"))
	if err != nil {
		return IO{}, err
	}
	return ParseIO(data)
}

// ParseIO parses the content of proc/PID/io. All seven counters must be there:
// a figure without its line would be a wrong zero.
func ParseIO(data []byte) (IO, error) {
	var io IO
	fields := []struct {
		key  string
		into *uint64
	}{
		{"rchar", &io.ReadChars}, {"wchar", &io.WriteChars},
		{"syscr", &io.ReadSyscalls}, {"syscw", &io.WriteSyscalls},
		{"read_bytes", &io.ReadBytes}, {"write_bytes", &io.WriteBytes},
		{"cancelled_write_bytes", &io.CancelledWriteBytes},
	}
	seen := 0
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		key, value, _ := bytes.Cut(line, colon)
		for i, field := range fields {
			if string(key) != field.key || seen>>i&1 == 1 {
				continue
			}
			value = bytes.TrimSpace(value)
			v, ok := parseUint(value)
			if !ok && field.into == &io.CancelledWriteBytes {
				// Older kernels let it dip below zero.
				_, ok = parseUint(bytes.TrimPrefix(value, []byte{'-'}))
			}
			if !ok {
				return IO{}, malformed("PID/io", line)
			}
			*field.into = v
			seen |= 1 << i
		}
	}
	if seen != 1<<len(fields)-1 {
		return IO{}, malformed("PID/io, a line is missing", data)
	}
	return io, nil
}

var colon = []byte{':'}
