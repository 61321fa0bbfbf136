package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFrame bounds one message in either direction, in bytes.
const MaxFrame = 128 << 20

// AppendFrame appends the message as it travels: four bytes of length, most significant first, then the value.
func AppendFrame(b []byte, v Value) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = Append(b, v)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// frames cuts the bytes that arrive from a child into messages. It keeps what a read was cut off in, so that a
// read may end at any byte (a deadline, the death of the child) and be taken up again.
type frames struct {
	buf        []byte
	start, end int
}

// next returns the first complete message among the bytes held, or false when more bytes are needed.
func (f *frames) next() (Dict, bool, error) {
	held := f.buf[f.start:f.end]
	if len(held) < 4 {
		return nil, false, nil
	}
	n := int(binary.BigEndian.Uint32(held))
	if n > MaxFrame {
		return nil, false, fmt.Errorf("child protocol: a message of %d bytes (at most %d)", n, MaxFrame)
	}
	if len(held) < 4+n {
		return nil, false, nil
	}
	v, err := Decode(held[4 : 4+n])
	f.start += 4 + n
	if f.start == f.end {
		f.start, f.end = 0, 0
		if len(f.buf) > 1<<20 {
			f.buf = nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	d, ok := v.(Dict)
	if !ok {
		return nil, false, errors.New("child protocol: a message that is no dict")
	}
	return d, true, nil
}

// room returns free space to read into; fill says how much of it was used.
func (f *frames) room() []byte {
	if f.start > 0 && f.end == len(f.buf) {
		copy(f.buf, f.buf[f.start:f.end])
		f.end -= f.start
		f.start = 0
	}
	if len(f.buf)-f.end < 1024 {
		want := 4096
		if held := f.end - f.start; held >= 4 {
			n := int(binary.BigEndian.Uint32(f.buf[f.start:]))
			want = min(max(want, n+4), MaxFrame+4, max(1<<20, 2*held))
		}
		grown := make([]byte, max(want, 2*(f.end-f.start))+1024)
		f.end = copy(grown, f.buf[f.start:f.end])
		f.start = 0
		f.buf = grown
	}
	return f.buf[f.end:]
}

func (f *frames) fill(n int) { f.end += n }

// ReadFrame reads one message from r, for the child's side of the protocol. It returns io.EOF at the end of the
// requests.
func ReadFrame(r io.Reader) (Dict, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxFrame {
		return nil, fmt.Errorf("child protocol: a message of %d bytes (at most %d)", n, MaxFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	v, err := Decode(body)
	if err != nil {
		return nil, err
	}
	d, ok := v.(Dict)
	if !ok {
		return nil, errors.New("child protocol: a message that is no dict")
	}
	return d, nil
}
