//go:build linux

package fleet

// This file puts peers behind the sockets of hosts that answer wrongly, too much, or
// not at all, and that ask for what they must not have.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A peerScript answers a call of a tool; what it returns is the result's text. ok is
// false if it has answered, or will not.
type peerScript func(p *fakePeer, id json.RawMessage, tool string) (text string, ok bool)

type fakePeer struct {
	conn  net.Conn
	lines *bufio.Reader
}

func (p *fakePeer) say(format string, args ...any) bool {
	_, err := fmt.Fprintf(p.conn, format+"\n", args...)
	return err == nil
}

// peerBehind serves a socket until the end of the test.
func peerBehind(t *testing.T, socket string, script peerScript) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			(&fakePeer{conn, bufio.NewReader(conn)}).serve(script)
			conn.Close()
		}
	}()
}

func (p *fakePeer) serve(script peerScript) {
	for {
		line, err := p.lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue
		}
		text, ok := "ok", true
		switch {
		case m.Method == "initialize":
			if !p.say(`{"jsonrpc":"2.0","id":%s,"result":{"serverInfo":{"name":"topup","version":"0.1.0"}}}`, m.ID) {
				return
			}
			continue
		case m.Params.Name != "_enable_back_channel":
			text, ok = script(p, m.ID, m.Params.Name)
		}
		if ok {
			encoded, err := json.Marshal(text)
			if err != nil || !p.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}],"isError":false}}`, m.ID, encoded) {
				return
			}
		}
	}
}

// always answers every call with one text.
func always(text string) peerScript {
	return func(*fakePeer, json.RawMessage, string) (string, bool) { return text, true }
}

func TestPeersThatAnswerWrongly(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir, err := os.MkdirTemp("/tmp", "tu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	eval, pull := "eval", "pull_file"
	for name, c := range map[string]struct {
		script peerScript
		tool   string
		want   string // all of it, if it ends with "$"
	}{
		"refuses": {func(p *fakePeer, id json.RawMessage, _ string) (string, bool) {
			p.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"not today"}}`, id)
			return "", false
		}, eval, "remote refuses: not today$"},
		"nodata":  {always(`{"path":"x","bytes":1}`), pull, "remote nodata: remote response missing 'data'$"},
		"nojson":  {always(`hello`), pull, "remote nojson: remote response missing 'data'$"},
		"padding": {always(`{"path":"x","data":"YQ","bytes":1}`), pull, "remote padding: base64 decode: Wrong padding$"},
		"letters": {always(`{"path":"x","data":"%%%%","bytes":1}`), pull, "remote letters: base64 decode: Malformed input$"},
		"large":   {always(`{"path":"x","data":"` + strings.Repeat("AAAA", 40) + `","bytes":1}`), pull, "payload too large: 120 bytes; cap is 100 (TOPUP_XFER_MAX_BYTES)$"},
		"empty": {func(p *fakePeer, id json.RawMessage, _ string) (string, bool) {
			p.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
			return "", false
		}, pull, "remote empty: remote response has no content$"},
		"array": {func(p *fakePeer, id json.RawMessage, _ string) (string, bool) {
			p.say(`{"jsonrpc":"2.0","id":%s,"result":[1]}`, id)
			return "", false
		}, eval, "the peer's result is not an object$"},
		"hangs-up": {func(p *fakePeer, _ json.RawMessage, _ string) (string, bool) {
			p.conn.Close()
			return "", false
		}, eval, "remote hangs-up: remote hangs-up: channel: closed before response: "},
		"half": {func(p *fakePeer, id json.RawMessage, _ string) (string, bool) {
			fmt.Fprintf(p.conn, `{"jsonrpc":"2.0","id":%s,"res`, id)
			p.conn.Close()
			return "", false
		}, eval, "remote half: remote half: channel: closed before response: "},
		"garbage": {func(p *fakePeer, _ json.RawMessage, _ string) (string, bool) {
			p.say("Welcome to this host!\x1b[0m")
			return "", false
		}, eval, "remote garbage: remote garbage: channel: closed before response: "},
		"floods": {func(p *fakePeer, _ json.RawMessage, _ string) (string, bool) {
			for p.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"spam"}}`) {
			}
			return "", false
		}, eval, "remote floods: remote floods: channel: closed before response: "},
		"endless": {func(p *fakePeer, _ json.RawMessage, _ string) (string, bool) {
			block := []byte(strings.Repeat("x", 1<<20))
			for {
				if _, err := p.conn.Write(block); err != nil {
					return "", false
				}
			}
		}, eval, "remote endless: remote endless: channel: closed before response: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(dir, name)
			peerBehind(t, socket, c.script)
			f, err := runTopup(nearSide(home, "TOPUP_HOSTS_FILE=off", "TOPUP_XFER_MAX_BYTES=100", "TOPUP_HOST_SOCKET_"+strings.ToUpper(name)+"="+socket))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.kill)
			f.must(t, "start_session", map[string]any{"host": name})
			began := time.Now()
			text := f.fails(t, strings.TrimSuffix(c.want, "$"), c.tool, map[string]any{"host": name, "source": "1;;", "remote_path": "/x", "local_path": filepath.Join(t.TempDir(), "x")})
			if want, exact := strings.CutSuffix(c.want, "$"); exact && text != want {
				t.Errorf("%q, want %q", text, want)
			}
			if took := time.Since(began); took > told {
				t.Errorf("it took %v", took)
			}
			// Whatever it did, this side goes on.
			f.must(t, "cancel", map[string]any{})
			if status, err := f.end(told); status != 0 || err != nil {
				t.Errorf("%d, %v", status, err)
			}
		})
	}
}

// TestAPeerThatNeverAnswers: a cancelled call ends, its peer or no.
func TestAPeerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortFolder(t), "s")
	peerBehind(t, socket, func(*fakePeer, json.RawMessage, string) (string, bool) { return "", false })
	f, err := runTopup(nearSide(t.TempDir(), "TOPUP_HOST_SOCKET_T="+socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.kill)
	f.must(t, "start_session", map[string]any{"host": "t"})
	id, err := f.beginTool("eval", map[string]any{"host": "t", "source": "1;;"})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f.must(t, "cancel", map[string]any{"host": "t"})
	if text, isError, err := f.finish(id); err != nil || !isError || text != "remote t: remote t: cancelled" {
		t.Errorf("%v %v %q", err, isError, text)
	}
	f.must(t, "restart_session", map[string]any{"host": "t"})
	if took := time.Since(began); took > told {
		t.Errorf("it took %v", took)
	}
	if status, err := f.end(told); status != 0 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}

func shortFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestAPeerThatAsks: a host may ask for the two hidden tools, confined, and for
// nothing else.
func TestAPeerThatAsks(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(shortFolder(t), "s")
	asked := []struct{ method, params, want string }{
		{"tools/call", `{"name":"_send_blob","arguments":{"path":"` + home + `/secret"}}`, `"isError":true`},
		{"tools/call", `{"name":"_send_blob","arguments":{"path":"../../secret"}}`, "path escapes back-channel root"},
		{"tools/call", `{"name":"_recv_blob","arguments":{"path":"../../.bashrc","data":"eA=="}}`, "path escapes back-channel root"},
		{"tools/call", `{"name":"_recv_blob","arguments":{"path":"in","data":"eA=="}}`, `"isError":false`},
		{"tools/call", `{"name":"eval","arguments":{"source":"1;;"}}`, "-32601"},
		{"tools/call", `{"name":"pull_file","arguments":{"host":"t"}}`, "-32601"},
		{"tools/list", `{}`, "-32601"},
		{"sampling/createMessage", `{}`, "-32601"},
	}
	answers := make(chan string, len(asked))
	peerBehind(t, socket, func(p *fakePeer, _ json.RawMessage, _ string) (string, bool) {
		for i, a := range asked {
			p.say(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i+1, a.method, a.params)
			line, err := p.lines.ReadString('\n')
			if err != nil {
				break
			}
			answers <- line
		}
		close(answers)
		return "done", true
	})
	f, err := runTopup(nearSide(home, "TOPUP_HOST_SOCKET_T="+socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.kill)
	f.must(t, "start_session", map[string]any{"host": "t"})
	f.must(t, "eval", map[string]any{"host": "t", "source": "1;;"})
	i := 0
	for line := range answers {
		if !strings.Contains(line, asked[i].want) || strings.Contains(line, "c2VjcmV0") {
			t.Errorf("%s %s: %s", asked[i].method, asked[i].params, line)
		}
		i++
	}
	if i != len(asked) {
		t.Errorf("%d answers of %d", i, len(asked))
	}
	if _, err := os.Lstat(filepath.Join(home, ".bashrc")); err == nil {
		t.Error("it wrote outside")
	}
}
