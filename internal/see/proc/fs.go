package proc

// This file holds FS, the root that everything is read from: a live kernel's
// files or a tree that was recorded from one.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxFile bounds every read of a whole file. The longest file of a large
// machine (proc/stat with its interrupts, mountinfo of a node full of
// containers) stays well below it.
const maxFile = 4 << 20

// ErrTooLong is wrapped by the error of a file that exceeds the read bound.
var ErrTooLong = errors.New("longer than the read bound")

// FS is a root that holds proc/ and, where it was mounted or recorded, sys/
// and etc/. The zero value is not usable; see [NewFS]. An FS is a small value,
// safe for use by several goroutines.
type FS struct {
	root string
	live bool
}

// NewFS returns the FS of a root directory: "/" for the running machine, the
// folder that a host's filesystem is mounted on, or a recorded tree. The root
// must hold a directory named proc.
func NewFS(root string) (FS, error) {
	if root == "" {
		return FS{}, errors.New(`the root is empty: name a directory that holds proc/, for example "/"`)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return FS{}, fmt.Errorf("root %q: %w", root, err)
	}
	dir := filepath.Join(abs, "proc")
	info, err := os.Stat(dir)
	if err != nil {
		if unobservable != "" && errors.Is(err, fs.ErrNotExist) {
			return FS{}, fmt.Errorf("root %q holds no proc/ directory (%s): %w", root, unobservable, err)
		}
		return FS{}, fmt.Errorf("root %q must hold a proc/ directory; is the path right, and is procfs mounted there: %w", root, err)
	}
	if !info.IsDir() {
		return FS{}, fmt.Errorf("root %q must hold a proc/ directory, but %s is a file", root, dir)
	}
	live, err := mountedProcfs(dir)
	if err != nil {
		return FS{}, fmt.Errorf("root %q: %w", root, err)
	}
	return FS{root: abs, live: live}, nil
}

// Root returns the absolute path of the root directory.
func (f FS) Root() string { return f.root }

// Live reports whether proc/ below the root is a mounted procfs. It is false
// for a recorded tree.
func (f FS) Live() bool { return f.live }

// Path returns the path of a file below the root, for messages. A name that
// climbs with ".." stays below the root.
func (f FS) Path(name string) string {
	return filepath.Join(f.root, filepath.FromSlash(path.Clean("/"+name)))
}

// Read returns the whole content of a file, named by its path below the root
// ("proc/meminfo"), up to 4 MiB. It does not ask for the size first: the
// kernel's files have none. In a recorded tree links are never followed out of
// the tree. Its errors are [*fs.PathError] values; see [FS.ReasonOf].
func (f FS) Read(name string) ([]byte, error) {
	data, whole, err := f.readUpTo(name, maxFile)
	if err == nil && !whole {
		return nil, &fs.PathError{Op: "read", Path: f.Path(name), Err: ErrTooLong}
	}
	return data, err
}

// ReadDir returns the entries of a directory, sorted by name.
func (f FS) ReadDir(name string) ([]fs.DirEntry, error) {
	dir, err := f.openDir(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Readlink returns the target of a link, as it is written in the link. A
// recorded tree may hold a short file with the target instead, as checkouts
// make where links are not supported.
func (f FS) Readlink(name string) (string, error) {
	if f.live {
		return os.Readlink(f.Path(name))
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	target, err := root.Readlink(relative(name))
	if info, failed := root.Lstat(relative(name)); err != nil && failed == nil && info.Mode().IsRegular() {
		return f.flattenedLink(name)
	}
	return target, f.named(err, name)
}

func (f FS) flattenedLink(name string) (string, error) {
	data, whole, err := f.readUpTo(name, 4096)
	if err != nil {
		return "", err
	}
	if !whole || len(data) == 0 || bytes.ContainsAny(data, "\n\x00") {
		return "", malformed("the recorded link "+name, data)
	}
	return string(data), nil
}

// Exists reports whether a file of this name is there. A file that may not be
// looked at is reported as missing.
func (f FS) Exists(name string) bool {
	if f.live {
		_, err := os.Lstat(f.Path(name))
		return err == nil
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(relative(name))
	return err == nil
}

// ReasonOf reduces an error of this package to the kind of absence it is, and
// is empty for a nil error. A missing file is NotRecorded in a recorded tree;
// on a live root it is Vanished below a process and Unsupported elsewhere.
func (f FS) ReasonOf(err error) Reason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrMalformed):
		return Malformed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return TimedOut
	case errors.Is(err, ErrNotRecorded):
		return NotRecorded
	case errors.Is(err, fs.ErrPermission):
		return NoPermission
	case errors.Is(err, syscall.ESRCH):
		return Vanished
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return f.reasonOfMissing(err)
	case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOTSUP),
		errors.Is(err, syscall.ENOSYS), errors.Is(err, errors.ErrUnsupported):
		return Unsupported
	}
	return Unreadable
}

// ErrNotRecorded says that only a live kernel can answer.
var ErrNotRecorded = errors.New("not in this recorded tree")

func (f FS) reasonOfMissing(err error) Reason {
	if !f.live {
		return NotRecorded
	}
	var at *fs.PathError
	if errors.As(err, &at) && f.ofProcess(at.Path) {
		return Vanished
	}
	return Unsupported
}

// ofProcess reports whether a path lies below proc/PID.
func (f FS) ofProcess(name string) bool {
	name = strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(name, f.root)), "/")
	rest, below := strings.CutPrefix(name, "proc/")
	if !below {
		return false
	}
	pid, _, _ := strings.Cut(rest, "/")
	_, err := strconv.ParseInt(pid, 10, 32)
	return err == nil
}

// named puts the path below the root into an error of os.Root, which knows
// only the path inside it.
func (f FS) named(err error, name string) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: f.Path(name), Err: at.Err}
	}
	return err
}

// relative cleans a name for the calls that take a path relative to the root.
func relative(name string) string {
	if rel := path.Clean("/" + name)[1:]; rel != "" {
		return rel
	}
	return "."
}

// ofPID names a file of one process.
func ofPID(pid int32, file string) string {
	name := make([]byte, 0, len("proc/2147483647/")+len(file))
	name = append(name, "proc/"...)
	name = strconv.AppendInt(name, int64(pid), 10)
	if file != "" {
		name = append(name, '/')
		name = append(name, file...)
	}
	return string(name)
}

// malformed makes the error of bytes that could not be understood.
func malformed(what string, found []byte) error {
	const enough = 80
	if len(found) > enough {
		return fmt.Errorf("%s: %w: %q…", what, ErrMalformed, found[:enough])
	}
	return fmt.Errorf("%s: %w: %q", what, ErrMalformed, found)
}
