//go:build unix

package tool

import "syscall"

// nonblocking keeps the opening of a pipe from waiting for its writer.
const nonblocking = syscall.O_NONBLOCK
