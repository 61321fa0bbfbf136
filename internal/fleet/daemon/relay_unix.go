//go:build unix

package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"topside/internal/fleet/frame"
)

// Exit codes of the relay and the daemon.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const (
	startWait = 10 * time.Second
	dialPause = 20 * time.Millisecond
	maxLog    = 1 << 20
	readyWord = "ready\n"
)

// RelayMain is the command that ssh runs on a remote host: it connects its standard
// input and output to the daemon, which it starts where there is none, and returns
// when the connection is over. Arguments: --socket PATH, --no-start. What goes wrong
// is said on stderr in one line that begins with "topside:".
func RelayMain(args []string, stdin, stdout *os.File, stderr io.Writer) int {
	flags := flag.NewFlagSet(RelayCommand, flag.ContinueOnError)
	flags.SetOutput(stderr)
	socket := flags.String("socket", "", "")
	noStart := flags.Bool("no-start", false, "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "topside: %s [--socket PATH] [--no-start]\n", RelayCommand)
		return exitUsage
	}
	if term.IsTerminal(int(stdin.Fd())) {
		fmt.Fprintf(stderr, "topside: %s is run by `topside` on another machine through ssh, not at a terminal\n", RelayCommand)
		return exitUsage
	}
	fail := func(err error) int {
		fmt.Fprintf(stderr, "topside: %v\n", err)
		return exitFailed
	}
	path, err := ExpandSocket(*socket)
	if err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	defer stop()
	c, err := dial(ctx, path, !*noStart)
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	if !heldByDaemon(path) {
		// An original topup, or what passes for it: the front end has a way to that.
		home, err := os.UserHomeDir()
		if err != nil {
			return fail(err)
		}
		fmt.Fprintf(stdout, "%snone topup %s\n", frame.Mark, home)
		return exitOK
	}
	end := context.AfterFunc(ctx, func() { c.Close() })
	defer end()
	rights := unix.UnixRights(int(stdin.Fd()), int(stdout.Fd()))
	if _, _, err := c.WriteMsgUnix([]byte{handOver}, rights, nil); err != nil {
		return fail(fmt.Errorf("hand the connection to the daemon: %w", err))
	}
	var b [1]byte
	n, _ := c.Read(b[:])
	if n == 0 && ctx.Err() == nil {
		fmt.Fprintln(stderr, "topside: the daemon ended")
		return ExitDaemonGone
	}
	return exitOK
}

// dial connects to the daemon at path, and starts it where start is set and there
// is none.
func dial(ctx context.Context, path string, start bool) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	c, err := connect(path)
	if err == nil {
		return c, nil
	}
	if !start {
		return nil, fmt.Errorf("no daemon on %s: %w", path, err)
	}
	if err := spawn(ctx, path); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	for {
		if c, err = connect(path); err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the daemon on %s does not answer: %w", path, err)
		case <-time.After(dialPause):
		}
	}
}

// heldByDaemon tells a daemon from another program that listens on the socket: a daemon
// holds the lock.
func heldByDaemon(path string) bool {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer lock.Close()
	return unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

func connect(path string) (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
}

// spawn starts the daemon: this program again, in a session of its own, so that
// neither the end of ssh nor a signal to its group reaches it. It returns when the
// daemon listens, or another one holds its place.
func spawn(ctx context.Context, path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	log, err := openLog(path + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command(self, DaemonCommand, "--socket", path, "--ready-fd", "3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = daemonEnv(os.Environ())
	cmd.Dir, _ = os.UserHomeDir() // or where we are
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	said, _ := io.ReadAll(io.LimitReader(r, 4096))
	switch text := strings.TrimSpace(string(said)); {
	case ctx.Err() != nil:
		return fmt.Errorf("it was not ready in %v; see %s", startWait, log.Name())
	case string(said) == readyWord, text == ErrRunning.Error():
		return nil
	case text == "":
		return fmt.Errorf("it ended at once; see %s", log.Name())
	default:
		return errors.New(text)
	}
}

// daemonEnv is the environment without what belongs to one ssh connection.
func daemonEnv(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "SSH_AUTH_SOCK", "DISPLAY", "XDG_SESSION_ID":
		default:
			out = append(out, e)
		}
	}
	return out
}

// openLog opens the daemon's log, which starts anew when it has grown.
func openLog(path string) (*os.File, error) {
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW
	if info, err := os.Lstat(path); err == nil && info.Size() > maxLog {
		mode |= os.O_TRUNC
	}
	return os.OpenFile(path, mode, 0o600)
}

// DaemonMain is the command of the daemon. Arguments: --socket PATH, --idle
// DURATION, --keep DURATION; those given replace what c says. It ends with a status
// of 0 when it was idle, told to end, or signalled.
func DaemonMain(args []string, c Config, stderr io.Writer) int {
	flags := flag.NewFlagSet(DaemonCommand, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.Socket, "socket", c.Socket, "")
	flags.DurationVar(&c.Idle, "idle", c.Idle, "")
	flags.DurationVar(&c.Keep, "keep", c.Keep, "")
	readyFD := flags.Int("ready-fd", -1, "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "topside: %s [--socket PATH] [--idle DURATION] [--keep DURATION]\n", DaemonCommand)
		return exitUsage
	}
	tell := func(text string) {
		if *readyFD < 0 {
			return
		}
		f := os.NewFile(uintptr(*readyFD), "ready")
		_, _ = io.WriteString(f, text) // whoever started us may be gone
		f.Close()
		*readyFD = -1
	}
	if *readyFD >= 0 {
		syscall.CloseOnExec(*readyFD)
	}
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	defer stop()
	err := Run(ctx, c, func() { tell(readyWord) })
	if err != nil {
		tell(err.Error())
		fmt.Fprintf(stderr, "topside: %v\n", err)
		return exitFailed
	}
	return exitOK
}
