// Package backchannel answers what a session on another machine asks of this one:
// to read a file and to write one (topup contract, section 8). It is the only way in
// which a remote host reaches this machine's files, so it is confined: to a folder,
// to regular files, to a size.
//
// The folder is resolved once. Paths are taken inside it, whatever they look like,
// and walked component by component without following a link.
package backchannel

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"topside/internal/fleet/transfer"
)

// The contract's texts.
const (
	escapesText = "path escapes back-channel root (TOPUP_BACKCHANNEL_ROOT)"
	symlinkText = "path escapes back-channel root via symlink"
)

// Unconfined as the root is the contract's "off": any path of this user.
const Unconfined = "off"

// Options of the answering side.
type Options struct {
	// Root is the folder: absolute, or "~/…"; Unconfined for none. It is made (0700)
	// when something is first asked for.
	Root string
	// Max is the most bytes of a file, transfer.DefaultMaxBlob if zero.
	Max int64
}

func (o Options) limit() int64 {
	if o.Max <= 0 {
		return transfer.DefaultMaxBlob
	}
	return o.Max
}

// Refusal is a request that this side does not serve.
type Refusal struct{ Method string }

func (e *Refusal) Error() string { return "method not found: " + e.Method }

// RPCCode is the JSON-RPC code of the refusal.
func (e *Refusal) RPCCode() int { return -32601 }

type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Serve answers a request of a remote session. It serves "tools/call" of the two blob
// tools and nothing else; the result is a tool's envelope, as the contract has it. Its
// signature is that of link.Options.Requests.
func (o Options) Serve(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	var c call
	if method != "tools/call" || json.Unmarshal(params, &c) != nil {
		return nil, &Refusal{method}
	}
	var store transfer.BlobStore = transfer.LocalStore{}
	if o.Root != Unconfined {
		store = Root(o.Root)
	}
	var text string
	var err error
	switch c.Name {
	case transfer.SendBlobTool:
		text, err = transfer.SendBlob(store, c.Arguments, o.limit())
	case transfer.RecvBlobTool:
		text, err = transfer.RecvBlob(store, c.Arguments, o.limit())
	default:
		return nil, &Refusal{method + " " + c.Name}
	}
	if err != nil {
		text = err.Error()
	}
	return json.Marshal(envelope{Content: []content{{"text", text}}, IsError: err != nil})
}

type envelope struct {
	Content []content `json:"content"`
	IsError bool      `json:"isError"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Enable tells a tool server of the topup contract that this side answers
// (_enable_back_channel). One that does not know the tool goes on without.
func Enable(ctx context.Context, call transfer.Caller) error {
	_, err := call(ctx, "tools/call", json.RawMessage(`{"name":"_enable_back_channel","arguments":{}}`))
	if ctx.Err() != nil {
		return err
	}
	return nil
}

// Root is a folder that confines; it implements transfer.BlobStore.
type Root string

// open opens the folder, which it makes if it is missing. A link on the way to it is
// its owner's business: it is resolved here, once.
func (r Root) open() (*os.Root, string, error) {
	dir, err := transfer.Expand(string(r))
	if err != nil {
		return nil, "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", &transfer.BlobError{Text: transfer.ErrnoText(err) + ": " + dir}
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, "", &transfer.BlobError{Text: transfer.ErrnoText(err) + ": " + dir}
	}
	root, err := os.OpenRoot(resolved)
	if err != nil {
		return nil, "", &transfer.BlobError{Text: transfer.ErrnoText(err) + ": " + dir}
	}
	return root, resolved, nil
}

// Confine turns a path of the far side into the components below the root.
func Confine(p string) ([]string, error) {
	if p == "" {
		return nil, &transfer.BlobError{Text: symlinkText}
	}
	if strings.ContainsRune(p, 0) {
		return nil, &transfer.BlobError{Text: escapesText}
	}
	clean := path.Clean(strings.TrimLeft(p, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return nil, &transfer.BlobError{Text: escapesText}
	}
	if clean == "." {
		return nil, nil
	}
	components := strings.Split(clean, "/")
	for _, c := range components {
		// On Windows a component may be a way out by itself.
		if !filepath.IsLocal(c) || strings.ContainsRune(c, filepath.Separator) {
			return nil, &transfer.BlobError{Text: escapesText}
		}
	}
	return components, nil
}

// descend opens the folder of the last component. Folders that are missing are made
// if create is set. A link anywhere is refused.
func descend(root *os.Root, components []string, create bool) (parent *os.Root, base string, err error) {
	at, err := root.OpenRoot(".")
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			at.Close()
		}
	}()
	last := len(components) - 1
	for _, c := range components[:last] {
		info, err := at.Lstat(c)
		if errors.Is(err, fs.ErrNotExist) && create {
			if err = at.Mkdir(c, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
				info, err = at.Lstat(c)
			}
		}
		if err != nil {
			return nil, "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, "", &transfer.BlobError{Text: symlinkText}
		}
		next, err := at.OpenRoot(c)
		if err != nil {
			return nil, "", err
		}
		// Between the look and the opening a link may have taken its place; it cannot
		// lead out of the root, but it is not what was looked at.
		opened, err := next.Stat(".")
		if err == nil && !os.SameFile(info, opened) {
			err = &transfer.BlobError{Text: symlinkText}
		}
		if err != nil {
			next.Close()
			return nil, "", err
		}
		at.Close()
		at = next
	}
	base = components[last]
	if info, err := at.Lstat(base); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, "", &transfer.BlobError{Text: symlinkText}
	}
	return at, base, nil
}

// Read implements transfer.BlobStore.
func (r Root) Read(p string, limit int64) (string, []byte, error) {
	components, err := Confine(p)
	if err != nil {
		return "", nil, err
	}
	root, dir, err := r.open()
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	shown := filepath.Join(append([]string{dir}, components...)...)
	if len(components) == 0 {
		return "", nil, &transfer.BlobError{Text: "not a regular file: " + shown}
	}
	parent, base, err := descend(root, components, false)
	if err != nil {
		return "", nil, inWords(err, shown)
	}
	defer parent.Close()
	data, err := transfer.ReadBlob(shown, limit, func() (fs.FileInfo, error) { return parent.Lstat(base) },
		func() (*os.File, error) { return parent.OpenFile(base, os.O_RDONLY|transfer.NonBlocking, 0) })
	return shown, data, err
}

// Write implements transfer.BlobStore.
func (r Root) Write(p string, data []byte, limit int64) (string, error) {
	if int64(len(data)) > limit {
		return "", transfer.PayloadTooLarge(int64(len(data)), limit)
	}
	components, err := Confine(p)
	if err != nil {
		return "", err
	}
	root, dir, err := r.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	shown := filepath.Join(append([]string{dir}, components...)...)
	if len(components) == 0 {
		return "", &transfer.BlobError{Text: shown + ": Is a directory"}
	}
	parent, base, err := descend(root, components, true)
	if err != nil {
		return "", inWords(err, shown)
	}
	defer parent.Close()
	return shown, transfer.WriteBlobIn(parent, base, shown, data)
}

// inWords is a failure on the way to a file, in the contract's words.
func inWords(err error, shown string) error {
	var b *transfer.BlobError
	switch {
	case errors.As(err, &b):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return &transfer.BlobError{Text: "no such file: " + shown}
	}
	return &transfer.BlobError{Text: transfer.ErrnoText(err) + ": " + shown}
}
