//go:build !linux

package sample

func openFileLimit() int { return 0 }

func privileged() bool { return false }
