package proc

// ARC reads ZFS's cache statistics. A machine without ZFS has no such file.
func (f FS) ARC() (*ARC, error) {
	data, err := f.Read(FileARC)
	if err != nil {
		return nil, err
	}
	return ParseARC(data)
}

// ParseARC parses the content of arcstats: lines of a name, a type and a
// number. The size and both bounds must be there, else the error wraps
// [ErrMalformed].
func ParseARC(data []byte) (*ARC, error) {
	var size, least, most *uint64
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		name, after := nextWord(line)
		_, after = nextWord(after)
		value, _ := nextWord(after)
		switch string(name) {
		case "size":
			setUint(&size, value)
		case "c_min":
			setUint(&least, value)
		case "c_max":
			setUint(&most, value)
		}
	}
	if size == nil || least == nil || most == nil {
		return nil, malformed("arcstats, a line is missing", data)
	}
	return &ARC{Size: *size, Minimum: *least, Maximum: *most}, nil
}
