package proc

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// statfs asks one filesystem. It can block for ever.
func statfs(path string) (capacity, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(path, &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return capacity{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
	}
	block := uint64(st.Frsize)
	if block == 0 {
		block = uint64(st.Bsize)
	}
	return capacity{
		block: block, blocks: st.Blocks, free: st.Bfree, available: st.Bavail,
		files: st.Files, filesFree: st.Ffree,
	}, nil
}
