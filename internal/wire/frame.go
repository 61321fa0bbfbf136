package wire

import (
	"bytes"
	"io"
)

// Lines out of bytes. The buffer grows geometrically up to the limit and a long
// line is handed over with its buffer, so that memory is bounded by the limit
// while a line is read and goes back to startBuffer afterwards.

const startBuffer = 64 << 10

var byteOrderMark = []byte("\xef\xbb\xbf")

// frameReader cuts a byte stream into lines of at most max bytes.
type frameReader struct {
	r     io.Reader
	max   int
	buf   []byte // buf[start:end] is read but not yet returned
	start int
	end   int
	seen  int // buf[start:seen] holds no line feed
	begun bool
	err   error // sticky error of r
	held  int   // bytes reserved for a long line
}

func newFrameReader(r io.Reader, max int) *frameReader {
	return &frameReader{r: r, max: max}
}

// next returns the next line that is not blank, without its line end and without
// blanks around it. The caller owns the slice. The last line may lack its line
// feed. After the last line it returns io.EOF or the reader's error; a line over
// the limit gives ErrFrameTooLarge.
func (f *frameReader) next() ([]byte, error) {
	for {
		line, err := f.line()
		if err != nil {
			return nil, err
		}
		if len(line) > 0 {
			return line, nil
		}
	}
}

func (f *frameReader) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(f.buf[f.seen:f.end], '\n'); i >= 0 {
			at := f.seen + i
			if at-f.start > f.max+1 || (at-f.start == f.max+1 && f.buf[at-1] != '\r') {
				return nil, ErrFrameTooLarge
			}
			line := f.take(at)
			f.start, f.seen = at+1, at+1
			if len(line) > startBuffer/2 {
				f.handOver()
			}
			return line, nil
		}
		f.seen = f.end
		// One byte more than the limit is allowed for a CR before the LF.
		if f.end-f.start > f.max+1 {
			return nil, ErrFrameTooLarge
		}
		if f.err != nil {
			if f.end == f.start {
				return nil, f.err
			}
			if f.end-f.start > f.max {
				return nil, ErrFrameTooLarge
			}
			line := f.take(f.end)
			f.buf, f.start, f.end, f.seen = nil, 0, 0, 0
			f.unhold()
			return line, nil
		}
		if !f.fill() {
			return nil, ErrTooMuchHeld
		}
	}
}

// take returns the line buf[start:at], trimmed. Short lines are copied; of long
// ones the buffer itself is given away (see handOver).
func (f *frameReader) take(at int) []byte {
	line := f.buf[f.start:at]
	if !f.begun {
		f.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	line = bytes.Trim(line, " \t\r")
	if len(line) > startBuffer/2 {
		return line[:len(line):len(line)]
	}
	return bytes.Clone(line)
}

// handOver leaves the buffer to the line cut from it and starts a small one with
// the bytes behind that line.
func (f *frameReader) handOver() {
	rest := f.buf[f.start:f.end]
	n := max(startBuffer, len(rest))
	buf := make([]byte, n)
	copy(buf, rest)
	f.buf, f.start, f.end, f.seen = buf, 0, len(rest), 0
	f.unhold()
}

// unhold gives back the room that was reserved for a long line.
func (f *frameReader) unhold() {
	longLines.Add(int64(-f.held))
	f.held = 0
}

// fill reads once, after making room; false when there is none, because the
// clients together hold too much.
func (f *frameReader) fill() bool {
	switch {
	case f.start == f.end && cap(f.buf) >= startBuffer:
		f.start, f.end, f.seen = 0, 0, 0
	case f.start > 0 && f.end == len(f.buf):
		copy(f.buf, f.buf[f.start:f.end])
		f.end -= f.start
		f.seen -= f.start
		f.start = 0
	}
	if f.end == len(f.buf) {
		// Two bytes over the limit: a CR, and the byte that proves the excess.
		size := min(max(2*len(f.buf), startBuffer), max(f.max+2, startBuffer))
		size = max(size, f.end+1)
		if size > long {
			if !reserve(size - f.held) {
				return false
			}
			f.held = size
		}
		buf := make([]byte, size)
		copy(buf, f.buf[:f.end])
		f.buf = buf
	}
	for range 100 {
		n, err := f.r.Read(f.buf[f.end:])
		f.end += n
		if err != nil {
			f.err = err
		}
		if n > 0 || err != nil {
			return true
		}
	}
	f.err = io.ErrNoProgress
	return true
}

// skipLine drops the rest of the current line, and keeps what is behind it. It is
// called after ErrFrameTooLarge, to go on.
func (f *frameReader) skipLine() {
	for {
		if i := bytes.IndexByte(f.buf[f.start:f.end], '\n'); i >= 0 {
			f.start += i + 1
			f.handOver()
			f.seen = f.start
			return
		}
		f.start, f.end, f.seen = 0, 0, 0
		if f.err != nil {
			return
		}
		_ = f.fill() // into the buffer that is there
	}
}

// discardLine reads and drops bytes up to the end of the current line or of the
// stream. It is called after ErrFrameTooLarge.
func (f *frameReader) discardLine() {
	if f.buf == nil || bytes.IndexByte(f.buf[f.start:f.end], '\n') >= 0 {
		return
	}
	buf := make([]byte, startBuffer)
	f.buf = nil
	f.unhold()
	for f.err == nil {
		n, err := f.r.Read(buf)
		if err != nil || bytes.IndexByte(buf[:n], '\n') >= 0 {
			return
		}
	}
}
