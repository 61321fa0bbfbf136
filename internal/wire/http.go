package wire

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// This file serves Streamable HTTP (the MCP specification, "Transports"), for
// clients that cannot start a program or open a Unix socket.
//
// A browser, and every user of the machine, can reach a loopback port. So whoever
// asks must know a token; a page of another origin and a host name that was bound to
// a loopback address later are turned away before that.

const (
	// HTTPPath is where the protocol is served.
	HTTPPath = "/mcp"

	// headerWait bounds how long a client may take to send its headers.
	headerWait = 10 * time.Second

	// idleSession is how long a client's session lasts without a request. What a
	// client computes is not bound to it.
	idleSession = time.Hour
)

// An HTTPListener is a loopback port on which a server is about to answer.
type HTTPListener struct {
	listener net.Listener
	token    [sha256.Size]byte
}

// ListenHTTP listens at address, which is HOST:PORT with a loopback host, or :PORT
// for 127.0.0.1; port 0 takes a free one. Requests must carry the token.
func ListenHTTP(address, token string) (*HTTPListener, error) {
	if token == "" {
		return nil, errors.New("no token: everyone on this machine could use the server")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no HOST:PORT: %w", address, err)
	}
	switch {
	case host == "":
		host = "127.0.0.1"
	case !loopback(host):
		return nil, fmt.Errorf("%s is not a loopback address, and the protocol would go over the network unencrypted: listen on 127.0.0.1 and let others come through ssh -L", host)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	return &HTTPListener{listener: l, token: sha256.Sum256([]byte(token))}, nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// URL is where clients find the server.
func (l *HTTPListener) URL() string { return "http://" + l.listener.Addr().String() + HTTPPath }

// Close stops listening.
func (l *HTTPListener) Close() error {
	if err := l.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Serve answers every client, all with the one server, until ctx is done. Of o it
// takes MaxFrame, as the longest request, and Logger. It returns nil when ctx is
// done.
func (l *HTTPListener) Serve(ctx context.Context, server *mcp.Server, o Options) error {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server.AddReceivingMiddleware(until(ctx))
	protocol := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Logger: o.Logger, SessionTimeout: idleSession, MaxRequestBodyBytes: int64(o.MaxFrame),
	})
	mux := http.NewServeMux()
	mux.Handle(HTTPPath, protocol)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the Model Context Protocol is served at "+HTTPPath, http.StatusNotFound)
	})
	s := &http.Server{
		Handler:           http.NewCrossOriginProtection().Handler(l.knowing(mux)),
		ReadHeaderTimeout: headerWait,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelInfo),
	}
	var ended sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer ended.Wait()
	ended.Go(func() {
		<-ctx.Done()
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	defer cancel()
	defer stop()
	if err := s.Serve(l.listener); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.URL(), err)
	}
	return nil
}

// until is middleware under which calls end with ctx: closing a session of the SDK
// waits for its calls.
func until(ctx context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(call context.Context, method string, request mcp.Request) (mcp.Result, error) {
			call, cancel := context.WithCancel(call)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return next(call, method, request)
		}
	}
}

// knowing lets requests through that carry the token.
func (l *HTTPListener) knowing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		given := sha256.Sum256([]byte(strings.TrimSpace(token)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(given[:], l.token[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="topside"`)
			http.Error(w, "a request needs the server's token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
