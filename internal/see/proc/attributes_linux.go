package proc

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// ownerOfDirectory asks who owns proc/PID. The kernel answers with the
// effective user even for processes that may not be dumped.
func (f FS) ownerOfDirectory(pid int32) (uint32, error) {
	var st unix.Stat_t
	name := f.Path(ofPID(pid, ""))
	if err := unix.Stat(name, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return st.Uid, nil
}

// countOfSize returns the size of a live fd directory, 0 when unknown.
func (f FS) countOfSize(name string) int {
	var st unix.Stat_t
	if !f.live || unix.Stat(f.Path(name), &st) != nil {
		return 0
	}
	return int(st.Size)
}
