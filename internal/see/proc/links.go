package proc

import "strings"

const deletedSuffix = " (deleted)"

// Executable reads the link proc/PID/exe. deleted reports that the file was
// removed or replaced since it was started; the path is then the former one.
// Kernel threads have none (a missing file), and the link of another user's
// process needs the right to trace it.
func (f FS) Executable(pid int32) (path string, deleted bool, err error) {
	path, err = f.linkOf(pid, "exe")
	if err != nil {
		return "", false, err
	}
	path, deleted = strings.CutSuffix(path, deletedSuffix)
	return path, deleted, nil
}

// WorkingDirectory reads the link proc/PID/cwd, as the kernel writes it: a
// removed directory ends in " (deleted)".
func (f FS) WorkingDirectory(pid int32) (string, error) {
	return f.linkOf(pid, "cwd")
}
