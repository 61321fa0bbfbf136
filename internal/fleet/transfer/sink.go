package transfer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The partial file of a destination is named after it and the size, so that a later
// transfer of the same finds it.
const (
	partPrefix = ".topside-"
	partSuffix = ".part"
)

func partName(base string, size int64) string {
	sum := sha256.Sum256([]byte(base + "\x00" + strconv.FormatInt(size, 10)))
	return partPrefix + hex.EncodeToString(sum[:8]) + partSuffix
}

const (
	lockTries = 50
	lockPause = 20 * time.Millisecond
)

func isPart(base string) bool {
	return strings.HasPrefix(base, partPrefix) && strings.HasSuffix(base, partSuffix)
}

// sink writes one file into a folder: into a partial file, then, checked and with
// its permissions, to its name.
type sink struct {
	root      *os.Root // of the folder that holds the file
	base      string   // its name there
	path      string   // for people
	part      string
	size      int64
	mode      fs.FileMode
	overwrite bool
	journal   *journal

	same   *os.File // the file that is there, where it may be what comes; then f is nil
	f      *os.File
	sum    hash.Hash
	offset int64 // bytes written and hashed

	mu    sync.Mutex
	taken bool // another transfer to the same place has begun
	ended bool
}

// sinks are the open ones of this process by the path of their partial file. A new
// transfer to the same place takes it over: the earlier one is what a broken
// connection left, or is going to be overwritten anyhow.
var sinks = struct {
	sync.Mutex
	open map[string]*sink
}{open: map[string]*sink{}}

// openSink begins the writing of base in dir. The root may be nil: dir is opened
// then, and made if it is missing. root stays the caller's.
func openSink(root *os.Root, dir, base string, a writeArgs, j *journal) (_ *sink, err error) {
	if a.Size < 0 {
		return nil, fail(Invalid, "negative size")
	}
	s := &sink{
		base: base, path: filepath.Join(dir, base), part: partName(base, a.Size), size: a.Size,
		mode: fs.FileMode(a.Mode) & fs.ModePerm, overwrite: a.Overwrite, journal: j, sum: newDigest(),
	}
	if root == nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, failure(dir, err)
		}
		root, err = os.OpenRoot(dir)
	} else {
		root, err = root.OpenRoot(".")
	}
	if err != nil {
		return nil, failure(dir, err)
	}
	s.root = root
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if err := s.checkDestination(); err != nil {
		return nil, err
	}
	partPath := filepath.Join(dir, s.part)
	takeOver(partPath, s)
	if err := s.open(a.Fresh); err != nil {
		return nil, err
	}
	return s, nil
}

func takeOver(partPath string, s *sink) {
	sinks.Lock()
	old := sinks.open[partPath]
	sinks.open[partPath] = s
	sinks.Unlock()
	if old != nil {
		old.mu.Lock()
		old.taken = true
		if old.f != nil {
			old.f.Close()
		}
		old.mu.Unlock()
	}
}

// checkDestination refuses what may not be replaced.
func (s *sink) checkDestination() error {
	info, err := s.root.Lstat(s.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return failure(s.path, err)
	case info.IsDir():
		return fail(NotFile, "%s is a folder; give the path of the file", s.path)
	case info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0:
		if s.overwrite {
			return nil // a link is replaced, not what it names
		}
		return fail(Exists, "%s exists; pass overwrite to replace it", s.path)
	}
	return fail(NotFile, "%s is not a regular file (%s); it is left alone", s.path, describe(info.Mode()))
}

// open opens the partial file, and hashes what it holds already.
func (s *sink) open(fresh bool) error {
	if info, err := s.root.Lstat(s.part); err == nil && (fresh || !info.Mode().IsRegular() || info.Size() > s.size) {
		if err := s.root.Remove(s.part); err != nil {
			return failure(s.path, err)
		}
	}
	if same, err := s.openSame(fresh); same || err != nil {
		return err
	}
	f, err := s.root.OpenFile(s.part, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return failure(s.path, err)
	}
	s.mu.Lock()
	s.f = f
	s.mu.Unlock()
	// The file that was taken over is closed when its write in progress is done.
	for tries := 0; lockFile(f) != nil; tries++ {
		if tries == lockTries {
			return fail(Busy, "another transfer to %s is running", s.path)
		}
		time.Sleep(lockPause)
	}
	s.journal.add(filepath.Join(filepath.Dir(s.path), s.part))
	n, err := io.CopyBuffer(onlyWriter{s.sum}, onlyReader{f}, make([]byte, 256<<10))
	if err != nil {
		return failure(s.path, err)
	}
	s.offset = n
	if err := reserve(f, s.size); err != nil {
		s.remove()
		return failure(s.path, err)
	}
	return nil
}

