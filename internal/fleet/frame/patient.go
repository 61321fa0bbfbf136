package frame

import (
	"bufio"
	"io"
	"os"
	"time"
)

// Patient is a buffered reader of a file or a socket whose reads can be interrupted,
// and cost the runtime's scheduler as little as can be, see [quickReader].
type Patient struct {
	*bufio.Reader
	from io.Reader
}

// NewPatient returns a Patient of r, which reads as r does where it has no descriptor.
func NewPatient(r io.Reader) *Patient {
	from := r
	if quick := quickReader(r); quick != nil {
		from = quick
	}
	return &Patient{bufio.NewReaderSize(from, 64<<10), r}
}

// SetReadDeadline interrupts reads; os.ErrNoDeadline where r cannot.
func (p *Patient) SetReadDeadline(t time.Time) error {
	if d, ok := p.from.(interface{ SetReadDeadline(time.Time) error }); ok {
		return d.SetReadDeadline(t)
	}
	return os.ErrNoDeadline
}

// readFunc is an io.Reader.
type readFunc func(b []byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }
