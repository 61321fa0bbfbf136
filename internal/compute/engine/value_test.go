package engine

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyValue generates protocol values up to a depth.
func anyValue(depth int) *rapid.Generator[Value] {
	return rapid.Custom(func(t *rapid.T) Value {
		kinds := 3
		if depth > 0 {
			kinds = 5
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Int64().Draw(t, "int")
		case 2:
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		case 3:
			return List(rapid.SliceOfN(anyValue(depth-1), 0, 4).Draw(t, "list"))
		}
		d := Dict{}
		for range rapid.IntRange(0, 4).Draw(t, "pairs") {
			d = append(d, Pair{rapid.String().Draw(t, "key"), anyValue(depth-1).Draw(t, "value")})
		}
		return d
	})
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(4).Draw(t, "v")
		got, err := Decode(Append(nil, v))
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("%#v became %#v: %v", v, got, err)
		}
	})
}

// TestFramesInPieces: a stream may be cut at any byte.
func TestFramesInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want []Dict
		for range rapid.IntRange(1, 5).Draw(t, "messages") {
			d := Dict{{"op", string(rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "text"))}}
			want = append(want, d)
			stream = AppendFrame(stream, d)
		}
		var f frames
		var got []Dict
		for len(stream) > 0 {
			n := copy(f.room(), stream[:rapid.IntRange(1, len(stream)).Draw(t, "piece")])
			f.fill(n)
			stream = stream[n:]
			for {
				d, ok, err := f.next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				got = append(got, d)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%d messages, want %d", len(got), len(want))
		}
	})
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "x", "i5", "ie", "i99999999999999999999e", "5:abc", "-1:a", "99999999999:", "l", "d", "d1:a", "di5e", "nn", "d1:ae", strings.Repeat("l", 100) + strings.Repeat("e", 100)} {
		if v, err := Decode([]byte(s)); err == nil {
			t.Errorf("%q decodes to %#v", s, v)
		}
	}
}

// FuzzDecode: whatever a child writes, decoding ends without a panic, and what decodes is written the same again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("d2:op4:eval3:seqi7e5:valuen5:errord5:phase7:runtimee7:phrasesld5:starti0eeee"))
	f.Add([]byte("li1ei-1e0:n5:\x00\xff\x01\x02\x03e"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, v))
		if err != nil || !reflect.DeepEqual(v, again) {
			t.Fatalf("%q: %v %v", b, v, err)
		}
		if d, ok := v.(Dict); ok {
			parseReply(d)
			parseBinding(d)
		}
	})
}

// FuzzFrames: a stream of arbitrary bytes is cut into messages or refused, and never asks for absurd memory.
func FuzzFrames(f *testing.F) {
	f.Add(AppendFrame(AppendFrame(nil, Dict{{"op", "ready"}}), Dict{{"op", "keeper"}, {"pid", int64(4)}}), 3)
	f.Add([]byte{255, 255, 255, 255, 1}, 1)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		var fr frames
		r := bytes.NewReader(b)
		for r.Len() > 0 {
			room := fr.room()
			if len(room) == 0 || len(room) > 4<<20 {
				t.Fatalf("room of %d", len(room))
			}
			n, _ := r.Read(room[:min(len(room), max(1, piece%64))])
			fr.fill(n)
			for {
				if _, ok, err := fr.next(); err != nil {
					return
				} else if !ok {
					break
				}
			}
		}
	})
}

func TestBacktrace(t *testing.T) {
	t.Parallel()
	text := "Raised at Stdlib.failwith in file \"stdlib.ml\", line 29, characters 17-33\nCalled from f in file \"<eval>\", line 2, characters 4-9\nRe-raised at g in file \"a.ml\" (inlined), lines 3-4, characters 1-2\nCalled from unknown location\n"
	want := []Location{{"stdlib.ml", 29, 17, 29, 33}, {"<eval>", 2, 4, 2, 9}, {"a.ml", 3, 1, 4, 2}}
	if got := ParseBacktrace(text); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := ParseBacktrace(strings.Repeat(text, 100)); len(got) != maxFrames {
		t.Errorf("%d frames", len(got))
	}
}

func TestCleanEnv(t *testing.T) {
	t.Parallel()
	got := CleanEnv([]string{"PATH=/bin", "GITHUB_TOKEN=x", "AWS_SECRET_ACCESS_KEY=x", "OPENAI_API_KEY=x", "HOME=/a", "NOTIFY_SOCKET=/s", "DB_PASSWORD=x", "=odd", "OCAMLRUNPARAM=b"}, []string{"HOME=/b", "OCAMLRUNPARAM=l=1M"})
	if strings.Join(got, " ") != "PATH=/bin HOME=/b OCAMLRUNPARAM=l=1M" {
		t.Error(got)
	}
}
