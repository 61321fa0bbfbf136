//go:build unix

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/fleet/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echoes is a tool server that answers each request with its parameters; a method
// "never" is not answered.
func echoes(ctx context.Context, _ string, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 80<<20)
	for lines.Scan() {
		e, err := frame.Scan(lines.Bytes())
		if err != nil || !e.IsRequest() || e.Method == "never" {
			continue
		}
		fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", e.ID, e.Params)
	}
	return nil
}

// shortDir is a folder whose paths are short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fleet-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func run(t *testing.T, c Config) string {
	t.Helper()
	if c.Socket == "" {
		c.Socket = shortDir(t) + "/d.sock"
	}
	if c.Serve == nil {
		c.Serve = echoes
	}
	c.Version = "test"
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Run(ctx, c, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(c.Socket); err == nil {
			t.Error("the socket is left")
		}
	})
	return c.Socket
}

func TestWhereADaemonListens(t *testing.T) {
	t.Parallel()
	try := func(path string) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return Run(ctx, Config{Socket: path, Serve: echoes}, cancel)
	}
	dir := shortDir(t)
	file := dir + "/file"
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	open := dir + "/open"
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", dir+"/other.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/stale.sock"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	running := run(t, Config{})
	tests := []struct{ path, want string }{
		{dir + "/new/deep/d.sock", ""},
		{dir + "/stale.sock", ""},
		{file, "not a socket: it is left alone"},
		{dir + "/link", "not a socket: it is left alone"},
		{open + "/d.sock", "others may write"},
		{dir + "/other.sock", "served by another program"},
		{running, ErrRunning.Error()},
		{"relative.sock", "must be absolute"},
		{dir + "/" + strings.Repeat("x", 200), "at most 103"},
	}
	for _, tt := range tests {
		err := try(tt.path)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "precious" {
		t.Errorf("the file: %q, %v", got, err)
	}
	if info, err := os.Stat(running); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// peer is a front end in the raw.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *frame.Reader
}

func attach(t *testing.T, socket string) *peer {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "D"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if rest, _, err := frame.SkipTo(r, frame.Mark, 100); err != nil || rest != frame.Form {
		t.Fatalf("%q, %v", rest, err)
	}
	return &peer{t, c, frame.NewReader(r, 0)}
}

func (p *peer) send(k frame.Kind, body string) {
	p.t.Helper()
	if _, err := p.conn.Write(frame.Append(nil, k, []byte(body))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) next() (frame.Kind, string) {
	p.t.Helper()
	k, body, err := p.in.Next()
	if err != nil {
		p.t.Fatal(err)
	}
	return k, string(body)
}

func (p *peer) hello(h frame.Hello) (w frame.Welcome, refused *frame.Failure) {
	p.t.Helper()
	n, err := frame.Request(1, frame.OpHello, h)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := n.Encode()
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(frame.Control, string(body))
	_, answer := p.next()
	if n, err = frame.DecodeNote([]byte(answer)); err != nil {
		p.t.Fatal(err)
	}
	if n.Failed != nil {
		return w, n.Failed
	}
	if err := json.Unmarshal(n.OK, &w); err != nil {
		p.t.Fatal(err)
	}
	return w, nil
}

func (p *peer) gone() {
	p.t.Helper()
	for {
		if _, _, err := p.in.Next(); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				p.t.Error("the daemon keeps the connection")
			}
			return
		}
	}
}

var good = frame.Hello{MinProtocol: 1, MaxProtocol: 1, Capabilities: frame.Capabilities(), Front: "f", Surface: "s"}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	socket := run(t, Config{Surfaces: []string{"s"}})
	with := func(change func(*frame.Hello)) frame.Hello {
		h := good
		change(&h)
		return h
	}
	tests := []struct {
		h    frame.Hello
		want string
	}{
		{with(func(h *frame.Hello) { h.MaxProtocol, h.Capabilities = 7, nil }), ""},
		{with(func(h *frame.Hello) { h.MinProtocol, h.MaxProtocol, h.Version = 7, 8, "9" }), "topside 9 here and test there have no protocol in common; upgrade the far side"},
		{with(func(h *frame.Hello) { h.MinProtocol, h.MaxProtocol, h.Version = 0, 0, "0" }), "topside 0 here and test there have no protocol in common; upgrade this side"},
		{with(func(h *frame.Hello) { h.Surface = "x" }), "no tools by the name"},
		{with(func(h *frame.Hello) { h.Front = "" }), "needs a name"},
	}
	for _, tt := range tests {
		p := attach(t, socket)
		w, refused := p.hello(tt.h)
		got := ""
		if refused != nil {
			got = refused.Text
			p.gone()
		} else if w.Version != "test" || w.Instance == "" || w.Socket != socket || len(w.Capabilities) != len(tt.h.Capabilities) {
			t.Errorf("welcome %+v", w)
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q", tt.h, got)
		}
	}
}

