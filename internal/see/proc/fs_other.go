//go:build !linux

package proc

// Elsewhere than on Linux only recorded trees can be read.

import (
	"errors"
	"io"
	"os"
	"runtime"
)

// unobservable says why the running system has no proc.
const unobservable = "a live machine is not observable on " + runtime.GOOS + " yet; a recorded Linux tree is"

func mountedProcfs(string) (bool, error) { return false, nil }

// A file is an open file of a recorded tree.
type file struct{ *os.File }

func (f FS) open(name string, _ int) (file, error) {
	opened, err := os.OpenInRoot(f.root, relative(name))
	return file{opened}, f.named(err, name)
}

func (o file) read(into []byte) (int, error) {
	n, err := o.Read(into)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (o file) readAt(into []byte, offset int64) (int, error) {
	n, err := o.ReadAt(into, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (o file) close() { o.Close() }

func (f FS) readUpTo(name string, limit int) (data []byte, whole bool, err error) {
	opened, err := f.open(name, 0)
	if err != nil {
		return nil, false, err
	}
	defer opened.close()
	data, err = io.ReadAll(io.LimitReader(opened.File, int64(limit)+1))
	if err != nil {
		return nil, false, f.named(err, name)
	}
	if len(data) > limit {
		return data[:limit], false, nil
	}
	return data, true, nil
}

func (f FS) openDir(name string) (*os.File, error) {
	opened, err := f.open(name, 0)
	return opened.File, err
}
