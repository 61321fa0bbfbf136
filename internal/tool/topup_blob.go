package tool

// This file moves files in the topup contract: the tools that copy to and from
// hosts, and the two hidden ones behind them (sections 5.11 and 5.12).

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"topside/internal/fleet/transfer"
)

// TopupMaxTransfer is the cap on files, in bytes: TOPUP_XFER_MAX_BYTES, which is
// read anew at each call.
func TopupMaxTransfer() int64 { return TopupBytes("TOPUP_XFER_MAX_BYTES", 16<<20) }

// TopupBytes reads a number of bytes from a variable: greater than zero, in any
// form that OCaml reads; anything else means the default.
func TopupBytes(variable string, otherwise int64) int64 {
	s := strings.TrimSpace(os.Getenv(variable))
	base := 10
	if len(s) > 2 && s[0] == '0' {
		switch s[1] {
		case 'x', 'X':
			base = 16
		case 'o', 'O':
			base = 8
		case 'b', 'B':
			base = 2
		}
		if base != 10 {
			s = s[2:]
		}
	}
	if strings.HasPrefix(s, "_") {
		return otherwise
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), base, 63)
	if err != nil || n <= 0 {
		return otherwise
	}
	return n
}

// SystemText is the text of a system error as the C library has it, with a capital
// letter.
func SystemText(err error) string {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return err.Error()
	}
	text := number.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// blobTool serves a hidden tool on the files of this side.
func blobTool(serve func(transfer.BlobStore, json.RawMessage, int64) (string, error), a topupArguments) (Result, error) {
	text, err := serve(transfer.LocalStore{}, a.without(), TopupMaxTransfer())
	return Result{Text: text}, inWords(err)
}

// inWords passes the contract's own texts on as what they are.
func inWords(err error) error {
	var blob *transfer.BlobError
	if errors.As(err, &blob) {
		return topupUsage("%s", err.Error())
	}
	return err
}

// transferHost checks what both transfers check first.
func (c *TopupClient) transferHost(tool string, a topupArguments) (string, *topupPeer, error) {
	if a.elsewhere("session") != "" {
		return "", nil, topupUsage("host and session are mutually exclusive; push_file/pull_file require host (the boundary is local↔remote)")
	}
	name := a.elsewhere("host")
	if name == "" {
		return "", nil, topupUsage("%s: 'host' is required (push_file/pull_file cross the local↔remote boundary; same-machine copies don't go through topup)", tool)
	}
	peer, err := c.hosts.peer(name)
	return name, peer, err
}

// transferDir is the folder of a path that was not given.
func transferDir(home string) (string, error) {
	dir := os.Getenv("TOPUP_XFER_DIR")
	switch {
	case dir == "off":
		return "", topupUsage("no default path: TOPUP_XFER_DIR=off, the corresponding path argument must be supplied")
	case dir != "":
		return dir, nil
	case home == "":
		return "/tmp/topup-xfer", nil
	}
	return filepath.Join(home, ".topup", "xfer"), nil
}

func pushTopup(ctx context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, peer, err := c.transferHost("push_file", a)
	if err != nil {
		return Result{}, err
	}
	local, err := a.needed("local_path")
	if err != nil {
		return Result{}, err
	}
	remote, given := a.text("remote_path")
	if !given {
		// The far side expands ~ with the home of its own user.
		dir, err := transferDir("~")
		if err != nil {
			return Result{}, err
		}
		remote = dir + "/" + filepath.Base(local)
	}
	text, err := transfer.PushBlob(ctx, peer.request, name, local, remote, TopupMaxTransfer())
	return c.transferred(name, text, err)
}

func pullTopup(ctx context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, peer, err := c.transferHost("pull_file", a)
	if err != nil {
		return Result{}, err
	}
	remote, err := a.needed("remote_path")
	if err != nil {
		return Result{}, err
	}
	local, given := a.text("local_path")
	if !given {
		dir, err := transferDir(os.Getenv("HOME"))
		if err != nil {
			return Result{}, err
		}
		local = filepath.Join(dir, path.Base(remote))
	}
	text, err := transfer.PullBlob(ctx, peer.request, name, remote, local, TopupMaxTransfer())
	return c.transferred(name, text, err)
}

// transferred is the result of a transfer with a host.
func (c *TopupClient) transferred(name, text string, err error) (Result, error) {
	if err == nil {
		c.hosts.registry.Seen(name, time.Now())
	}
	return Result{Text: text}, inWords(err)
}
