package cli

// This file holds what a server of the topup contract works on: the pool of
// sessions as the contract's variables describe it (section 2), and the sockets of
// named sessions (section 7.3).

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"topside/internal/compute/engine"
	"topside/internal/compute/engine/javascript"
	"topside/internal/compute/engine/ocaml"
	"topside/internal/compute/pool"
	"topside/internal/compute/session"
	"topside/internal/tool"
	"topside/internal/wire"
)

// topupWorld is one server of the contract.
type topupWorld struct {
	pool    *pool.Pool
	shared  *tool.Topup
	sockets *topupSockets
	logger  *slog.Logger

	forgetful atomic.Bool // that the registry cannot be written has been said
}

// topupPath is where a variable puts something: the default is below ~/.topup, and
// both "off" and the empty text mean nowhere.
func topupPath(variable, name string) string {
	value, set := os.LookupEnv(variable)
	home := os.Getenv("HOME")
	switch {
	case set && (value == "" || value == "off"), !set && home == "":
		return ""
	case set:
		return value
	}
	return filepath.Join(home, ".topup", name)
}

// newTopupWorld reads the variables and makes the pool. No session has to run yet;
// one process is started ahead.
func newTopupWorld(ctx context.Context, s Streams, program string) (*topupWorld, error) {
	w := &topupWorld{logger: newTopupLogger(s.Err)}
	bytecode, native := &ocaml.Language{}, &ocaml.Language{Native: true}
	languages := []engine.Language{bytecode, native, &javascript.Language{}}
	if program == "topup-opt" {
		languages[0], languages[1] = native, bytecode
	}
	log := topupPath("TOPUP_LOG", "history.ml")
	if absolute, err := filepath.Abs(log); err == nil && log != "" {
		log = absolute
	}
	o := pool.Options{
		Languages:     languages,
		LogPath:       log,
		CheckpointDir: w.folder("TOPUP_CHECKPOINT_DIR", "checkpoints"),
		SpillDir:      w.folder("TOPUP_SPILL_DIR", "spill"),
		RegistryPath:  topupPath("TOPUP_SESSIONS_FILE", "sessions.json"),
		Engine:        engine.Options{Back: tool.TopupBack{}},
		Spares:        1,
	}
	w.pool = pool.New(o)
	w.sockets = &topupSockets{world: w, open: map[string]*wire.Socket{}}
	w.sockets.ctx, w.sockets.cancel = context.WithCancel(context.WithoutCancel(ctx))
	options := tool.TopupOptions{
		Pool: w.pool, Sockets: w.sockets, HostsPath: topupPath("TOPUP_HOSTS_FILE", "hosts.json"),
		Version: Version(),
		Warn: func(err error) {
			w.forgetful.Store(true)
			w.logger.Warn("sessions are remembered by this server only", "error", err)
		},
	}
	var err error
	if w.shared, err = tool.NewTopup(options); err != nil {
		w.logger.Warn("hosts are kept in memory", "error", err)
		options.HostsPath = ""
		w.shared, err = tool.NewTopup(options)
	}
	if err != nil {
		w.sockets.close()
		w.pool.Close()
		return nil, err
	}
	return w, nil
}

// folder makes the folder of a variable, and says once when it cannot.
func (w *topupWorld) folder(variable, name string) string {
	path := topupPath(variable, name)
	if path == "" {
		return ""
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		w.logger.Warn("folder not available", "variable", variable, "error", err)
	}
	return path
}

// client is the view of one client: of the default session, or of a named one.
func (w *topupWorld) client(named string, asker *wire.Asker) *tool.TopupClient {
	c := &tool.TopupClient{Topup: w.shared, Named: named, Local: w.pool.Local}
	if named != "" {
		c.Local = func(context.Context) (*session.Session, error) { return w.pool.Session(named) }
	}
	if asker != nil {
		c.Ask = asker.Ask
	}
	return c
}

// close ends every session, and what serves them.
func (w *topupWorld) close() {
	w.sockets.close()
	if err := w.shared.Close(); err != nil {
		w.logger.Warn("end", "error", err)
	}
	err := w.pool.Close()
	var registry *pool.RegistryError
	if err != nil && !(w.forgetful.Load() && errors.As(err, &registry)) {
		w.logger.Warn("end", "error", err)
	}
}

// topupSockets serve named sessions to other clients, each on a socket of its own.
type topupSockets struct {
	world  *topupWorld
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	sweep sync.Once

	mu   sync.Mutex
	open map[string]*wire.Socket
}

// Socket implements [tool.TopupSockets]. A session keeps its path.
func (s *topupSockets) Socket(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if socket := s.open[name]; socket != nil {
		return socket.Path(), nil
	}
	if err := s.ctx.Err(); err != nil {
		return "", err
	}
	s.sweep.Do(func() { sweepSessionSockets(sessionSocketDir) })
	socket, err := wire.ListenSocket(sessionSocketPath(name))
	if err != nil {
		return "", err
	}
	s.open[name] = socket
	s.wait.Go(func() {
		defer socket.Close()
		err := s.world.accept(s.ctx, socket, func(asker *wire.Asker) *tool.TopupClient { return s.world.client(name, asker) })
		if err != nil {
			s.world.logger.Warn("a session's socket ended", "session", name, "error", err)
		}
	})
	return socket.Path(), nil
}

// sessionSocketPath is a new path: what a name may hold that a file name may not
// becomes '_'.
func sessionSocketPath(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	var random [8]byte
	_, _ = rand.Read(random[:])
	return fmt.Sprintf("%s/topup-session-%s-%s.sock", sessionSocketDir, safe[:min(len(safe), 40)], hex.EncodeToString(random[:]))
}

// sessionSocketDir is where the contract has the sockets of sessions.
const sessionSocketDir = "/tmp"

var sessionSocketName = regexp.MustCompile(`^topup-session-.{0,40}-[0-9a-f]{16}\.sock$`)

// sweepSessionSockets removes the sockets that servers left which were killed: those
// of ours that nobody listens on. One that was made just now may be about to be.
func sweepSessionSockets(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type() != fs.ModeSocket || !sessionSocketName.MatchString(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil || !ours(info) || time.Since(info.ModTime()) < time.Second {
			continue
		}
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
}

// close stops serving; clients that are connected are let go.
func (s *topupSockets) close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.wait.Wait()
}
