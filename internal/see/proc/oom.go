package proc

import (
	"bytes"
	"strconv"
)

// OOMScore reads proc/PID/oom_score: how likely the kernel is to kill the
// process when memory runs out, from 0 to 2000 or so.
func (f FS) OOMScore(pid int32) (int, error) {
	return f.readInt(ofPID(pid, "oom_score"))
}

// readInt reads a file that holds one decimal number.
func (f FS) readInt(name string) (int, error) {
	data, err := f.Read(name)
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(string(bytes.TrimSpace(data)))
	if err != nil {
		return 0, malformed(name, data)
	}
	return v, nil
}
