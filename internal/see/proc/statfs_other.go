//go:build !linux

package proc

func statfs(string) (capacity, error) { return capacity{}, ErrNotRecorded }
