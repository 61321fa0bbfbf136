package proc

import "bytes"

// Interfaces reads proc/net/dev.
func (f FS) Interfaces() ([]Interface, error) {
	data, err := f.Read(f.interfacesFile())
	if err != nil {
		return nil, err
	}
	return ParseInterfaces(data)
}

// interfacesFile names the file of the machine's interfaces. Through a host's
// root that is mounted in a container it is that of process 1: there proc/net
// would be the reader's own network namespace.
func (f FS) interfacesFile() string {
	if f.foreign() && f.Exists("proc/1/net/dev") {
		return "proc/1/net/dev"
	}
	return FileInterfaces
}

// foreign reports whether the root is a live kernel's, but not the reader's own.
func (f FS) foreign() bool { return f.live && f.root != "/" }

// ParseInterfaces parses the content of proc/net/dev (proc_pid_net(5)). The
// name ends at the last colon of its line: aliases have colons of their own,
// and old kernels write the first number right behind it. A line without its
// receive columns is left out; when all are, the error wraps [ErrMalformed].
func ParseInterfaces(data []byte) ([]Interface, error) {
	var interfaces []Interface
	seen := false
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		if bytes.IndexByte(line, '|') >= 0 || len(bytes.TrimSpace(line)) == 0 {
			seen = seen || len(interfaces) > 0
			continue
		}
		seen = true
		terminated := len(rest) > 0 || bytes.HasSuffix(data, newline)
		if i, ok := parseInterface(line, terminated); ok {
			interfaces = append(interfaces, i)
		}
	}
	if len(interfaces) == 0 && (seen || len(data) == 0) {
		return nil, malformed("net/dev", data)
	}
	return interfaces, nil
}

func parseInterface(line []byte, terminated bool) (Interface, bool) {
	end := bytes.LastIndexByte(line, ':')
	if end < 0 {
		return Interface{}, false
	}
	name := bytes.TrimSpace(line[:end])
	var v [16]uint64
	n := parseUints(line[end+1:], v[:])
	if !terminated && n > 0 && n < len(v) && !blank(line[len(line)-1]) {
		n-- // the line was cut within this number
	}
	if len(name) == 0 || n < 4 {
		return Interface{}, false
	}
	i := Interface{
		Name:    string(name),
		RxBytes: v[0], RxPackets: v[1], RxErrors: v[2], RxDropped: v[3],
	}
	if n >= 12 {
		i.TxKnown = true
		i.TxBytes, i.TxPackets, i.TxErrors, i.TxDropped = v[8], v[9], v[10], v[11]
	}
	return i, true
}