func TestGarbageEndsAConnection(t *testing.T) {
	t.Parallel()
	socket := run(t, Config{})
	for _, wire := range []string{"nonsense", "C\x00\x00\x00\x02{}", "M\x00\x00\x00\x02{}", "C\xff\xff\xff\xff", "D\x00\x00\x00\x04\x00\x00\x00\x01"} {
		p := attach(t, socket)
		if _, err := io.WriteString(p.conn, wire); err != nil {
			t.Fatal(err)
		}
		p.conn.(*net.UnixConn).CloseWrite()
		p.gone()
	}
	for _, wire := range []string{"X", "M\x00\x00\x00\x03abc", `M` + "\x00\x00\x00\x15" + `{"id":"x","method":1}`, "C\x00\x00\x00\x01x"} {
		p := attach(t, socket)
		p.hello(good)
		if _, err := io.WriteString(p.conn, wire); err != nil {
			t.Fatal(err)
		}
		p.conn.(*net.UnixConn).CloseWrite()
		p.gone()
	}
	p := attach(t, socket)
	if w, refused := p.hello(good); refused != nil || w.Version != "test" {
		t.Errorf("after it: %+v, %v", w, refused)
	}
}

// Replies wait for a front end that comes back, and are sent once it says that it
// still awaits them.
func TestRepliesAreKept(t *testing.T) {
	t.Parallel()
	socket := run(t, Config{})
	p := attach(t, socket)
	p.hello(good)
	p.send(frame.Message, `{"id":1,"method":"a","params":"one"}`)
	if _, got := p.next(); !strings.Contains(got, `"one"`) {
		t.Fatal(got)
	}
	p.send(frame.Message, `{"id":2,"method":"never","params":0}`)
	p.send(frame.Message, `{"id":3,"method":"never","params":0}`)
	// Its reply tells that the two before it have been taken in.
	p.send(frame.Message, `{"id":5,"method":"a","params":"five"}`)
	if _, got := p.next(); !strings.Contains(got, `"five"`) {
		t.Fatal(got)
	}
	p.conn.Close()

	again := good
	again.Awaiting = []uint64{1, 2, 4}
	p = attach(t, socket)
	w, refused := p.hello(again)
	if refused != nil || !w.Resumed || fmt.Sprint(w.Replied, w.Running, w.Lost) != "[1] [2] [4]" {
		t.Fatalf("%+v, %v", w, refused)
	}
	if k, got := p.next(); k != frame.Message || !strings.Contains(got, `"one"`) {
		t.Errorf("%c %s", k, got)
	}

	// A second connection of the same front end takes the place of the first.
	second := attach(t, socket)
	second.hello(good)
	p.gone()

	// Its farewell ends it: nothing is resumed after that.
	second.send(frame.Control, `{"op":"bye"}`)
	second.gone()
	third := attach(t, socket)
	if w, _ := third.hello(again); w.Resumed || len(w.Lost) != 3 {
		t.Errorf("after the farewell: %+v", w)
	}
}

func TestASilentFrontEndIsDropped(t *testing.T) {
	t.Parallel()
	p := attach(t, run(t, Config{}))
	h := good
	h.PingMillis = 10
	p.hello(h)
	began := time.Now()
	p.gone()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("after %v", took)
	}
}

