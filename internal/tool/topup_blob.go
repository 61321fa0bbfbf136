package tool

// This file moves files in the topup contract: the tools that copy to and from
// hosts, and the two hidden ones behind them (sections 5.11 and 5.12).

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"topside/internal/compute/engine"
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

func tooLarge(n int, most int64) error {
	return topupUsage("payload too large: %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)", n, most)
}

func encodeBlob(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// blobData takes the bytes out of the result of _send_blob.
func blobData(text string) ([]byte, error) {
	var answer struct {
		Data *string `json:"data"`
	}
	if json.Unmarshal([]byte(text), &answer) != nil || answer.Data == nil {
		return nil, topupUsage("remote response missing 'data'")
	}
	data, err := decodeBlob(*answer.Data)
	if err != nil {
		return nil, err
	}
	if most := TopupMaxTransfer(); int64(len(data)) > most {
		return nil, tooLarge(len(data), most)
	}
	return data, nil
}

func decodeBlob(text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		return data, nil
	}
	if len(text)%4 != 0 {
		return nil, topupUsage("base64 decode: Wrong padding")
	}
	return nil, topupUsage("base64 decode: %v", err)
}

// expandHome replaces a leading ~ by the home folder of this side.
func expandHome(path string) string {
	home := os.Getenv("HOME")
	switch {
	case home == "":
		return path
	case path == "~":
		return home
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(home, path[2:])
	}
	return path
}

// readBlob reads a file within the cap, which is checked before the reading.
func readBlob(path string) ([]byte, error) {
	// Opening a pipe or a terminal must not wait for its other end.
	f, err := os.OpenFile(path, os.O_RDONLY|openWithoutWaiting, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, topupUsage("no such file: %s", path)
	}
	if err != nil {
		return nil, topupUsage("%s: %s", SystemText(err), path)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, topupUsage("%s: %s", SystemText(err), path)
	}
	if !info.Mode().IsRegular() {
		return nil, topupUsage("not a regular file: %s", path)
	}
	most := TopupMaxTransfer()
	if info.Size() > most {
		return nil, topupUsage("file too large: %s is %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)", path, info.Size(), most)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, topupUsage("%s: %s", SystemText(err), path)
	}
	if int64(len(data)) > most {
		return nil, topupUsage("file too large: %s is %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)", path, len(data), most)
	}
	return data, nil
}

// writeBlob writes a file at once: beside it first, then under its name.
func writeBlob(path string, data []byte) error {
	fail := func(path string, err error) error { return topupUsage("%s: %s", path, SystemText(err)) }
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(filepath.Dir(path), err)
	}
	temporary := path + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(temporary, err)
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fail(temporary, err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return fail(path, err)
	}
	return nil
}

type blobSent struct {
	Path  string `json:"path"`
	Data  string `json:"data"`
	Bytes int    `json:"bytes"`
}

type blobReceived struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// sendBlob gives the bytes at a path.
func sendBlob(a topupArguments) (Result, error) {
	path, err := a.needed("path")
	if err != nil {
		return Result{}, err
	}
	path = expandHome(path)
	data, err := readBlob(path)
	if err != nil {
		return Result{}, err
	}
	return Result{Structured: blobSent{path, encodeBlob(data), len(data)}}, nil
}

// receiveBlob takes bytes for a path.
func receiveBlob(a topupArguments) (Result, error) {
	path, err := a.needed("path")
	if err != nil {
		return Result{}, err
	}
	encoded, err := a.needed("data")
	if err != nil {
		return Result{}, err
	}
	data, err := decodeBlob(encoded)
	if err != nil {
		return Result{}, err
	}
	if most := TopupMaxTransfer(); int64(len(data)) > most {
		return Result{}, tooLarge(len(data), most)
	}
	path = expandHome(path)
	if err := writeBlob(path, data); err != nil {
		return Result{}, err
	}
	return Result{Structured: blobReceived{path, len(data)}}, nil
}

