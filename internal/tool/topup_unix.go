//go:build unix

package tool

import "syscall"

const openWithoutWaiting = syscall.O_NONBLOCK