type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// prefix is the hash of what the partial file holds.
func (s *sink) prefix() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// openSame looks whether the file that may be replaced has the size of the one that
// comes. It counts then as what came before: if its hash is right, nothing travels.
func (s *sink) openSame(fresh bool) (bool, error) {
	if fresh || !s.overwrite || s.size == 0 {
		return false, nil
	}
	if _, err := s.root.Lstat(s.part); err == nil {
		return false, nil // an earlier attempt to replace it
	}
	info, err := s.root.Lstat(s.base)
	if err != nil || !info.Mode().IsRegular() || info.Size() != s.size {
		return false, nil
	}
	f, err := s.root.OpenFile(s.base, os.O_RDONLY|NonBlocking|noFollow, 0)
	if err != nil {
		return false, nil // it can be replaced all the same
	}
	n, err := io.CopyBuffer(onlyWriter{s.sum}, onlyReader{io.LimitReader(f, s.size)}, make([]byte, 256<<10))
	if err != nil || n != s.size {
		f.Close()
		s.sum.Reset()
		return false, nil
	}
	s.mu.Lock()
	s.same, s.offset = f, n
	s.mu.Unlock()
	return true, nil
}

// settleSame leaves the file that is there, with the permissions of the one that came.
func (s *sink) settleSame() error {
	mine, err := s.same.Stat()
	if err != nil {
		return s.reason(err)
	}
	now, err := s.root.Lstat(s.base)
	if err != nil || !os.SameFile(mine, now) || now.Size() != s.size {
		return fail(Changed, "%s was replaced while it was compared", s.path)
	}
	if mine.Mode().Perm() == s.mode {
		return nil
	}
	return failure(s.path, s.same.Chmod(s.mode))
}

func (s *sink) write(b []byte) error {
	if s.offset+int64(len(b)) > s.size {
		return fail(Changed, "%s: more bytes came than were announced (%d)", s.path, s.size)
	}
	if _, err := s.f.Write(b); err != nil {
		return s.reason(err)
	}
	s.sum.Write(b)
	s.offset += int64(len(b))
	return nil
}

// reason says why the partial file cannot be used any more.
func (s *sink) reason(err error) error {
	s.mu.Lock()
	taken := s.taken
	s.mu.Unlock()
	if taken {
		return fail(Busy, "another transfer to %s took over", s.path)
	}
	return failure(s.path, err)
}

// commit puts the file in its place if it is whole, and ends the sink.
func (s *sink) commit(sum string) error {
	err := s.settle(sum)
	if err != nil {
		s.drop(false)
		return err
	}
	s.journal.remove(filepath.Join(filepath.Dir(s.path), s.part))
	s.release()
	return nil
}

func (s *sink) settle(sum string) error {
	if s.offset != s.size {
		return fail(Changed, "%s: %d of %d bytes came", s.path, s.offset, s.size)
	}
	if got := s.prefix(); got != sum {
		return fail(Changed, "%s: the BLAKE3 hash is %s, not %s: the file changed on the way", s.path, got, sum)
	}
	if s.same != nil {
		return s.settleSame()
	}
	// A write that was delayed may fail only now.
	if err := s.f.Chmod(s.mode); err != nil {
		return s.reason(err)
	}
	if err := s.f.Truncate(s.size); err != nil { // room that was reserved
		return s.reason(err)
	}
	if s.size <= syncBelow {
		if err := s.f.Sync(); err != nil {
			return s.reason(err)
		}
	}
	return s.place()
}

// syncBelow is the size up to which a file is on disk before it is renamed. For
// larger ones the kernel's own order has to do, as for scp and sftp: a sync of
// gigabytes takes longer than clients wait.
const syncBelow = 16 << 20

// place renames the partial file. Without overwrite a file that has appeared in the
// meantime wins.
func (s *sink) place() error {
	if err := s.checkDestination(); err != nil {
		return err
	}
	if s.overwrite {
		return failure(s.path, s.root.Rename(s.part, s.base))
	}
	err := s.root.Link(s.part, s.base)
	switch {
	case err == nil:
		return failure(s.path, s.root.Remove(s.part))
	case errors.Is(err, fs.ErrExist):
		return fail(Exists, "%s exists; pass overwrite to replace it", s.path)
	}
	// A file system without hard links.
	return failure(s.path, s.root.Rename(s.part, s.base))
}

// drop ends the sink without a result. keep leaves the partial file for a transfer
// that resumes.
func (s *sink) drop(keep bool) {
	s.mu.Lock()
	taken := s.taken
	s.mu.Unlock()
	if !keep && !taken {
		s.remove()
	} else if !taken && s.f != nil {
		_ = s.f.Truncate(s.offset) // the reserved room
	}
	s.release()
}

func (s *sink) remove() {
	_ = s.root.Remove(s.part) // it may be gone
	s.journal.remove(filepath.Join(filepath.Dir(s.path), s.part))
}

// release closes what the sink holds.
func (s *sink) release() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	if s.f != nil {
		s.f.Close()
	}
	if s.same != nil {
		s.same.Close()
	}
	s.mu.Unlock()
	partPath := filepath.Join(filepath.Dir(s.path), s.part)
	sinks.Lock()
	if sinks.open[partPath] == s {
		delete(sinks.open, partPath)
	}
	sinks.Unlock()
	s.root.Close()
}

func describe(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a regular file"
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return fmt.Sprintf("mode %v", m)
}

func randomWord() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
