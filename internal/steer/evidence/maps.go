package evidence

// This file reads the executable mappings of a process.

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"topside/internal/steer/alert"
)

// mostMappings bounds the executable mappings that are returned: a compiler at
// run time may have thousands.
const mostMappings = 512

// Mappings reads proc/PID/maps. Whether anonymous memory begins like an ELF
// file is read from proc/PID/mem, for the first few.
func (r *Reader) Mappings(pid int32) ([]alert.Mapping, error) {
	data, err := r.read(pid, "maps")
	if err != nil {
		return nil, err
	}
	mappings := ParseMaps(data)
	r.lookForELF(pid, mappings)
	return mappings, nil
}

// ParseMaps returns the executable mappings of the content of proc/PID/maps
// (proc_pid_maps(5)): "start-end rwxp offset dev inode  path". Lines of
// another form are left out.
func ParseMaps(data []byte) []alert.Mapping {
	var out []alert.Mapping
	for line := range bytes.Lines(data) {
		// The rights follow the addresses: most lines are decided here.
		blank := bytes.IndexByte(line, ' ')
		if blank < 0 || blank+5 > len(line) || line[blank+3] != 'x' {
			continue
		}
		if m, ok := parseMapping(string(line)); ok && len(out) < mostMappings {
			out = append(out, m)
		}
	}
	return out
}

func parseMapping(line string) (alert.Mapping, bool) {
	fields := strings.SplitN(strings.TrimRight(line, "\n"), " ", 6)
	if len(fields) < 5 || len(fields[1]) < 4 {
		return alert.Mapping{}, false
	}
	low, high, ok := strings.Cut(fields[0], "-")
	start, err := strconv.ParseUint(low, 16, 64)
	end, err2 := strconv.ParseUint(high, 16, 64)
	if !ok || err != nil || err2 != nil || end < start {
		return alert.Mapping{}, false
	}
	m := alert.Mapping{Start: start, End: end, Writable: fields[1][1] == 'w'}
	if len(fields) == 6 {
		m.Path, m.Deleted = strings.CutSuffix(strings.TrimLeft(fields[5], " "), " (deleted)")
	}
	return m, true
}

// lookForELF reads the first bytes of anonymous executable memory.
func (r *Reader) lookForELF(pid int32, mappings []alert.Mapping) {
	const most = 8
	var mem *os.File
	looked := 0
	for i := range mappings {
		m := &mappings[i]
		if m.Path != "" || looked == most || !r.fs.Live() {
			continue
		}
		if mem == nil {
			f, err := os.Open(r.fs.Path(r.fs.Folder(pid) + "/mem"))
			if err != nil {
				return
			}
			defer f.Close()
			mem = f
		}
		looked++
		var mark [4]byte
		if _, err := mem.ReadAt(mark[:], int64(m.Start)); err == nil {
			m.ELF = string(mark[:]) == "\x7fELF"
		}
	}
}
