package cgroup

import (
	"errors"

	"topside/internal/see/proc"
)

// A keptFile is an open descriptor that is read from its start each time. What
// it returns is valid until its next Read.
type keptFile interface {
	Read() ([]byte, error)
	Close() error
}

func openKept(proc.FS, string) (keptFile, error) { return nil, errors.ErrUnsupported }
