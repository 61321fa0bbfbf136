package cli

// This file binds the socket of a daemon of the topup contract, and pumps bytes to
// one (sections 1.2 and 1.3).

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"topside/internal/tool"
	"topside/internal/wire"
)

// bindTopup listens at path. Whatever nobody listens on is replaced, plain files
// too; a symbolic link, a folder and a socket in use are refused.
func bindTopup(path string) (*wire.Socket, error) {
	if folder := filepath.Dir(path); path != "" {
		if info, err := os.Stat(folder); err != nil {
			return nil, fmt.Errorf("%scannot bind %s: %s: %s", topupProgram, path, folder, tool.SystemText(err))
		} else if !info.IsDir() {
			return nil, fmt.Errorf("%scannot bind %s: %s is no folder", topupProgram, path, folder)
		}
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("%scannot stat %s: %s", topupProgram, path, tool.SystemText(err))
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%srefusing to bind: %s is a symlink", topupProgram, path)
	case info.IsDir():
		return nil, fmt.Errorf("%scannot bind %s: it is a folder", topupProgram, path)
	case info.Mode()&fs.ModeSocket == 0:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("%scannot replace %s: %s", topupProgram, path, tool.SystemText(err))
		}
	}
	socket, err := wire.ListenSocket(path)
	var used *wire.SocketInUseError
	switch {
	case errors.As(err, &used):
		return nil, fmt.Errorf("%ssocket %s is in use by another process", topupProgram, path)
	case err != nil:
		return nil, fmt.Errorf("%s%w", topupProgram, err)
	}
	return socket, nil
}

// The wait of a pump for somebody to listen.
const (
	pumpWait  = 10 * time.Second
	pumpPause = 50 * time.Millisecond
)

// pumpTopup copies standard input to a daemon's socket and what comes back to
// standard output, until the daemon closes. The end of the input is passed on.
func pumpTopup(ctx context.Context, s Streams, path string) error {
	conn, err := dialDaemon(ctx, path)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, s.In)
		_ = conn.CloseWrite()
	}()
	// The end of either side ends the pump, and is no failure.
	_, _ = io.Copy(s.Out, conn)
	return nil
}

func dialDaemon(ctx context.Context, path string) (*net.UnixConn, error) {
	deadline := time.Now().Add(pumpWait)
	for {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		switch {
		case err == nil:
			return conn, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("%sconnect %s: %s", topupProgram, path, tool.SystemText(err))
		case time.Now().After(deadline):
			return nil, fmt.Errorf("%stimed out after %.1fs waiting for socket %s", topupProgram, pumpWait.Seconds(), path)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pumpPause):
		}
	}
}
