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
		return nil, err
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
	modified time.Time
	size     int64
	info     os.FileInfo
}

// StampOf looks at a file.
func StampOf(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}
	}
	return Stamp{there: true, modified: info.ModTime(), size: info.Size(), info: info}
}

// Same reports whether two looks saw the same content.
func (s Stamp) Same(other Stamp) bool {
	if s.there != other.there {
		return false
	}
	return !s.there || s.modified.Equal(other.modified) && s.size == other.size && os.SameFile(s.info, other.info)
}

// Empty reports whether there was nothing in the file, or none.
func (s Stamp) Empty() bool { return s.size == 0 }
