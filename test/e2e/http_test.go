//go:build linux

package e2e

// Streamable HTTP: who is let in, that clients share what is computed, and how the
// server ends.

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/test/bed"
)

const httpToken = "a-token-for-the-tests-alone"

var servedAt = regexp.MustCompile(`serving (http://\S+);`)

// serveHTTP starts a server on a free port and waits for its URL.
func serveHTTP(t *testing.T, env ...string) (s *bed.Server, url string) {
	t.Helper()
	home := t.TempDir()
	env = append([]string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_STATE_HOME=" + home}, env...)
	s = bed.Start(t, []string{"mcp", "--http", "127.0.0.1:0", "--no-engines", "--engine", "javascript"}, bed.Env(env...))
	serves(t, s, "URL", func() bool {
		m := servedAt.FindStringSubmatch(s.Stderr())
		if m != nil {
			url = m[1]
		}
		return m != nil
	})
	return s, url
}

// A bearer adds a token, and other headers, to requests.
type bearer struct {
	token  string
	header http.Header
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range b.header {
		r.Header[name] = values
	}
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, url, token string) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer{token: token}}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func textOf(t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Patience)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return ""
	}
	return result.Content[0].(*mcp.TextContent).Text
}

func TestHTTPLetsInWhoKnowsTheToken(t *testing.T) {
	t.Parallel()
	s, url := serveHTTP(t, "TOPSIDE_HTTP_TOKEN="+httpToken)
	base := strings.TrimSuffix(url, "/mcp")
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for _, c := range []struct {
		name, method, url, body string
		bearer                  bearer
		host                    string
		want                    int
	}{
		{name: "none", url: url, body: hello, want: 401},
		{name: "another", url: url, body: hello, bearer: bearer{token: httpToken + "x"}, want: 401},
		{name: "a part", url: url, body: hello, bearer: bearer{token: httpToken[:20]}, want: 401},
		{name: "another scheme", url: url, body: hello, bearer: bearer{header: http.Header{"Authorization": {"Basic " + httpToken}}}, want: 401},
		{name: "a page of another origin", url: url, body: hello, bearer: bearer{httpToken, http.Header{"Origin": {"https://example.com"}}}, want: 403},
		{name: "a name bound to the address", url: url, body: hello, bearer: bearer{token: httpToken}, host: "example.com", want: 403},
		{name: "no JSON", url: url, body: "hello", bearer: bearer{token: httpToken}, want: 400},
		{name: "another method", method: "PUT", url: url, body: hello, bearer: bearer{token: httpToken}, want: 405},
		{name: "another path", url: base + "/other", body: hello, bearer: bearer{token: httpToken}, want: 404},
		{name: "too long", url: url, body: strings.Repeat(" ", 65<<20), bearer: bearer{token: httpToken}, want: 413},
		{name: "the token", url: url, body: hello, bearer: bearer{token: httpToken}, want: 200},
	} {
		method := c.method
		if method == "" {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(t.Context(), method, c.url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		answer, err := c.bearer.RoundTrip(r)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%s: %s %.200s; want %d", c.name, answer.Status, body, c.want)
		}
	}
	if text := s.Stderr(); strings.Contains(text, httpToken) {
		t.Errorf("the token is shown: %s", text)
	}
}

func TestHTTPClientsShareSessions(t *testing.T) {
	t.Parallel()
	s, url := serveHTTP(t, "TOPSIDE_HTTP_TOKEN="+httpToken)
	first := connect(t, url, httpToken)
	textOf(t, first, "eval", map[string]any{"source": "const shared = 42"})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			session := connect(t, url, httpToken)
			defer session.Close()
			if got := textOf(t, session, "eval", map[string]any{"source": "shared"}); !strings.HasPrefix(got, "42 : ") {
				t.Errorf("another client got %q", got)
			}
		})
	}
	clients.Wait()

	// A call in flight does not hold the end up.
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = first.CallTool(t.Context(), &mcp.CallToolParams{Name: "eval", Arguments: map[string]any{"source": "for (;;) {}"}})
	}()
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Ended():
	case <-time.After(10 * time.Second):
		t.Fatalf("after SIGTERM the server ran on for %v", time.Since(began))
	}
	<-left
	_ = first.Close()
}

func TestHTTPTokenIsKept(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	env := []string{"XDG_CONFIG_HOME=" + folder, "TOPSIDE_HTTP_TOKEN="}
	path := filepath.Join(folder, "topside", "http-token")
	var tokens []string
	for range 2 {
		s, url := serveHTTP(t, env...)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("the token's file is %v, %v", info, err)
		}
		tokens = append(tokens, strings.TrimSpace(string(text)))
		connect(t, url, tokens[len(tokens)-1]).Close()
		if !strings.Contains(s.Stderr(), path) {
			t.Errorf("the server does not tell where the token is: %s", s.Stderr())
		}
		s.Kill()
	}
	if tokens[0] != tokens[1] {
		t.Errorf("the token changed: %q", tokens)
	}
}

func TestHTTPRefusesToStart(t *testing.T) {
	t.Parallel()
	wide := t.TempDir()
	if err := os.MkdirAll(filepath.Join(wide, "topside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(wide, "topside", "http-token"), []byte(httpToken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(wide, "topside", "http-token"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		env    []string
		status int
		want   string
	}{
		{args: []string{"--http", "0.0.0.0:0"}, status: 1, want: "not a loopback address"},
		{args: []string{"--http", "example.com:80"}, status: 1, want: "not a loopback address"},
		{args: []string{"--http", "7007"}, status: 1, want: "no HOST:PORT"},
		{args: []string{"--http", "127.0.0.1:99999"}, status: 1, want: "invalid port"},
		{args: []string{"--http", ""}, status: 2, want: "--http is empty"},
		{args: []string{"--http", ":0", "--socket", "s"}, status: 2, want: "two servers"},
		{args: []string{"--http", ":0"}, env: []string{"TOPSIDE_HTTP_TOKEN=short"}, status: 1, want: "too short"},
		{args: []string{"--http", ":0"}, env: []string{"TOPSIDE_HTTP_TOKEN=", "XDG_CONFIG_HOME=" + wide}, status: 1, want: "others can read"},
	} {
		home := t.TempDir()
		env := append([]string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "TOPSIDE_HTTP_TOKEN=" + httpToken}, c.env...)
		s := bed.Start(t, append([]string{"mcp", "--toolsets", "see"}, c.args...), bed.Env(env...))
		select {
		case <-s.Ended():
		case <-time.After(bed.Patience):
			t.Errorf("%q: the server runs", c.args)
			continue
		}
		if status := s.Cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(s.Stderr(), c.want) {
			t.Errorf("%q: status %d, %s; want %d and %q", c.args, status, s.Stderr(), c.status, c.want)
		}
	}
}
