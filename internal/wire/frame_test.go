package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func readAll(r io.Reader, max int) (lines []string, err error) {
	f := newFrameReader(r, max)
	for {
		line, err := f.next()
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

func TestFrameLimit(t *testing.T) {
	t.Parallel()
	for _, max := range []int{1, 10, startBuffer - 1, startBuffer, startBuffer + 1, 3 * startBuffer} {
		fits := strings.Repeat("x", max)
		for _, end := range []string{"\n", "\r\n", "", "\nrest\n"[:1]} {
			lines, err := readAll(strings.NewReader(fits+end), max)
			if err != io.EOF || len(lines) != 1 || lines[0] != fits {
				t.Errorf("limit %d, end %q: %d lines, %v", max, end, len(lines), err)
			}
			_, err = readAll(iotest.OneByteReader(strings.NewReader(fits+"x"+end)), max)
			if !errors.Is(err, ErrFrameTooLarge) {
				t.Errorf("limit %d, one more, end %q: %v", max, end, err)
			}
		}
	}
}

// TestFrameMemory: the buffer never grows beyond the limit, whatever arrives, and
// is small again after a long line.
func TestFrameMemory(t *testing.T) {
	t.Parallel()
	const max = 4 << 20
	long := strings.Repeat("y", max)
	f := newFrameReader(strings.NewReader(long+"\nshort\n"+long+long), max)
	if line, err := f.next(); err != nil || len(line) != max {
		t.Fatal(len(line), err)
	}
	if cap(f.buf) > startBuffer {
		t.Errorf("buffer of %d bytes kept", cap(f.buf))
	}
	if line, err := f.next(); err != nil || string(line) != "short" {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := f.next(); !errors.Is(err, ErrFrameTooLarge) {
		t.Fatal(err)
	}
	if cap(f.buf) > max+2 {
		t.Errorf("buffer of %d bytes for a limit of %d", cap(f.buf), max)
	}
}

// TestLinesAreOwned: a line stays as it was when more are read.
func TestLinesAreOwned(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	var want []string
	for i := range 50 {
		line := strings.Repeat(string(rune('a'+i%26)), 1+i*i*60)
		want = append(want, line)
		in.WriteString(line + "\n")
	}
	f := newFrameReader(iotest.HalfReader(strings.NewReader(in.String())), 1<<20)
	var got [][]byte
	for {
		line, err := f.next()
		if err != nil {
			break
		}
		got = append(got, line)
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines", len(got))
	}
	for i := range got {
		if string(got[i]) != want[i] {
			t.Fatalf("line %d changed", i)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("a\nbb\r\n\n  \nccc"), 4)
	f.Add([]byte("\xef\xbb\xbf{}\n\xef\xbb\xbf\n"), 100)
	f.Add([]byte("toolong\nx"), 3)
	f.Fuzz(func(t *testing.T, in []byte, max int) {
		if max < 1 || max > 1<<20 {
			max = 1 + (max&0xffff+0x10000)&0xffff
		}
		got, err := readAll(iotest.HalfReader(bytes.NewReader(in)), max)
		var want []string
		wantErr := io.EOF
		for i, line := range bytes.Split(in, []byte("\n")) {
			if len(bytes.TrimSuffix(line, []byte("\r"))) > max {
				// A last line has no line feed that a CR could belong to.
				wantErr = ErrFrameTooLarge
				break
			}
			if i == bytes.Count(in, []byte("\n")) && len(line) > max {
				wantErr = ErrFrameTooLarge
				break
			}
			if i == 0 {
				line = bytes.TrimPrefix(line, byteOrderMark)
			}
			if line = bytes.Trim(line, " \t\r"); len(line) > 0 {
				want = append(want, string(line))
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || !errors.Is(err, wantErr) {
			t.Errorf("max %d: got %q %v, want %q %v", max, got, err, want, wantErr)
		}
	})
}

// FuzzMessage compares the cut at the top level with the decoder of encoding/json
// and requires that every message is safe to hand on.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"a":{"b":[1,{"c":"}\""}]},"d":1e5}`, `[1,[2],"],"]`, `{"\u0069d":"\u0000n1","x" : null }`,
		`{"jsonrpc":"2.0","id":1e400,"method":"tools/call","params":{"name":"a","arguments":null,"_meta":{}}}`, `{"id":5,"error":[]}`, `[]`, `""`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"roots":7},"_meta":null}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		in = bytes.Trim(in, " \t\r\n")
		err := checkJSON(in)
		if err == nil != (json.Valid(in) && depth(in) <= maxDepth && bytes.Equal(bytes.ToValidUTF8(in, []byte("?")), in)) {
			t.Fatalf("%q: %v", in, err)
		}
		if err != nil {
			return
		}
		var object map[string]json.RawMessage
		if in[0] == '{' && json.Unmarshal(in, &object) == nil {
			mine := map[string]json.RawMessage{}
			for k, v := range members(in) {
				mine[k] = v
			}
			if len(mine) != len(object) {
				t.Fatalf("%q: members %q, want %q", in, mine, object)
			}
			for k, v := range object {
				if !bytes.Equal(mine[k], v) {
					t.Fatalf("%q: member %q is %q, want %q", in, k, mine[k], v)
				}
			}
		}
		var array []json.RawMessage
		if in[0] == '[' && json.Unmarshal(in, &array) == nil {
			i := 0
			for v := range elements(in) {
				if i >= len(array) || !bytes.Equal(v, array[i]) {
					t.Fatalf("%q: element %d is %q", in, i, v)
				}
				i++
			}
			if i != len(array) {
				t.Fatalf("%q: %d elements, want %d", in, i, len(array))
			}
		}
		m := parseMessage(in, leniency{noVersion: true})
		if m.kind == request || m.kind == notification {
			if m.params != nil && m.params[0] != '{' {
				t.Fatalf("params %q", m.params)
			}
			isSessionless(m.params)
			if p := mendParams(m.method, m.params); p != nil && !json.Valid(p) {
				t.Fatalf("mended into %q", p)
			}
		}
		if m.kind == request && !m.id.IsValid() {
			t.Fatalf("%q: no id", in)
		}
		line := appendError(nil, m.rawID, &jsonrpc.Error{Code: 1})
		if !json.Valid(line) {
			t.Fatalf("reply %q", line)
		}
	})
}

// TestBatchBomb: a batch of a million faults is refused as one.
func TestBatchBomb(t *testing.T) {
	t.Parallel()
	c := serve(t, testServer(nil), Options{})
	c.send("[" + strings.Repeat("1,", 1e6) + "1]")
	c.want(`"id":null,"error":{"code":-32600`, "1024")
	c.send(ping7)
	c.want(`"id":7`)
	runtime.GC()
}

// Clients together hold a bounded amount of memory in lines that they do not
// finish, and what a departed client held is there for the next.
func TestUnfinishedLongLinesOfAllClientsAreBounded(t *testing.T) {
	half := strings.Repeat("x", 40<<20)
	var readers []*frameReader
	refusals := 0
	for range 8 {
		f := newFrameReader(io.MultiReader(strings.NewReader(half), endless{}), 64<<20)
		readers = append(readers, f)
		// Each wants 64 MiB in the end, and gets there or is refused.
		for f.end < len(half) {
			if !f.fill() {
				refusals++
				break
			}
			f.seen = f.end
		}
	}
	if refusals == 0 || longLines.Load() > longAltogether {
		t.Errorf("%d of 8 were refused, %d bytes are held", refusals, longLines.Load())
	}
	for _, f := range readers {
		f.unhold()
	}
	if held := longLines.Load(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// endless never ends and gives nothing new.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, "x"), nil }
