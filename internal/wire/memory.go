package wire

import (
	"runtime/debug"
	"sync/atomic"
)

// Memory for long lines. A line of many megabytes is rare, and what it took must
// be neither kept by an idle server afterwards nor multiplied by its clients.

const (
	// long is the length from which a line counts here, in bytes.
	long = 1 << 20

	// longAltogether bounds the bytes of unfinished long lines of all clients.
	longAltogether = 256 << 20
)

// longLines are the bytes of unfinished long lines of all streams.
var longLines atomic.Int64

// reserve takes room for n bytes more of a long line; false when the clients
// together hold too much.
func reserve(n int) bool {
	if longLines.Add(int64(n)) <= longAltogether {
		return true
	}
	longLines.Add(int64(-n))
	return false
}

// returns counts the requests to give memory back that were not carried out.
var returns atomic.Int32

// returnMemory gives the memory of a long line back to the operating system.
// Without it an idle server would keep it until a collection that may never come.
func returnMemory(length int) {
	if length < long || returns.Add(1) > 1 {
		return // nothing to do, or whoever is at it goes once more
	}
	go func() {
		for {
			asked := returns.Load()
			debug.FreeOSMemory()
			if returns.CompareAndSwap(asked, 0) {
				return
			}
		}
	}()
}
