// Package keptfile holds the files that the servers and views of one user share:
// the configuration and the ledger of alerts. They are read with a bound, changed
// under a lock, and replaced whole, so that neither a crash nor another process
// leaves half of one behind. Packages config and ledger say what is in them.
package keptfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrUnfit is wrapped by the error of something that is no file to read: a folder,
// a pipe, or one that is too long.
var ErrUnfit = errors.New("not a file that can be used")

// Read reads a regular file of at most so many bytes, without waiting on what
// only looks like one.
func Read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, pointless(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a file but a %s", ErrUnfit, path, kindOf(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%w: it is longer than %d bytes", ErrUnfit, most)
	}
	return data, err
}

// pointless tells a link that leads nowhere, be it the file or a folder above it,
// from a file that is not there: somebody put the link, and what it led to is
// missing.
func pointless(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for at := path; ; at = filepath.Dir(at) {
		if _, there := os.Stat(at); there == nil || at == filepath.Dir(at) {
			return err
		}
		if target, linkErr := os.Readlink(at); linkErr == nil {
			return fmt.Errorf("%w: %s is a link to %s, which is not there", ErrUnfit, at, target)
		}
	}
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// A Stamp tells whether a file was changed since it was looked at. The zero value
// is that of a file that is not there.
type Stamp struct {
	there    bool
	trouble  string // why the file cannot be looked at; "" when it can, or is not there
	modified time.Time
	size     int64
	info     os.FileInfo
}

// StampOf looks at a file.
func StampOf(path string) Stamp {
	info, err := os.Stat(path)
	if err = pointless(path, err); errors.Is(err, fs.ErrNotExist) {
		return Stamp{}
	}
	if err != nil {
		return Stamp{trouble: err.Error()}
	}
	return Stamp{there: true, modified: info.ModTime(), size: info.Size(), info: info}
}

// Same reports whether two looks saw the same content, with the same permissions.
func (s Stamp) Same(other Stamp) bool {
	if s.there != other.there || s.trouble != other.trouble {
		return false
	}
	return !s.there || s.modified.Equal(other.modified) && s.size == other.size && s.info.Mode() == other.info.Mode() && os.SameFile(s.info, other.info)
}

// Empty reports whether there was a file with nothing in it, or none.
func (s Stamp) Empty() bool {
	return s.trouble == "" && (!s.there || s.size == 0 && s.info.Mode().IsRegular())
}
