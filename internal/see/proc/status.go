package proc

import (
	"bytes"
	"strconv"
)

// Status holds the lines of proc/PID/status (proc_pid_status(5)) that no
// cheaper file has. A line that the kernel does not write is nil: kernel
// threads have no memory lines, and old kernels lack the later ones.
type Status struct {
	// Uids and Gids are real, effective, saved and filesystem ids.
	Uids, Gids *[4]uint32
	// Sizes in bytes.
	VmSwap, VmHWM, VmRSS       *uint64
	RssAnon, RssFile, RssShmem *uint64
	VoluntarySwitches          *uint64
	NonvoluntarySwitches       *uint64
	NSpid                      []int32 // from the outermost namespace inwards
	CapEff                     *uint64
	Seccomp                    *int // 0 off, 1 strict, 2 filter
	NoNewPrivs                 *bool
	TracerPid                  *int32 // 0 when nobody traces the process
	Threads                    *int32
}

// Status reads proc/PID/status.
func (f FS) Status(pid int32) (*Status, error) {
	data, err := f.Read(ofPID(pid, "status"))
	if err != nil {
		return nil, err
	}
	return ParseStatus(data)
}

// ParseStatus parses the content of proc/PID/status. A line whose value cannot
// be understood counts as missing; content without any known line is an error
// that wraps [ErrMalformed].
func ParseStatus(data []byte) (*Status, error) {
	s := new(Status)
	known := false
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		key, value, ok := bytes.Cut(line, colon)
		if ok && s.set(string(key), bytes.TrimSpace(value)) {
			known = true
		}
	}
	if !known {
		return nil, malformed("PID/status", data)
	}
	return s, nil
}

// set stores one line, unless an earlier one of that key did.
func (s *Status) set(key string, value []byte) bool {
	switch key {
	case "Uid":
		return setIDs(&s.Uids, value)
	case "Gid":
		return setIDs(&s.Gids, value)
	case "VmSwap":
		return setKilobytes(&s.VmSwap, value)
	case "VmHWM":
		return setKilobytes(&s.VmHWM, value)
	case "VmRSS":
		return setKilobytes(&s.VmRSS, value)
	case "RssAnon":
		return setKilobytes(&s.RssAnon, value)
	case "RssFile":
		return setKilobytes(&s.RssFile, value)
	case "RssShmem":
		return setKilobytes(&s.RssShmem, value)
	case "voluntary_ctxt_switches":
		return setUint(&s.VoluntarySwitches, value)
	case "nonvoluntary_ctxt_switches":
		return setUint(&s.NonvoluntarySwitches, value)
	case "NSpid":
		return s.setNSpid(value)
	case "CapEff":
		v, err := strconv.ParseUint(string(value), 16, 64)
		return err == nil && setOnce(&s.CapEff, v)
	case "Seccomp":
		v, ok := parsePID(value)
		return ok && setOnce(&s.Seccomp, int(v))
	case "NoNewPrivs":
		v, ok := parsePID(value)
		return ok && setOnce(&s.NoNewPrivs, v != 0)
	case "TracerPid":
		v, ok := parsePID(value)
		return ok && setOnce(&s.TracerPid, v)
	case "Threads":
		v, ok := parsePID(value)
		return ok && setOnce(&s.Threads, v)
	}
	return false
}

func (s *Status) setNSpid(value []byte) bool {
	if s.NSpid != nil {
		return true
	}
	var pids []int32
	for _, word := range bytes.Fields(value) {
		pid, ok := parsePID(word)
		if !ok {
			return false
		}
		pids = append(pids, pid)
	}
	s.NSpid = pids
	return len(pids) > 0
}

// setOnce stores a value where none is yet; the first line of a key counts.
func setOnce[T any](into **T, v T) bool {
	if *into == nil {
		*into = &v
	}
	return true
}

func setUint(into **uint64, value []byte) bool {
	v, ok := parseUint(value)
	return ok && setOnce(into, v)
}

// setKilobytes stores "N kB" as bytes. A number whose bytes exceed 64 bits is
// the wreck of a subtraction, and is not stored.
func setKilobytes(into **uint64, value []byte) bool {
	v, ok := parseKilobytes(value)
	return ok && setOnce(into, v)
}

func setIDs(into **[4]uint32, value []byte) bool {
	var ids [4]uint32
	words := bytes.Fields(value)
	if len(words) != len(ids) {
		return false
	}
	for i, word := range words {
		v, err := strconv.ParseUint(string(word), 10, 32)
		if err != nil {
			return false
		}
		ids[i] = uint32(v)
	}
	return setOnce(into, ids)
}
