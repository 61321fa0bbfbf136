//go:build !unix

package tool

const openWithoutWaiting = 0
