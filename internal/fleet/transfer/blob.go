package transfer

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
	"runtime"
	"strings"
	"syscall"
	"time"
)

// The blob tools of the topup contract (sections 5.11, 5.12 and 8): a file as one
// base64 string in a tool call. Names are "give the bytes at path" and "take these
// bytes", from the callee's side.
const (
	SendBlobTool = "_send_blob"
	RecvBlobTool = "_recv_blob"
)

// DefaultMaxBlob is the contract's cap for a file, in bytes (TOPUP_XFER_MAX_BYTES).
const DefaultMaxBlob = 16 << 20

// BlobError is a failure in the contract's own words.
type BlobError struct{ Text string }

func (e *BlobError) Error() string { return e.Text }

func blobError(format string, args ...any) error { return &BlobError{fmt.Sprintf(format, args...)} }

// PayloadTooLarge is the contract's refusal of n bytes under a cap.
func PayloadTooLarge(n, limit int64) error {
	return blobError("payload too large: %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)", n, limit)
}

// ErrnoText is the C library's text for a system error ("No such file or
// directory"), which the contract's texts hold.
func ErrnoText(err error) string {
	var e syscall.Errno
	text := systemText(err).Error()
	if errors.As(err, &e) {
		text = e.Error()
	}
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// Opener opens a file for reading without waiting (a FIFO), and says what it is.
type Opener func() (*os.File, error)

// ReadBlob reads a regular file of at most limit bytes. shown is its path in the
// contract's texts; look is asked before open, since opening may do something.
func ReadBlob(shown string, limit int64, look func() (fs.FileInfo, error), open Opener) ([]byte, error) {
	check := func(info fs.FileInfo, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return blobError("no such file: %s", shown)
		case err != nil:
			return blobError("%s: %s", ErrnoText(err), shown)
		case !info.Mode().IsRegular():
			return blobError("not a regular file: %s", shown)
		case info.Size() > limit:
			return blobError("file too large: %s is %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)", shown, info.Size(), limit)
		}
		return nil
	}
	if err := check(look()); err != nil {
		return nil, err
	}
	f, err := open()
	if err != nil {
		return nil, check(nil, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err := check(info, err); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, blobError("%s: %s", ErrnoText(err), shown)
	}
	if int64(len(data)) > limit { // it grew
		return nil, blobError("file too large: %s is %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)", shown, len(data), limit)
	}
	return data, nil
}

// ReadLocalBlob reads a file of this machine; "~" is expanded. It returns the
// expanded path as well.
func ReadLocalBlob(path string, limit int64) (string, []byte, error) {
	p, err := expandBlob(path)
	if err != nil {
		return "", nil, err
	}
	data, err := ReadBlob(p, limit, func() (fs.FileInfo, error) { return os.Stat(p) },
		func() (*os.File, error) { return os.OpenFile(p, os.O_RDONLY|NonBlocking, 0) })
	return p, data, err
}

// expandBlob expands "~" and "~/" only: the contract accepts relative paths.
func expandBlob(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", blobError("Invalid argument: %s", strings.ReplaceAll(path, "\x00", `\000`))
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", blobError("no home folder to expand %s", path)
		}
		return home + path[1:], nil
	}
	return path, nil
}

// WriteLocalBlob writes a file of this machine as a whole: parents 0700, a temporary
// file 0600, rename. "~" is expanded; it returns the expanded path.
func WriteLocalBlob(path string, data []byte, limit int64) (string, error) {
	if int64(len(data)) > limit {
		return "", PayloadTooLarge(int64(len(data)), limit)
	}
	p, err := expandBlob(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(p)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", blobError("%s.tmp: %s", p, ErrnoText(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", blobError("%s.tmp: %s", p, ErrnoText(err))
	}
	defer root.Close()
	return p, WriteBlobIn(root, filepath.Base(p), p, data)
}

