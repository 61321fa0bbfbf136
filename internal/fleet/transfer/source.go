package transfer

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"topside/internal/fleet/frame"
)

// source reads one file from its beginning: what the other side has already is
// hashed, the rest is sent.
type source struct {
	f    *os.File
	path string
	size int64
	mode fs.FileMode
	sum  hash.Hash
}

// openSource opens a regular file. Within root, no link leads out of it.
func openSource(root *os.Root, name, shown string) (*source, error) {
	stat, open := os.Stat, func(n string) (*os.File, error) { return os.OpenFile(n, os.O_RDONLY|NonBlocking, 0) }
	if root != nil {
		stat, open = root.Lstat, func(n string) (*os.File, error) { return root.OpenFile(n, os.O_RDONLY|NonBlocking, 0) }
	}
	// Looked at before it is opened: opening a device may do something.
	info, err := stat(name)
	if err != nil {
		return nil, failure(shown, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fail(NotFile, "not a regular file: %s is %s", shown, describe(info.Mode()))
	}
	f, err := open(name)
	if err != nil {
		return nil, failure(shown, err)
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fail(NotFile, "not a regular file: %s is %s", shown, describe(info.Mode()))
	}
	if err == nil && sizeless(f) {
		err = fail(NotFile, "%s is a file of the kernel, which has no size before it is read; copy it first, or read it by a command", shown)
	}
	if err != nil {
		f.Close()
		return nil, failure(shown, err)
	}
	return &source{f: f, path: shown, size: info.Size(), mode: info.Mode().Perm(), sum: newDigest()}, nil
}

// skip hashes the first n bytes and returns their hash.
func (s *source) skip(n int64) (string, error) {
	_, err := io.CopyBuffer(onlyWriter{s.sum}, onlyReader{io.LimitReader(s.f, n)}, make([]byte, 256<<10))
	if err != nil {
		return "", failure(s.path, err)
	}
	return hex.EncodeToString(s.sum.Sum(nil)), nil
}

func (s *source) rewind() error {
	s.sum.Reset()
	_, err := s.f.Seek(0, io.SeekStart)
	return failure(s.path, err)
}

// send sends what is left up to the size, in pieces, through put, which takes the
// chunk it is given.
func (s *source) send(from int64, put func(c *frame.Chunk, n int) error) error {
	for left := s.size - from; left > 0; {
		c := frame.NewChunk()
		b := c.Room()
		n, err := io.ReadFull(s.f, b[:min(left, int64(len(b)))])
		left -= int64(n)
		s.sum.Write(b[:n])
		switch {
		case n == 0:
			c.Release()
		default:
			if err := put(c, n); err != nil {
				return err
			}
		}
		if left > 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
			return ofSource(fail(Changed, "%s became shorter while it was read", s.path))
		}
		if err != nil && left > 0 {
			return ofSource(failure(s.path, err))
		}
	}
	return nil
}

func (s *source) digest() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// entry is something in a folder, as it is listed.
type entry struct {
	Path   pathname `json:"path"` // below the folder, with slashes
	Kind   string   `json:"kind"`
	Size   int64    `json:"size,omitempty"`
	Mode   uint32   `json:"mode,omitempty"`
	Target pathname `json:"target,omitempty"` // of a link
	Why    string   `json:"why,omitempty"`    // it cannot be taken
}

// maxEntries bounds the entries of one folder's transfer.
const maxEntries = 1 << 20

// walk lists what is below dir, folders before what they hold. What cannot be taken
// is listed with the reason.
func walk(ctx context.Context, dir string, each func(entry) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return failure(dir, err)
	}
	defer root.Close()
	w := walker{root: root, shown: dir, each: each}
	return w.below(ctx, "")
}

// walker lists what is below a root. Package fs has a walk, which refuses names that
// are not UTF-8.
type walker struct {
	root  *os.Root
	shown string
	each  func(entry) error
	n     int
}

// below lists what is below at, a folder in slashes; "" is the root.
func (w *walker) below(ctx context.Context, at string) error {
	names, err := w.names(at)
	if err != nil && at == "" {
		return failure(w.shown, err)
	}
	if err != nil {
		return w.each(entry{Path: pathname(at), Kind: kindUnread, Why: systemText(err).Error()})
	}
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if isPart(n) {
			continue
		}
		if w.n++; w.n > maxEntries {
			return fail(Invalid, "%s holds more than %d entries", w.shown, maxEntries)
		}
		p := path.Join(at, n)
		info, err := w.root.Lstat(filepath.FromSlash(p))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // gone since it was listed
		case err != nil:
			err = w.each(entry{Path: pathname(p), Kind: kindUnread, Why: systemText(err).Error()})
		default:
			err = w.each(describeEntry(w.root, p, info))
		}
		if err != nil {
			return err
		}
		if info != nil && info.IsDir() {
			if err := w.below(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// names are the names in a folder, in order.
func (w *walker) names(at string) ([]string, error) {
	f, err := w.root.OpenFile(filepath.FromSlash(cmp.Or(at, ".")), os.O_RDONLY|NonBlocking, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func describeEntry(root *os.Root, p string, info fs.FileInfo) entry {
	e := entry{Path: pathname(p), Mode: uint32(info.Mode().Perm())}
	switch m := info.Mode(); {
	case m.IsDir():
		e.Kind = kindFolder
	case m.IsRegular():
		e.Kind, e.Size = kindFile, info.Size()
	case m&fs.ModeSymlink != 0:
		target, err := root.Readlink(filepath.FromSlash(p))
		switch {
		case err != nil:
			e.Kind, e.Why = kindOther, systemText(err).Error()
		case !staysInside(p, target):
			e.Kind, e.Why = kindOther, "a symbolic link that leads out of the folder: "+shorten(target)
		default:
			e.Kind, e.Target = kindSymlink, pathname(target)
		}
	default:
		e.Kind, e.Why = kindOther, describe(m)+" is not transferred"
	}
	return e
}

// staysInside reports whether a link at p (below the folder, with slashes) names
// something in the folder, by its words.
func staysInside(p, target string) bool {
	if target == "" || path.IsAbs(target) || filepath.IsAbs(target) {
		return false
	}
	joined := path.Join(path.Dir(p), filepath.ToSlash(target))
	return joined != ".." && !strings.HasPrefix(joined, "../")
}

// encode makes a line of an entry.
func (e entry) encode() ([]byte, error) {
	b, err := json.Marshal(e)
	return append(b, '\n'), err
}
