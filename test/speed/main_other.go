//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "speed: what a process costs is read from proc, which only Linux has")
	os.Exit(1)
}