// WriteBlobIn writes base in root as a whole; shown is its path in the contract's
// texts.
func WriteBlobIn(root *os.Root, base, shown string, data []byte) error {
	if info, err := root.Lstat(base); err == nil && !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		text := "not a regular file"
		if info.IsDir() {
			text = "Is a directory"
		}
		return blobError("%s: %s", shown, text)
	}
	sweepBlobs(root)
	temporary, f, err := createIn(root)
	if err != nil {
		return blobError("%s.tmp: %s", shown, ErrnoText(err))
	}
	_ = lockFile(f) // shows that it is in use; where it fails it counts as in use for a while
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = root.Rename(temporary, base)
	}
	if err != nil {
		_ = root.Remove(temporary)
		return blobError("%s.tmp: %s", shown, ErrnoText(err))
	}
	return nil
}

const (
	temporaryPrefix = ".topup-"
	temporarySuffix = ".tmp"
	// maxSwept bounds the names that are looked at for files which were left behind.
	maxSwept = 2000
	// sweepAge is how old those are at least.
	sweepAge = 2 * time.Second
)

// sweepBlobs removes temporary files whose writers were killed: those that nobody
// holds.
func sweepBlobs(root *os.Root) {
	if runtime.GOOS == "windows" {
		return // nothing shows there who holds a file
	}
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxSwept) // what it found before it failed
	for _, name := range names {
		if !strings.HasPrefix(name, temporaryPrefix) || !strings.HasSuffix(name, temporarySuffix) {
			continue
		}
		info, err := root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		f, err := root.OpenFile(name, os.O_RDWR|NonBlocking, 0)
		if err != nil {
			continue
		}
		if lockFile(f) == nil {
			_ = root.Remove(name)
		}
		f.Close()
	}
}

// createIn makes a new file, owner-only.
func createIn(root *os.Root) (string, *os.File, error) {
	for range 100 {
		name := temporaryPrefix + randomWord() + temporarySuffix
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return name, f, err
		}
	}
	return "", nil, fs.ErrExist
}

// BlobStore is where the blob tools read and write.
type BlobStore interface {
	// Read and Write return the path as the reply shows it.
	Read(path string, limit int64) (shown string, data []byte, err error)
	Write(path string, data []byte, limit int64) (shown string, err error)
}

// LocalStore is the whole file system of this process.
type LocalStore struct{}

// Read implements BlobStore.
func (LocalStore) Read(path string, limit int64) (string, []byte, error) {
	return ReadLocalBlob(path, limit)
}

// Write implements BlobStore.
func (LocalStore) Write(path string, data []byte, limit int64) (string, error) {
	return WriteLocalBlob(path, data, limit)
}

type sendBlobOK struct {
	Path  string `json:"path"`
	Data  string `json:"data"`
	Bytes int    `json:"bytes"`
}

type recvBlobOK struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// SendBlob is the tool _send_blob: arguments to the text of its result. Errors have
// the contract's texts, for a result with isError.
func SendBlob(store BlobStore, arguments json.RawMessage, limit int64) (string, error) {
	args := stringArguments(arguments)
	path, ok := args["path"]
	if !ok {
		return "", blobError("missing 'path' argument")
	}
	shown, data, err := store.Read(path, limit)
	if err != nil {
		return "", err
	}
	return compact(sendBlobOK{Path: shown, Data: base64.StdEncoding.EncodeToString(data), Bytes: len(data)})
}

// RecvBlob is the tool _recv_blob.
func RecvBlob(store BlobStore, arguments json.RawMessage, limit int64) (string, error) {
	args := stringArguments(arguments)
	path, ok := args["path"]
	if !ok {
		return "", blobError("missing 'path' argument")
	}
	encoded, ok := args["data"]
	if !ok {
		return "", blobError("missing 'data' argument")
	}
	data, err := decodeBlob(encoded, limit)
	if err != nil {
		return "", err
	}
	shown, err := store.Write(path, data, limit)
	if err != nil {
		return "", err
	}
	return compact(recvBlobOK{Path: shown, Bytes: len(data)})
}

// stringArguments are the arguments that are strings; others count as absent.
func stringArguments(raw json.RawMessage) map[string]string {
	var any map[string]json.RawMessage
	out := map[string]string{}
	if json.Unmarshal(raw, &any) != nil {
		return out
	}
	for k, v := range any {
		var s string
		if len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil {
			out[k] = s
		}
	}
	return out
}