// answerBack serves one request of a peer's session.
func answerBack(back engine.Back, tool string, a topupArguments) (string, error) {
	if back == nil || tool != "_send_blob" && tool != "_recv_blob" {
		return "", fmt.Errorf("unknown tool: %s", tool)
	}
	path, err := a.needed("path")
	if err != nil {
		return "", err
	}
	if tool == "_send_blob" {
		data, err := back.ReadBack(context.Background(), path)
		if err != nil {
			return "", err
		}
		return string(encode(blobSent{path, encodeBlob(data), len(data)})), nil
	}
	encoded, err := a.needed("data")
	if err != nil {
		return "", err
	}
	data, err := decodeBlob(encoded)
	if err != nil {
		return "", err
	}
	if most := TopupMaxTransfer(); int64(len(data)) > most {
		return "", tooLarge(len(data), most)
	}
	return string(encode(blobReceived{path, len(data)})), back.WriteBack(context.Background(), path, data)
}

// transferHost checks what both transfers check first.
func (c *TopupClient) transferHost(tool string, a topupArguments) (string, error) {
	if a.elsewhere("session") != "" {
		return "", topupUsage("host and session are mutually exclusive; push_file/pull_file require host (the boundary is local↔remote)")
	}
	name := a.elsewhere("host")
	if name == "" {
		return "", topupUsage("%s: 'host' is required (push_file/pull_file cross the local↔remote boundary; same-machine copies don't go through topup)", tool)
	}
	if c.hosts.peers.last(name) == nil {
		return "", topupUsage("host not registered: %s (call start_session { host: %s } first)", name, name)
	}
	return name, nil
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

// blobCall calls a hidden tool of a host and returns its text.
func (c *TopupClient) blobCall(ctx context.Context, name, tool string, arguments map[string]string) (string, error) {
	r, err := c.hosts.call(ctx, name, tool, encode(arguments))
	if err != nil {
		return "", err
	}
	raw, _ := r.Structured.(PeerResult)
	text, isError := readEnvelope(json.RawMessage(raw))
	if isError {
		return "", topupUsage("remote %s: %s", name, text)
	}
	return text, nil
}

func pushTopup(ctx context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, err := c.transferHost("push_file", a)
	if err != nil {
		return Result{}, err
	}
	local, err := a.needed("local_path")
	if err != nil {
		return Result{}, err
	}
	remote, given := a.text("remote_path")
	if !given {
		// The daemon expands ~ with the home of its own side.
		dir, err := transferDir("~")
		if err != nil {
			return Result{}, err
		}
		remote = filepath.Join(dir, filepath.Base(local))
	}
	data, err := readBlob(expandHome(local))
	if err != nil {
		return Result{}, err
	}
	text, err := c.blobCall(ctx, name, "_recv_blob", map[string]string{"path": remote, "data": encodeBlob(data)})
	if err != nil {
		return Result{}, err
	}
	var stored blobReceived
	if json.Unmarshal([]byte(text), &stored) == nil && stored.Path != "" {
		remote = stored.Path
	}
	return Result{Structured: struct {
		Path  string `json:"remote_path"`
		Bytes int    `json:"bytes"`
	}{remote, len(data)}}, nil
}

func pullTopup(ctx context.Context, c *TopupClient, a topupArguments) (Result, error) {
	name, err := c.transferHost("pull_file", a)
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
		local = filepath.Join(dir, filepath.Base(remote))
	}
	local = expandHome(local)
	text, err := c.blobCall(ctx, name, "_send_blob", map[string]string{"path": remote})
	if err != nil {
		return Result{}, err
	}
	data, err := blobData(text)
	if err != nil {
		return Result{}, topupUsage("remote %s: %v", name, err)
	}
	if err := writeBlob(local, data); err != nil {
		return Result{}, err
	}
	return Result{Structured: struct {
		Path  string `json:"local_path"`
		Bytes int    `json:"bytes"`
	}{local, len(data)}}, nil
}
