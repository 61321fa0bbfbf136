package proc

import (
	"errors"
	"testing"
)

func TestIO(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	io, err := f.IO(26231)
	expected := IO{ReadBytes: 1024, WriteBytes: 2048, ReadChars: 750339, WriteChars: 818609, ReadSyscalls: 7405, WriteSyscalls: 5245}
	if err != nil || io != expected {
		t.Errorf("%+v %v", io, err)
	}
	if _, err := f.IO(26232); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
	for _, wrong := range []string{"", "rchar: 1\n", "rchar: x\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 1\nwrite_bytes: 1\ncancelled_write_bytes: 1\n"} {
		if io, err := ParseIO([]byte(wrong)); !errors.Is(err, ErrMalformed) || io != (IO{}) {
			t.Errorf("%q: %+v %v", wrong, io, err)
		}
	}
}
