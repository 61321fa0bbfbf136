package proc

import (
	"errors"
	"io/fs"
	"strconv"
)

// This file finds processes whose first thread has ended while others run on. The
// kernel shows them as zombies, and what it shows of the first thread is empty: no
// executable, no arguments, no descriptors, no memory. Another thread still has all
// of it.

// Ended reports whether a process has ended and only waits for its parent to
// collect it. One whose first thread alone has ended is shown as a zombie too, but
// runs.
func (s *Stat) Ended() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// Folder is where the files of a process are: proc/PID, or the folder of a thread
// that runs when the first one has ended before it.
func (f FS) Folder(pid int32) string {
	if thread, ok := f.headless(pid); ok {
		return thread
	}
	return ofPID(pid, "")
}

// headless returns the folder of a running thread of a process whose first one
// has ended.
func (f FS) headless(pid int32) (folder string, ok bool) {
	stat, err := f.Stat(pid)
	if err != nil || stat.State != 'Z' || stat.Ended() {
		return "", false
	}
	threads, err := f.ReadDir(ofPID(pid, "task"))
	if err != nil {
		return "", false
	}
	for _, t := range threads {
		folder := ofPID(pid, "task/"+t.Name())
		if t.Name() == strconv.Itoa(int(pid)) {
			continue
		}
		var s Stat
		line, err := f.Read(folder + "/stat")
		if err == nil && ParseStat(line, &s) == nil && s.State != 'Z' && s.State != 'X' {
			return folder, true
		}
	}
	return "", false
}

// linkOf reads a link of a process.
func (f FS) linkOf(pid int32, name string) (string, error) {
	target, err := f.Readlink(ofPID(pid, name))
	if errors.Is(err, fs.ErrNotExist) {
		if folder, ok := f.headless(pid); ok {
			return f.Readlink(folder + "/" + name)
		}
	}
	return target, err
}
