//go:build !unix

package tool

const nonblocking = 0
