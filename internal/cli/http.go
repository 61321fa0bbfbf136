package cli

// This file serves the united surface over Streamable HTTP: the token that clients
// must know, and what a person is told.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/privatefile"
	"topside/internal/see"
	"topside/internal/steer"
	"topside/internal/wire"
)

// tokenVariable overrides the kept token.
const tokenVariable = "TOPSIDE_HTTP_TOKEN"

// shortestToken is the least length of a token that somebody chose.
const shortestToken = 16

func (v serving) onHTTP(ctx context.Context, s Streams, observer *see.Observer, server *mcp.Server) error {
	token, where, err := httpToken()
	if err != nil {
		return err
	}
	listener, err := wire.ListenHTTP(v.http, token)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	defer listener.Close()
	shown := "$" + tokenVariable
	if where != "" {
		shown = "$(cat " + shellWord(where) + ")"
	}
	fmt.Fprintf(s.Err, `topside: serving %s; end with Ctrl-C or SIGTERM
  a request needs the header   Authorization: Bearer %s
  for example   claude mcp add --transport http topside %s --header "Authorization: Bearer %s"
`, listener.URL(), shown, listener.URL(), shown)
	start(ctx, observer)
	return listener.Serve(ctx, server, v.wire)
}

// httpToken is what clients must know: the variable's, or one that is made once and
// kept beside the configuration, where only its owner can read it.
func httpToken() (token, path string, err error) {
	if token = os.Getenv(tokenVariable); token != "" {
		if len(token) < shortestToken {
			return "", "", fmt.Errorf("%s is too short: it needs at least %d characters", tokenVariable, shortestToken)
		}
		return token, "", nil
	}
	configuration, _, err := steer.Paths()
	if err != nil {
		return "", "", fmt.Errorf("there is no place to keep a token: %w; set %s", err, tokenVariable)
	}
	path = filepath.Join(filepath.Dir(configuration), "http-token")
	text, err := os.ReadFile(path)
	switch {
	case err == nil && len(strings.TrimSpace(string(text))) >= shortestToken:
		if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			return "", "", fmt.Errorf("others can read %s: remove it, a new token is made then", path)
		}
		return strings.TrimSpace(string(text)), path, nil
	case err == nil:
		return "", "", fmt.Errorf("%s holds no token of at least %d characters: remove it, a new one is made then", path, shortestToken)
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("the token for HTTP: %w", err)
	}
	token = rand.Text()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", "", fmt.Errorf("the token for HTTP: %w", err)
	}
	if err := privatefile.Replace(path, []byte(token+"\n")); err != nil {
		return "", "", fmt.Errorf("the token for HTTP: %w", err)
	}
	return token, path, nil
}
