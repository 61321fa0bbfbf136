package frame

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFramesComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type one struct {
			kind Kind
			body []byte
		}
		frames := rapid.SliceOf(rapid.Custom(func(t *rapid.T) one {
			k := rapid.SampledFrom([]Kind{Message, Control, Data}).Draw(t, "kind")
			body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
			if k == Data {
				body = append([]byte{0, 0, 0, 1}, body...)
			}
			return one{k, body}
		})).Draw(t, "frames")
		var wire []byte
		for _, f := range frames {
			wire = Append(wire, f.kind, f.body)
		}
		r := NewReader(iotest.OneByteReader(bytes.NewReader(wire)), 0)
		for _, f := range frames {
			k, body, err := r.Next()
			if err != nil || k != f.kind || !bytes.Equal(body, f.body) {
				t.Fatalf("got %c %q, %v; want %c %q", k, body, err, f.kind, f.body)
			}
		}
		if _, _, err := r.Next(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func TestBadFrames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, wire string
		want       error
	}{
		{"another kind", "X\x00\x00\x00\x01a", ErrGarbage},
		{"text", "Welcome to this host\n", ErrGarbage},
		{"over the limit", "M\x00\x01\x00\x00", ErrTooLarge},
		{"4 GiB", "C\xff\xff\xff\xff", ErrTooLarge},
		{"data of no stream", "D\x00\x00\x00\x02ab", ErrGarbage},
		{"too much data", "D\x00\x10\x00\x00", ErrTooLarge},
		{"cut in the head", "M\x00", io.ErrUnexpectedEOF},
		{"cut in the body", "M\x00\x00\x00\x05ab", io.ErrUnexpectedEOF},
		{"nothing", "", io.EOF},
	}
	for _, tt := range tests {
		_, _, err := NewReader(strings.NewReader(tt.wire), 1000).Next()
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestMessagesOvertakeData(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	w := NewWriter(near)
	defer far.Close()
	defer near.Close()
	defer w.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	chunk := make([]byte, 1000)
	sent := make(chan error, 1)
	go func() {
		for range 10 {
			if err := w.SendData(ctx, 7, chunk); err != nil {
				sent <- err
				return
			}
		}
		sent <- w.SendInOrder(ctx, Control, []byte(`{"op":"end"}`))
	}()
	time.Sleep(20 * time.Millisecond)
	if err := w.Send(ctx, Message, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	var order []byte
	r := NewReader(far, 0)
	for range 12 {
		k, _, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, byte(k))
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if at := bytes.IndexByte(order, 'M'); at > 3 {
		t.Errorf("the message came as number %d: %s", at, order)
	}
	if order[11] != 'C' {
		t.Errorf("the end overtook the data: %s", order)
	}
}

func TestAWriterThatIsStuckHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe() // nobody reads
	w := NewWriter(near)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var err error
	for range 100_000 {
		if err = w.Send(ctx, Message, []byte("{}")); err != nil {
			break
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	far.Close()
	<-w.Failed()
	if err := w.Send(context.Background(), Message, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after it: %v", err)
	}
	w.Close()
	near.Close()
}

func TestTheBeginningIsFoundBehindABanner(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in, rest string
		bad      bool
	}{
		{"TOPSIDE-FLEET/1\nM", "1", false},
		{"hello\r\n\r\nTOPSIDE-FLEET/1\r\n", "1", false},
		{"prompt> TOPSIDE-FLEET/none topup /home/a b\n", "none topup /home/a b", false},
		{strings.Repeat("x", 100<<10) + "\nTOPSIDE-FLEET/1\n", "", true},
		{strings.Repeat("x\n", 50<<10) + "TOPSIDE-FLEET/1\n", "", true},
		{"bash: topside: command not found\n", "", true},
		{"TOPSIDE-FLEET/1", "", true},
	}
	for _, tt := range tests {
		rest, _, err := SkipTo(bufio.NewReader(strings.NewReader(tt.in)), Mark, 64<<10)
		if rest != tt.rest || (err != nil) != tt.bad {
			t.Errorf("%.40q: %q, %v", tt.in, rest, err)
		}
	}
}

func TestVersionsAgree(t *testing.T) {
	t.Parallel()
	p, c, err := Agree("1", Hello{MinProtocol: 1, MaxProtocol: 9, Capabilities: []string{"later", CanFiles}})
	if err != nil || p != MaxProtocol || len(c) != 1 || c[0] != CanFiles {
		t.Errorf("a later one: %d %v %v", p, c, err)
	}
	_, _, err = Agree("1.0", Hello{MinProtocol: 8, MaxProtocol: 9, Version: "9.0"})
	var i *IncompatibleError
	if !errors.As(err, &i) || !i.UpgradeNear {
		t.Errorf("much later: %v", err)
	}
	_, _, err = Agree("1.0", Hello{MinProtocol: 0, MaxProtocol: 0, Version: "0.1"})
	if !errors.As(err, &i) || i.UpgradeNear {
		t.Errorf("much earlier: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(Append(Append(nil, Message, []byte(`{}`)), Data, []byte("\x00\x00\x00\x01abc")))
	f.Add([]byte("M\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := NewReader(bytes.NewReader(wire), 1<<16)
		var again []byte
		for {
			k, body, err := r.Next()
			if err != nil {
				break
			}
			again = Append(again, k, body)
		}
		if !bytes.HasPrefix(wire, again) {
			t.Errorf("%q became %q", wire, again)
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":{}}`))
	f.Add([]byte("\n{\"id\":null,\n \"result\":[1]}\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		lines := NewLines(bytes.NewReader(b), 1000)
		for {
			line, err := lines.Next()
			if err != nil {
				break
			}
			if len(line) == 0 || len(line) > 1002 || bytes.IndexByte(line, '\n') >= 0 {
				t.Errorf("line %q", line)
			}
			e, err := Scan(line)
			if err != nil {
				continue
			}
			n := 0
			for _, is := range []bool{e.IsRequest(), e.IsNotification(), e.IsResponse()} {
				if is {
					n++
				}
			}
			if n > 1 {
				t.Errorf("%q is %d things", line, n)
			}
			if e.ID != nil && !json.Valid(ErrorReply(e.ID, 1, "x")) {
				t.Errorf("error reply to %q", e.ID)
			}
		}
		_, _ = DecodeNote(b)
		_, _, _ = SkipTo(bufio.NewReader(bytes.NewReader(b)), Mark, 100)
	})
}