func TestPlainClients(t *testing.T) {
	t.Parallel()
	for plain, want := range map[string]string{"s": `{"jsonrpc":"2.0","id":"x","result":[1]}` + "\n", "": ""} {
		c, err := net.Dial("unix", run(t, Config{Plain: plain}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "\n "+`{"id":"x","method":"m","params":[1]}`+"\n"); err != nil {
			t.Fatal(err)
		}
		got, _ := bufio.NewReader(c).ReadString('\n') // the end where it is refused
		if got != want {
			t.Errorf("plain %q: %q", plain, got)
		}
		c.Close()
	}
}

func TestKeptRepliesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFront(newDaemon(context.Background(), Config{}.withDefaults()), "f", "s")
	big := bytes.Repeat([]byte("x"), maxKept/3)
	for i := range uint64(10) {
		id := i + 1
		f.running[id] = &call{}
		f.finish(id, big)
	}
	if f.bytes > maxKept+10*200 || len(f.kept) != 10 {
		t.Errorf("%d bytes in %d replies", f.bytes, len(f.kept))
	}
	if !strings.Contains(string(f.kept[0].body), "could not be kept") || len(f.kept[9].body) != len(big) {
		t.Errorf("first %.100s", f.kept[0].body)
	}
	f.got([]uint64{10})
	f.drop([]uint64{9})
	if len(f.kept) != 8 {
		t.Errorf("%d replies", len(f.kept))
	}
	f.kept, f.bytes, f.ring = nil, 0, 0
	f.at = &attachment{out: frame.NewWriter(io.Discard), ctx: context.Background()}
	defer f.at.out.Close()
	for i := range uint64(5000) {
		id := i + 1
		f.running[id] = &call{}
		f.finish(id, big[:1000])
	}
	if f.bytes > maxRing || len(f.kept) < 100 {
		t.Errorf("%d bytes in %d sent replies", f.bytes, len(f.kept))
	}
	f.d.cancel()
}

func TestStreamsKeepLines(t *testing.T) {
	t.Parallel()
	var took []string
	s := newStream(100, func(line []byte) { took = append(took, string(line)) })
	for _, part := range []string{"a", "b\n\nc", "d\r\n", "e\n"} {
		if n, err := io.WriteString(s, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if fmt.Sprint(took) != "[ab cd e]" {
		t.Errorf("took %q", took)
	}
	if _, err := s.Write(bytes.Repeat([]byte("x"), 101)); !errors.Is(err, frame.ErrTooLarge) {
		t.Errorf("too long: %v", err)
	}
	s = newStream(0, nil)
	for i := range maxWaiting + 1 {
		if ok := s.give([]byte("x")); ok != (i < maxWaiting) {
			t.Fatalf("line %d: %v", i, ok)
		}
	}
	s.Close()
	got, err := io.ReadAll(s)
	if err != nil || len(got) != 2*maxWaiting {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestTheDefaultPlaceIsThisMachines(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	got, err := ExpandSocket("")
	if err != nil || !strings.HasPrefix(got, home+"/.topside/run-") || filepath.Base(got) != "daemon.sock" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := ExpandSocket("~/a/../b.sock"); err != nil || got != home+"/b.sock" {
		t.Errorf("%q, %v", got, err)
	}
}

// A tool server that is busy with a line holds up neither pings nor the lines that
// wait for it, though it read the connection itself before.
func TestAToolServerThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	busy, free := make(chan struct{}), make(chan struct{})
	serve := func(ctx context.Context, surface string, conn net.Conn) error {
		near, far := net.Pipe()
		defer near.Close()
		go func() { _ = echoes(ctx, surface, far) }()
		go func() { _, _ = io.Copy(conn, near) }()
		lines := bufio.NewReader(conn)
		for n := 0; ; n++ {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return nil
			}
			if n == 3 {
				close(busy)
				<-free
			}
			if _, err := near.Write(line); err != nil {
				return nil
			}
		}
	}
	p := attach(t, run(t, Config{Serve: serve}))
	if _, refused := p.hello(frame.Hello{MinProtocol: 1, MaxProtocol: 1, Front: "a", Surface: "s"}); refused != nil {
		t.Fatal(refused)
	}
	call := func(id int) {
		p.send(frame.Message, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"echo","params":%d}`, id, id))
	}
	answered := func(id int) {
		t.Helper()
		if _, got := p.next(); got != fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%d}`, id, id) {
			t.Fatalf("answer %d: %s", id, got)
		}
	}
	for id := range 3 {
		call(id + 1)
		answered(id + 1)
	}
	call(4)
	<-busy
	call(5)
	for range 3 {
		p.send(frame.Control, `{"id":7,"op":"ping"}`)
		if k, got := p.next(); k != frame.Control || !strings.Contains(got, `"id":7`) {
			t.Fatalf("%c %s", k, got)
		}
	}
	close(free)
	answered(4)
	answered(5)
	call(6)
	answered(6)
}
