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
