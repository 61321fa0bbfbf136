package engine

import (
	"errors"
	"io"
	"os"
)

// Capture is a file of the server that is descriptor 1 or 2 of a child. The child only appends; the server reads
// by offset and never moves the file's position, which both share.
//
// A file cannot fill up as a pipe does, so nothing has to read while the child writes, and everything written
// before a reply is there when the reply is, even when the writer was killed.
type Capture struct {
	file *os.File
}

// Size is the number of bytes written so far.
func (c *Capture) Size() int64 {
	return fileSize(c.file)
}

// ReadAt reads bytes that were written. Ranges given back by Discard read as zeros.
func (c *Capture) ReadAt(b []byte, off int64) (int, error) { return c.file.ReadAt(b, off) }

// Text returns the bytes [from,to).
func (c *Capture) Text(from, to int64) []byte {
	if to <= from {
		return nil
	}
	b := make([]byte, to-from)
	n, err := c.file.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return b[:n]
	}
	return b[:n]
}

// Close releases the file.
func (c *Capture) Close() error { return c.file.Close() }

// Reset empties the file; the next byte is written at offset 0. It is meant for quiet moments: bytes that arrive
// between the last read and the reset are lost.
func (c *Capture) Reset() error { return c.file.Truncate(0) }