func compact(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// decodeBlob decodes a payload; what is surely over the cap is not decoded.
func decodeBlob(encoded string, limit int64) ([]byte, error) {
	padding := len(encoded) - len(strings.TrimRight(encoded[max(0, len(encoded)-2):], "=")) - max(0, len(encoded)-2)
	if n := int64(base64.StdEncoding.DecodedLen(len(encoded)) - padding); n > limit {
		return nil, PayloadTooLarge(n, limit)
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		why := "Malformed input"
		if strings.Trim(strings.TrimRight(encoded, "="), base64Alphabet) == "" {
			why = "Wrong padding"
		}
		return nil, blobError("base64 decode: %s", why)
	}
	if int64(len(data)) > limit {
		return nil, PayloadTooLarge(int64(len(data)), limit)
	}
	return data, nil
}

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// Caller makes one JSON-RPC call to the other side, whichever that is.
type Caller func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

// toolResult is the envelope of a tool's result.
type toolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	IsError bool `json:"isError"`
}

// callTool calls a tool of the other side and returns its text.
func callTool(ctx context.Context, call Caller, tool string, arguments any) (string, error) {
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return "", err
	}
	raw, err := call(ctx, "tools/call", params)
	if err != nil {
		return "", err
	}
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		return "", blobError("remote response has no content")
	}
	if r.IsError {
		return "", &BlobError{r.Content[0].Text}
	}
	return r.Content[0].Text, nil
}

// FetchBlob asks the other side for a file: it calls _send_blob there, and checks the
// cap on this side too.
func FetchBlob(ctx context.Context, call Caller, path string, limit int64) ([]byte, error) {
	text, err := callTool(ctx, call, SendBlobTool, map[string]string{"path": path})
	if err != nil {
		return nil, err
	}
	encoded, ok := stringArguments(json.RawMessage(text))["data"]
	if !ok {
		return nil, blobError("remote response missing 'data'")
	}
	return decodeBlob(encoded, limit)
}

// StoreBlob gives the other side a file: it calls _recv_blob there. It returns the
// path as the other side shows it.
func StoreBlob(ctx context.Context, call Caller, path string, data []byte, limit int64) (string, error) {
	if int64(len(data)) > limit {
		return "", PayloadTooLarge(int64(len(data)), limit)
	}
	text, err := callTool(ctx, call, RecvBlobTool, map[string]string{"path": path, "data": base64.StdEncoding.EncodeToString(data)})
	if err != nil {
		return "", err
	}
	if shown, ok := stringArguments(json.RawMessage(text))["path"]; ok {
		return shown, nil
	}
	return path, nil
}

// PushBlob is push_file of the contract: {"remote_path":…,"bytes":…}. Failures of the
// host are prefixed "remote HOST: ". Paths are final but for "~", which each side
// expands for itself.
func PushBlob(ctx context.Context, call Caller, host, local, remote string, limit int64) (string, error) {
	_, data, err := ReadLocalBlob(local, limit)
	if err != nil {
		return "", err
	}
	shown, err := StoreBlob(ctx, call, remote, data, limitless)
	if err != nil {
		return "", ofHost(host, err)
	}
	return compact(struct {
		Path  string `json:"remote_path"`
		Bytes int    `json:"bytes"`
	}{shown, len(data)})
}

// limitless leaves the check to the side that takes the file: its cap is its own.
const limitless = 1 << 62

// PullBlob is pull_file of the contract: {"local_path":…,"bytes":…}.
func PullBlob(ctx context.Context, call Caller, host, remote, local string, limit int64) (string, error) {
	data, err := FetchBlob(ctx, call, remote, limit)
	if err != nil {
		var b *BlobError
		if errors.As(err, &b) && strings.HasPrefix(b.Text, "payload too large: ") {
			return "", err
		}
		return "", ofHost(host, err)
	}
	shown, err := WriteLocalBlob(local, data, limit)
	if err != nil {
		return "", err
	}
	return compact(struct {
		Path  string `json:"local_path"`
		Bytes int    `json:"bytes"`
	}{shown, len(data)})
}

// ofHost says whose failure it is, once.
func ofHost(host string, err error) error {
	prefix := "remote " + host + ": "
	if strings.HasPrefix(err.Error(), prefix) {
		return err
	}
	return fmt.Errorf("%s%w", prefix, err)
}
