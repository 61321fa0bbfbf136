package transfer

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve makes room for the whole file, so that a full disk is noticed before the
// first byte travels. A file system that cannot do it is no failure.
func reserve(f *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
			return err
		}
		return nil
	}
}

// sizeless reports whether a file is of a file system that the kernel makes up: its
// regular files say that they are empty, or a page long, whatever they hold.
func sizeless(f *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return false
	}
	switch int64(st.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC:
		return true
	}
	return false
}
