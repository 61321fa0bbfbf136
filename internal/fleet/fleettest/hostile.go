package fleettest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"topside/internal/fleet/frame"
)

// Hostile is a far side that misbehaves, as a program: it speaks on standard input
// and output in place of the relay. Modes:
//
//	garbage     bytes that are no frames, after a good beginning
//	noise       endless text in place of a beginning
//	mute        nothing, ever
//	deaf        a good handshake, then no answer to anything, and nothing is read
//	silent      a good handshake, then no answer to calls
//	late        answers after 700 ms
//	half        dies in the middle of a frame
//	huge        announces a frame of 4 GiB
//	large       announces 60 MiB and sends nothing
//	flood       messages that nobody asked for, as fast as they go
//	requests    requests to this side, as fast as they go
//	replies     an answer to every number but the right one
//	data        data on a stream, without regard to the window
//	future      a protocol that nobody knows yet
//	nonsense    JSON of wrong shapes
//	escape      a listing and files that leave their folder
func Hostile(mode string) int {
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	in := frame.NewReader(os.Stdin, 0)
	h := &hostile{out: out, in: in}
	switch mode {
	case "noise":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("welcome! ", 100) + "\n"); err != nil {
				return 1
			}
		}
	case "mute":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	fmt.Fprintf(out, "a banner\n%s%s\n", frame.Mark, frame.Form)
	out.Flush()
	if mode == "garbage" {
		_, _ = os.Stdout.WriteString("\x1b[31mthis is not a frame at all\n\x00\x00")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	if !h.hello(mode) {
		return 1
	}
	switch mode {
	case "deaf":
		time.Sleep(time.Hour)
	case "half":
		h.next() // the first call
		h.raw(append([]byte{'M', 0, 0, 1, 0}, "{\"jsonrpc\":"...))
		return 0
	case "huge":
		h.raw([]byte{'M', 0xff, 0xff, 0xff, 0xff})
	case "large":
		h.raw([]byte{'M', 3, 0xc0, 0, 0})
	case "flood":
		for h.send(frame.Message, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":"`+strings.Repeat("y", 1000)+`"}}`) {
		}
		return 1
	case "requests":
		for i := 1; h.send(frame.Message, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"_send_blob","arguments":{"path":"/etc/passwd"}}}`, i)); i++ {
		}
		return 1
	case "data":
		b := make([]byte, 4+frame.MaxChunk)
		b[3] = 1
		for i := 0; i < 4096 && h.send(frame.Data, string(b)); i++ {
		}
	case "nonsense":
		for _, m := range []string{`{"jsonrpc":"2.0","id":1}`, `{"id":"x","result":3}`, `{"id":[1],"result":3}`, `{"method":7}`} {
			h.send(frame.Message, m)
		}
	}
	for {
		kind, body, ok := h.next()
		if !ok {
			return 0
		}
		h.answer(mode, kind, body)
	}
}

type hostile struct {
	out *bufio.Writer
	in  *frame.Reader
}

func (h *hostile) raw(b []byte) bool {
	_, err := h.out.Write(b)
	return err == nil && h.out.Flush() == nil
}

func (h *hostile) send(k frame.Kind, body string) bool {
	return h.raw(frame.Append(nil, k, []byte(body)))
}

// next returns what comes next, pings aside.
func (h *hostile) next() (frame.Kind, []byte, bool) {
	for {
		kind, body, err := h.in.Next()
		if err != nil {
			return 0, nil, false
		}
		if kind == frame.Control {
			if n, err := frame.DecodeNote(body); err == nil && n.Op == frame.OpPing {
				h.reply(n.ID, struct{}{})
				continue
			}
		}
		return kind, body, true
	}
}

func (h *hostile) reply(id uint64, ok any) {
	if b, err := frame.Answer(id, ok, nil).Encode(); err == nil {
		h.send(frame.Control, string(b))
	}
}

func (h *hostile) hello(mode string) bool {
	_, body, ok := h.next()
	if !ok {
		return false
	}
	n, err := frame.DecodeNote(body)
	if err != nil {
		return false
	}
	w := frame.Welcome{Protocol: 1, Version: "hostile", Capabilities: frame.Capabilities(), KeepSeconds: 60}
	if mode == "future" {
		w.Protocol = 99
	}
	h.reply(n.ID, w)
	return true
}

func (h *hostile) answer(mode string, kind frame.Kind, body []byte) {
	if kind == frame.Control {
		n, err := frame.DecodeNote(body)
		if err == nil && mode == "escape" {
			h.escape(n)
		}
		return
	}
	e, err := frame.Scan(body)
	if err != nil || !e.IsRequest() {
		return
	}
	switch mode {
	case "silent", "large", "huge", "nonsense", "data":
		return
	case "late":
		time.Sleep(700 * time.Millisecond)
	case "replies":
		for i := range 10000 {
			h.send(frame.Message, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"forged"}`, 100000+i))
		}
	}
	h.send(frame.Message, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":"late"}`, e.ID))
}

// escape answers a pull with names that lead out of the folder.
func (h *hostile) escape(n frame.Note) {
	var a struct {
		Stream uint32 `json:"stream"`
		Path   string `json:"path"`
	}
	if json.Unmarshal(n.Args, &a) != nil {
		return
	}
	switch n.Op {
	case "file.stat":
		h.reply(n.ID, map[string]any{"path": a.Path, "kind": "folder", "mode": 0o755})
	case "file.walk":
		h.reply(n.ID, map[string]any{"path": a.Path, "mode": 0o755})
		list := `{"path":"` + strings.TrimPrefix(a.Path, "/list:") + `","kind":"file","size":3,"mode":420}` + "\n"
		b := append([]byte{0, 0, 0, byte(a.Stream)}, list...)
		h.send(frame.Data, string(b))
		note, err := frame.Request(0, "file.end", map[string]any{"stream": a.Stream})
		if err != nil {
			return
		}
		if b, err := note.Encode(); err == nil {
			h.send(frame.Control, string(b))
		}
	}
}
