//go:build !linux

package action

import "os"

type elsewhere struct{}

// kernel has nothing to offer where a process cannot be held: acting on a
// number that may be another process's by then is worse than not acting.
func kernel() System { return elsewhere{} }

func (elsewhere) Self() int32 { return int32(os.Getpid()) }

func (elsewhere) Open(int32) (Handle, error) { return nil, ErrUnsupported }
