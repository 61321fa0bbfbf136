package proc

// The system calls that FS makes on Linux. Descriptors are plain numbers here,
// not os.File values: the files of proc are never worth a place in the
// runtime's poller, and pressure files in it would wake the program.

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// unobservable says why the running system has no proc; it has one here.
const unobservable = ""

// mountedProcfs reports whether a directory is on a procfs.
func mountedProcfs(dir string) (bool, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == nil {
			return int64(st.Type) == unix.PROC_SUPER_MAGIC, nil
		}
		if err != unix.EINTR {
			return false, &fs.PathError{Op: "statfs", Path: dir, Err: err}
		}
	}
}

// A file is an open descriptor.
type file struct{ fd int }

// open opens a file for reading. A FIFO in a recorded tree does not block it.
func (f FS) open(name string, flags int) (file, error) {
	flags |= unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := f.openDescriptor(name, flags)
	if err != nil {
		return file{-1}, &fs.PathError{Op: "open", Path: f.Path(name), Err: err}
	}
	return file{fd}, nil
}

func (f FS) openDescriptor(name string, flags int) (int, error) {
	if f.live {
		return retryInt(func() (int, error) { return unix.Open(f.Path(name), flags, 0) })
	}
	root, err := retryInt(func() (int, error) {
		return unix.Open(f.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := retryInt(func() (int, error) { return unix.Openat2(root, relative(name), &how) })
	if err == unix.ENOSYS || err == unix.EPERM {
		// Before 5.6, or behind a filter that does not know the call.
		return f.openConfined(name, flags)
	}
	return fd, err
}

// openConfined does without openat2: os.Root walks the path by hand, and
// refuses absolute links instead of reading them from the root.
func (f FS) openConfined(name string, flags int) (int, error) {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return -1, cause(err)
	}
	defer root.Close()
	opened, err := root.OpenFile(relative(name), flags, 0)
	if err != nil {
		return -1, cause(err)
	}
	defer opened.Close()
	return unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, 3)
}

func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// retryInt repeats a call that a signal (or a rename, for openat2) interrupted.
func retryInt(call func() (int, error)) (int, error) {
	for range 100 {
		n, err := call()
		if err != unix.EINTR && err != unix.EAGAIN {
			return n, err
		}
	}
	return -1, unix.EAGAIN
}

func (o file) read(into []byte) (int, error) {
	return retryInt(func() (int, error) { return unix.Read(o.fd, into) })
}

func (o file) readAt(into []byte, offset int64) (int, error) {
	return retryInt(func() (int, error) { return unix.Pread(o.fd, into, offset) })
}

func (o file) close() { unix.Close(o.fd) }

// scratch holds the buffers that files are read into before they are copied
// out at their true length. One that had to grow is not put back.
var scratch = sync.Pool{New: func() any { b := make([]byte, scratchSize); return &b }}

const (
	scratchSize = 64 << 10
	// firstRead suffices for most files. The kernel makes a buffer as large as
	// the read for some of them (sysctl), and refuses the largest reads.
	firstRead = 4 << 10
)

// readUpTo reads a file until its end or the limit; whole is false when there
// was more.
func (f FS) readUpTo(name string, limit int) (data []byte, whole bool, err error) {
	open, err := f.open(name, 0)
	if err != nil {
		return nil, false, err
	}
	defer open.close()
	pooled := scratch.Get().(*[]byte)
	defer scratch.Put(pooled)
	buf, n := *pooled, 0
	for {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		size := min(len(buf)-n, scratchSize)
		if n == 0 {
			size = firstRead
		}
		got, err := open.read(buf[n : n+size])
		if err != nil {
			return nil, false, &fs.PathError{Op: "read", Path: f.Path(name), Err: err}
		}
		if got == 0 {
			return slices.Clone(buf[:n]), true, nil
		}
		if n += got; n > limit {
			return slices.Clone(buf[:limit]), false, nil
		}
	}
}

func (f FS) openDir(name string) (*os.File, error) {
	dir, err := f.open(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(dir.fd), f.Path(name)), nil
}
